# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/records/native/crc32c.c
"""Record batches to columns; `_codec.pxd` is the contract.

May hold: the wire format of batches and records (KIP-98 and the message formats before it), checks, and column buffers.
May not hold: Python objects per record, sockets, what a fetch or a consumer wants to do with the rows.

How the checks work: a length is compared with the bytes that are there before anything is done with it, the CRC is
verified before decompression, and a record must fill its own length exactly. So all reads below lie inside the
batch, and all writes inside buffers that were reserved from what the batch can hold at most.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport (
    DISCARD_STEP, kw_be16, kw_be64, kw_buf, kw_buf_discard, kw_buf_new, kw_buf_ref, kw_buf_reserve, kw_buf_unref,
    kw_is_utf8, kw_pool_budget, kw_varint, kw_varlong, move_out, process_pool,
)
from kafwire.records._compress cimport (
    CODEC_NONE, CODEC_NO_MEMORY, CODEC_OK, CODEC_OVER_BUDGET, CODEC_TOO_LARGE, CODEC_UNKNOWN, CODEC_UNRESOLVED,
    CODEC_ZSTD, SLACK, decompress,
)
from kafwire.records._message_set cimport legacy_records

from kafwire.errors import ProtocolError


cdef extern from "kafwire/records/native/crc32c.h" nogil:
    uint32_t kw_crc32c(uint32_t crc, const uint8_t *data, size_t size)
    int kw_crc32c_count()
    const char *kw_crc32c_name(int i)
    uint32_t kw_crc32c_with(int i, uint32_t crc, const uint8_t *data, size_t size)


cdef enum:
    SMALLEST_RECORD = 7  # length, attributes, timestamp, offset, key length, value length, header count: a byte each
    LOG_OVERHEAD = 12  # base offset and length, which `length` does not count
    CRC_AT = 17
    CRC_FROM = 21
    LARGEST_COLUMN = 0x7FFFFFFF - SLACK  # int32 offsets
    STOP_CHUNK_FULL_INSIDE = -1  # answer of decode_batch: the columns take no more, the batch left no trace
    LARGE = 16777216  # capacity above which the pool maps a buffer, so that what was not touched takes no memory
    HEADER_COST = 9  # bytes of columns for each header, without key and value
    OVERHEAD = 320  # what a small buffer costs beside its capacity


cdef uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) noexcept nogil:
    return kw_crc32c(crc, data, size)


cdef inline void copy(uint8_t *to, const uint8_t *source, size_t size, const uint8_t *readable) noexcept nogil:
    """Copy in 32-byte steps, up to 31 bytes too many: for short values a call of memcpy costs more than the copying.
    `to` has slack behind it; `source` may be read up to `readable`."""
    cdef size_t i = 32
    if size > 512 or <size_t>(readable - source) < size + 32:
        memcpy(to, source, size)
        return
    memcpy(to, source, 32)
    while i < size:
        memcpy(to + i, source + i, 32)
        i += 32


# --- columns --------------------------------------------------------------------------------------------------------

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


cdef size_t held(const kw_buf *buf) noexcept nogil:
    if buf is NULL:
        return 0
    return OVERHEAD + (buf.capacity if buf.capacity <= LARGE else min(buf.capacity, buf.size + 65536))


cdef size_t bytes_held(const Bytes *column) noexcept nogil:
    return held(column.offsets) + held(column.data) + held(column.validity)


cdef size_t columns_bytes(const Columns *columns) noexcept nogil:
    return (held(columns.offset) + held(columns.timestamp) + held(columns.timestamp_validity)
            + held(columns.timestamp_type) + held(columns.header_offsets) + held(columns.scratch)
            + bytes_held(&columns.key) + bytes_held(&columns.value)
            + bytes_held(&columns.header_key) + bytes_held(&columns.header_value))


cdef size_t row_cost(const Columns *c, const DecodeSpec *spec) noexcept nogil:
    """Bytes of columns for each row, without those of keys, values and headers."""
    cdef size_t cost = 2 + spec.row_bytes  # bits, and the timestamp type
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
    """Bytes of keys, values and headers. Arrow gets a copy of header keys that are not UTF-8, up to thrice as long."""
    cdef size_t cost = c.key.used + c.value.used + c.header_key.used + c.header_value.used
    cost += HEADER_COST * c.header_count
    if c.header_key_not_utf8:
        cost += 3 * c.header_key.used + 4 * c.header_count
    return cost


cdef size_t space_for_columns(const DecodeSpec *spec) noexcept nogil:
    cdef size_t space = spec.max_decompressed + COLUMN_ROOM
    return space - min(space, spec.kept)


cdef void shrink(kw_buf **buf, size_t used) noexcept nogil:
    """Move content that fills little of a large buffer into a smaller one; keep it where there is no memory for
    that."""
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


cdef int grow(kw_buf **buf, size_t used, size_t wanted) noexcept nogil:
    """Room for `wanted` bytes and the slack; keeps the first `used`. 0, or -1 for no memory."""
    if buf[0] is NULL:
        buf[0] = kw_buf_new(process_pool(), wanted + SLACK)
        return -1 if buf[0] is NULL else 0
    buf[0].size = used
    return kw_buf_reserve(buf, wanted + SLACK)


cdef int grow_validity(kw_buf **bitmap, int64_t old_rows, int64_t rows) noexcept nogil:
    """Bits are set in advance, so that only nulls touch the bitmap."""
    cdef size_t used = (old_rows + 7) // 8
    if grow(bitmap, used, (rows + 7) // 8) != 0:
        return -1
    memset(bitmap[0].data + used, 0xFF, bitmap[0].capacity - used)
    return 0


cdef int grow_bytes(Bytes *column, int64_t old_rows, int64_t rows) noexcept nogil:
    cdef bint fresh = column.offsets is NULL
    if grow(&column.offsets, 4 * (old_rows + 1), 4 * (rows + 1)) != 0:
        return -1
    if fresh:
        (<int32_t *>column.offsets.data)[0] = 0
    if column.validity is not NULL:
        return grow_validity(&column.validity, old_rows, rows)
    return 0


cdef inline int mark_null(kw_buf **bitmap, int64_t row, int64_t capacity) noexcept nogil:
    if bitmap[0] is NULL and grow_validity(bitmap, 0, capacity) != 0:
        return -1
    bitmap[0].data[row >> 3] &= <uint8_t>~(1 << (row & 7))
    return 0


cdef int reserve_rows(Columns *c, int64_t rows, int64_t expected) noexcept nogil:
    """Room for `rows` more rows in every column asked for; the first time for `expected`, if that is more."""
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


cdef int reserve_headers(Columns *c, int64_t count, size_t content) noexcept nogil:
    """Room for `count` more headers with together at most `content` bytes of keys and values."""
    cdef int64_t wanted = c.header_count + count, old = c.header_count
    if wanted > c.header_capacity or c.header_key.offsets is NULL:
        wanted = max(wanted, 2 * c.header_capacity)
        if grow_bytes(&c.header_key, old, wanted) != 0 or grow_bytes(&c.header_value, old, wanted) != 0:
            return -1
        c.header_capacity = wanted
    if grow(&c.header_key.data, c.header_key.used, c.header_key.used + content) != 0:
        return -1
    return grow(&c.header_value.data, c.header_value.used, c.header_value.used + content)


cdef int set_timestamp_type(Columns *c, int8_t kind, int64_t rows) noexcept nogil:
    """The rows from c.length on have type `kind`. One value stands for all until two differ."""
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
    """Forget the rows of a batch that failed half-way, `reached` being the row it had got to."""
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


# --- records --------------------------------------------------------------------------------------------------------

# What the records of one batch are decoded with and what went wrong: kept apart from Columns so that the record loop
# can hold it in registers.
cdef struct Payload:
    const uint8_t *start
    const uint8_t *end
    const uint8_t *readable  # may be read (not believed) up to here
    int64_t base_offset
    int32_t last_offset_delta
    int32_t count
    int64_t base_timestamp
    int64_t log_append  # timestamp of every record, if is_log_append
    bint is_log_append
    kw_buf *scratch  # the large buffer that the bytes lie in, to be given back on the way; NULL: not this payload's
    const uint8_t *discarded  # up to here
    int64_t most_headers  # that `Columns` may come to
    # results
    const char *reason
    bint too_large
    const uint8_t *at
    int32_t record
    int32_t control_type  # of the first record's key, -1 if it is none


cdef const uint8_t *give_back(Payload *in_, const uint8_t *p) noexcept nogil:
    """Return what lies before p to the system; where to do so next."""
    kw_buf_discard(in_.scratch, in_.discarded - in_.scratch.data, p - in_.scratch.data)
    in_.discarded = p
    return p + DISCARD_STEP


cdef inline void copy_out(uint8_t *to, const uint8_t *source, size_t size, const Payload *in_) noexcept nogil:
    if size > DISCARD_STEP and in_.scratch is not NULL:
        move_out(to, source, size, in_.scratch)
    else:
        memcpy(to, source, size)


cdef const uint8_t *headers(Columns *c, const uint8_t *p, const uint8_t *stop, int32_t count, bint keep, Payload *in_,
                            const char **reason) noexcept nogil:
    """Check `count` headers, and append them if `keep`. The byte after them, or NULL; reason NULL: no memory."""
    cdef int32_t size, i
    cdef int64_t at = c.header_count
    if count < 0 or count > (stop - p) // 2:
        reason[0] = "a header count that the record cannot hold"
        return NULL
    if keep and at + count > in_.most_headers:
        reason[0] = "its headers take more memory than max_decompressed allows"
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
            copy_out(c.header_key.data.data + c.header_key.used, p, size, in_)
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
                copy_out(c.header_value.data.data + c.header_value.used, p, size, in_)
                c.header_value.used += size
            (<int32_t *>c.header_value.offsets.data)[at + i + 1] = <int32_t>c.header_value.used
        if size > 0:
            p += size
    if keep:
        c.header_count = at + count
    return p


cdef int append_records(Columns *c, Payload *in_, const DecodeSpec *spec, bint keep_any) noexcept nogil:
    """Decode the records of one batch and append those that `spec` keeps to `c`, or only check them with not
    `keep_any`. On a failure `c` is as it was before."""
    cdef Columns before
    cdef const uint8_t *p = in_.start
    cdef const uint8_t *end = in_.end
    cdef const uint8_t *stop
    cdef const uint8_t *begin
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value
    cdef int64_t row = c.length, timestamp = in_.log_append, delta = 0, offset, value_used = c.value.used
    cdef int64_t key_used = c.key.used
    cdef int64_t start = spec.start, limit = spec.end, base_timestamp = in_.base_timestamp
    cdef int32_t length = 0, offset_delta = 0, last_delta = -1, key_size = 0, value_size = 0, header_count = 0, i
    cdef uint32_t mask = c.columns if keep_any else 0
    cdef int64_t *offset_column = <int64_t *>c.offset.data if mask & COLUMN_OFFSET else NULL
    cdef int64_t *timestamp_column = <int64_t *>c.timestamp.data if mask & COLUMN_TIMESTAMP else NULL
    cdef int32_t *key_offsets = <int32_t *>c.key.offsets.data if mask & COLUMN_KEY else NULL
    cdef int32_t *value_offsets = <int32_t *>c.value.offsets.data if mask & COLUMN_VALUE else NULL
    cdef int32_t *header_offsets = <int32_t *>c.header_offsets.data if mask & COLUMN_HEADERS else NULL
    cdef uint8_t *value_data = c.value.data.data if mask & COLUMN_VALUE else NULL
    cdef bint want_timestamp = mask & (COLUMN_TIMESTAMP | COLUMN_TIMESTAMP_TYPE) != 0
    cdef bint is_log_append = in_.is_log_append, by_timestamp = spec.by_timestamp, keep
    cdef const uint8_t *readable = in_.readable
    cdef const uint8_t *next_discard = NULL
    cdef int64_t base_offset = in_.base_offset, capacity = c.capacity
    cdef int32_t last_offset_delta = in_.last_offset_delta
    cdef const char *reason = NULL
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
        p = kw_varint(p, end, &length)
        if p is NULL or length < SMALLEST_RECORD - 1 or length > end - p:
            reason = "a record length that is no varint, too small, or beyond the batch"
            break
        stop = p + length
        p = kw_varlong(p + 1, stop, &delta)  # after the attributes, which mean nothing
        if p is NULL:
            reason = "a timestamp delta that is no varint"
            break
        p = kw_varint(p, stop, &offset_delta)
        if p is NULL or offset_delta <= last_delta or offset_delta > last_offset_delta:
            reason = "an offset delta that is no varint, does not rise, or is beyond the batch's last offset"
            break
        last_delta = offset_delta
        key = p = kw_varint(p, stop, &key_size)
        if p is NULL or key_size < -1 or key_size > stop - p:
            reason = "a key length that is no varint or beyond the record"
            break
        if key_size > 0:
            p += key_size
        value = p = kw_varint(p, stop, &value_size)
        if p is NULL or value_size < -1 or value_size > stop - p:
            reason = "a value length that is no varint or beyond the record"
            break
        if value_size > 0:
            p += value_size
        p = kw_varint(p, stop, &header_count)
        if p is NULL:
            reason = "a header count that is no varint"
            break
        offset = base_offset + offset_delta
        keep = mask != 0 and offset >= start and offset < limit
        if by_timestamp and keep:
            if not is_log_append:
                timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>delta)
            keep = timestamp >= spec.from_ms and timestamp < spec.to_ms and timestamp != -1
        if header_count != 0:
            p = headers(c, p, stop, header_count, keep and header_offsets is not NULL, in_, &reason)
            if p is NULL:
                break
        if p != stop:
            reason = "bytes left over in a record"
            break
        if i == 0 and key_size >= 4:
            in_.control_type = <uint16_t>kw_be16(key + 2)
        if not keep:
            continue
        if offset_column is not NULL:
            offset_column[row] = offset
        if want_timestamp:
            if not is_log_append:
                timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>delta)
            if timestamp_column is not NULL:
                timestamp_column[row] = timestamp
            if timestamp == -1:
                if mark_null(&c.timestamp_validity, row, capacity) != 0:
                    p = NULL
                    break
                c.timestamp_nulls += 1
        if value_offsets is not NULL:
            if value_size > 0:
                if value_size > DISCARD_STEP:
                    copy_out(value_data + value_used, value, value_size, in_)
                else:
                    copy(value_data + value_used, value, value_size, readable)
                value_used += value_size
            elif value_size < 0:
                if mark_null(&c.value.validity, row, capacity) != 0:
                    p = NULL
                    break
                c.value.nulls += 1
            value_offsets[row + 1] = <int32_t>value_used
        if key_offsets is not NULL:
            if key_size > 0:
                if <size_t>(key_used + key_size) + SLACK > c.key.data.capacity and \
                        grow(&c.key.data, key_used, key_used + key_size) != 0:
                    p = NULL
                    break
                if key_size > DISCARD_STEP:
                    copy_out(c.key.data.data + key_used, key, key_size, in_)
                else:
                    copy(c.key.data.data + key_used, key, key_size, readable)
                key_used += key_size
            elif key_size < 0:
                if mark_null(&c.key.validity, row, capacity) != 0:
                    p = NULL
                    break
                c.key.nulls += 1
            key_offsets[row + 1] = <int32_t>key_used
        if header_offsets is not NULL:
            header_offsets[row + 1] = <int32_t>c.header_count
        row += 1
    else:
        if p == end:
            c.length = row
            c.value.used = value_used
            c.key.used = key_used
            return DECODE_OK
        begin = p
        i = in_.count
        reason = "bytes left over after the last record"
    roll_back(c, &before, row)
    if reason is NULL:
        return DECODE_NO_MEMORY
    in_.reason = reason
    in_.at = begin
    in_.record = i
    return DECODE_TOO_LARGE if in_.too_large else DECODE_CORRUPT


# --- batches --------------------------------------------------------------------------------------------------------

cdef void spec_init(DecodeSpec *spec) noexcept nogil:
    memset(spec, 0, sizeof(DecodeSpec))
    spec.columns = COLUMN_ALL
    spec.verify_crc = True
    spec.skip_control = True
    spec.start = <int64_t>0x8000000000000000ULL
    spec.end = 0x7FFFFFFFFFFFFFFFLL
    spec.from_ms = spec.start
    spec.to_ms = spec.end
    spec.max_decompressed = 256 << 20


cdef int compare_aborted(const void *a, const void *b) noexcept nogil:
    cdef const AbortedTransaction *x = <const AbortedTransaction *>a
    cdef const AbortedTransaction *y = <const AbortedTransaction *>b
    return (x.producer_id > y.producer_id) - (x.producer_id < y.producer_id)


cdef void aborted_sort(AbortedTransaction *aborted, int32_t count) noexcept nogil:
    if count > 1:
        qsort(aborted, count, sizeof(AbortedTransaction), compare_aborted)


cdef int32_t first_of_producer(const DecodeSpec *spec, int64_t producer_id) noexcept nogil:
    cdef int32_t low = 0, high = spec.aborted_count, middle
    while low < high:
        middle = low + (high - low) // 2
        if spec.aborted[middle].producer_id < producer_id:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint is_aborted(const DecodeSpec *spec, int64_t producer_id, int64_t base_offset) noexcept nogil:
    """A transaction of the list covers the batch: it began at or before it, and its marker has not been passed."""
    cdef int32_t i = first_of_producer(spec, producer_id)
    while i < spec.aborted_count and spec.aborted[i].producer_id == producer_id:
        if not spec.aborted[i].done and spec.aborted[i].first_offset <= base_offset:
            return True
        i += 1
    return False


cdef void pass_marker(const DecodeSpec *spec, int64_t producer_id, int64_t offset) noexcept nogil:
    """A commit or abort marker ends whatever the producer had begun before it.

    Brokers before 2.8 list a transaction without records too: it begins where its marker is (KAFKA-10702).
    """
    cdef int32_t i = first_of_producer(spec, producer_id)
    while i < spec.aborted_count and spec.aborted[i].producer_id == producer_id:
        if spec.aborted[i].first_offset <= offset:
            spec.aborted[i].done = 1
        i += 1


cdef int stop_with(DecodeStatus *status, int kind, const BatchHeader *header, size_t at,
                   const char *reason) noexcept nogil:
    status.kind = kind
    status.stop = STOP_ERROR
    status.error_offset = at
    status.base_offset = header.base_offset if header is not NULL else -1
    snprintf(status.message, sizeof(status.message), "%s", reason)
    return kind


cdef int codec_failure(DecodeStatus *status, int answer, const BatchHeader *header, size_t at, const char *reason,
                       size_t limit, const DecodeSpec *spec) noexcept nogil:
    if answer == CODEC_UNRESOLVED:
        status.codec = header.attributes & ATTRIBUTE_CODEC
        return stop_with(status, DECODE_NEED_CODEC, header, at, "the codec's library is not loaded yet")
    if answer == CODEC_UNKNOWN:
        stop_with(status, DECODE_UNSUPPORTED, header, at, "")
        snprintf(status.message, sizeof(status.message), "unknown compression codec %d for magic %d",
                 header.attributes & ATTRIBUTE_CODEC, header.magic)
        return DECODE_UNSUPPORTED
    if answer == CODEC_NO_MEMORY:
        return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory to decompress a batch")
    if answer == CODEC_TOO_LARGE:
        stop_with(status, DECODE_TOO_LARGE, header, at, "")
        if limit < spec.max_decompressed:
            snprintf(status.message, sizeof(status.message), "a batch that decompresses to more than the %zu bytes "
                     "that what is read already leaves of max_decompressed = %zu", limit, spec.max_decompressed)
        else:
            snprintf(status.message, sizeof(status.message),
                     "a batch that decompresses to more than max_decompressed = %zu bytes", limit)
        return DECODE_TOO_LARGE
    if answer == CODEC_OVER_BUDGET:
        stop_with(status, DECODE_TOO_LARGE, header, at, "")
        snprintf(status.message, sizeof(status.message),
                 "a batch that decompresses to more than this process's budget for decompression, %zu bytes",
                 kw_pool_budget(process_pool()))
        return DECODE_TOO_LARGE
    return stop_with(status, DECODE_CORRUPT, header, at, reason)


cdef int no_space(DecodeStatus *status, const BatchHeader *header, size_t at, const Columns *c, int32_t count,
                  const DecodeSpec *spec) noexcept nogil:
    """Rows of batches before it are a chunk; alone, a batch that takes too much space is an error."""
    if c.length > 0:
        return STOP_CHUNK_FULL_INSIDE
    stop_with(status, DECODE_TOO_LARGE, header, at, "")
    snprintf(status.message, sizeof(status.message),
             "its %d records take more memory as columns than max_decompressed = %zu bytes allows", count,
             spec.max_decompressed)
    return DECODE_TOO_LARGE


cdef int decode_batch(const uint8_t *batch, size_t at, size_t left, BatchHeader *header, const DecodeSpec *spec,
                      Columns *c, DecodeStatus *status) noexcept nogil:
    cdef int answer = unpack_batch(batch, at, left, header, spec, c, status)
    # a large buffer is charged to the process's budget: nobody may hold one while they wait for another
    if c.scratch is not NULL and c.scratch.capacity > LARGE:
        kw_buf_unref(c.scratch)
        c.scratch = NULL
    return answer


cdef int unpack_batch(const uint8_t *batch, size_t at, size_t left, BatchHeader *header, const DecodeSpec *spec,
                      Columns *c, DecodeStatus *status) noexcept nogil:
    """One whole batch of any magic, CRC already checked: append its records, or find out that it has none to give."""
    cdef Payload in_
    cdef size_t size = LOG_OVERHEAD + <size_t>header.length, packed = size - BATCH_HEADER, plain, expected, longest
    cdef int codec = header.attributes & ATTRIBUTE_CODEC, answer
    cdef bint control = header.magic == 2 and header.attributes & ATTRIBUTE_CONTROL != 0
    cdef bint keep
    cdef const char *reason = NULL
    cdef int64_t last_offset = header.base_offset + header.last_offset_delta, rows
    cdef size_t space = space_for_columns(spec), cost = row_cost(c, spec), need
    cdef size_t limit = min(spec.max_decompressed, space)  # what the caller keeps may leave less
    cdef Columns before
    memset(&in_, 0, sizeof(in_))
    in_.base_offset = header.base_offset
    in_.last_offset_delta = header.last_offset_delta
    in_.base_timestamp = header.base_timestamp
    in_.is_log_append = header.attributes & ATTRIBUTE_LOG_APPEND != 0
    in_.log_append = header.max_timestamp
    in_.count = header.count
    if header.magic < 2:
        answer = legacy_records(batch, size, header, &c.scratch, limit, spec.verify_crc, &in_.count, &in_.base_offset,
                                &in_.last_offset_delta, &in_.base_timestamp, &reason)
        if answer != CODEC_OK:
            return codec_failure(status, answer, header, at, reason, limit, spec)
        header.base_offset = in_.base_offset
        header.last_offset_delta = in_.last_offset_delta
        in_.start = c.scratch.data
        in_.end = in_.start + c.scratch.size
        in_.readable = in_.end + SLACK
        in_.is_log_append = False
    else:
        # nothing in it for us: the header (covered by the CRC) is enough. A control batch may end a transaction.
        if not control and (last_offset < spec.start or (
                spec.aborted is not NULL and header.attributes & ATTRIBUTE_TRANSACTIONAL
                and is_aborted(spec, header.producer_id, header.base_offset))):
            return DECODE_OK
        if codec > CODEC_ZSTD:  # also of a batch that holds nothing to decompress: it is given to users by its name
            return codec_failure(status, CODEC_UNKNOWN, header, at, reason, limit, spec)
        in_.start = batch + BATCH_HEADER
        in_.end = in_.start + packed
        in_.readable = in_.start + left - BATCH_HEADER
        if codec != CODEC_NONE and not (packed == 0 and header.count == 0):
            answer = decompress(codec, in_.start, packed, &c.scratch, limit, <size_t>(c.ratio * <double>packed),
                                &reason)
            if answer != CODEC_OK:
                return codec_failure(status, answer, header, at, reason, limit, spec)
            in_.end = in_.start  # nothing came out at all: no buffer either
            in_.readable = in_.end
            if c.scratch is not NULL:
                in_.start = c.scratch.data
                in_.end = in_.start + c.scratch.size
                in_.readable = in_.end + SLACK
            c.ratio = <double>(in_.end - in_.start) / <double>packed * 1.02 + 0.01
    plain = in_.end - in_.start
    if in_.count < 0 or <size_t>in_.count > plain // <size_t>SMALLEST_RECORD:
        return stop_with(status, DECODE_CORRUPT, header, at, "a record count that the batch cannot hold")
    keep = in_.count > 0 and not (control and spec.skip_control)
    if keep:
        longest = max(max(c.value.used, c.key.used), max(c.header_key.used, c.header_value.used))
        if longest + plain > <size_t>LARGEST_COLUMN:
            # what is there so far is a chunk; with nothing there yet the batch itself is too large
            return STOP_CHUNK_FULL_INSIDE if c.length > 0 else \
                stop_with(status, DECODE_TOO_LARGE, header, at, "a column would pass 2 GiB")
        # Bytes turn into columns: what a record takes of the payload, it does not take beside it.
        need = c.length * cost + content_cost(c) + plain + in_.count * (cost - min(cost, <size_t>SMALLEST_RECORD))
        if need > space:
            return no_space(status, header, at, c, in_.count, spec)
        in_.most_headers = c.header_count + <int64_t>((space - need) // (HEADER_COST - 2))
        # what is left of the chunk, at this batch's ratio: reserved at once, so that it need not be copied when it
        # grows
        expected = left
        if header.magic == 2:
            expected = <size_t>(<double>left * (<double>plain / <double>max(packed, <size_t>1)))
        expected = min(expected, spec.chunk_bytes) + plain
        rows = <int64_t>(<double>expected / <double>max(plain, <size_t>1) * in_.count) + 1
        if reserve_rows(c, in_.count, rows) != 0:
            return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory for the columns")
        if c.columns & COLUMN_VALUE:
            if grow(&c.value.data, c.value.used, (expected if c.value.data is NULL else c.value.used + plain)) != 0:
                return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory for the columns")
        if set_timestamp_type(c, header.attributes & ATTRIBUTE_LOG_APPEND != 0, in_.count) != 0:
            return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory for the columns")
    if c.scratch is not NULL and c.scratch.capacity > LARGE:
        in_.scratch = c.scratch
    memcpy(&before, c, sizeof(Columns))
    answer = append_records(c, &in_, spec, keep)
    if answer == DECODE_TOO_LARGE and c.length > 0:
        return STOP_CHUNK_FULL_INSIDE
    if answer == DECODE_NO_MEMORY:
        return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory for the columns")
    if answer != DECODE_OK:
        stop_with(status, answer, header, at, "")
        if header.magic == 2 and codec == CODEC_NONE:
            status.error_offset = at + (in_.at - batch)
        snprintf(status.message, sizeof(status.message), "record %d of %d: %s", in_.record, in_.count, in_.reason)
        return answer
    if c.header_key_not_utf8 and c.length * cost + content_cost(c) > space:
        roll_back(c, &before, c.length)
        return no_space(status, header, at, c, in_.count, spec)
    if control and spec.aborted is not NULL and (in_.control_type == 0 or in_.control_type == 1):
        pass_marker(spec, header.producer_id, header.base_offset)
    c.raw_bytes += plain
    return DECODE_OK


cdef bint outside_times(const BatchHeader *header, const DecodeSpec *spec) noexcept nogil:
    """Whether no record of the batch has a timestamp that `spec` keeps, by its header alone.

    The largest timestamp is the broker's word, who sets it when it appends or compacts a batch; with its own time it is
    that of all records. Nothing says which is the smallest of a producer's times: the base timestamp is the first
    record's, which need not come first in time, and from a compacted batch it may be gone, or be the time up to which
    the batch's tombstones are kept (KIP-534). What was written before magic 2 has no such header. A control batch may
    end a transaction.
    """
    if header.magic != 2 or header.attributes & ATTRIBUTE_CONTROL:
        return False
    return header.max_timestamp < spec.from_ms or (
        header.attributes & ATTRIBUTE_LOG_APPEND != 0 and header.max_timestamp >= spec.to_ms)


cdef int decode_chunk(const uint8_t *data, size_t size, const DecodeSpec *spec, Columns *out,
                      DecodeStatus *status) noexcept nogil:
    cdef BatchHeader header
    cdef size_t at = 0, whole
    cdef const char *reason = NULL
    cdef int answer
    cdef bint skip
    memset(status, 0, sizeof(DecodeStatus))
    status.next_offset = out.next_offset
    status.base_offset = -1
    status.last_base_offset = -1
    if out.columns == 0:
        out.columns = spec.columns
    while True:
        status.consumed = at
        if spec.max_batches != 0 and <size_t>status.batches >= spec.max_batches:
            status.stop = STOP_CHUNK_FULL
            return DECODE_OK
        if spec.chunk_bytes != 0 and out.raw_bytes >= spec.chunk_bytes and status.batches != 0:
            status.stop = STOP_CHUNK_FULL
            return DECODE_OK
        answer = batch_header(data + at, size - at, &header, &reason)
        if answer == 0:
            status.partial = size - at
            return DECODE_OK
        if answer < 0:
            header.base_offset = kw_be64(data + at)
            return stop_with(status, DECODE_UNSUPPORTED if size - at >= CRC_AT and not 0 <= <int8_t>data[at + 16] <= 2
                             else DECODE_CORRUPT, &header, at, reason)
        whole = LOG_OVERHEAD + <size_t>header.length
        # (a compressed message of magic 0 or 1 has the offset of its last record; without an end nothing is beyond it)
        if spec.end != 0x7FFFFFFFFFFFFFFFLL and header.base_offset >= spec.end and (
                header.magic == 2 or header.attributes & ATTRIBUTE_CODEC == 0):
            status.stop = STOP_END_OFFSET
            return DECODE_OK
        skip = spec.by_timestamp and outside_times(&header, spec)
        if spec.verify_crc and header.magic == 2 and not skip and \
                kw_crc32c(0, data + at + CRC_FROM, whole - CRC_FROM) != header.crc:
            stop_with(status, DECODE_CRC, &header, at, "")
            snprintf(status.message, sizeof(status.message), "CRC-32C is %08x, the batch says %08x",
                     kw_crc32c(0, data + at + CRC_FROM, whole - CRC_FROM), header.crc)
            return DECODE_CRC
        if header.base_offset < 0 or header.last_offset_delta < 0 or \
                header.base_offset > 0x7FFFFFFFFFFFFFFELL - header.last_offset_delta:
            return stop_with(status, DECODE_CORRUPT, &header, at, "offsets below zero or above the largest")
        if spec.check_order and out.next_offset >= 0 and header.base_offset < out.next_offset:
            stop_with(status, DECODE_ORDER, &header, at, "")
            snprintf(status.message, sizeof(status.message), "base offset %lld after a batch that ended at %lld",
                     <long long>header.base_offset, <long long>(out.next_offset - 1))
            return DECODE_ORDER
        answer = DECODE_OK if skip else decode_batch(data + at, at, size - at, &header, spec, out, status)
        if answer == STOP_CHUNK_FULL_INSIDE:
            status.stop = STOP_CHUNK_FULL
            return DECODE_OK
        if answer != DECODE_OK:
            return answer
        if out.base_offset < 0:
            out.base_offset = header.base_offset
        out.next_offset = header.base_offset + header.last_offset_delta + 1
        status.next_offset = out.next_offset
        status.last_base_offset = header.base_offset
        status.batches += 1
        at += whole


_KINDS = {
    DECODE_CORRUPT: "corrupt record batch",
    DECODE_CRC: "corrupt record batch",
    DECODE_TOO_LARGE: "record batch too large",
    DECODE_UNSUPPORTED: "unsupported record batch",
    DECODE_ORDER: "record batches out of order",
}


cdef object decode_error(const DecodeStatus *status, size_t position):
    if status.kind == DECODE_NO_MEMORY:
        raise MemoryError((<const char *>status.message).decode())
    where = f" at offset {status.base_offset}" if status.base_offset >= 0 else ""
    byte = position + status.error_offset
    message = (<const char *>status.message).decode()
    raise ProtocolError(f"{_KINDS.get(status.kind, 'record batch')}{where} (byte {byte}): {message}", offset=byte)


# --- for tests ------------------------------------------------------------------------------------------------------

def crc32c_implementations():
    """The CRC-32C implementations this processor runs, the one in use first."""
    return [kw_crc32c_name(i).decode() for i in range(kw_crc32c_count())]


def crc32c_of(const uint8_t[::1] data, uint32_t value=0, int implementation=0):
    """CRC-32C of `data`, continued from `value`."""
    if not 0 <= implementation < kw_crc32c_count():
        raise IndexError(implementation)
    return kw_crc32c_with(implementation, value, &data[0] if data.shape[0] else NULL, data.shape[0])
