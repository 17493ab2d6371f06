/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/avro/native/columns.h"

#include <string.h>

enum { FIRST_CAPACITY = 64 };

static size_t bitmap_bytes(int64_t values) { return (size_t)(values + 7) / 8; }

/* `used` bytes are kept. */
static int grow_buffer(kw_avro_columns *c, kw_buf **buf, size_t used, size_t wanted) {
    size_t before = *buf ? (*buf)->capacity : 0;
    if (*buf && wanted <= before) return KW_AVRO_OK;
    if (wanted - before > c->limit || c->allocated > c->limit - (wanted - before)) return KW_AVRO_FULL;
    if (*buf) {
        (*buf)->size = used;
        if (kw_buf_reserve(buf, wanted)) return KW_AVRO_NO_MEMORY;
    } else {
        *buf = kw_buf_new(c->pool, wanted);
        if (!*buf) return KW_AVRO_NO_MEMORY;
    }
    c->allocated += wanted - before;
    return KW_AVRO_OK;
}

/* Bits are set in advance: only nulls touch the bitmap. */
static int grow_validity(kw_avro_columns *c, kw_avro_column *column, int64_t capacity) {
    size_t used = column->validity ? bitmap_bytes(column->length) : 0;
    size_t wanted = bitmap_bytes(capacity);
    int failed = grow_buffer(c, &column->validity, used, wanted);
    if (failed) return failed;
    memset(column->validity->data + used, 0xFF, wanted - used);
    return KW_AVRO_OK;
}

static int set_capacity(kw_avro_columns *c, int32_t number, int64_t capacity) {
    const kw_avro_field *field = &c->fields[number];
    kw_avro_column *column = &c->columns[number];
    int failed = KW_AVRO_OK;
    switch (field->kind) {
    case KW_AVRO_KIND_BOOLEAN:
        failed = grow_buffer(c, &column->data, bitmap_bytes(column->length), bitmap_bytes(capacity));
        break;
    case KW_AVRO_KIND_FIXED:
        failed = grow_buffer(c, &column->data, (size_t)(column->length * field->width), (size_t)(capacity * field->width));
        break;
    case KW_AVRO_KIND_BYTES:
    case KW_AVRO_KIND_LIST: {
        int fresh = !column->offsets;
        failed = grow_buffer(c, &column->offsets, 4 * (size_t)(column->length + 1), 4 * (size_t)(capacity + 1));
        if (!failed && fresh) ((int32_t *)column->offsets->data)[0] = 0;
        break;
    }
    default:
        break;
    }
    if (!failed && column->validity) failed = grow_validity(c, column, capacity);
    if (!failed) column->capacity = capacity;
    return failed;
}

int kw_avro_grow(kw_avro_columns *c, int32_t number) {
    kw_avro_column *column = &c->columns[number];
    if (column->length >= INT32_MAX) return KW_AVRO_FULL; /* offsets of a list could not name the next one */
    int64_t capacity = column->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : 2 * column->capacity;
    return set_capacity(c, number, capacity);
}

int kw_avro_grow_data(kw_avro_columns *c, kw_avro_column *column, int64_t size) {
    if (size > INT32_MAX - column->used) return KW_AVRO_FULL;
    size_t wanted = (size_t)(column->used + size);
    size_t before = column->data ? column->data->capacity : 0;
    if (column->data && wanted <= before) return KW_AVRO_OK;
    if (wanted < 2 * before) wanted = 2 * before;
    if (wanted < FIRST_CAPACITY) wanted = FIRST_CAPACITY;
    return grow_buffer(c, &column->data, (size_t)column->used, wanted);
}

void kw_avro_expect(kw_avro_columns *c, int32_t number, int64_t rows) {
    const kw_avro_field *field = &c->fields[number];
    if (rows > c->columns[number].capacity) (void)set_capacity(c, number, rows);
    if (field->kind != KW_AVRO_KIND_STRUCT) return;
    for (int32_t i = 0; i < field->children; i++) kw_avro_expect(c, field->child[i], rows);
}

int kw_avro_append_null(kw_avro_columns *c, int32_t number) {
    const kw_avro_field *field = &c->fields[number];
    kw_avro_column *column = &c->columns[number];
    int64_t row = column->length;
    int failed = kw_avro_room(c, number);
    if (failed) return failed;
    if (field->kind == KW_AVRO_KIND_NULL) {
        column->length++;
        return KW_AVRO_OK;
    }
    if (!column->validity) {
        failed = grow_validity(c, column, column->capacity);
        if (failed) return failed;
    }
    switch (field->kind) {
    case KW_AVRO_KIND_BOOLEAN:
        column->data->data[row >> 3] &= (uint8_t)~(1 << (row & 7));
        break;
    case KW_AVRO_KIND_FIXED:
        memset(column->data->data + row * field->width, 0, (size_t)field->width);
        break;
    case KW_AVRO_KIND_BYTES:
    case KW_AVRO_KIND_LIST:
        ((int32_t *)column->offsets->data)[row + 1] = ((int32_t *)column->offsets->data)[row];
        break;
    default:
        for (int32_t i = 0; i < field->children; i++) {
            failed = kw_avro_append_null(c, field->child[i]);
            if (failed) return failed;
        }
    }
    column->validity->data[row >> 3] &= (uint8_t)~(1 << (row & 7));
    column->nulls++;
    column->length++;
    return KW_AVRO_OK;
}

void kw_avro_truncate(kw_avro_columns *c, int32_t number, int64_t length) {
    const kw_avro_field *field = &c->fields[number];
    kw_avro_column *column = &c->columns[number];
    if (column->length < length) length = column->length;
    if (column->validity) {
        for (int64_t i = length; i < column->length; i++) {
            column->nulls -= !(column->validity->data[i >> 3] >> (i & 7) & 1);
            column->validity->data[i >> 3] |= (uint8_t)(1 << (i & 7));
        }
    }
    column->length = length;
    if (field->kind == KW_AVRO_KIND_BYTES) column->used = column->offsets ? ((int32_t *)column->offsets->data)[length] : 0;
    if (field->kind == KW_AVRO_KIND_LIST) length = column->offsets ? ((int32_t *)column->offsets->data)[length] : 0;
    for (int32_t i = 0; i < field->children; i++) kw_avro_truncate(c, field->child[i], length);
}

void kw_avro_clear(kw_avro_columns *c) {
    for (int32_t i = 0; i < c->count; i++) {
        kw_buf_unref(c->columns[i].validity);
        kw_buf_unref(c->columns[i].offsets);
        kw_buf_unref(c->columns[i].data);
    }
    memset(c->columns, 0, (size_t)c->count * sizeof *c->columns);
    c->allocated = 0;
}
