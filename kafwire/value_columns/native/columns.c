/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/value_columns/native/columns.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static size_t bitmap_bytes(int64_t values) { return (size_t)(values + 7) / 8; }

/* Keeps `used` bytes. */
static int grow_buffer(kw_columns *c, kw_buf **buf, size_t used, size_t wanted) {
    size_t before = *buf ? (*buf)->capacity : 0;
    if (*buf && wanted <= before) return KW_COLUMNS_OK;
    if (wanted - before > c->limit || c->allocated > c->limit - (wanted - before)) return KW_COLUMNS_FULL;
    if (*buf) {
        (*buf)->size = used;
        if (kw_buf_reserve(buf, wanted)) return KW_COLUMNS_NO_MEMORY;
    } else {
        *buf = kw_buf_new(c->pool, wanted);
        if (!*buf) return KW_COLUMNS_NO_MEMORY;
    }
    c->allocated += wanted - before;
    return KW_COLUMNS_OK;
}

/* Bits are set in advance, so that only nulls touch the bitmap. */
static int grow_validity(kw_columns *c, kw_column *column, int64_t capacity) {
    size_t used = column->validity ? bitmap_bytes(column->length) : 0;
    size_t wanted = bitmap_bytes(capacity);
    int failed = grow_buffer(c, &column->validity, used, wanted);
    if (failed) return failed;
    memset(column->validity->data + used, 0xFF, wanted - used);
    return KW_COLUMNS_OK;
}

static int set_capacity(kw_columns *c, int32_t number, int64_t capacity) {
    const kw_field *field = &c->fields[number];
    kw_column *column = &c->columns[number];
    int failed = KW_COLUMNS_OK;
    switch (field->kind) {
    case KW_KIND_BOOLEAN:
        failed = grow_buffer(c, &column->data, bitmap_bytes(column->length), bitmap_bytes(capacity));
        break;
    case KW_KIND_FIXED:
        failed = grow_buffer(c, &column->data, (size_t)(column->length * field->width), (size_t)(capacity * field->width));
        break;
    case KW_KIND_BYTES:
    case KW_KIND_LIST: {
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

int kw_columns_grow(kw_columns *c, int32_t number) {
    kw_column *column = &c->columns[number];
    if (column->length >= INT32_MAX) return KW_COLUMNS_FULL;  /* offsets of a list could not address the next one */
    int64_t capacity = column->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : 2 * column->capacity;
    return set_capacity(c, number, capacity);
}

int kw_columns_grow_data(kw_columns *c, kw_column *column, int64_t size) {
    if (size > INT32_MAX - column->used) return KW_COLUMNS_FULL;
    size_t wanted = (size_t)(column->used + size);
    size_t before = column->data ? column->data->capacity : 0;
    if (column->data && wanted <= before) return KW_COLUMNS_OK;
    if (wanted < 2 * before) wanted = 2 * before;
    if (wanted < FIRST_CAPACITY) wanted = FIRST_CAPACITY;
    return grow_buffer(c, &column->data, (size_t)column->used, wanted);
}

void kw_columns_expect(kw_columns *c, int32_t number, int64_t rows) {
    const kw_field *field = &c->fields[number];
    if (rows > c->columns[number].capacity) (void)set_capacity(c, number, rows);
    if (field->kind != KW_KIND_STRUCT) return;
    for (int32_t i = 0; i < field->children; i++) kw_columns_expect(c, field->child[i], rows);
}

int kw_columns_append_null(kw_columns *c, int32_t number) {
    const kw_field *field = &c->fields[number];
    kw_column *column = &c->columns[number];
    int64_t row = column->length;
    int failed = kw_columns_room(c, number);
    if (failed) return failed;
    if (field->kind == KW_KIND_NULL) {
        column->length++;
        return KW_COLUMNS_OK;
    }
    if (!column->validity) {
        failed = grow_validity(c, column, column->capacity);
        if (failed) return failed;
    }
    switch (field->kind) {
    case KW_KIND_BOOLEAN:
        column->data->data[row >> 3] &= (uint8_t)~(1 << (row & 7));
        break;
    case KW_KIND_FIXED:
        memset(column->data->data + row * field->width, 0, (size_t)field->width);
        break;
    case KW_KIND_BYTES:
    case KW_KIND_LIST:
        ((int32_t *)column->offsets->data)[row + 1] = ((int32_t *)column->offsets->data)[row];
        break;
    default:
        for (int32_t i = 0; i < field->children; i++) {
            failed = kw_columns_append_null(c, field->child[i]);
            if (failed) return failed;
        }
    }
    column->validity->data[row >> 3] &= (uint8_t)~(1 << (row & 7));
    column->nulls++;
    column->length++;
    return KW_COLUMNS_OK;
}

void kw_columns_truncate(kw_columns *c, int32_t number, int64_t length) {
    const kw_field *field = &c->fields[number];
    kw_column *column = &c->columns[number];
    if (column->length < length) length = column->length;
    if (column->validity) {
        for (int64_t i = length; i < column->length; i++) {
            column->nulls -= !(column->validity->data[i >> 3] >> (i & 7) & 1);
            column->validity->data[i >> 3] |= (uint8_t)(1 << (i & 7));
        }
    }
    column->length = length;
    if (field->kind == KW_KIND_BYTES) column->used = column->offsets ? ((int32_t *)column->offsets->data)[length] : 0;
    if (field->kind == KW_KIND_LIST) length = column->offsets ? ((int32_t *)column->offsets->data)[length] : 0;
    for (int32_t i = 0; i < field->children; i++) kw_columns_truncate(c, field->child[i], length);
}

void kw_columns_clear(kw_columns *c) {
    for (int32_t i = 0; i < c->count; i++) {
        kw_buf_unref(c->columns[i].validity);
        kw_buf_unref(c->columns[i].offsets);
        kw_buf_unref(c->columns[i].data);
    }
    memset(c->columns, 0, (size_t)c->count * sizeof *c->columns);
    c->allocated = 0;
}

/* --- export ------------------------------------------------------------------------------------------------------- */

/* Arrow requires a valid pointer, even for an empty buffer. */
static const int64_t nothing[2] = {0, 0};

/* --- schemas ------------------------------------------------------------------------------------------------------ */

typedef struct {
    char *format;
    char *name;
    struct ArrowSchema *children;
    struct ArrowSchema **pointers;
    struct ArrowSchema dictionary;
} SchemaOwner;

static void release_schema(struct ArrowSchema *schema) {
    SchemaOwner *owner = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    if (owner->dictionary.release) owner->dictionary.release(&owner->dictionary);
    free(owner->format);
    free(owner->name);
    free(owner->children);
    free(owner->pointers);
    free(owner);
    schema->release = NULL;
}

static SchemaOwner *open_schema(struct ArrowSchema *out, const char *format, const char *name, int64_t children) {
    SchemaOwner *owner = calloc(1, sizeof *owner);
    memset(out, 0, sizeof *out);
    if (!owner) return NULL;
    owner->format = strdup(format);
    owner->name = strdup(name);
    owner->children = calloc((size_t)children + 1, sizeof *owner->children);
    owner->pointers = calloc((size_t)children + 1, sizeof *owner->pointers);
    out->release = release_schema;
    out->private_data = owner;
    out->format = owner->format;
    out->name = owner->name;
    out->flags = ARROW_FLAG_NULLABLE;
    if (!owner->format || !owner->name || !owner->children || !owner->pointers) {
        out->release(out);
        return NULL;
    }
    for (int64_t i = 0; i < children; i++) owner->pointers[i] = &owner->children[i];
    out->n_children = children;
    out->children = owner->pointers;
    return owner;
}

int kw_columns_export_schema(const kw_field *fields, int32_t number, struct ArrowSchema *out) {
    const kw_field *field = &fields[number];
    SchemaOwner *owner = open_schema(out, field->format, field->name, field->children);
    if (!owner) return KW_COLUMNS_NO_MEMORY;
    out->flags = field->flags;
    for (int32_t i = 0; i < field->children; i++) {
        if (kw_columns_export_schema(fields, field->child[i], &owner->children[i])) {
            out->release(out);
            return KW_COLUMNS_NO_MEMORY;
        }
    }
    if (field->symbol_offsets) {
        if (!open_schema(&owner->dictionary, "u", "", 0)) {
            out->release(out);
            return KW_COLUMNS_NO_MEMORY;
        }
        out->dictionary = &owner->dictionary;
    }
    return KW_COLUMNS_OK;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const void *pointers[3];
    kw_buf *held[3];
    struct ArrowArray *children;
    struct ArrowArray **child_pointers;
    struct ArrowArray dictionary;
} ArrayOwner;

static void release_array(struct ArrowArray *array) {
    ArrayOwner *owner = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]); /* else moved away */
    if (owner->dictionary.release) owner->dictionary.release(&owner->dictionary);
    for (int i = 0; i < 3; i++) kw_buf_unref(owner->held[i]);
    free(owner->children);
    free(owner->child_pointers);
    free(owner);
    array->release = NULL;
}

static ArrayOwner *open_array(struct ArrowArray *out, int64_t length, int64_t nulls, int buffers, kw_buf *validity,
                              kw_buf *second, kw_buf *third, int64_t children) {
    ArrayOwner *owner = calloc(1, sizeof *owner);
    kw_buf *all[3] = {nulls ? validity : NULL, second, third};
    memset(out, 0, sizeof *out);
    if (!owner) return NULL;
    owner->children = calloc((size_t)children + 1, sizeof *owner->children);
    owner->child_pointers = calloc((size_t)children + 1, sizeof *owner->child_pointers);
    out->release = release_array;
    out->private_data = owner;
    if (!owner->children || !owner->child_pointers) {
        out->release(out);
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (all[i]) kw_buf_ref(all[i]);
        owner->held[i] = all[i];
        owner->pointers[i] = all[i] ? (const void *)all[i]->data : i ? (const void *)nothing : NULL;
    }
    for (int64_t i = 0; i < children; i++) owner->child_pointers[i] = &owner->children[i];
    out->length = length;
    out->null_count = nulls;
    out->n_buffers = buffers;
    out->buffers = owner->pointers;
    out->n_children = children;
    out->children = owner->child_pointers;
    return owner;
}

static ArrayOwner *open_column(const kw_field *field, const kw_column *column, int valid,
                               struct ArrowArray *out) {
    int64_t nulls = valid ? 0 : column->nulls;
    switch (field->kind) {
    case KW_KIND_NULL:
        return open_array(out, column->length, column->length, 0, NULL, NULL, NULL, 0);
    case KW_KIND_STRUCT:
        return open_array(out, column->length, nulls, 1, column->validity, NULL, NULL, field->children);
    case KW_KIND_LIST:
        return open_array(out, column->length, nulls, 2, column->validity, column->offsets, NULL, field->children);
    case KW_KIND_BYTES:
        return open_array(out, column->length, nulls, 3, column->validity, column->offsets, column->data, 0);
    default:
        return open_array(out, column->length, nulls, 2, column->validity, column->data, NULL, 0);
    }
}

int kw_columns_export_array(const kw_columns *c, int32_t number, int valid, struct ArrowArray *out) {
    const kw_field *field = &c->fields[number];
    ArrayOwner *owner = open_column(field, &c->columns[number], valid, out);
    if (!owner) return KW_COLUMNS_NO_MEMORY;
    for (int32_t i = 0; i < field->children; i++) {
        if (kw_columns_export_array(c, field->child[i], 0, &owner->children[i])) {
            out->release(out);
            return KW_COLUMNS_NO_MEMORY;
        }
    }
    if (field->symbol_offsets) {
        if (!open_array(&owner->dictionary, field->symbols, 0, 3, NULL, field->symbol_offsets, field->symbol_data, 0)) {
            out->release(out);
            return KW_COLUMNS_NO_MEMORY;
        }
        out->dictionary = &owner->dictionary;
    }
    return KW_COLUMNS_OK;
}
