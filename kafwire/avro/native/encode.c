#include "kafwire/avro/native/encode.h"

#include <string.h>

#include "kafwire/memory/native/bytes.h"

enum {
    SMALL = 32, /* room for a branch and a number, or for a decimal of 32 bytes without its length */
    FIRST_BYTES = 64, /* for each of so many rows: */
    FIRST_ROWS = 1 << 20,
    LIMBS = 4
};

typedef struct {
    const kw_avro_writer *writer;
    const kw_avro_view *views;
    kw_buf *data;
    uint8_t *at, *end;
    kw_avro_wrong *wrong;
} Machine;

static int fail(Machine *m, const kw_avro_write *op, int code, int64_t detail) {
    m->wrong->code = code;
    m->wrong->where = op->where;
    m->wrong->detail = detail;
    return code;
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static int grow(Machine *m, int64_t size) {
    size_t used = (size_t)(m->at - m->data->data), wanted = used + (size_t)size;
    if (size > INT32_MAX || wanted > (size_t)INT32_MAX + SMALL) return KW_AVRO_WRONG_TOTAL;
    if (wanted < 2 * m->data->capacity) wanted = 2 * m->data->capacity;
    m->data->size = used;
    if (kw_buf_reserve(&m->data, wanted)) return KW_AVRO_WRONG_MEMORY;
    m->at = m->data->data + used;
    m->end = m->data->data + m->data->capacity;
    return 0;
}

static inline int room(Machine *m, const kw_avro_write *op, int64_t size) {
    if (m->end - m->at >= size) return 0;
    int failed = grow(m, size);
    return failed ? fail(m, op, failed, 0) : 0;
}

static inline void put_long(Machine *m, int64_t value) { m->at = kw_put_uvarint(m->at, kw_zigzag(value)); }

/* --- input -------------------------------------------------------------------------------------------------------- */

static inline int is_null(const kw_avro_view *view, int64_t at) {
    return view->validity && !(view->validity[at >> 3] >> (at & 7) & 1);
}

static inline int64_t offset_at(const kw_avro_view *view, int32_t form, int64_t at) {
    return form == KW_AVRO_OFFSETS_32 ? ((const int32_t *)view->data)[at] : ((const int64_t *)view->data)[at];
}

static inline int64_t number_at(const kw_avro_view *view, int32_t form, int64_t at, int *too_large) {
    switch (form) {
    case KW_AVRO_I8: return ((const int8_t *)view->data)[at];
    case KW_AVRO_U8: return ((const uint8_t *)view->data)[at];
    case KW_AVRO_I16: return ((const int16_t *)view->data)[at];
    case KW_AVRO_U16: return ((const uint16_t *)view->data)[at];
    case KW_AVRO_I32: return ((const int32_t *)view->data)[at];
    case KW_AVRO_U32: return ((const uint32_t *)view->data)[at];
    case KW_AVRO_I64: return ((const int64_t *)view->data)[at];
    default: *too_large = ((const int64_t *)view->data)[at] < 0; return ((const int64_t *)view->data)[at];
    }
}

static inline const uint8_t *bytes_at(const kw_avro_view *view, int32_t form, int64_t at, int64_t *size) {
    if (form == KW_AVRO_OFFSETS_32 || form == KW_AVRO_OFFSETS_64) {
        int64_t from = offset_at(view, form, at);
        *size = offset_at(view, form, at + 1) - from;
        return *size ? view->more + from : view->more;
    }
    if (form == KW_AVRO_FIXED_SIZE) {
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

/* --- leaves ------------------------------------------------------------------------------------------------------- */

static int write_number(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    int too_large = 0;
    int64_t value = number_at(view, op->form, at, &too_large);
    if (too_large || (op->a != 1 && __builtin_mul_overflow(value, op->a, &value)))
        return fail(m, op, KW_AVRO_WRONG_RANGE, value);
    if (op->b != 1) {
        if (value % op->b) return fail(m, op, KW_AVRO_WRONG_REST, value);
        value /= op->b;
    }
    if (op->c == KW_AVRO_RANGE_INT ? value != (int32_t)value : op->c && (value < 0 || value >= op->c))
        return fail(m, op, KW_AVRO_WRONG_RANGE, value);
    put_long(m, value);
    return 0;
}

static int write_bytes(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = bytes_at(view, op->form, at, &size);
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    put_long(m, size);
    if (size) memcpy(m->at, data, (size_t)size);
    m->at += size;
    return 0;
}

static int write_fixed(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = bytes_at(view, op->form, at, &size);
    if (size != op->a) return fail(m, op, KW_AVRO_WRONG_SIZE, size);
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    if (size) memcpy(m->at, data, (size_t)size);
    m->at += size;
    return 0;
}

static int write_enum(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = bytes_at(view, op->form, at, &size);
    int64_t low = 0, high = op->b;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const int32_t *symbol = m->writer->tables + op->a + 3 * middle;
        int64_t order = symbol[1] - size;
        if (!order && size) order = memcmp(m->writer->constants + symbol[0], data, (size_t)size);
        if (!order) {
            put_long(m, symbol[2]);
            return 0;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return fail(m, op, KW_AVRO_WRONG_SYMBOL, size);
}

static int bits_of(const uint64_t *limbs) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (limbs[i]) return 64 * i + 64 - __builtin_clzll(limbs[i]);
    return 0;
}

/* The bytes of a decimal are as many as the bits of its magnitude and a sign take, as fastavro writes them. */
static int write_decimal(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    const uint8_t *data = view->data + at * op->form;
    int is_negative = data[op->form - 1] >> 7;
    uint8_t extended[8 * LIMBS];
    uint64_t magnitude[LIMBS], carry = (uint64_t)is_negative;
    memset(extended, is_negative ? 255 : 0, sizeof extended);
    memcpy(extended, data, (size_t)op->form);
    for (int i = 0; i < LIMBS; i++) {
        uint64_t limb = kw_le64(extended + 8 * i);
        if (is_negative) {
            limb = ~limb + carry;
            carry = carry && !limb;
        }
        magnitude[i] = limb;
    }
    for (int i = LIMBS - 1; i >= 0; i--) {
        uint64_t limit = kw_le64(m->writer->constants + op->b + 8 * i);
        if (magnitude[i] < limit) break;
        if (magnitude[i] > limit || !i) return fail(m, op, KW_AVRO_WRONG_DECIMAL, 0);
    }
    int64_t size = (bits_of(magnitude) + 8) >> 3;
    if (op->a >= 0) {
        if (size > op->a) return fail(m, op, KW_AVRO_WRONG_DECIMAL, 0);
        size = op->a;
    }
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    if (op->a < 0) put_long(m, size);
    for (int64_t i = size - 1; i >= 0; i--)
        *m->at++ = i < (int64_t)sizeof extended ? extended[i] : is_negative ? 255 : 0;
    return 0;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static int run(Machine *m, int32_t from, int32_t to, int64_t row);

static int write_list(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    int64_t first, last;
    if (op->form == KW_AVRO_FIXED_SIZE) {
        first = at * op->a;
        last = first + op->a;
    } else {
        first = offset_at(view, op->form, at);
        last = offset_at(view, op->form, at + 1);
    }
    int32_t body = (int32_t)(op - m->writer->ops) + 1;
    if (last > first) put_long(m, last - first);
    for (; first < last; first++) {
        int failed = run(m, body, op->end, first);
        if (failed) return failed;
    }
    int failed = room(m, op, SMALL);
    if (!failed) *m->at++ = 0;
    return failed;
}

static inline int is_set(const Machine *m, const int32_t *member, int64_t row) {
    const kw_avro_view *view = &m->views[member[1] < 0 ? member[0] : member[1]];
    return !is_null(view, row + view->offset);
}

/* Sets *next to the operation of the member that is set; to the union's end for none. */
static int choose(Machine *m, const kw_avro_write *op, int64_t row, int32_t *next) {
    const int32_t *chosen = NULL;
    for (int64_t i = 0; i < op->b; i++) {
        const int32_t *member = m->writer->tables + op->a + 4 * i;
        if (!is_set(m, member, row)) continue;
        if (chosen) return fail(m, op, KW_AVRO_WRONG_MEMBERS, 0);
        chosen = member;
    }
    if (!chosen && op->null_branch < 0) return fail(m, op, KW_AVRO_WRONG_NULL, 0);
    put_long(m, chosen ? chosen[2] : op->null_branch);
    *next = chosen ? chosen[3] : op->end;
    return 0;
}

/* Resolves a dictionary's index. 1: *at is its value's, 0: null, -1: the index is wrong. */
static inline int through_index(const Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t row,
                                int64_t *at) {
    const kw_avro_view *indices = &m->views[op->index];
    int too_large = 0;
    if (is_null(indices, row + indices->offset)) return 0;
    int64_t index = number_at(indices, op->index_form, row + indices->offset, &too_large);
    if (index < 0 || index >= view->length) return -1;
    *at = index + view->offset;
    return 1;
}

static int write_leaf(Machine *m, const kw_avro_write *op, const kw_avro_view *view, int64_t at) {
    switch (op->code) {
    case KW_AVRO_WRITE_NUMBER: return write_number(m, op, view, at);
    case KW_AVRO_WRITE_BYTES: return write_bytes(m, op, view, at);
    case KW_AVRO_WRITE_BOOLEAN: *m->at++ = view->data[at >> 3] >> (at & 7) & 1; return 0;
    case KW_AVRO_WRITE_FLOAT:
        kw_put_le32(m->at, ((const uint32_t *)view->data)[at]);
        m->at += 4;
        return 0;
    case KW_AVRO_WRITE_DOUBLE:
    case KW_AVRO_WRITE_WIDENED: {
        double value = op->code == KW_AVRO_WRITE_DOUBLE ? ((const double *)view->data)[at]
                                                        : (double)((const float *)view->data)[at];
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = KW_LITTLE(64, bits);
        memcpy(m->at, &bits, sizeof bits);
        m->at += 8;
        return 0;
    }
    case KW_AVRO_WRITE_FIXED: return write_fixed(m, op, view, at);
    case KW_AVRO_WRITE_ENUM: return write_enum(m, op, view, at);
    case KW_AVRO_WRITE_DECIMAL: return write_decimal(m, op, view, at);
    default: return write_list(m, op, view, at);
    }
}

static int write_constant(Machine *m, const kw_avro_write *op) {
    int failed = room(m, op, op->b + SMALL);
    if (failed) return failed;
    memcpy(m->at, m->writer->constants + op->a, (size_t)op->b);
    m->at += op->b;
    return 0;
}

/* Runs operations on a row, or on an item of a list. */
static int run(Machine *m, int32_t from, int32_t to, int64_t row) {
    while (from < to) {
        const kw_avro_write *op = &m->writer->ops[from];
        int failed = room(m, op, SMALL), there = 1;
        if (failed) return failed;
        if (op->code == KW_AVRO_WRITE_JUMP) {
            from = op->end;
            continue;
        }
        if (op->code == KW_AVRO_WRITE_CONSTANT) {
            if ((failed = write_constant(m, op))) return failed;
            from++;
            continue;
        }
        const kw_avro_view *view = &m->views[op->view];
        int64_t at = row + view->offset;
        if (op->index >= 0) there = through_index(m, op, view, row, &at);
        if (there < 0) return fail(m, op, KW_AVRO_WRONG_INDEX, 0);
        if (op->code == KW_AVRO_WRITE_NULL || !there || is_null(view, at)) {
            if (op->null_branch >= 0)
                put_long(m, op->null_branch);
            else if (op->code != KW_AVRO_WRITE_NULL || op->c)
                return fail(m, op, KW_AVRO_WRONG_NULL, 0);
            from = op->end;
            continue;
        }
        if (op->code == KW_AVRO_WRITE_UNION) {
            if ((failed = choose(m, op, row, &from))) return failed;
            continue;
        }
        if (op->value_branch >= 0) put_long(m, op->value_branch);
        if (op->code == KW_AVRO_WRITE_STRUCT) {
            from++;
            continue;
        }
        if ((failed = write_leaf(m, op, view, at))) return failed;
        from = op->end;
    }
    return 0;
}

void kw_avro_values_clear(kw_avro_values *values) {
    kw_buf_unref(values->validity);
    kw_buf_unref(values->offsets);
    kw_buf_unref(values->data);
    memset(values, 0, sizeof *values);
}

static int open_values(kw_avro_values *out, const kw_avro_view *root, int64_t rows, kw_pool *pool) {
    memset(out, 0, sizeof *out);
    if (rows >= INT32_MAX) return KW_AVRO_WRONG_TOTAL;
    out->offsets = kw_buf_new(pool, 4 * ((size_t)rows + 1));
    out->data = kw_buf_new(pool, FIRST_BYTES * (size_t)(rows < FIRST_ROWS ? rows + 1 : FIRST_ROWS));
    int has_nulls = !root || root->validity;
    if (has_nulls) out->validity = kw_buf_new(pool, (size_t)rows / 8 + 1);
    if (!out->offsets || !out->data || (has_nulls && !out->validity)) return KW_AVRO_WRONG_MEMORY;
    if (out->validity) memset(out->validity->data, 0, (size_t)rows / 8 + 1);
    return 0;
}

int kw_avro_encode(const kw_avro_writer *writer, const kw_avro_view *views, int64_t rows, const uint8_t *prefix,
                   int64_t prefix_size, kw_pool *pool, kw_avro_values *out, kw_avro_wrong *wrong) {
    const kw_avro_view *root = writer->root < 0 ? NULL : &views[writer->root];
    memset(wrong, 0, sizeof *wrong);
    wrong->code = open_values(out, root, rows, pool);
    if (wrong->code) return wrong->code;
    const kw_avro_write none = {0};
    Machine m = {writer, views, out->data, out->data->data, out->data->data + out->data->capacity, wrong};
    int32_t *offsets = (int32_t *)out->offsets->data;
    int failed = 0;
    offsets[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        wrong->row = row;
        if (!root || is_null(root, row + root->offset)) {
            out->nulls++;
        } else {
            if (out->validity) out->validity->data[row >> 3] |= (uint8_t)(1 << (row & 7));
            if ((failed = room(&m, &none, prefix_size + SMALL))) break;
            if (prefix_size) memcpy(m.at, prefix, (size_t)prefix_size);
            m.at += prefix_size;
            if ((failed = run(&m, 0, writer->count, row))) break;
        }
        if (m.at - m.data->data > INT32_MAX) {
            failed = fail(&m, &none, KW_AVRO_WRONG_TOTAL, 0);
            break;
        }
        offsets[row + 1] = (int32_t)(m.at - m.data->data);
    }
    out->data = m.data;
    out->data->size = (size_t)(m.at - m.data->data);
    return failed;
}
