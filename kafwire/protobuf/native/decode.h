/* The program of one message type, and the machine that runs it on a value.
 *
 * Only `kafwire/protobuf/program.py` makes programs: they are trusted, the bytes of values are not.
 *
 * Fields come in any order, and the last value of a singular field counts. So the machine scans a message first: elements
 * of repeated fields go to their columns at once, singular values into a slot of their field; at the end of the message,
 * each slot becomes one value of its column. A message that comes in several pieces is their concatenation. */
#ifndef KAFWIRE_PROTOBUF_DECODE_H
#define KAFWIRE_PROTOBUF_DECODE_H

#include "kafwire/value_columns/native/columns.h"

/* The types of values; the same numbers as in `kafwire/protobuf/program.py`. */
enum {
    KW_PB_INT32, /* int32, and enum as a number */
    KW_PB_INT64,
    KW_PB_SINT32,
    KW_PB_SINT64,
    KW_PB_BOOL,
    KW_PB_FIXED32, /* fixed32, sfixed32, float */
    KW_PB_FIXED64,
    KW_PB_BYTES,
    KW_PB_STRING,
    KW_PB_ENUM,         /* as text: `table` has `entries` triples of number, start and length of the text, by number */
    KW_PB_ENUM_INDEX,   /* as index: pairs of number and index, by number */
    KW_PB_MESSAGE,      /* `message` */
    KW_PB_GROUP
};

enum {
    KW_PB_REPEATED = 1,
    KW_PB_PRESENCE = 2, /* absent: null; without it, the type's zero */
    KW_PB_CLOSED = 4    /* an enum's unknown numbers are as absent as unknown fields */
};

/* The form of a message's columns. */
enum {
    KW_PB_STRUCT,
    KW_PB_WRAPPER,   /* its only field, of google.protobuf's wrappers: no column of its own */
    KW_PB_TIMESTAMP, /* seconds and nanos to one number of `unit` per second */
    KW_PB_DURATION,
    KW_PB_CLOSED_ENTRY /* a struct, the entry of a map, whose value is a closed enum: an unknown number drops the entry */
};

typedef struct kw_pb_field {
    int32_t number;
    int32_t type;
    int32_t flags;
    int32_t column; /* of the value; of a repeated field, its list */
    int32_t item;   /* of a repeated field, the column of its elements */
    int32_t message;
    int32_t oneof;  /* fields of one message with the same number above 0 exclude each other */
    int32_t table;
    int32_t entries;
    int32_t where;
} kw_pb_field;

typedef struct kw_pb_message {
    int32_t form;
    int32_t column;
    int32_t first; /* its fields: [first, first + fields), in the order of their numbers */
    int32_t fields;
    int32_t dense; /* the table of fields by number: entry n - 1 is the field's place in the message, -1: unknown */
    int32_t dense_size;
    int64_t unit;
    int32_t where;
} kw_pb_message;

typedef struct kw_pb_program {
    const kw_pb_message *messages; /* the first one is the value */
    const kw_pb_field *fields;
    int32_t field_count;
    const int32_t *tables;
    const uint8_t *texts;
    /* The indexes of the message in its schema, which follow the schema id, as bytes; NULL: none precede the value. */
    const uint8_t *indexes;
    int32_t indexes_size;
} kw_pb_program;

/* Causes of bad values, besides those of all formats. `kafwire/protobuf/causes.py` has the texts. */
enum {
    KW_PB_BAD_TRUNCATED = 32,
    KW_PB_BAD_VARINT,
    KW_PB_BAD_TAG,
    KW_PB_BAD_GROUP,
    KW_PB_BAD_DEPTH,
    KW_PB_BAD_UTF8,
    KW_PB_BAD_TIME,
    KW_PB_BAD_INDEXES,
    KW_PB_BAD_OUTER
};

/* A `kw_decode` of `kw_pb_program`. */
int kw_pb_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                 int64_t max_empty_items, kw_failure *failure);

#endif
