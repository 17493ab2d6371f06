/* The program that writes Arrow columns of one type as values of one message type, and the machine that runs it on rows.
 *
 * Only `kafwire/protobuf/write_program.py` makes programs. */
#ifndef KAFWIRE_PROTOBUF_ENCODE_H
#define KAFWIRE_PROTOBUF_ENCODE_H

#include "kafwire/value_columns/native/encode.h"

/* The same numbers as in `kafwire/protobuf/write_program.py`. */
enum {
    KW_PB_WRITE_VARINT,   /* an integer of `form`, in `range` */
    KW_PB_WRITE_ZIGZAG,
    KW_PB_WRITE_FIXED32,  /* the same as 4 bytes */
    KW_PB_WRITE_FIXED64,
    KW_PB_WRITE_BOOL,
    KW_PB_WRITE_FLOAT,    /* 4 bytes as they are */
    KW_PB_WRITE_DOUBLE,   /* 8 bytes as they are */
    KW_PB_WRITE_WIDENED,  /* a float as double */
    KW_PB_WRITE_BYTES,    /* length and bytes of `form` */
    KW_PB_WRITE_SYMBOL,   /* a text of `form`; a: table of b symbols, sorted by length and bytes: the position and length
                           * of its text, and its number. c: digits stand for other numbers */
    KW_PB_WRITE_MESSAGE,  /* `first` to `end`: its fields */
    KW_PB_WRITE_TIME,     /* a number of units, of which a second has a: a message of seconds and nanos */
    KW_PB_WRITE_LIST,     /* offsets of `form`, of FIXED a items each; `first`: the item */
    KW_PB_WRITE_PACKED    /* the same, of numbers behind one length */
};

enum { KW_PB_INT64_RANGE, KW_PB_INT32_RANGE, KW_PB_UINT32_RANGE, KW_PB_UINT64_RANGE };

enum {
    KW_PB_SKIPS_ZERO = 1, /* a zero or empty value is not written */
    KW_PB_REQUIRED = 2    /* a null is wrong */
};

/* Causes of wrong values, besides those of all formats. `kafwire/protobuf/causes.py` has the texts. */
enum { KW_PB_WRONG_MEMBERS = 32 };

typedef struct kw_pb_write {
    int32_t code;
    int32_t flags;
    uint32_t tag;
    int32_t view;
    int32_t index;       /* the view of a dictionary's indices, or -1 */
    int32_t index_form;
    int32_t form;
    int32_t range;
    int32_t before;      /* the field before in the same oneof, or -1 */
    int32_t first, end;
    int32_t where;
    int64_t a, b, c;
} kw_pb_write;

typedef struct kw_pb_writer {
    const kw_pb_write *ops; /* [0, count) are the fields of the value */
    int32_t count;
    const int32_t *tables;
    const uint8_t *texts;
} kw_pb_writer;

/* A `kw_encode` of `kw_pb_writer`. */
int kw_pb_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong);

#endif
