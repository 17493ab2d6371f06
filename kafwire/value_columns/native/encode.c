#include "kafwire/value_columns/native/encode.h"

#include <string.h>

enum {
    SLACK = 64, /* of the last value's room */
    FIRST_BYTES = 64, /* for each of so many rows: */
    FIRST_ROWS = 1 << 20
};

int kw_output_grow(kw_output *out, int64_t size) {
    size_t used = (size_t)(out->at - out->data->data), wanted = used + (size_t)size;
    if (size > INT32_MAX || wanted > (size_t)INT32_MAX + SLACK) return KW_WRONG_TOTAL;
    if (wanted < 2 * out->data->capacity) wanted = 2 * out->data->capacity;
    out->data->size = used;
    if (kw_buf_reserve(&out->data, wanted)) return KW_WRONG_MEMORY;
    out->at = out->data->data + used;
    out->end = out->data->data + out->data->capacity;
    return 0;
}

void kw_values_clear(kw_values *values) {
    kw_buf_unref(values->validity);
    kw_buf_unref(values->offsets);
    kw_buf_unref(values->data);
    memset(values, 0, sizeof *values);
}

static int open_values(kw_values *out, const kw_view *root, int64_t rows, kw_pool *pool) {
    memset(out, 0, sizeof *out);
    if (rows >= INT32_MAX) return KW_WRONG_TOTAL;
    out->offsets = kw_buf_new(pool, 4 * ((size_t)rows + 1));
    out->data = kw_buf_new(pool, FIRST_BYTES * (size_t)(rows < FIRST_ROWS ? rows + 1 : FIRST_ROWS));
    int has_nulls = !root || root->validity;
    if (has_nulls) out->validity = kw_buf_new(pool, (size_t)rows / 8 + 1);
    if (!out->offsets || !out->data || (has_nulls && !out->validity)) return KW_WRONG_MEMORY;
    if (out->validity) memset(out->validity->data, 0, (size_t)rows / 8 + 1);
    return 0;
}

int kw_encode_rows(kw_encode encode, const void *program, const kw_view *views, int32_t root, int64_t rows,
                   const uint8_t *prefix, int64_t prefix_size, kw_pool *pool, kw_values *out, kw_wrong *wrong) {
    const kw_view *nulls = root < 0 ? NULL : &views[root];
    memset(wrong, 0, sizeof *wrong);
    wrong->code = open_values(out, nulls, rows, pool);
    if (wrong->code) return wrong->code;
    kw_output output = {out->data, out->data->data, out->data->data + out->data->capacity};
    int32_t *offsets = (int32_t *)out->offsets->data;
    int failed = 0;
    offsets[0] = 0;
    for (int64_t row = 0; row < rows && !failed; row++) {
        wrong->row = row;
        if (!nulls || kw_view_is_null(nulls, row + nulls->offset)) {
            out->nulls++;
        } else {
            if (out->validity) out->validity->data[row >> 3] |= (uint8_t)(1 << (row & 7));
            failed = wrong->code = kw_output_room(&output, prefix_size);
            if (failed) break;
            if (prefix_size) memcpy(output.at, prefix, (size_t)prefix_size);
            output.at += prefix_size;
            failed = encode(program, views, row, &output, wrong);
        }
        if (!failed && output.at - output.data->data > INT32_MAX) failed = wrong->code = KW_WRONG_TOTAL;
        offsets[row + 1] = (int32_t)(output.at - output.data->data);
    }
    out->data = output.data;
    out->data->size = (size_t)(output.at - output.data->data);
    return failed;
}
