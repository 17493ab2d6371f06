/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/avro/native/decode.h"

#include <string.h>

#include "kafwire/memory/native/bytes.h"

typedef struct {
    const kw_avro_program *program;
    kw_columns *columns;
    const uint8_t *begin, *at, *end;
    int64_t empty_items;  /* how many more items without bytes this value may have */
    kw_failure *failure;
} Machine;

static int fail(Machine *m, const kw_avro_op *op, int code, int64_t detail) {
    m->failure->code = code;
    m->failure->where = op->where;
    m->failure->detail = detail;
    m->failure->at = m->at - m->begin;
    return code;
}

static int64_t left(const Machine *m) { return m->end - m->at; }

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static int bad_varint(Machine *m, const kw_avro_op *op, int most) {
    int64_t n = left(m) < most ? left(m) : most;
    for (int64_t i = 0; i < n; i++)
        if (m->at[i] < 128) return fail(m, op, KW_AVRO_BAD_VARINT, most);
    return fail(m, op, n < most ? KW_AVRO_BAD_TRUNCATED : KW_AVRO_BAD_VARINT, most);
}

static inline int read_long(Machine *m, const kw_avro_op *op, int64_t *out) {
    const uint8_t *behind = kw_varlong(m->at, m->end, out);
    if (!behind) return bad_varint(m, op, 10);
    m->at = behind;
    return 0;
}

static inline int read_int(Machine *m, const kw_avro_op *op, int64_t *out) {
    int32_t value;
    const uint8_t *behind = kw_varint(m->at, m->end, &value);
    if (!behind) return bad_varint(m, op, 5);
    m->at = behind;
    *out = value;
    return 0;
}

static inline int read_number(Machine *m, const kw_avro_op *op, int64_t *out) {
    return op->a ? read_int(m, op, out) : read_long(m, op, out);
}

static inline int read_length(Machine *m, const kw_avro_op *op, int64_t *size) {
    int failed = read_long(m, op, size);
    if (failed) return failed;
    if (*size < 0) return fail(m, op, KW_AVRO_BAD_LENGTH, *size);
    if (*size > left(m)) return fail(m, op, KW_AVRO_BAD_TRUNCATED, *size);
    return 0;
}

static inline int need(Machine *m, const kw_avro_op *op, int64_t size) {
    return size <= left(m) ? 0 : fail(m, op, KW_AVRO_BAD_TRUNCATED, size);
}

/* --- appending ---------------------------------------------------------------------------------------------------- */

static inline int append_fixed(Machine *m, const kw_avro_op *op, const void *value, size_t width) {
    int failed = kw_append_fixed(m->columns, op->column, value, width);
    return failed ? fail(m, op, failed, 0) : 0;
}

static inline int append_bytes(Machine *m, const kw_avro_op *op, const uint8_t *data, int64_t size) {
    int failed = kw_append_bytes(m->columns, op->column, data, size);
    return failed ? fail(m, op, failed, 0) : 0;
}

static int append_boolean(Machine *m, const kw_avro_op *op) {
    int failed = need(m, op, 1);
    if (failed) return failed;
    if (*m->at > 1) return fail(m, op, KW_AVRO_BAD_BOOLEAN, *m->at);
    failed = kw_append_boolean(m->columns, op->column, *m->at);
    if (failed) return fail(m, op, failed, 0);
    m->at++;
    return 0;
}

static int append_int(Machine *m, const kw_avro_op *op) {
    int64_t value = 0;
    int failed = read_int(m, op, &value);
    if (failed) return failed;
    if (op->c && (value < 0 || value >= op->c)) return fail(m, op, KW_AVRO_BAD_RANGE, value);
    int32_t narrow = (int32_t)value;
    return append_fixed(m, op, &narrow, 4);
}

static int append_long(Machine *m, const kw_avro_op *op) {
    int64_t value = 0, product;
    int failed = read_number(m, op, &value);
    if (failed) return failed;
    if (__builtin_mul_overflow(value, op->b, &product)) return fail(m, op, KW_AVRO_BAD_RANGE, value);
    if (op->c && (product < 0 || product >= op->c)) return fail(m, op, KW_AVRO_BAD_RANGE, value);
    return append_fixed(m, op, &product, 8);
}

/* Little-endian IEEE 754, as columns are on the machines that kafwire runs on; others swap. */
static int append_real(Machine *m, const kw_avro_op *op) {
    int failed = need(m, op, op->code == KW_AVRO_OP_DOUBLE ? 8 : 4);
    if (failed) return failed;
    if (op->code == KW_AVRO_OP_DOUBLE) {
        uint64_t bits = kw_le64(m->at);
        m->at += 8;
        return append_fixed(m, op, &bits, 8);
    }
    uint32_t bits = kw_le32(m->at);
    m->at += 4;
    if (op->code == KW_AVRO_OP_FLOAT) return append_fixed(m, op, &bits, 4);
    float narrow;
    memcpy(&narrow, &bits, 4);
    double wide = narrow;
    return append_fixed(m, op, &wide, 8);
}

static int append_promoted(Machine *m, const kw_avro_op *op) {
    int64_t value = 0;
    int failed = read_number(m, op, &value);
    if (failed) return failed;
    float narrow = (float)value;
    double wide = (double)value;
    return op->code == KW_AVRO_OP_TO_FLOAT ? append_fixed(m, op, &narrow, 4) : append_fixed(m, op, &wide, 8);
}

static inline int append_counted(Machine *m, const kw_avro_op *op) {
    int64_t size = 0;
    int failed = read_length(m, op, &size);
    if (failed) return failed;
    if (op->code == KW_AVRO_OP_STRING && !kw_is_utf8(m->at, (size_t)size)) return fail(m, op, KW_AVRO_BAD_UTF8, size);
    failed = append_bytes(m, op, m->at, size);
    if (!failed) m->at += size;
    return failed;
}

/* Big-endian two's complement of any size to little-endian of `width` bytes. */
static int append_decimal(Machine *m, const kw_avro_op *op) {
    size_t width = (size_t)m->columns->fields[op->column].width;
    int64_t size = op->b, i;
    uint64_t limbs[4], magnitude[4], limit[4], carry;
    uint8_t bytes[32], sign;
    int failed = size < 0 ? read_length(m, op, &size) : need(m, op, size);
    if (failed) return failed;
    if (size == 0) return fail(m, op, KW_AVRO_BAD_DECIMAL, size);
    sign = m->at[0] & 128 ? 255 : 0;
    for (i = size - 1; i >= 32; i--)
        if (m->at[size - 1 - i] != sign) return fail(m, op, KW_AVRO_BAD_DECIMAL, size);
    memset(bytes, sign, sizeof bytes);
    for (i = 0; i < size && i < 32; i++) bytes[i] = m->at[size - 1 - i];
    if ((bytes[31] & 128) != (sign & 128)) return fail(m, op, KW_AVRO_BAD_DECIMAL, size);
    carry = sign & 1;
    for (i = 0; i < 4; i++) {
        limbs[i] = kw_le64(bytes + 8 * i);
        limit[i] = kw_le64(m->program->constants + op->a + 8 * i);
        magnitude[i] = sign ? ~limbs[i] + carry : limbs[i];
        carry = carry && limbs[i] == 0;
    }
    for (i = 3; i > 0 && magnitude[i] == limit[i]; i--) continue;
    if (magnitude[i] >= limit[i]) return fail(m, op, KW_AVRO_BAD_DECIMAL, size);
    failed = append_fixed(m, op, limbs, width);
    if (!failed) m->at += size;
    return failed;
}

static int append_enum(Machine *m, const kw_avro_op *op) {
    int64_t index = 0;
    int failed = read_int(m, op, &index);
    if (failed) return failed;
    if (index < 0 || index >= op->b) return fail(m, op, KW_AVRO_BAD_ENUM, index);
    const int32_t *table = m->program->tables + op->a;
    if (op->code == KW_AVRO_OP_ENUM) {
        if (table[index] < 0) return fail(m, op, KW_AVRO_BAD_SYMBOL, index);
        return append_fixed(m, op, &table[index], 4);
    }
    if (table[2 * index] < 0) return fail(m, op, KW_AVRO_BAD_SYMBOL, index);
    return append_bytes(m, op, m->program->constants + table[2 * index], table[2 * index + 1]);
}

static int append_struct(Machine *m, const kw_avro_op *op) {
    const kw_field *field = &m->columns->fields[op->column];
    int failed = kw_columns_room(m->columns, op->column);
    if (op->code == KW_AVRO_OP_OTHERS_NULL)
        for (int32_t i = 0; !failed && i < field->children; i++)
            if (i != op->a) failed = kw_columns_append_null(m->columns, field->child[i]);
    if (failed) return fail(m, op, failed, 0);
    m->columns->columns[op->column].length++;
    return 0;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

static int run(Machine *m, const kw_avro_op *op, const kw_avro_op *end);

/* The number of items in the next block, 0 at the end; *behind: the end that the block claims, or NULL. */
static int read_block(Machine *m, const kw_avro_op *op, int64_t *count, const uint8_t **behind) {
    int64_t size = 0;
    int failed = read_long(m, op, count);
    if (failed) return failed;
    *behind = NULL;
    if (*count < 0) {
        if (*count == INT64_MIN) return fail(m, op, KW_AVRO_BAD_COUNT, *count);
        *count = -*count;
        failed = read_length(m, op, &size);
        if (failed) return failed;
        *behind = m->at + size;
    }
    if (op->b && *count > left(m) / op->b) return fail(m, op, KW_AVRO_BAD_COUNT, *count);
    return 0;
}

static int append_blocks(Machine *m, const kw_avro_op *op) {
    const kw_avro_op *body = op + 1, *end = m->program->ops + op->a;
    const uint8_t *behind;
    int64_t count = 0;
    int failed;
    for (;;) {
        failed = read_block(m, op, &count, &behind);
        if (failed) return failed;
        if (count == 0) break;
        if (op->b == 0) {
            if (count > m->empty_items) return fail(m, op, KW_AVRO_BAD_EMPTY_ITEMS, count);
            m->empty_items -= count;
        }
        for (; count; count--) {
            failed = run(m, body, end);
            if (failed) return failed;
        }
        if (behind && m->at != behind) return fail(m, op, KW_AVRO_BAD_BLOCK, m->at - behind);
    }
    if (behind && m->at != behind) return fail(m, op, KW_AVRO_BAD_BLOCK, m->at - behind);
    failed = kw_append_list(m->columns, op->column);
    return failed ? fail(m, op, failed, 0) : 0;
}

static int skip_blocks(Machine *m, const kw_avro_op *op) {
    const kw_avro_op *body = op + 1, *end = m->program->ops + op->a;
    const uint8_t *behind;
    int64_t count = 0;
    for (;;) {
        int failed = read_block(m, op, &count, &behind);
        if (failed) return failed;
        if (count == 0) return 0;
        if (behind) {
            m->at = behind;
            continue;
        }
        for (; op->b && count; count--) {  /* items without bytes need no skipping */
            failed = run(m, body, end);
            if (failed) return failed;
        }
    }
}

static int skip_counted(Machine *m, const kw_avro_op *op) {
    int64_t size = 0;
    int failed = read_length(m, op, &size);
    if (!failed) m->at += size;
    return failed;
}

static int run_default(Machine *m, const kw_avro_op *op) {
    const uint8_t *begin = m->begin, *at = m->at, *end = m->end;
    m->begin = m->at = m->program->constants + op->a;
    m->end = m->at + op->b;
    int failed = run(m, op + 1, m->program->ops + op->c);
    m->begin = begin;
    m->at = at;
    m->end = end;
    return failed;
}

static int append(Machine *m, const kw_avro_op *op) {
    int failed;
    switch (op->code) {
    case KW_AVRO_OP_NULL:
        failed = kw_columns_append_null(m->columns, op->column);
        return failed ? fail(m, op, failed, 0) : 0;
    case KW_AVRO_OP_BOOLEAN:
        return append_boolean(m, op);
    case KW_AVRO_OP_INT:
        return append_int(m, op);
    case KW_AVRO_OP_LONG:
        return append_long(m, op);
    case KW_AVRO_OP_FLOAT:
    case KW_AVRO_OP_DOUBLE:
    case KW_AVRO_OP_FLOAT_TO_DOUBLE:
        return append_real(m, op);
    case KW_AVRO_OP_TO_FLOAT:
    case KW_AVRO_OP_TO_DOUBLE:
        return append_promoted(m, op);
    case KW_AVRO_OP_BYTES:
    case KW_AVRO_OP_STRING:
        return append_counted(m, op);
    case KW_AVRO_OP_FIXED:
        failed = need(m, op, op->b);
        if (!failed) failed = append_fixed(m, op, m->at, (size_t)op->b);
        if (!failed) m->at += op->b;
        return failed;
    case KW_AVRO_OP_DECIMAL:
        return append_decimal(m, op);
    case KW_AVRO_OP_ENUM:
    case KW_AVRO_OP_ENUM_TEXT:
        return append_enum(m, op);
    default:
        return append_struct(m, op);
    }
}

static int run(Machine *m, const kw_avro_op *op, const kw_avro_op *end) {
    int64_t number = 0;
    int failed;
    while (op < end) {
        switch (op->code) {
        case KW_AVRO_OP_UNION:
            failed = read_long(m, op, &number);
            if (failed) return failed;
            if (number < 0 || number >= op->b) return fail(m, op, KW_AVRO_BAD_UNION, number);
            op = m->program->ops + m->program->tables[op->a + number];
            continue;
        case KW_AVRO_OP_JUMP:
            op = m->program->ops + op->a;
            continue;
        case KW_AVRO_OP_BLOCKS:
        case KW_AVRO_OP_SKIP_BLOCKS:
            failed = op->code == KW_AVRO_OP_BLOCKS ? append_blocks(m, op) : skip_blocks(m, op);
            if (failed) return failed;
            op = m->program->ops + op->a;
            continue;
        case KW_AVRO_OP_DEFAULT:
            failed = run_default(m, op);
            if (failed) return failed;
            op = m->program->ops + op->c;
            continue;
        case KW_AVRO_OP_FAIL:
            return fail(m, op, KW_AVRO_BAD_BRANCH, 0);
        case KW_AVRO_OP_SKIP_VARINT:
            failed = read_long(m, op, &number);
            break;
        case KW_AVRO_OP_SKIP_FIXED:
            failed = need(m, op, op->b);
            if (!failed) m->at += op->b;
            break;
        case KW_AVRO_OP_SKIP_BYTES:
            failed = skip_counted(m, op);
            break;
        default:
            failed = append(m, op);
        }
        if (failed) return failed;
        op++;
    }
    return 0;
}

int kw_avro_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                   int64_t max_empty_items, kw_failure *failure) {
    const kw_avro_program *operations = program;
    Machine m = {operations, columns, data, data, data + size, max_empty_items, failure};
    (void)scratch;
    int failed = run(&m, operations->ops, operations->ops + operations->count);
    if (!failed && m.at != m.end) {
        failure->code = failed = KW_AVRO_BAD_TRAILING;
        failure->where = 0;
        failure->at = m.at - m.begin;
        failure->detail = m.end - m.at;
    }
    return failed;
}
