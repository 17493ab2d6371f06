#include "kafwire/avro/native/encode.h"

#include <string.h>

#include "kafwire/memory/native/bytes.h"

enum {
    SMALL = 32, /* room for a branch and a number, or for a decimal of 32 bytes without its length */
    LIMBS = 4
};

typedef struct {
    const kw_avro_writer *writer;
    const kw_view *views;
    kw_output *out;
    kw_wrong *wrong;
} Machine;

static int fail(Machine *m, const kw_avro_write *op, int code, int64_t detail) {
    m->wrong->code = code;
    m->wrong->where = op->where;
    m->wrong->detail = detail;
    return code;
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static inline int room(Machine *m, const kw_avro_write *op, int64_t size) {
    int failed = kw_output_room(m->out, size);
    return failed ? fail(m, op, failed, 0) : 0;
}

static inline void put_long(Machine *m, int64_t value) { m->out->at = kw_put_uvarint(m->out->at, kw_zigzag(value)); }

/* --- leaves ------------------------------------------------------------------------------------------------------- */

static int write_number(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    int too_large = 0;
    int64_t value = kw_view_number(view, op->form, at, &too_large);
    if (too_large || (op->a != 1 && __builtin_mul_overflow(value, op->a, &value)))
        return fail(m, op, KW_WRONG_RANGE, value);
    if (op->b != 1) {
        if (value % op->b) return fail(m, op, KW_WRONG_REST, value);
        value /= op->b;
    }
    if (op->c == KW_AVRO_RANGE_INT ? value != (int32_t)value : op->c && (value < 0 || value >= op->c))
        return fail(m, op, KW_WRONG_RANGE, value);
    put_long(m, value);
    return 0;
}

static int write_bytes(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = kw_view_bytes(view, op->form, at, &size);
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    put_long(m, size);
    if (size) memcpy(m->out->at, data, (size_t)size);
    m->out->at += size;
    return 0;
}

static int write_fixed(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = kw_view_bytes(view, op->form, at, &size);
    if (size != op->a) return fail(m, op, KW_AVRO_WRONG_SIZE, size);
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    if (size) memcpy(m->out->at, data, (size_t)size);
    m->out->at += size;
    return 0;
}

static int write_enum(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    int64_t size;
    const uint8_t *data = kw_view_bytes(view, op->form, at, &size);
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
    return fail(m, op, KW_WRONG_SYMBOL, size);
}

static int bits_of(const uint64_t *limbs) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (limbs[i]) return 64 * i + 64 - __builtin_clzll(limbs[i]);
    return 0;
}

/* The bytes of a decimal are as many as the bits of its magnitude and a sign take, as fastavro writes them. */
static int write_decimal(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
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
        *m->out->at++ = i < (int64_t)sizeof extended ? extended[i] : is_negative ? 255 : 0;
    return 0;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static int run(Machine *m, int32_t from, int32_t to, int64_t row);

static int write_list(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    int64_t first, last;
    if (op->form == KW_FIXED_SIZE) {
        first = at * op->a;
        last = first + op->a;
    } else {
        first = kw_view_offset(view, op->form, at);
        last = kw_view_offset(view, op->form, at + 1);
    }
    int32_t body = (int32_t)(op - m->writer->ops) + 1;
    if (last > first) put_long(m, last - first);
    for (; first < last; first++) {
        int failed = run(m, body, op->end, first);
        if (failed) return failed;
    }
    int failed = room(m, op, SMALL);
    if (!failed) *m->out->at++ = 0;
    return failed;
}

static inline int find(const Machine *m, const kw_avro_write *op, int64_t row, int64_t *at) {
    return kw_view_find(m->views, op->view, op->index, op->index_form, row, at);
}

/* Sets *next to the operation of the member that is set; to the union's end for none. */
static int choose(Machine *m, const kw_avro_write *op, int64_t row, int32_t *next) {
    const int32_t *chosen = NULL;
    int64_t at = 0;
    for (int64_t i = 0; i < op->b; i++) {
        const int32_t *member = m->writer->tables + op->a + 2 * i;
        if (!find(m, &m->writer->ops[member[1]], row, &at)) continue;
        if (chosen) return fail(m, op, KW_AVRO_WRONG_MEMBERS, 0);
        chosen = member;
    }
    if (!chosen && op->null_branch < 0) return fail(m, op, KW_WRONG_NULL, 0);
    put_long(m, chosen ? chosen[0] : op->null_branch);
    *next = chosen ? chosen[1] : op->end;
    return 0;
}

static int write_leaf(Machine *m, const kw_avro_write *op, const kw_view *view, int64_t at) {
    switch (op->code) {
    case KW_AVRO_WRITE_NUMBER: return write_number(m, op, view, at);
    case KW_AVRO_WRITE_BYTES: return write_bytes(m, op, view, at);
    case KW_AVRO_WRITE_BOOLEAN: *m->out->at++ = view->data[at >> 3] >> (at & 7) & 1; return 0;
    case KW_AVRO_WRITE_FLOAT:
        kw_put_le32(m->out->at, ((const uint32_t *)view->data)[at]);
        m->out->at += 4;
        return 0;
    case KW_AVRO_WRITE_DOUBLE:
    case KW_AVRO_WRITE_WIDENED: {
        double value = op->code == KW_AVRO_WRITE_DOUBLE ? ((const double *)view->data)[at]
                                                        : (double)((const float *)view->data)[at];
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        bits = KW_LITTLE(64, bits);
        memcpy(m->out->at, &bits, sizeof bits);
        m->out->at += 8;
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
    memcpy(m->out->at, m->writer->constants + op->a, (size_t)op->b);
    m->out->at += op->b;
    return 0;
}

/* Runs operations on a row, or on an item of a list. */
static int run(Machine *m, int32_t from, int32_t to, int64_t row) {
    while (from < to) {
        const kw_avro_write *op = &m->writer->ops[from];
        int failed = room(m, op, SMALL);
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
        const kw_view *view = &m->views[op->view];
        int64_t at = 0;
        int there = find(m, op, row, &at);
        if (there < 0) return fail(m, op, KW_WRONG_INDEX, 0);
        if (op->code == KW_AVRO_WRITE_NULL || !there) {
            if (op->null_branch >= 0)
                put_long(m, op->null_branch);
            else if (op->code != KW_AVRO_WRITE_NULL || op->c)
                return fail(m, op, KW_WRONG_NULL, 0);
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

int kw_avro_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong) {
    const kw_avro_writer *writer = program;
    Machine m = {writer, views, out, wrong};
    return run(&m, 0, writer->count, row);
}
