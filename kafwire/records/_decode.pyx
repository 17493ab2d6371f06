# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c
"""Decodes the records of one batch to rows of columns; `_decode.pxd` is the contract.

Belongs here: the layout of a record (KIP-98), checks, and the loop over records, which calls no other compiled module.
Does not: Python objects, batches and their headers, compression.

The checks: a length is compared with the available bytes before it is used, and a record must fill its own length
exactly. So all reads below are inside the payload, and all writes inside buffers that were reserved for its maximum.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafwire.memory._buffer cimport (
    DISCARD_STEP, kw_be16, kw_buf_discard, kw_copy32, kw_is_utf8, kw_varint, kw_varlong, move_out,
)
from kafwire.records._columns cimport (
    COLUMN_HEADERS, COLUMN_KEY, COLUMN_OFFSET, COLUMN_TIMESTAMP, COLUMN_TIMESTAMP_TYPE, COLUMN_VALUE, Bytes, Columns,
    grow, mark_null, reserve_headers, roll_back,
)
from kafwire.records._codec_status cimport SLACK


# --- bytes of keys, values and headers ------------------------------------------------------------------------------

cdef const uint8_t *give_back(Payload *in_, const uint8_t *p) noexcept nogil:
    """Return the memory before p to the system; return where to do so next."""
    kw_buf_discard(in_.scratch, in_.discarded - in_.scratch.data, p - in_.scratch.data)
    in_.discarded = p
    return p + DISCARD_STEP


cdef inline void copy_exactly(uint8_t *to, const uint8_t *source, size_t size, const Payload *in_) noexcept nogil:
    if size > DISCARD_STEP and in_.scratch is not NULL:
        move_out(to, source, size, in_.scratch)
    else:
        memcpy(to, source, size)


cdef inline void copy(uint8_t *to, const uint8_t *source, size_t size, const uint8_t *readable) noexcept nogil:
    """Copy in 32-byte steps, up to 31 bytes too many: for short values a call of memcpy costs more than the copy.

    `to` has slack after it; `source` may be read up to `readable`.
    """
    cdef size_t i = 32
    if size > 512 or <size_t>(readable - source) < size + 32:
        memcpy(to, source, size)
        return
    kw_copy32(to, source)
    while i < size:
        kw_copy32(to + i, source + i)
        i += 32


cdef inline int64_t append_bytes(Bytes *column, uint8_t *data, int32_t *offsets, int64_t used, int64_t row,
                                 int64_t capacity, const uint8_t *source, int32_t size, const uint8_t *readable,
                                 const Payload *in_) noexcept nogil:
    """Append a key or value (size -1: null) after the `used` bytes of `data`.

    Returns the new number of used bytes, or -1 for no memory.
    """
    if size > 0:
        if size > DISCARD_STEP:
            copy_exactly(data + used, source, size, in_)
        else:
            copy(data + used, source, size, readable)
        used += size
    elif size < 0:
        if mark_null(&column.validity, row, capacity) != 0:
            return -1
        column.nulls += 1
    offsets[row + 1] = <int32_t>used
    return used


cdef const uint8_t *append_headers(Columns *c, const uint8_t *p, const uint8_t *stop, int32_t count, bint keep,
                                   Payload *in_, const char **reason) noexcept nogil:
    """Check `count` headers, and append them if `keep`. Returns the byte after them, or NULL.

    Reason NULL: no memory.
    """
    cdef int32_t size, i
    cdef int64_t at = c.header_count
    if count < 0 or count > (stop - p) // 2:
        reason[0] = "a header count that the record cannot hold"
        return NULL
    if keep and at + count > in_.most_headers:
        reason[0] = "the headers take more memory than max_decompressed allows"
        in_.too_large = True
        return NULL
    if keep and reserve_headers(c, count, stop - p) != 0:
        return NULL
    for i in range(count):
        p = kw_varint(p, stop, &size)
        if p is NULL or size < 0 or size > stop - p:
            reason[0] = "a header key that is null or longer than the record"
            return NULL
        if keep:
            if not c.header_key_not_utf8 and not kw_is_utf8(p, size):
                c.header_key_not_utf8 = True
            copy_exactly(c.header_key.data.data + c.header_key.used, p, size, in_)
            c.header_key.used += size
            (<int32_t *>c.header_key.offsets.data)[at + i + 1] = <int32_t>c.header_key.used
        p = kw_varint(p + size, stop, &size)
        if p is NULL or size < -1 or size > stop - p:
            reason[0] = "a header value longer than the record"
            return NULL
        if keep:
            if size < 0:
                if mark_null(&c.header_value.validity, at + i, c.header_capacity) != 0:
                    return NULL
                c.header_value.nulls += 1
            else:
                copy_exactly(c.header_value.data.data + c.header_value.used, p, size, in_)
                c.header_value.used += size
            (<int32_t *>c.header_value.offsets.data)[at + i + 1] = <int32_t>c.header_value.used
        if size > 0:
            p += size
    if keep:
        c.header_count = at + count
    return p


# --- records --------------------------------------------------------------------------------------------------------

# A record in the payload. Size -1 is null.
cdef struct WireRecord:
    const uint8_t *stop  # the byte after it
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t *key
    int32_t key_size
    const uint8_t *value
    int32_t value_size
    int32_t header_count


cdef inline const uint8_t *read_record(const uint8_t *p, const uint8_t *end, int32_t last_delta, int32_t highest_delta,
                                       WireRecord *out, const char **reason) noexcept nogil:
    """Parse the record at p, up to its headers; return the first byte of these, or NULL with the reason.

    Its offset delta must be above `last_delta`, that of the record before it, and at most `highest_delta`.
    """
    cdef int32_t length = 0
    p = kw_varint(p, end, &length)
    if p is NULL or length < SMALLEST_RECORD - 1 or length > end - p:
        reason[0] = "a record length that is not a varint, too small, or beyond the batch"
        return NULL
    out.stop = p + length
    p = kw_varlong(p + 1, out.stop, &out.timestamp_delta)  # after the attributes, which are unused
    if p is NULL:
        reason[0] = "a timestamp delta that is not a varint"
        return NULL
    p = kw_varint(p, out.stop, &out.offset_delta)
    if p is NULL or out.offset_delta <= last_delta or out.offset_delta > highest_delta:
        reason[0] = "an offset delta that is not a varint, does not rise, or is beyond the batch's last offset"
        return NULL
    out.key = p = kw_varint(p, out.stop, &out.key_size)
    if p is NULL or out.key_size < -1 or out.key_size > out.stop - p:
        reason[0] = "a key length that is not a varint or beyond the record"
        return NULL
    if out.key_size > 0:
        p += out.key_size
    out.value = p = kw_varint(p, out.stop, &out.value_size)
    if p is NULL or out.value_size < -1 or out.value_size > out.stop - p:
        reason[0] = "a value length that is not a varint or beyond the record"
        return NULL
    if out.value_size > 0:
        p += out.value_size
    p = kw_varint(p, out.stop, &out.header_count)
    if p is NULL:
        reason[0] = "a header count that is not a varint"
    return p


cdef inline int set_timestamp(Columns *c, int64_t *column, int64_t row, int64_t timestamp) noexcept nogil:
    """Set a row's timestamp. 0, or -1 for no memory."""
    if column is not NULL:
        column[row] = timestamp
    if timestamp == -1:
        if mark_null(&c.timestamp_validity, row, c.capacity) != 0:
            return -1
        c.timestamp_nulls += 1
    return 0


cdef inline int reserve_key(Columns *c, int64_t used, int32_t size) noexcept nogil:
    """Make room for a key. 0, or -1 for no memory."""
    if size > 0 and <size_t>(used + size) + SLACK > c.key.data.capacity:
        return grow(&c.key.data, used, used + size)
    return 0


cdef int append_records(Columns *c, Payload *in_, const RowFilter *filter) noexcept nogil:
    # Fields of Columns and Payload used in the loop are kept in registers: any of its writes could alias them.
    cdef Columns before
    cdef WireRecord record
    cdef const uint8_t *p = in_.start
    cdef const uint8_t *end = in_.end
    cdef const uint8_t *readable = in_.readable
    cdef const uint8_t *begin
    cdef const uint8_t *next_discard = NULL
    cdef const char *reason = NULL
    cdef int64_t row = c.length, value_used = c.value.used, key_used = c.key.used, capacity = c.capacity
    cdef int64_t base_offset = in_.base_offset, base_timestamp = in_.base_timestamp, log_append = in_.log_append
    cdef int64_t start = filter.start, limit = filter.end, offset, timestamp
    cdef int32_t highest_delta = in_.last_offset_delta, last_delta = -1, i
    cdef bint keeps = not filter.none  # without a column too: rows of topic and partition are counted
    cdef uint32_t mask = c.columns if keeps else 0
    cdef int64_t *offset_column = <int64_t *>c.offset.data if mask & COLUMN_OFFSET else NULL
    cdef int64_t *timestamp_column = <int64_t *>c.timestamp.data if mask & COLUMN_TIMESTAMP else NULL
    cdef int32_t *key_offsets = <int32_t *>c.key.offsets.data if mask & COLUMN_KEY else NULL
    cdef int32_t *value_offsets = <int32_t *>c.value.offsets.data if mask & COLUMN_VALUE else NULL
    cdef uint8_t *value_data = c.value.data.data if mask & COLUMN_VALUE else NULL
    cdef int32_t *header_offsets = <int32_t *>c.header_offsets.data if mask & COLUMN_HEADERS else NULL
    cdef bint want_timestamp = mask & (COLUMN_TIMESTAMP | COLUMN_TIMESTAMP_TYPE) != 0
    cdef bint is_log_append = in_.is_log_append, by_timestamp = filter.by_timestamp, keep
    memcpy(&before, c, sizeof(Columns))
    in_.control_type = -1
    next_discard -= 1  # never
    if in_.scratch is not NULL:
        in_.discarded = p
        next_discard = p + DISCARD_STEP
    for i in range(in_.count):
        if p >= next_discard:
            next_discard = give_back(in_, p)
        begin = p
        p = read_record(p, end, last_delta, highest_delta, &record, &reason)
        if p is NULL:
            break
        last_delta = record.offset_delta
        offset = base_offset + record.offset_delta
        timestamp = log_append if is_log_append else \
            <int64_t>(<uint64_t>base_timestamp + <uint64_t>record.timestamp_delta)
        keep = keeps and offset >= start and offset < limit
        if by_timestamp and keep:
            keep = timestamp >= filter.from_ms and timestamp < filter.to_ms and timestamp != -1
        if record.header_count != 0:
            p = append_headers(c, p, record.stop, record.header_count, keep and header_offsets is not NULL, in_,
                               &reason)
            if p is NULL:
                break
        if p != record.stop:
            reason = "bytes left over in a record"
            break
        if i == 0 and record.key_size >= 4:
            in_.control_type = <uint16_t>kw_be16(record.key + 2)
        if not keep:
            continue
        if offset_column is not NULL:
            offset_column[row] = offset
        if want_timestamp and set_timestamp(c, timestamp_column, row, timestamp) != 0:
            break
        if value_offsets is not NULL:
            value_used = append_bytes(&c.value, value_data, value_offsets, value_used, row, capacity, record.value,
                                      record.value_size, readable, in_)
            if value_used < 0:
                break
        if key_offsets is not NULL:
            if reserve_key(c, key_used, record.key_size) != 0:
                break
            key_used = append_bytes(&c.key, c.key.data.data, key_offsets, key_used, row, capacity, record.key,
                                    record.key_size, readable, in_)
            if key_used < 0:
                break
        if header_offsets is not NULL:
            header_offsets[row + 1] = <int32_t>c.header_count
        row += 1
    else:
        if p == end:
            c.length = row
            c.value.used = value_used
            c.key.used = key_used
            return 0
        begin = p
        i = in_.count
        reason = "bytes left over after the last record"
    roll_back(c, &before, row)
    in_.reason = reason
    in_.at = begin
    in_.record = i
    return -1
