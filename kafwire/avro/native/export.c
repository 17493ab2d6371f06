#include "kafwire/avro/native/columns.h"

#include <stdlib.h>
#include <string.h>

/* What Arrow wants to see instead of a NULL pointer where there is nothing. */
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

int kw_avro_export_schema(const kw_avro_field *fields, int32_t number, struct ArrowSchema *out) {
    const kw_avro_field *field = &fields[number];
    SchemaOwner *owner = open_schema(out, field->format, field->name, field->children);
    if (!owner) return KW_AVRO_NO_MEMORY;
    out->flags = field->flags;
    for (int32_t i = 0; i < field->children; i++) {
        if (kw_avro_export_schema(fields, field->child[i], &owner->children[i])) {
            out->release(out);
            return KW_AVRO_NO_MEMORY;
        }
    }
    if (field->symbol_offsets) {
        if (!open_schema(&owner->dictionary, "u", "", 0)) {
            out->release(out);
            return KW_AVRO_NO_MEMORY;
        }
        out->dictionary = &owner->dictionary;
    }
    return KW_AVRO_OK;
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

static ArrayOwner *open_column(const kw_avro_field *field, const kw_avro_column *column, int valid,
                               struct ArrowArray *out) {
    int64_t nulls = valid ? 0 : column->nulls;
    switch (field->kind) {
    case KW_AVRO_KIND_NULL:
        return open_array(out, column->length, column->length, 0, NULL, NULL, NULL, 0);
    case KW_AVRO_KIND_STRUCT:
        return open_array(out, column->length, nulls, 1, column->validity, NULL, NULL, field->children);
    case KW_AVRO_KIND_LIST:
        return open_array(out, column->length, nulls, 2, column->validity, column->offsets, NULL, field->children);
    case KW_AVRO_KIND_BYTES:
        return open_array(out, column->length, nulls, 3, column->validity, column->offsets, column->data, 0);
    default:
        return open_array(out, column->length, nulls, 2, column->validity, column->data, NULL, 0);
    }
}

int kw_avro_export_array(const kw_avro_columns *c, int32_t number, int valid, struct ArrowArray *out) {
    const kw_avro_field *field = &c->fields[number];
    ArrayOwner *owner = open_column(field, &c->columns[number], valid, out);
    if (!owner) return KW_AVRO_NO_MEMORY;
    for (int32_t i = 0; i < field->children; i++) {
        if (kw_avro_export_array(c, field->child[i], 0, &owner->children[i])) {
            out->release(out);
            return KW_AVRO_NO_MEMORY;
        }
    }
    if (field->symbol_offsets) {
        if (!open_array(&owner->dictionary, field->symbols, 0, 3, NULL, field->symbol_offsets, field->symbol_data, 0)) {
            out->release(out);
            return KW_AVRO_NO_MEMORY;
        }
        out->dictionary = &owner->dictionary;
    }
    return KW_AVRO_OK;
}
