# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c
"""Buffers of columns: made, grown, shrunk, shared, released; `_columns.pxd` is the contract.

Belongs here: the parts of columns and their memory. Does not: the wire format, and Arrow's structs.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport KW_BUF_LARGE, kw_buf, kw_buf_new, kw_buf_ref, kw_buf_unref, process_pool
from kafwire.records._codec_status cimport SLACK


cdef enum:
    OVERHEAD = 320  # memory of a small buffer besides its capacity


# --- all columns ----------------------------------------------------------------------------------------------------

cdef void columns_init(Columns *columns) noexcept nogil:
    memset(columns, 0, sizeof(Columns))
    columns.base_offset = -1
    columns.next_offset = -1
    columns.timestamp_type_all = -1


cdef void bytes_drop(Bytes *column) noexcept nogil:
    kw_buf_unref(column.offsets)
    kw_buf_unref(column.data)
    kw_buf_unref(column.validity)


cdef void columns_clear(Columns *columns) noexcept nogil:
    kw_buf_unref(columns.offset)
    kw_buf_unref(columns.timestamp)
    kw_buf_unref(columns.timestamp_validity)
    kw_buf_unref(columns.timestamp_type)
    kw_buf_unref(columns.header_offsets)
    kw_buf_unref(columns.scratch)
    bytes_drop(&columns.key)
    bytes_drop(&columns.value)
    bytes_drop(&columns.header_key)
    bytes_drop(&columns.header_value)
    columns_init(columns)


cdef void ref(kw_buf *buf) noexcept nogil:
    if buf is not NULL:
        kw_buf_ref(buf)


cdef void bytes_ref(const Bytes *column) noexcept nogil:
    ref(column.offsets)
    ref(column.data)
    ref(column.validity)


cdef void columns_share(const Columns *columns, Columns *out) noexcept nogil:
    memcpy(out, columns, sizeof(Columns))
    out.scratch = NULL
    ref(out.offset)
    ref(out.timestamp)
    ref(out.timestamp_validity)
    ref(out.timestamp_type)
    ref(out.header_offsets)
    bytes_ref(&out.key)
    bytes_ref(&out.value)
    bytes_ref(&out.header_key)
    bytes_ref(&out.header_value)


cdef void columns_split(Columns *columns, int64_t rows, Columns *rest) noexcept nogil:
    columns_share(columns, rest)
    if not columns.total:
        columns.total = rest.total = columns.length
    rest.first = columns.first + rows
    rest.length = columns.length - rows
    columns.length = rows
    columns.next_offset = rest.base_offset = (<const int64_t *>columns.offset.data)[rest.first - 1] + 1


# --- memory ---------------------------------------------------------------------------------------------------------

cdef size_t held(const kw_buf *buf) noexcept nogil:
    if buf is NULL:
        return 0
    return OVERHEAD + (buf.capacity if buf.capacity <= KW_BUF_LARGE else min(buf.capacity, buf.size + 65536))


cdef size_t bytes_held(const Bytes *column) noexcept nogil:
    return held(column.offsets) + held(column.data) + held(column.validity)


cdef size_t columns_bytes(const Columns *columns) noexcept nogil:
    return (held(columns.offset) + held(columns.timestamp) + held(columns.timestamp_validity)
            + held(columns.timestamp_type) + held(columns.header_offsets) + held(columns.scratch)
            + bytes_held(&columns.key) + bytes_held(&columns.value)
            + bytes_held(&columns.header_key) + bytes_held(&columns.header_value))


cdef size_t row_cost(const Columns *c) noexcept nogil:
    cdef size_t cost = 2  # bitmaps, and the timestamp type
    if c.columns & COLUMN_OFFSET:
        cost += 8
    if c.columns & COLUMN_TIMESTAMP:
        cost += 8
    if c.columns & COLUMN_KEY:
        cost += 4
    if c.columns & COLUMN_VALUE:
        cost += 4
    if c.columns & COLUMN_HEADERS:
        cost += 4
    return cost


cdef size_t content_cost(const Columns *c) noexcept nogil:
    # Arrow gets a copy of header keys that are not UTF-8, up to three times as long.
    cdef size_t cost = c.key.used + c.value.used + c.header_key.used + c.header_value.used
    cost += HEADER_COST * c.header_count
    if c.header_key_not_utf8:
        cost += 3 * c.header_key.used + 4 * c.header_count
    return cost


cdef void shrink(kw_buf **buf, size_t used) noexcept nogil:
    """Move the content of a mostly empty large buffer to a smaller one; keep it if memory is lacking."""
    cdef kw_buf *smaller
    if buf[0] is NULL:
        return
    buf[0].size = used
    if buf[0].capacity <= 65536 or used + SLACK > buf[0].capacity // 4:
        return
    smaller = kw_buf_new(process_pool(), used + SLACK)
    if smaller is not NULL:
        memcpy(smaller.data, buf[0].data, used)
        smaller.size = used
        kw_buf_unref(buf[0])
        buf[0] = smaller


cdef void bytes_shrink(Bytes *column, int64_t rows) noexcept nogil:
    shrink(&column.offsets, 4 * (rows + 1))
    shrink(&column.data, column.used)
    shrink(&column.validity, (rows + 7) // 8)


cdef void columns_finish(Columns *columns) noexcept nogil:
    kw_buf_unref(columns.scratch)
    columns.scratch = NULL
    shrink(&columns.offset, 8 * columns.length)
    shrink(&columns.timestamp, 8 * columns.length)
    shrink(&columns.timestamp_validity, (columns.length + 7) // 8)
    shrink(&columns.timestamp_type, columns.length)
    shrink(&columns.header_offsets, 4 * (columns.length + 1))
    bytes_shrink(&columns.key, columns.length)
    bytes_shrink(&columns.value, columns.length)
    bytes_shrink(&columns.header_key, columns.header_count)
    bytes_shrink(&columns.header_value, columns.header_count)


# --- a batch's rows -------------------------------------------------------------------------------------------------

cdef int reserve_rows(Columns *c, int64_t rows, int64_t expected) noexcept nogil:
    cdef int64_t wanted = c.length + rows, old = c.length
    cdef bint fresh
    if wanted <= c.capacity:
        return 0
    wanted = max(wanted, max(expected, 2 * c.capacity))
    if c.columns & COLUMN_OFFSET and grow(&c.offset, 8 * old, 8 * wanted) != 0:
        return -1
    if c.columns & COLUMN_TIMESTAMP and grow(&c.timestamp, 8 * old, 8 * wanted) != 0:
        return -1
    if c.timestamp_validity is not NULL and grow_validity(&c.timestamp_validity, old, wanted) != 0:
        return -1
    if c.timestamp_type is not NULL and grow(&c.timestamp_type, old, wanted) != 0:
        return -1
    if c.columns & COLUMN_KEY and grow_bytes(&c.key, old, wanted) != 0:
        return -1
    if c.columns & COLUMN_KEY and c.key.data is NULL and grow(&c.key.data, 0, 8 * wanted) != 0:
        return -1
    if c.columns & COLUMN_VALUE and grow_bytes(&c.value, old, wanted) != 0:
        return -1
    if c.columns & COLUMN_HEADERS:
        fresh = c.header_offsets is NULL
        if grow(&c.header_offsets, 4 * (old + 1), 4 * (wanted + 1)) != 0:
            return -1
        if fresh:
            (<int32_t *>c.header_offsets.data)[0] = 0
    c.capacity = wanted
    return 0


cdef int set_timestamp_type(Columns *c, int8_t kind, int64_t rows) noexcept nogil:
    if c.length == 0 or c.timestamp_type_all == -1:
        c.timestamp_type_all = kind
    if c.timestamp_type is NULL:
        if kind == c.timestamp_type_all:
            return 0
        if grow(&c.timestamp_type, 0, c.capacity) != 0:
            return -1
        memset(c.timestamp_type.data, c.timestamp_type_all, c.length)
    memset(c.timestamp_type.data + c.length, kind, rows)
    return 0


cdef void restore_bits(kw_buf *bitmap, int64_t start, int64_t stop) noexcept nogil:
    cdef int64_t row
    if bitmap is not NULL:
        for row in range(start, stop):
            bitmap.data[row >> 3] |= <uint8_t>(1 << (row & 7))


cdef void roll_back(Columns *c, const Columns *before, int64_t reached) noexcept nogil:
    restore_bits(c.key.validity, before.length, reached + 1)
    restore_bits(c.value.validity, before.length, reached + 1)
    restore_bits(c.timestamp_validity, before.length, reached + 1)
    restore_bits(c.header_value.validity, before.header_count, c.header_capacity)
    c.length = before.length
    c.key.used = before.key.used
    c.key.nulls = before.key.nulls
    c.value.used = before.value.used
    c.value.nulls = before.value.nulls
    c.timestamp_nulls = before.timestamp_nulls
    c.header_count = before.header_count
    c.header_key.used = before.header_key.used
    c.header_value.used = before.header_value.used
    c.header_value.nulls = before.header_value.nulls
    c.header_key_not_utf8 = before.header_key_not_utf8
