# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/records/native/crc32c.c
"""Record batches to columns; `_codec.pxd` is the contract.

May hold: the choice and refusal of batches, by headers, checksums, limits, transactions. The CRC is verified before
decompression, and room reserved before records (`_decode`) become rows of columns (`_columns`).
May not hold: Python objects per record, sockets, uses of the rows by a fetch or a consumer.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport KW_BUF_LARGE, kw_be64, kw_buf_unref, kw_pool_budget, process_pool
from kafwire.records._batch_header cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER, BatchHeader,
    CRC_AT, CRC_FROM, LOG_OVERHEAD, batch_header,
)
from kafwire.records._columns cimport (
    COLUMN_ALL, COLUMN_VALUE, HEADER_COST, Columns, content_cost, grow, reserve_rows, roll_back, row_cost,
    set_timestamp_type,
)
from kafwire.records._codec_status cimport (
    CODEC_NONE, CODEC_NO_MEMORY, CODEC_OK, CODEC_OVER_BUDGET, CODEC_TOO_LARGE, CODEC_UNKNOWN, CODEC_UNRESOLVED,
    CODEC_ZSTD, SLACK,
)
from kafwire.records._compress cimport decompress
from kafwire.records._decode cimport SMALLEST_RECORD, Payload, RowFilter, append_records
from kafwire.records._message_set cimport legacy_records

from kafwire.errors import ProtocolError


cdef extern from "kafwire/records/native/crc32c.h" nogil:
    uint32_t kw_crc32c(uint32_t crc, const uint8_t *data, size_t size)
    int kw_crc32c_count()
    const char *kw_crc32c_name(int i)
    uint32_t kw_crc32c_with(int i, uint32_t crc, const uint8_t *data, size_t size)


cdef enum:
    LARGEST_COLUMN = 0x7FFFFFFF - SLACK  # int32 offsets
    STOP_CHUNK_FULL_INSIDE = -1  # returned by decode_batch: the columns are full, and lack any row of the batch


cdef uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) noexcept nogil:
    return kw_crc32c(crc, data, size)


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


# --- aborted transactions -------------------------------------------------------------------------------------------

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
    """Return True if an aborted transaction covers the batch: it began at or before it, and its marker comes later."""
    cdef int32_t i = first_of_producer(spec, producer_id)
    while i < spec.aborted_count and spec.aborted[i].producer_id == producer_id:
        if not spec.aborted[i].done and spec.aborted[i].first_offset <= base_offset:
            return True
        i += 1
    return False


cdef void pass_marker(const DecodeSpec *spec, int64_t producer_id, int64_t offset) noexcept nogil:
    """End the producer's transactions that began before a commit or abort marker.

    Brokers before 2.8 also list a transaction without records: it begins at its marker (KAFKA-10702).
    """
    cdef int32_t i = first_of_producer(spec, producer_id)
    while i < spec.aborted_count and spec.aborted[i].producer_id == producer_id:
        if spec.aborted[i].first_offset <= offset:
            spec.aborted[i].done = 1
        i += 1


# --- refusals of batches --------------------------------------------------------------------------------------------

cdef int stop_with(DecodeStatus *status, int kind, const BatchHeader *header, size_t at,
                   const char *reason) noexcept nogil:
    status.kind = kind
    status.stop = STOP_ERROR
    status.error_offset = at
    status.base_offset = header.base_offset if header is not NULL else -1
    snprintf(status.message, sizeof(status.message), "%s", reason)
    return kind


cdef int codec_failure(DecodeStatus *status, int code, const BatchHeader *header, size_t at, const char *reason,
                       size_t limit, const DecodeSpec *spec) noexcept nogil:
    if code == CODEC_UNRESOLVED:
        status.codec = header.attributes & ATTRIBUTE_CODEC
        return stop_with(status, DECODE_NEED_CODEC, header, at, "the codec's library is not loaded yet")
    if code == CODEC_UNKNOWN:
        stop_with(status, DECODE_UNSUPPORTED, header, at, "")
        snprintf(status.message, sizeof(status.message), "unknown compression codec %d for magic %d",
                 header.attributes & ATTRIBUTE_CODEC, header.magic)
        return DECODE_UNSUPPORTED
    if code == CODEC_NO_MEMORY:
        return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory to decompress a batch")
    if code == CODEC_TOO_LARGE:
        stop_with(status, DECODE_TOO_LARGE, header, at, "")
        if limit < spec.max_decompressed:
            snprintf(status.message, sizeof(status.message), "a batch that decompresses to more than the %zu bytes "
                     "left of max_decompressed = %zu after the batches before it", limit, spec.max_decompressed)
        else:
            snprintf(status.message, sizeof(status.message),
                     "a batch that decompresses to more than max_decompressed = %zu bytes", limit)
        return DECODE_TOO_LARGE
    if code == CODEC_OVER_BUDGET:
        stop_with(status, DECODE_TOO_LARGE, header, at, "")
        snprintf(status.message, sizeof(status.message),
                 "a batch that decompresses to more than this process's budget for decompression, %zu bytes",
                 kw_pool_budget(process_pool()))
        return DECODE_TOO_LARGE
    return stop_with(status, DECODE_CORRUPT, header, at, reason)


cdef int no_space(DecodeStatus *status, const BatchHeader *header, size_t at, const Columns *c, int32_t count,
                  const DecodeSpec *spec) noexcept nogil:
    """Handle a batch that takes too much space: an error if the chunk is empty, else the end of the chunk."""
    if c.length > 0:
        return STOP_CHUNK_FULL_INSIDE
    stop_with(status, DECODE_TOO_LARGE, header, at, "")
    snprintf(status.message, sizeof(status.message),
             "its %d records take more memory as columns than max_decompressed = %zu bytes allows", count,
             spec.max_decompressed)
    return DECODE_TOO_LARGE


cdef int no_memory(DecodeStatus *status, const BatchHeader *header, size_t at) noexcept nogil:
    return stop_with(status, DECODE_NO_MEMORY, header, at, "no memory for the columns")


cdef int record_failure(DecodeStatus *status, const BatchHeader *header, size_t at, const uint8_t *batch,
                        const Payload *in_, const Columns *c) noexcept nogil:
    cdef int kind = DECODE_TOO_LARGE if in_.too_large else DECODE_CORRUPT
    if in_.reason is NULL:
        return no_memory(status, header, at)
    if in_.too_large and c.length > 0:
        return STOP_CHUNK_FULL_INSIDE
    stop_with(status, kind, header, at, "")
    if header.magic == 2 and header.attributes & ATTRIBUTE_CODEC == CODEC_NONE:
        status.error_offset = at + (in_.at - batch)
    snprintf(status.message, sizeof(status.message), "record %d of %d: %s", in_.record, in_.count, in_.reason)
    return kind


# --- one batch ------------------------------------------------------------------------------------------------------

cdef size_t space_for_columns(const DecodeSpec *spec) noexcept nogil:
    cdef size_t space = spec.max_decompressed + COLUMN_ROOM
    return space - min(space, spec.kept)


cdef bint is_control(const BatchHeader *header) noexcept nogil:
    return header.magic == 2 and header.attributes & ATTRIBUTE_CONTROL != 0


cdef bint has_nothing_for(const DecodeSpec *spec, const BatchHeader *header) noexcept nogil:
    """Return True if the header, which the CRC covers, shows that no row is wanted.

    Never for a control batch, which may end a transaction."""
    if header.magic < 2 or is_control(header):
        return False
    return header.base_offset + header.last_offset_delta < spec.start or (
        spec.aborted is not NULL and header.attributes & ATTRIBUTE_TRANSACTIONAL
        and is_aborted(spec, header.producer_id, header.base_offset))


cdef void open_scratch(Payload *in_, const Columns *c) noexcept nogil:
    """Set the payload to the decompressed bytes; without any, there is no buffer."""
    if c.scratch is NULL:
        in_.end = in_.readable = in_.start
    else:
        in_.start = c.scratch.data
        in_.end = in_.start + c.scratch.size
        in_.readable = in_.end + SLACK


cdef int unpack_messages(const uint8_t *batch, size_t size, BatchHeader *header, const DecodeSpec *spec, size_t limit,
                         Columns *c, Payload *in_, const char **reason) noexcept nogil:
    """Unpack a message of magic 0 or 1, with its compressed messages, as the payload of a batch; return CODEC_*."""
    cdef int code = legacy_records(batch, size, header, &c.scratch, limit, spec.verify_crc, &in_.count,
                                   &in_.base_offset, &in_.last_offset_delta, &in_.base_timestamp, reason)
    if code == CODEC_OK:
        header.base_offset = in_.base_offset
        header.last_offset_delta = in_.last_offset_delta
        open_scratch(in_, c)
        in_.is_log_append = False
    return code


cdef int unpack_records(const uint8_t *batch, size_t size, size_t left, const BatchHeader *header, size_t limit,
                        Columns *c, Payload *in_, const char **reason) noexcept nogil:
    """Decompress the payload of a batch; return CODEC_*."""
    cdef int codec = header.attributes & ATTRIBUTE_CODEC, code
    cdef size_t packed = size - BATCH_HEADER
    if codec > CODEC_ZSTD:  # also for a batch without compressed data: users get the codec by its name
        return CODEC_UNKNOWN
    in_.start = batch + BATCH_HEADER
    in_.end = in_.start + packed
    in_.readable = in_.start + left - BATCH_HEADER
    if codec == CODEC_NONE or packed == 0 and header.count == 0:
        return CODEC_OK
    code = decompress(codec, in_.start, packed, &c.scratch, limit, <size_t>(c.ratio * <double>packed), reason)
    if code == CODEC_OK:
        open_scratch(in_, c)
        c.ratio = <double>(in_.end - in_.start) / <double>packed * 1.02 + 0.01
    return code


cdef int64_t expected_rows(const BatchHeader *header, size_t packed, size_t left, const DecodeSpec *spec,
                           const Payload *in_, size_t *content) noexcept nogil:
    """Estimate the rows and bytes of this batch and the rest of the chunk, from its ratio.

    They are reserved at once, so that columns need not be copied when they grow."""
    cdef size_t plain = in_.end - in_.start
    content[0] = left
    if header.magic == 2:
        content[0] = <size_t>(<double>left * (<double>plain / <double>max(packed, <size_t>1)))
    content[0] = min(content[0], spec.chunk_bytes) + plain
    return <int64_t>(<double>content[0] / <double>max(plain, <size_t>1) * in_.count) + 1


cdef int reserve_columns(Columns *c, const BatchHeader *header, size_t at, size_t packed, size_t left,
                         const DecodeSpec *spec, size_t space, Payload *in_, DecodeStatus *status) noexcept nogil:
    """Reserve room for the payload's records as rows; return DECODE_*, or STOP_CHUNK_FULL_INSIDE."""
    cdef size_t plain = in_.end - in_.start, cost = row_cost(c) + spec.row_bytes, need, content
    cdef size_t longest = max(max(c.value.used, c.key.used), max(c.header_key.used, c.header_value.used))
    cdef int64_t rows
    if longest + plain > <size_t>LARGEST_COLUMN:
        # earlier rows form a chunk; without any, the batch itself is too large
        return STOP_CHUNK_FULL_INSIDE if c.length > 0 else \
            stop_with(status, DECODE_TOO_LARGE, header, at, "a column would pass 2 GiB")
    # The bytes of a record move from the payload into columns, so they are not counted twice.
    need = c.length * cost + content_cost(c) + plain + in_.count * (cost - min(cost, <size_t>SMALLEST_RECORD))
    if need > space:
        return no_space(status, header, at, c, in_.count, spec)
    in_.most_headers = c.header_count + <int64_t>((space - need) // (HEADER_COST - 2))
    rows = expected_rows(header, packed, left, spec, in_, &content)
    if reserve_rows(c, in_.count, rows) != 0:
        return no_memory(status, header, at)
    if c.columns & COLUMN_VALUE:
        if grow(&c.value.data, c.value.used, (content if c.value.data is NULL else c.value.used + plain)) != 0:
            return no_memory(status, header, at)
    if set_timestamp_type(c, header.attributes & ATTRIBUTE_LOG_APPEND != 0, in_.count) != 0:
        return no_memory(status, header, at)
    return DECODE_OK


cdef int unpack_batch(const uint8_t *batch, size_t at, size_t left, BatchHeader *header, const DecodeSpec *spec,
                      Columns *c, DecodeStatus *status) noexcept nogil:
    cdef Payload in_
    cdef RowFilter filter
    cdef Columns before
    cdef size_t size = LOG_OVERHEAD + <size_t>header.length, space = space_for_columns(spec)
    cdef size_t limit = min(spec.max_decompressed, space)  # what the caller keeps may leave less
    cdef bint control = is_control(header)
    cdef const char *reason = NULL
    cdef int code
    if has_nothing_for(spec, header):
        return DECODE_OK
    memset(&in_, 0, sizeof(in_))
    in_.base_offset = header.base_offset
    in_.last_offset_delta = header.last_offset_delta
    in_.base_timestamp = header.base_timestamp
    in_.is_log_append = header.attributes & ATTRIBUTE_LOG_APPEND != 0
    in_.log_append = header.max_timestamp
    in_.count = header.count
    if header.magic < 2:
        code = unpack_messages(batch, size, header, spec, limit, c, &in_, &reason)
    else:
        code = unpack_records(batch, size, left, header, limit, c, &in_, &reason)
    if code != CODEC_OK:
        return codec_failure(status, code, header, at, reason, limit, spec)
    if in_.count < 0 or in_.count > (in_.end - in_.start) // SMALLEST_RECORD:
        return stop_with(status, DECODE_CORRUPT, header, at, "a record count that the batch cannot hold")
    filter.none = in_.count == 0 or control and spec.skip_control
    filter.start = spec.start
    filter.end = spec.end
    filter.by_timestamp = spec.by_timestamp
    filter.from_ms = spec.from_ms
    filter.to_ms = spec.to_ms
    if not filter.none:
        code = reserve_columns(c, header, at, size - BATCH_HEADER, left, spec, space, &in_, status)
        if code != DECODE_OK:
            return code
    if c.scratch is not NULL and c.scratch.capacity > KW_BUF_LARGE:
        in_.scratch = c.scratch
    memcpy(&before, c, sizeof(Columns))
    if append_records(c, &in_, &filter) != 0:
        return record_failure(status, header, at, batch, &in_, c)
    if c.header_key_not_utf8 and c.length * (row_cost(c) + spec.row_bytes) + content_cost(c) > space:
        roll_back(c, &before, c.length)
        return no_space(status, header, at, c, in_.count, spec)
    if control and spec.aborted is not NULL and (in_.control_type == 0 or in_.control_type == 1):
        pass_marker(spec, header.producer_id, header.base_offset)
    c.raw_bytes += in_.end - in_.start
    return DECODE_OK


cdef int decode_batch(const uint8_t *batch, size_t at, size_t left, BatchHeader *header, const DecodeSpec *spec,
                      Columns *c, DecodeStatus *status) noexcept nogil:
    """Append the wanted records of one whole batch of any magic, with its CRC already checked.

    Return DECODE_*, or STOP_CHUNK_FULL_INSIDE."""
    cdef int code = unpack_batch(batch, at, left, header, spec, c, status)
    # a large buffer is charged to the process's budget: no thread may hold one while it waits for another
    if c.scratch is not NULL and c.scratch.capacity > KW_BUF_LARGE:
        kw_buf_unref(c.scratch)
        c.scratch = NULL
    return code


# --- many -----------------------------------------------------------------------------------------------------------

cdef bint outside_times(const BatchHeader *header, const DecodeSpec *spec) noexcept nogil:
    """Return True if, by its header, no record of the batch has a timestamp that `spec` keeps.

    The header has the largest timestamp: the broker sets it when it appends or compacts a batch; with log append time
    it is that of all records. The header lacks the smallest timestamp: the base timestamp belongs to the first record,
    which need not be the earliest; in a compacted batch that record may be gone, or the base timestamp may be the time
    up to which the batch's tombstones are kept (KIP-534). Batches before magic 2 have no such header. A control batch
    may end a transaction, so it is never skipped.
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
    cdef int code
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
        code = batch_header(data + at, size - at, &header, &reason)
        if code == 0:
            status.partial = size - at
            return DECODE_OK
        if code < 0:
            header.base_offset = kw_be64(data + at)
            return stop_with(status, DECODE_UNSUPPORTED if size - at >= CRC_AT and not 0 <= <int8_t>data[at + 16] <= 2
                             else DECODE_CORRUPT, &header, at, reason)
        whole = LOG_OVERHEAD + <size_t>header.length
        # (a compressed message of magic 0 or 1 has its last record's offset; without an end no offset is beyond it)
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
        code = DECODE_OK if skip else decode_batch(data + at, at, size - at, &header, spec, out, status)
        if code == STOP_CHUNK_FULL_INSIDE:
            status.stop = STOP_CHUNK_FULL
            return DECODE_OK
        if code != DECODE_OK:
            return code
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
    """Return the CRC-32C implementations that this processor supports, the one in use first."""
    return [kw_crc32c_name(i).decode() for i in range(kw_crc32c_count())]


def crc32c_of(const uint8_t[::1] data, uint32_t value=0, int implementation=0):
    """Return the CRC-32C of `data`, continued from `value`."""
    if not 0 <= implementation < kw_crc32c_count():
        raise IndexError(implementation)
    return kw_crc32c_with(implementation, value, &data[0] if data.shape[0] else NULL, data.shape[0])
