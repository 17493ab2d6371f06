#include "kafwire/protobuf/native/encode.h"

#include <string.h>

enum { VARINT, FIXED64, COUNTED, FIXED32 = 5 };
enum { SMALL = 32, NANOS = 1000000000, MOST_DIGITS = 11 };

typedef struct {
    const kw_pb_writer *writer;
    const kw_view *views;
    kw_output *out;
    kw_wrong *wrong;
} Machine;

static int fail(Machine *m, const kw_pb_write *op, int code, int64_t detail) {
    m->wrong->code = code;
    m->wrong->where = op->where;
    m->wrong->detail = detail;
    return code;
}

static inline int room(Machine *m, const kw_pb_write *op, int64_t size) {
    int failed = kw_output_room(m->out, size);
    return failed ? fail(m, op, failed, 0) : 0;
}

static inline void put(Machine *m, uint64_t value) { m->out->at = kw_put_uvarint(m->out->at, value); }

/* --- lengths that follow from their content ----------------------------------------------------------------------- */

static inline int64_t place_of(const Machine *m) { return m->out->at - m->out->data->data; }

/* Begins a part with a length before it: one byte is left for it. */
static inline int64_t open_part(Machine *m) { return ++m->out->at - m->out->data->data; }

static int close_part(Machine *m, const kw_pb_write *op, int64_t start) {
    uint64_t size = (uint64_t)(place_of(m) - start);
    int extra = 0;
    for (uint64_t left = size >> 7; left; left >>= 7) extra++;
    if (extra) {
        int failed = room(m, op, SMALL);
        if (failed) return failed;
        uint8_t *content = m->out->data->data + start;
        memmove(content + extra, content, size);
        m->out->at += extra;
    }
    kw_put_uvarint(m->out->data->data + start - 1, size);
    return 0;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static int read_number(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at, int64_t *value) {
    int is_large = 0;
    *value = kw_view_number(view, op->form, at, &is_large);
    int fits = op->range == KW_PB_UINT64_RANGE   ? is_large || *value >= 0
               : op->range == KW_PB_INT32_RANGE  ? !is_large && *value == (int32_t)*value
               : op->range == KW_PB_UINT32_RANGE ? !is_large && *value >= 0 && *value <= UINT32_MAX
                                                 : !is_large;
    return fits ? 0 : fail(m, op, KW_WRONG_RANGE, *value);
}

/* Digits without a symbol, as the decoder writes an open enum's number. */
static int parse_digits(const uint8_t *text, int64_t size, int64_t *number) {
    int64_t i = size > 1 && text[0] == '-', value = 0;
    if (!size || size > MOST_DIGITS) return -1;
    for (; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return -1;
        value = 10 * value + text[i] - '0';
    }
    *number = text[0] == '-' ? -value : value;
    return *number == (int32_t)*number ? 0 : -1;
}

static int read_symbol(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at, int64_t *number) {
    int64_t size, low = 0, high = op->b;
    const uint8_t *text = kw_view_bytes(view, op->form, at, &size);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const int32_t *symbol = m->writer->tables + op->a + 3 * middle;
        int64_t order = symbol[1] - size;
        if (!order && size) order = memcmp(m->writer->texts + symbol[0], text, (size_t)size);
        if (!order) {
            *number = symbol[2];
            return 0;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return op->c && !parse_digits(text, size, number) ? 0 : fail(m, op, KW_WRONG_SYMBOL, size);
}

static inline void put_tag(Machine *m, uint32_t tag) {
    if (tag) put(m, tag);
}

/* A number whose zero is all bits zero. `tag` 0: of a packed list. */
static int write_number(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at, uint32_t tag) {
    int64_t value = 0;
    int failed = 0, width = 0;
    float narrow;
    double wide;
    switch (op->code) {
    case KW_PB_WRITE_BOOL:
        value = view->data[at >> 3] >> (at & 7) & 1;
        break;
    case KW_PB_WRITE_FLOAT:
        value = ((const uint32_t *)view->data)[at];
        width = 4;
        break;
    case KW_PB_WRITE_DOUBLE:
        value = ((const int64_t *)view->data)[at];
        width = 8;
        break;
    case KW_PB_WRITE_WIDENED:
        narrow = ((const float *)view->data)[at];
        wide = narrow;
        memcpy(&value, &wide, 8);
        width = 8;
        break;
    case KW_PB_WRITE_SYMBOL:
        failed = read_symbol(m, op, view, at, &value);
        break;
    default:
        failed = read_number(m, op, view, at, &value);
        width = op->code == KW_PB_WRITE_FIXED32 ? 4 : op->code == KW_PB_WRITE_FIXED64 ? 8 : 0;
    }
    if (failed) return failed;
    if (!value && op->flags & KW_PB_SKIPS_ZERO) return 0;
    put_tag(m, tag);
    if (!width) {
        put(m, op->code == KW_PB_WRITE_ZIGZAG ? kw_zigzag(value) : (uint64_t)value);
        return 0;
    }
    uint64_t bits = KW_LITTLE(64, (uint64_t)value);
    uint32_t low = KW_LITTLE(32, (uint32_t)value);
    memcpy(m->out->at, width == 4 ? (const void *)&low : (const void *)&bits, (size_t)width);
    m->out->at += width;
    return 0;
}

static int write_bytes(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at, uint32_t tag) {
    int64_t size;
    const uint8_t *data = kw_view_bytes(view, op->form, at, &size);
    if (!size && op->flags & KW_PB_SKIPS_ZERO) return 0;
    int failed = room(m, op, size + SMALL);
    if (failed) return failed;
    put_tag(m, tag);
    put(m, (uint64_t)size);
    if (size) memcpy(m->out->at, data, (size_t)size);
    m->out->at += size;
    return 0;
}

/* Seconds towards the past, so that nanos are not negative; of a duration both have one sign. */
static int write_time(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at, uint32_t tag) {
    int64_t value = 0;
    int failed = read_number(m, op, view, at, &value);
    if (failed) return failed;
    int64_t seconds = value / op->a, rest = value % op->a;
    if (rest < 0 && !op->c) {
        seconds--;
        rest += op->a;
    }
    int64_t nanos = rest * (NANOS / op->a);
    put_tag(m, tag);
    int64_t start = open_part(m);
    if (seconds) {
        put(m, 1 << 3 | VARINT);
        put(m, (uint64_t)seconds);
    }
    if (nanos) {
        put(m, 2 << 3 | VARINT);
        put(m, (uint64_t)nanos);
    }
    return close_part(m, op, start);
}

/* --- messages and lists ------------------------------------------------------------------------------------------- */

static int write_fields(Machine *m, const kw_pb_write *ops, const kw_pb_write *end, int64_t row);

/* Sets *view and *at of a field's value. 1: there is one, 0: it is null, -1: its index is wrong. */
static inline int find(const Machine *m, const kw_pb_write *op, int64_t row, const kw_view **view, int64_t *at) {
    *view = &m->views[op->view];
    return kw_view_find(m->views, op->view, op->index, op->index_form, row, at);
}

static int write_value(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t row, int64_t at, uint32_t tag) {
    int failed = room(m, op, SMALL);
    if (failed) return failed;
    switch (op->code) {
    case KW_PB_WRITE_BYTES:
        return write_bytes(m, op, view, at, tag);
    case KW_PB_WRITE_TIME:
        return write_time(m, op, view, at, tag);
    case KW_PB_WRITE_MESSAGE: {
        put_tag(m, tag);
        int64_t start = open_part(m);
        failed = write_fields(m, m->writer->ops + op->first, m->writer->ops + op->end, row);
        return failed ? failed : close_part(m, op, start);
    }
    default:
        return write_number(m, op, view, at, tag);
    }
}

static int write_list(Machine *m, const kw_pb_write *op, const kw_view *view, int64_t at) {
    const kw_pb_write *item = m->writer->ops + op->first;
    int64_t first, last, start = 0;
    if (op->form == KW_FIXED_SIZE) {
        first = at * op->a;
        last = first + op->a;
    } else {
        first = kw_view_offset(view, op->form, at);
        last = kw_view_offset(view, op->form, at + 1);
    }
    if (first == last) return 0;
    if (op->code == KW_PB_WRITE_PACKED) {
        int failed = room(m, op, SMALL);
        if (failed) return failed;
        put(m, op->tag);
        start = open_part(m);
    }
    for (; first < last; first++) {
        const kw_view *items;
        int64_t place = 0;
        int there = find(m, item, first, &items, &place);
        if (there <= 0) return fail(m, item, there ? KW_WRONG_INDEX : KW_WRONG_NULL, 0);
        int failed = write_value(m, item, items, first, place, op->code == KW_PB_WRITE_PACKED ? 0 : op->tag);
        if (failed) return failed;
    }
    return op->code == KW_PB_WRITE_PACKED ? close_part(m, op, start) : 0;
}

/* Is another member of the oneof set? Each is compared with those before it. */
static int has_other(const Machine *m, const kw_pb_write *op, int64_t row) {
    while (op->before >= 0) {
        const kw_view *view;
        int64_t at = 0;
        op = m->writer->ops + op->before;
        if (find(m, op, row, &view, &at)) return 1;
    }
    return 0;
}

static int write_fields(Machine *m, const kw_pb_write *op, const kw_pb_write *end, int64_t row) {
    for (; op < end; op++) {
        const kw_view *view;
        int64_t at = 0;
        int failed, there = find(m, op, row, &view, &at);
        if (there < 0) return fail(m, op, KW_WRONG_INDEX, 0);
        if (!there) {
            if (op->flags & KW_PB_REQUIRED) return fail(m, op, KW_WRONG_NULL, 0);
            continue;
        }
        if (op->before >= 0 && has_other(m, op, row)) return fail(m, op, KW_PB_WRONG_MEMBERS, 0);
        if (op->code == KW_PB_WRITE_LIST || op->code == KW_PB_WRITE_PACKED)
            failed = write_list(m, op, view, at);
        else
            failed = write_value(m, op, view, row, at, op->tag);
        if (failed) return failed;
    }
    return 0;
}

int kw_pb_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong) {
    const kw_pb_writer *writer = program;
    Machine m = {writer, views, out, wrong};
    return write_fields(&m, writer->ops, writer->ops + writer->count, row);
}
