/* The program of one writer's schema, and the machine that runs it on a value.
 *
 * Only `kafwire/avro/program.py` makes programs: operations are trusted, the bytes of values are not. */
#ifndef KAFWIRE_AVRO_DECODE_H
#define KAFWIRE_AVRO_DECODE_H

#include "kafwire/value_columns/native/columns.h"

/* The same numbers as in `kafwire/avro/program.py`. */
enum {
    KW_AVRO_OP_NULL,         /* append null to `column`; reads nothing */
    KW_AVRO_OP_BOOLEAN,
    KW_AVRO_OP_INT,          /* int to 4 bytes; c: values are in [0, c), 0: any */
    KW_AVRO_OP_LONG,         /* int (a = 1) or long to 8 bytes, times b; c as above, of the product */
    KW_AVRO_OP_FLOAT,
    KW_AVRO_OP_DOUBLE,
    KW_AVRO_OP_FLOAT_TO_DOUBLE,
    KW_AVRO_OP_TO_FLOAT,     /* int (a = 1) or long */
    KW_AVRO_OP_TO_DOUBLE,
    KW_AVRO_OP_BYTES,
    KW_AVRO_OP_STRING,       /* UTF-8 */
    KW_AVRO_OP_FIXED,        /* b bytes */
    KW_AVRO_OP_DECIMAL,  /* b bytes, or with a length before them (b = -1); a: position of 10**precision */
    KW_AVRO_OP_ENUM,  /* a: table of b indices of the reader's symbols, -1: no such symbol */
    KW_AVRO_OP_ENUM_TEXT,    /* a: table of b pairs, the start and length of a text; a start of -1: no such symbol */
    KW_AVRO_OP_UNION,        /* a: table of b operations to continue at */
    KW_AVRO_OP_JUMP,         /* to operation a */
    KW_AVRO_OP_BLOCKS,  /* items: the operations up to a; each takes at least b bytes */
    KW_AVRO_OP_STRUCT,  /* the fields of `column` were appended */
    KW_AVRO_OP_OTHERS_NULL,  /* the same for a union's struct whose member a was appended */
    KW_AVRO_OP_DEFAULT,      /* the operations up to c read b bytes at a of the constants */
    KW_AVRO_OP_FAIL,
    KW_AVRO_OP_SKIP_VARINT,
    KW_AVRO_OP_SKIP_FIXED,   /* b bytes */
    KW_AVRO_OP_SKIP_BYTES,
    KW_AVRO_OP_SKIP_BLOCKS   /* as KW_AVRO_OP_BLOCKS */
};

/* Causes of bad values, besides those of all formats. `kafwire/avro/causes.py` has the texts. */
enum {
    KW_AVRO_BAD_TRUNCATED = 1,
    KW_AVRO_BAD_VARINT,
    KW_AVRO_BAD_BOOLEAN,
    KW_AVRO_BAD_LENGTH,
    KW_AVRO_BAD_UTF8,
    KW_AVRO_BAD_DECIMAL,
    KW_AVRO_BAD_RANGE,
    KW_AVRO_BAD_ENUM,
    KW_AVRO_BAD_SYMBOL,
    KW_AVRO_BAD_UNION,
    KW_AVRO_BAD_BRANCH,
    KW_AVRO_BAD_COUNT,
    KW_AVRO_BAD_BLOCK,
    KW_AVRO_BAD_EMPTY_ITEMS,
    KW_AVRO_BAD_TRAILING
};

typedef struct kw_avro_op {
    int32_t code;
    int32_t column;
    int32_t where; /* the place in the schema, for errors */
    int64_t a, b, c;
} kw_avro_op;

typedef struct kw_avro_program {
    const kw_avro_op *ops;
    int32_t count;
    const int32_t *tables;
    const uint8_t *constants;
} kw_avro_program;

/* A `kw_decode` of `kw_avro_program`. */
int kw_avro_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                   int64_t max_empty_items, kw_failure *failure);

#endif
