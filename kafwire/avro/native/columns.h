/* Columns of decoded Avro values, and their growth. No function here needs the GIL.
 *
 * A layout is a tree in an array: column 0 is the struct of all fields, and children follow their parent. Its columns
 * are appended to in any order within a row; `kw_avro_truncate` removes an incomplete row. */
#ifndef KAFWIRE_AVRO_COLUMNS_H
#define KAFWIRE_AVRO_COLUMNS_H

#include "kafwire/memory/native/buf.h"
#include "kafwire/records/native/arrow.h"

enum {
    KW_AVRO_KIND_NULL,
    KW_AVRO_KIND_BOOLEAN,
    KW_AVRO_KIND_FIXED,  /* `width` bytes per value */
    KW_AVRO_KIND_BYTES, /* int32 offsets and bytes */
    KW_AVRO_KIND_LIST,  /* int32 offsets; one child. A map is a list of structs */
    KW_AVRO_KIND_STRUCT
};

/* The result of an append. */
enum { KW_AVRO_OK = 0, KW_AVRO_NO_MEMORY = -1, KW_AVRO_FULL = -2 };

typedef struct kw_avro_field {
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
} kw_avro_field;

typedef struct kw_avro_column {
    int64_t length;
    int64_t capacity;
    int64_t nulls;
    int64_t used;     /* bytes in `data` of KW_AVRO_KIND_BYTES */
    kw_buf *validity;  /* bit set: not null; NULL: no nulls seen */
    kw_buf *offsets;
    kw_buf *data;
} kw_avro_column;

typedef struct kw_avro_columns {
    const kw_avro_field *fields;
    kw_avro_column *columns;
    int32_t count;
    kw_pool *pool;
    size_t allocated;  /* requested bytes, without slack of the pool */
    size_t limit;     /* KW_AVRO_FULL above it */
} kw_avro_columns;

/* Makes room for one more value. */
int kw_avro_grow(kw_avro_columns *c, int32_t number);
/* Makes room for `size` more bytes. */
int kw_avro_grow_data(kw_avro_columns *c, kw_avro_column *column, int64_t size);
/* Makes room for `rows` values in the columns with one value per row; a hint, so failures are ignored. */
void kw_avro_expect(kw_avro_columns *c, int32_t number, int64_t rows);
int kw_avro_append_null(kw_avro_columns *c, int32_t number);
/* Keeps the first `length` values. */
void kw_avro_truncate(kw_avro_columns *c, int32_t number, int64_t length);
void kw_avro_clear(kw_avro_columns *c);

static inline int kw_avro_room(kw_avro_columns *c, int32_t number) {
    return c->columns[number].length < c->columns[number].capacity ? KW_AVRO_OK : kw_avro_grow(c, number);
}

/* Export. Each array holds its own references to its buffers, so a consumer may move a child out of its parent, and
 * release any of them at any time from any thread. `valid`: omit the validity of the struct of all fields. 0 or
 * KW_AVRO_NO_MEMORY. */
int kw_avro_export_schema(const kw_avro_field *fields, int32_t number, struct ArrowSchema *out);
int kw_avro_export_array(const kw_avro_columns *c, int32_t number, int valid, struct ArrowArray *out);

#endif
