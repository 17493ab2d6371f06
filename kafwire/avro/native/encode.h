/* The program that writes Arrow columns of one type as Avro values of one schema, and the machine that runs it on rows.
 *
 * Only `kafwire/avro/write_program.py` makes programs, and Arrow's C data interface trusts the producer of an array:
 * formats are checked when the program is made, values here. */
#ifndef KAFWIRE_AVRO_ENCODE_H
#define KAFWIRE_AVRO_ENCODE_H

#include "kafwire/value_columns/native/encode.h"

/* The same numbers as in `kafwire/avro/write_program.py`. */
enum {
    KW_AVRO_WRITE_NULL,     /* every row is null */
    KW_AVRO_WRITE_BOOLEAN,
    KW_AVRO_WRITE_NUMBER,   /* an integer of `form`, times a, divided by b without rest; c: KW_AVRO_RANGE_*, or values
                             * are in [0, c) */
    KW_AVRO_WRITE_FLOAT,    /* 4 bytes as they are */
    KW_AVRO_WRITE_DOUBLE,   /* 8 bytes as they are */
    KW_AVRO_WRITE_WIDENED,  /* a float as double */
    KW_AVRO_WRITE_BYTES,    /* length and bytes of `form` */
    KW_AVRO_WRITE_FIXED,    /* a bytes of `form` */
    KW_AVRO_WRITE_ENUM,     /* a text of `form`; a: table of b symbols, sorted by length and bytes: the position and
                             * length of its text, and its number */
    KW_AVRO_WRITE_DECIMAL,  /* a number of `form` bytes; a: bytes of a fixed, or -1; b: position of 10**precision */
    KW_AVRO_WRITE_STRUCT,   /* the fields follow, up to `end` */
    KW_AVRO_WRITE_LIST,     /* the items' operations follow, up to `end`; offsets of `form`, of FIXED a items each */
    KW_AVRO_WRITE_UNION,    /* one of b members; a: table of branch and operation of each */
    KW_AVRO_WRITE_JUMP,     /* to `end` */
    KW_AVRO_WRITE_CONSTANT  /* b bytes at a of the constants */
};

enum { KW_AVRO_RANGE_LONG = 0, KW_AVRO_RANGE_INT = -1 };

/* Causes of values that the schema does not allow, besides those of all formats. `kafwire/avro/causes.py` has the texts. */
enum {
    KW_AVRO_WRONG_SIZE = 4,
    KW_AVRO_WRONG_DECIMAL = 6,
    KW_AVRO_WRONG_MEMBERS = 7
};

typedef struct kw_avro_write {
    int32_t code;
    int32_t view;
    int32_t index;        /* the view of a dictionary's indices, or -1 */
    int32_t index_form;
    int32_t form;
    int32_t where;        /* the place in the schema, for errors */
    int32_t null_branch;  /* of the union for a null; -1: a null is wrong */
    int32_t value_branch; /* of the union for a value; -1: no union */
    int32_t end;
    int64_t a, b, c;
} kw_avro_write;

typedef struct kw_avro_writer {
    const kw_avro_write *ops;
    int32_t count;
    const int32_t *tables;
    const uint8_t *constants;
} kw_avro_writer;

/* A `kw_encode` of `kw_avro_writer`. */
int kw_avro_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong);

#endif
