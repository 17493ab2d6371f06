/* Arrow columns as a format's encoder reads them, and the binary column of the encoded values. No function here needs
 * the GIL.
 *
 * Arrow's C data interface trusts the producer of an array: formats are checked when a program is made, values by it. */
#ifndef KAFWIRE_VALUE_ENCODE_H
#define KAFWIRE_VALUE_ENCODE_H

#include <stdint.h>

#include "kafwire/memory/native/buf.h"
#include "kafwire/memory/native/bytes.h"

/* Forms of integers, then those of bytes and lists. */
enum { KW_I8, KW_U8, KW_I16, KW_U16, KW_I32, KW_U32, KW_I64, KW_U64 };
enum { KW_OFFSETS_32, KW_OFFSETS_64, KW_VIEWS, KW_FIXED_SIZE };

/* Causes of values that a schema does not allow; a format has others. `kafwire/value_columns/causes.py` has the texts. */
enum {
    KW_WRONG_NULL = 1,
    KW_WRONG_RANGE = 2,
    KW_WRONG_REST = 3,
    KW_WRONG_SYMBOL = 5,
    KW_WRONG_INDEX = 8,
    KW_WRONG_TOTAL = 9,
    KW_WRONG_MEMORY = 10
};

/* One array of a column, a child or a dictionary. */
typedef struct kw_view {
    const uint8_t *validity; /* NULL: no nulls */
    int64_t offset;          /* of row 0, or of the first item of a list's child */
    int64_t length;
    const uint8_t *data;     /* the second buffer */
    const uint8_t *more;     /* the third */
    const void **buffers;    /* from the third on: of KW_VIEWS */
    int32_t width;           /* of KW_FIXED_SIZE */
} kw_view;

/* The binary column of the values. */
typedef struct kw_values {
    int64_t nulls;
    kw_buf *validity; /* NULL: no nulls */
    kw_buf *offsets;
    kw_buf *data;
} kw_values;

typedef struct kw_wrong {
    int32_t code;
    int32_t where;
    int64_t row;
    int64_t detail; /* the wrong number */
} kw_wrong;

/* The bytes of all values so far. */
typedef struct kw_output {
    kw_buf *data;
    uint8_t *at, *end;
} kw_output;

/* A format's encoder: writes one row behind those before. 0, or a cause, with *wrong but its row. */
typedef int (*kw_encode)(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong);

/* Makes room for `size` more bytes, if there is less. 0, KW_WRONG_TOTAL or KW_WRONG_MEMORY. */
int kw_output_grow(kw_output *out, int64_t size);

static inline int kw_output_room(kw_output *out, int64_t size) {
    return out->end - out->at >= size ? 0 : kw_output_grow(out, size);
}

/* Writes all rows, each behind the prefix. `root`: the view whose nulls are null values; -1: every value is null. 0, or
 * a cause, with *wrong; the caller drops the buffers either way. */
int kw_encode_rows(kw_encode encode, const void *program, const kw_view *views, int32_t root, int64_t rows,
                   const uint8_t *prefix, int64_t prefix_size, kw_pool *pool, kw_values *out, kw_wrong *wrong);
void kw_values_clear(kw_values *values);

/* --- cells; `at` includes the view's offset ----------------------------------------------------------------------- */

static inline int kw_view_is_null(const kw_view *view, int64_t at) {
    return view->validity && !(view->validity[at >> 3] >> (at & 7) & 1);
}

static inline int64_t kw_view_offset(const kw_view *view, int32_t form, int64_t at) {
    return form == KW_OFFSETS_32 ? ((const int32_t *)view->data)[at] : ((const int64_t *)view->data)[at];
}

static inline int64_t kw_view_number(const kw_view *view, int32_t form, int64_t at, int *too_large) {
    switch (form) {
    case KW_I8: return ((const int8_t *)view->data)[at];
    case KW_U8: return ((const uint8_t *)view->data)[at];
    case KW_I16: return ((const int16_t *)view->data)[at];
    case KW_U16: return ((const uint16_t *)view->data)[at];
    case KW_I32: return ((const int32_t *)view->data)[at];
    case KW_U32: return ((const uint32_t *)view->data)[at];
    case KW_I64: return ((const int64_t *)view->data)[at];
    default: *too_large = ((const int64_t *)view->data)[at] < 0; return ((const int64_t *)view->data)[at];
    }
}

static inline const uint8_t *kw_view_bytes(const kw_view *view, int32_t form, int64_t at, int64_t *size) {
    if (form == KW_OFFSETS_32 || form == KW_OFFSETS_64) {
        int64_t from = kw_view_offset(view, form, at);
        *size = kw_view_offset(view, form, at + 1) - from;
        return *size ? view->more + from : view->more;
    }
    if (form == KW_FIXED_SIZE) {
        *size = view->width;
        return view->data + at * view->width;
    }
    /* 16 bytes: the length, then 12 bytes of content, or a prefix, the number of a buffer and the start in it */
    const uint8_t *cell = view->data + 16 * at;
    int32_t length = (int32_t)kw_le32(cell);
    *size = length;
    if (length <= 12) return cell + 4;
    return (const uint8_t *)view->buffers[kw_le32(cell + 8)] + kw_le32(cell + 12);
}

/* Finds a row's value, through a dictionary if `index`, the view of its indices, is not -1. 1: *at is the value's place
 * in the view `values`, 0: it is null, -1: the index is wrong. */
static inline int kw_view_find(const kw_view *views, int32_t values, int32_t index, int32_t index_form, int64_t row,
                               int64_t *at) {
    const kw_view *view = &views[values];
    if (index >= 0) {
        const kw_view *indices = &views[index];
        int too_large = 0;
        row += indices->offset;
        if (kw_view_is_null(indices, row)) return 0;
        row = kw_view_number(indices, index_form, row, &too_large);
        if (row < 0 || row >= view->length) return -1;
    }
    *at = row + view->offset;
    return !kw_view_is_null(view, *at);
}

#endif
