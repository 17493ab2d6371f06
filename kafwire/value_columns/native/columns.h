/* Columns of decoded values, and their growth. No function here needs the GIL.
 *
 * A layout is a tree in an array: column 0 is the struct of all fields, and children follow their parent. Its columns
 * are appended to in any order within a row; `kw_columns_truncate` removes an incomplete row. */
#ifndef KAFWIRE_VALUE_COLUMNS_H
#define KAFWIRE_VALUE_COLUMNS_H

#include <string.h>

#include "kafwire/memory/native/buf.h"
#include "kafwire/records/native/arrow.h"

enum {
    KW_KIND_NULL,
    KW_KIND_BOOLEAN,
    KW_KIND_FIXED,  /* `width` bytes per value */
    KW_KIND_BYTES, /* int32 offsets and bytes */
    KW_KIND_LIST,  /* int32 offsets; one child. A map is a list of structs */
    KW_KIND_STRUCT
};

/* The result of an append. */
enum { KW_COLUMNS_OK = 0, KW_COLUMNS_NO_MEMORY = -1, KW_COLUMNS_FULL = -2 };

typedef struct kw_field {
    int32_t kind;
    int32_t width;
    int32_t children;  /* their number */
    const int32_t *child;  /* their indices */
    const char *format;      /* of Arrow's C data interface */
    const char *name;
    int64_t flags;
    kw_buf *symbol_offsets;  /* of a dictionary's values; NULL: no dictionary */
    kw_buf *symbol_data;
    int64_t symbols;
} kw_field;

typedef struct kw_column {
    int64_t length;
    int64_t capacity;
    int64_t nulls;
    int64_t used;     /* bytes in `data` of KW_KIND_BYTES */
    kw_buf *validity;  /* bit set: not null; NULL: no nulls seen */
    kw_buf *offsets;
    kw_buf *data;
} kw_column;

typedef struct kw_columns {
    const kw_field *fields;
    kw_column *columns;
    int32_t count;
    kw_pool *pool;
    size_t allocated;  /* requested bytes, without slack of the pool */
    size_t limit;     /* KW_COLUMNS_FULL above it */
} kw_columns;

/* Makes room for one more value. */
int kw_columns_grow(kw_columns *c, int32_t number);
/* Makes room for `size` more bytes. */
int kw_columns_grow_data(kw_columns *c, kw_column *column, int64_t size);
/* Makes room for `rows` values in the columns with one value per row; a hint, so failures are ignored. */
void kw_columns_expect(kw_columns *c, int32_t number, int64_t rows);
int kw_columns_append_null(kw_columns *c, int32_t number);
/* Keeps the first `length` values. */
void kw_columns_truncate(kw_columns *c, int32_t number, int64_t length);
void kw_columns_clear(kw_columns *c);

/* Causes of bad values that every format has, besides KW_COLUMNS_NO_MEMORY and KW_COLUMNS_FULL; those of a format lie
 * below 16 or above 31. `kafwire/value_columns/causes.py` has the texts. */
enum {
    KW_BAD_MAGIC = 16,
    KW_BAD_HEADER,
    KW_BAD_NULL,
    KW_BAD_SCHEMA,
    KW_BAD_TOO_LARGE,
    KW_BAD_ID
};

typedef struct kw_failure {
    int32_t code;
    int32_t where; /* the place in the schema */
    int64_t at;  /* bytes of the value already read */
    int64_t detail;  /* the wrong number */
} kw_failure;

/* Memory that a decoder keeps from value to value; the owner of the columns calls `release`, if it is set. */
typedef struct kw_scratch {
    void *memory;
    size_t size;
    void (*release)(struct kw_scratch *scratch);
} kw_scratch;

/* A format's decoder: appends one value to all columns. 0, or a code; then `columns` has a part of the row, and *failure
 * the cause. `max_empty_items`: the most items without bytes. */
typedef int (*kw_decode)(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                         int64_t max_empty_items, kw_failure *failure);

static inline int kw_columns_room(kw_columns *c, int32_t number) {
    return c->columns[number].length < c->columns[number].capacity ? KW_COLUMNS_OK : kw_columns_grow(c, number);
}

static inline int kw_append_fixed(kw_columns *c, int32_t number, const void *value, size_t width) {
    kw_column *column = &c->columns[number];
    int failed = kw_columns_room(c, number);
    if (failed) return failed;
    memcpy(column->data->data + (size_t)column->length * width, value, width);
    column->length++;
    return KW_COLUMNS_OK;
}

static inline int kw_append_bytes(kw_columns *c, int32_t number, const uint8_t *data, int64_t size) {
    kw_column *column = &c->columns[number];
    int failed = kw_columns_room(c, number);
    if (!failed && (!column->data || column->data->capacity < (size_t)(column->used + size)))
        failed = kw_columns_grow_data(c, column, size);
    if (failed) return failed;
    if (size) memcpy(column->data->data + column->used, data, (size_t)size);
    column->used += size;
    ((int32_t *)column->offsets->data)[++column->length] = (int32_t)column->used;
    return KW_COLUMNS_OK;
}

static inline int kw_append_boolean(kw_columns *c, int32_t number, int value) {
    kw_column *column = &c->columns[number];
    int failed = kw_columns_room(c, number);
    if (failed) return failed;
    uint8_t *byte = &column->data->data[column->length >> 3];
    uint8_t bit = (uint8_t)(1 << (column->length & 7));
    *byte = value ? *byte | bit : *byte & (uint8_t)~bit;
    column->length++;
    return KW_COLUMNS_OK;
}

/* The items of a list's next value were appended to its child. */
static inline int kw_append_list(kw_columns *c, int32_t number) {
    kw_column *column = &c->columns[number];
    int failed = kw_columns_room(c, number);
    if (failed) return failed;
    ((int32_t *)column->offsets->data)[++column->length] = (int32_t)c->columns[c->fields[number].child[0]].length;
    return KW_COLUMNS_OK;
}

/* Export. Each array holds its own references to its buffers, so a consumer may move a child out of its parent, and
 * release any of them at any time from any thread. `valid`: omit the validity of the struct of all fields. 0 or
 * KW_COLUMNS_NO_MEMORY. */
int kw_columns_export_schema(const kw_field *fields, int32_t number, struct ArrowSchema *out);
int kw_columns_export_array(const kw_columns *c, int32_t number, int valid, struct ArrowArray *out);

#endif
