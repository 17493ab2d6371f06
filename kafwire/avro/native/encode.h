/* The program that writes Arrow columns of one type as Avro values of one schema, and the machine that runs it on rows.
 *
 * Only `kafwire/avro/write_program.py` makes programs, and Arrow's C data interface trusts the producer of an array:
 * formats are checked when the program is made, values here. */
#ifndef KAFWIRE_AVRO_ENCODE_H
#define KAFWIRE_AVRO_ENCODE_H

#include <stdint.h>

#include "kafwire/memory/native/buf.h"

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
    KW_AVRO_WRITE_UNION,    /* one of b members; a: table of view, view of indices, branch and operation of each */
    KW_AVRO_WRITE_JUMP,     /* to `end` */
    KW_AVRO_WRITE_CONSTANT  /* b bytes at a of the constants */
};

enum { KW_AVRO_RANGE_LONG = 0, KW_AVRO_RANGE_INT = -1 };

/* Forms of integers, then those of bytes and lists. */
enum { KW_AVRO_I8, KW_AVRO_U8, KW_AVRO_I16, KW_AVRO_U16, KW_AVRO_I32, KW_AVRO_U32, KW_AVRO_I64, KW_AVRO_U64 };
enum { KW_AVRO_OFFSETS_32, KW_AVRO_OFFSETS_64, KW_AVRO_VIEWS, KW_AVRO_FIXED_SIZE };

/* Causes of values that the schema does not allow. `kafwire/avro/causes.py` has the texts. */
enum {
    KW_AVRO_WRONG_NULL = 1,
    KW_AVRO_WRONG_RANGE,
    KW_AVRO_WRONG_REST,
    KW_AVRO_WRONG_SIZE,
    KW_AVRO_WRONG_SYMBOL,
    KW_AVRO_WRONG_DECIMAL,
    KW_AVRO_WRONG_MEMBERS,
    KW_AVRO_WRONG_INDEX,
    KW_AVRO_WRONG_TOTAL,
    KW_AVRO_WRONG_MEMORY
};

/* One array of a column, a child or a dictionary. */
typedef struct kw_avro_view {
    const uint8_t *validity; /* NULL: no nulls */
    int64_t offset;          /* of row 0, or of the first item of a list's child */
    int64_t length;
    const uint8_t *data;     /* the second buffer */
    const uint8_t *more;     /* the third */
    const void **buffers;    /* from the third on: of KW_AVRO_VIEWS */
    int32_t width;           /* of KW_AVRO_FIXED_SIZE */
} kw_avro_view;

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
    int32_t root; /* the view whose nulls are null values; -1: every value is null */
    const int32_t *tables;
    const uint8_t *constants;
} kw_avro_writer;

/* The binary column of the values. */
typedef struct kw_avro_values {
    int64_t nulls;
    kw_buf *validity; /* NULL: no nulls */
    kw_buf *offsets;
    kw_buf *data;
} kw_avro_values;

typedef struct kw_avro_wrong {
    int32_t code;
    int32_t where;
    int64_t row;
    int64_t detail; /* the wrong number */
} kw_avro_wrong;

/* Writes all rows, each behind the prefix. 0, or a cause, with *wrong; the caller drops the buffers either way. */
int kw_avro_encode(const kw_avro_writer *writer, const kw_avro_view *views, int64_t rows, const uint8_t *prefix,
                   int64_t prefix_size, kw_pool *pool, kw_avro_values *out, kw_avro_wrong *wrong);
void kw_avro_values_clear(kw_avro_values *values);

#endif
