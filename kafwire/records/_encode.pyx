# distutils: sources = kafwire/memory/native/buf.c
"""Encodes records to magic 2 batches; `records/_encode.pxd` is the contract.

Belongs here: the layout of a batch and of its records. Does not: when a batch is full, its destination, and when it is
compressed.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy, memset

from kafwire._codec cimport crc32c
from kafwire.records._batch_header cimport BATCH_HEADER, CRC_AT, CRC_FROM, LOG_OVERHEAD
from kafwire.memory._buffer cimport (
    kw_be64, kw_buf, kw_buf_new, kw_buf_reserve, kw_buf_unref, kw_copy16, kw_put_be16, kw_put_be32, kw_put_be64,
    kw_put_uvarint, kw_unzigzag, kw_uvarint_size, kw_uvarlong, kw_zigzag, process_pool,
)
from kafwire.records._arrow_rows cimport FORM_ABSENT, RowsView, bytes_at, number_at
from kafwire.records._codec_status cimport CODEC_NONE, CODEC_OK, SLACK
from kafwire.records._compress cimport compress

from kafwire.errors import ConfigError


cdef enum:
    LARGEST_BATCH = 0x7FFFFFFF - 1024


cdef inline void copy(uint8_t *to, const uint8_t *source, size_t size) noexcept nogil:
    """Copy with slack after `to`, but not after `source`: whole 16-byte steps, then the last 16 bytes again."""
    cdef size_t i = 0
    if size < 16 or size > 512:
        memcpy(to, source, size)
        return
    while i + 16 <= size:
        kw_copy16(to + i, source + i)
        i += 16
    kw_copy16(to + size - 16, source + size - 16)


# --- one record -----------------------------------------------------------------------------------------------------

cdef int writer_open(BatchWriter *writer, size_t reserve) noexcept nogil:
    memset(writer, 0, sizeof(BatchWriter))
    writer.last_offset_delta = -1
    writer.max_timestamp = -1
    writer.buf = kw_buf_new(process_pool(), BATCH_HEADER + reserve + SLACK)
    if writer.buf is NULL:
        return WRITER_NO_MEMORY
    writer.buf.size = BATCH_HEADER
    return 0


cdef void writer_close(BatchWriter *writer) noexcept nogil:
    kw_buf_unref(writer.buf)
    writer.buf = NULL


cdef size_t record_bound(int64_t key_size, int64_t value_size, size_t headers_size) noexcept nogil:
    # varints: length 5, timestamp 10, offset 5, key length 5, value length 5; attributes 1; header count at least 1
    return 32 + max(key_size, <int64_t>0) + max(value_size, <int64_t>0) + headers_size


cdef inline uint8_t *open_record(BatchWriter *writer, int32_t offset_delta, int64_t timestamp, int64_t key_size,
                                 int64_t value_size, size_t headers_size, size_t limit_bytes,
                                 int *failure) noexcept nogil:
    """Make room for a record and write the part before its key; NULL: *failure has the cause, 0 for the limit."""
    cdef uint64_t timestamp_delta = kw_zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>writer.base_timestamp)
                                              if writer.count != 0 else 0)
    cdef uint64_t offset_zigzag = kw_zigzag(offset_delta)
    cdef size_t body = (1 + kw_uvarint_size(timestamp_delta) + kw_uvarint_size(offset_zigzag)
                        + kw_uvarint_size(kw_zigzag(key_size)) + max(key_size, <int64_t>0)
                        + kw_uvarint_size(kw_zigzag(value_size)) + max(value_size, <int64_t>0) + headers_size)
    cdef size_t wanted
    cdef uint8_t *p
    if body > LARGEST_BATCH or writer.buf.size + body + 5 > LARGEST_BATCH:
        failure[0] = WRITER_TOO_LARGE
        return NULL
    wanted = writer.buf.size + kw_uvarint_size(body << 1) + body
    if wanted > limit_bytes and writer.count != 0:
        failure[0] = 0
        return NULL
    wanted += SLACK
    if wanted > writer.buf.capacity and kw_buf_reserve(&writer.buf, wanted) != 0:
        failure[0] = WRITER_NO_MEMORY
        return NULL
    p = kw_put_uvarint(writer.buf.data + writer.buf.size, body << 1)
    p[0] = 0  # attributes
    p = kw_put_uvarint(p + 1, timestamp_delta)
    return kw_put_uvarint(p, offset_zigzag)


cdef inline uint8_t *put_bytes(uint8_t *p, const uint8_t *data, int64_t size) noexcept nogil:
    p = kw_put_uvarint(p, kw_zigzag(size))
    if size > 0:
        copy(p, data, size)
        p += size
    return p


cdef inline void close_record(BatchWriter *writer, uint8_t *end, int32_t offset_delta,
                              int64_t timestamp) noexcept nogil:
    if writer.count == 0:
        writer.base_timestamp = timestamp
        writer.max_timestamp = timestamp
    elif timestamp > writer.max_timestamp:
        writer.max_timestamp = timestamp
    writer.count += 1
    writer.last_offset_delta = offset_delta
    writer.buf.size = end - writer.buf.data


cdef ssize_t writer_append_at(BatchWriter *writer, int32_t offset_delta, int64_t timestamp, const uint8_t *key,
                              int32_t key_size, const uint8_t *value, int32_t value_size, const uint8_t *headers,
                              size_t headers_size) noexcept nogil:
    cdef int failure = 0
    cdef size_t before = writer.buf.size
    cdef uint8_t *p = open_record(writer, offset_delta, timestamp, key_size, value_size,
                                  headers_size if headers_size != 0 else 1, <size_t>-1, &failure)
    if p is NULL:
        return failure
    p = put_bytes(p, key, key_size)
    p = put_bytes(p, value, value_size)
    if headers_size == 0:
        p[0] = 0
        p += 1
    else:
        memcpy(p, headers, headers_size)
        p += headers_size
    close_record(writer, p, offset_delta, timestamp)
    return writer.buf.size - before


cdef ssize_t writer_append(BatchWriter *writer, int64_t timestamp, const uint8_t *key, int32_t key_size,
                           const uint8_t *value, int32_t value_size, const uint8_t *headers,
                           size_t headers_size) noexcept nogil:
    return writer_append_at(writer, writer.last_offset_delta + 1, timestamp, key, key_size, value, value_size, headers,
                            headers_size)


# --- rows -----------------------------------------------------------------------------------------------------------

cdef inline bint is_set(const uint8_t *bitmap, int64_t i) noexcept nogil:
    return bitmap is NULL or bitmap[i >> 3] >> (i & 7) & 1


cdef void header_range(const RowsView *rows, int64_t row, int64_t *start, int64_t *stop) noexcept nogil:
    cdef int64_t i = row + rows.headers_offset
    start[0] = stop[0] = 0
    if rows.headers_form == 0 or not is_set(rows.headers_validity, i):
        return
    if rows.headers_form == 8:
        start[0] = (<const int64_t *>rows.headers_offsets)[i]
        stop[0] = (<const int64_t *>rows.headers_offsets)[i + 1]
    else:
        start[0] = (<const int32_t *>rows.headers_offsets)[i]
        stop[0] = (<const int32_t *>rows.headers_offsets)[i + 1]


cdef int64_t headers_size_of(const RowsView *rows, int64_t start, int64_t stop) noexcept nogil:
    """Return the encoded size of headers [start, stop) with their count, or -1 if one has no key."""
    cdef const uint8_t *data
    cdef int64_t i, size, total = kw_uvarint_size(kw_zigzag(stop - start))
    for i in range(start, stop):
        if not is_set(rows.header_validity, i + rows.header_offset) or bytes_at(&rows.header_key, i, &data, &size) != 1:
            return -1
        total += kw_uvarint_size(kw_zigzag(size)) + size
        bytes_at(&rows.header_value, i, &data, &size)
        total += kw_uvarint_size(kw_zigzag(size)) + max(size, <int64_t>0)
    return total


cdef uint8_t *put_headers(uint8_t *p, const RowsView *rows, int64_t start, int64_t stop) noexcept nogil:
    cdef const uint8_t *data
    cdef int64_t i, size
    p = kw_put_uvarint(p, kw_zigzag(stop - start))
    for i in range(start, stop):
        bytes_at(&rows.header_key, i, &data, &size)
        p = put_bytes(p, data, size)
        bytes_at(&rows.header_value, i, &data, &size)
        p = put_bytes(p, data, size)
    return p


cdef int64_t writer_append_rows(BatchWriter *writer, const RowsView *rows, const int32_t *row_index, int64_t from_,
                                int64_t to, size_t limit_bytes, int64_t now_ms, int64_t *bad_row) noexcept nogil:
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value = NULL
    cdef int64_t i = from_, row, key_size = -1, value_size, timestamp
    cdef int64_t header_start = 0, header_stop = 0, headers_size = 1
    cdef bint has_key = rows.key.form != FORM_ABSENT, has_timestamp = rows.timestamp.form != 0
    cdef bint has_headers = rows.headers_form != 0
    cdef int failure = 0, code
    cdef uint8_t *p
    while i < to:
        row = row_index[i] if row_index is not NULL else i
        bytes_at(&rows.value, row, &value, &value_size)
        if has_key:
            bytes_at(&rows.key, row, &key, &key_size)
        timestamp = now_ms
        if has_timestamp:
            code = number_at(&rows.timestamp, row, &timestamp)
            if code < 0 or (timestamp < 0 and now_ms >= 0):  # negative: only where a missing time is kept
                bad_row[0] = row
                return WRITER_BAD_ROW
        if has_headers:
            header_range(rows, row, &header_start, &header_stop)
            headers_size = headers_size_of(rows, header_start, header_stop)
            if headers_size < 0:
                bad_row[0] = row
                return WRITER_BAD_ROW
        if value_size > LARGEST_BATCH or key_size > LARGEST_BATCH:
            bad_row[0] = row
            return WRITER_TOO_LARGE
        p = open_record(writer, writer.last_offset_delta + 1, timestamp, key_size, value_size, headers_size,
                        limit_bytes, &failure)
        if p is NULL:
            if failure == 0:
                break
            if failure == WRITER_TOO_LARGE and writer.count != 0:
                break  # the batch is full; the record is not too large
            bad_row[0] = row
            return failure
        p = put_bytes(p, key, key_size)
        p = put_bytes(p, value, value_size)
        if has_headers:
            p = put_headers(p, rows, header_start, header_stop)
        else:
            p[0] = 0
            p += 1
        close_record(writer, p, writer.last_offset_delta + 1, timestamp)
        i += 1
    return i


# --- records of another batch ---------------------------------------------------------------------------------------

cdef inline bint take_varint(const uint8_t *data, size_t size, size_t *at, uint64_t *out) noexcept nogil:
    cdef const uint8_t *behind = kw_uvarlong(data + at[0], data + size, out)
    if behind is NULL:
        return False
    at[0] = behind - data
    return True


cdef int writer_copy(BatchWriter *writer, const uint8_t *records, size_t size, size_t *at, int32_t count,
                     int64_t base) noexcept nogil:
    cdef uint64_t length, number, offset
    cdef size_t end, wanted, body
    cdef int64_t timestamp
    cdef int32_t _record
    cdef uint8_t *p
    for _record in range(count):
        if not take_varint(records, size, at, &length) or length & 1 or length >> 1 > size - at[0]:
            return WRITER_BAD_ROW
        end = at[0] + (length >> 1)
        if writer is not NULL:
            at[0] += 1  # attributes, which are unused
            if not take_varint(records, end, at, &number):
                return WRITER_BAD_ROW
            timestamp = base + kw_unzigzag(number)
            if not take_varint(records, end, at, &number):  # its offset
                return WRITER_BAD_ROW
            number = kw_zigzag(timestamp - writer.base_timestamp if writer.count else 0)
            offset = kw_zigzag(writer.last_offset_delta + 1)
            body = 1 + kw_uvarint_size(number) + kw_uvarint_size(offset) + (end - at[0])
            wanted = writer.buf.size + kw_uvarint_size(body << 1) + body + SLACK
            if wanted > writer.buf.capacity and kw_buf_reserve(&writer.buf, wanted) != 0:
                return WRITER_NO_MEMORY
            p = kw_put_uvarint(writer.buf.data + writer.buf.size, body << 1)
            p[0] = 0
            p = kw_put_uvarint(p + 1, number)
            p = kw_put_uvarint(p, offset)
            memcpy(p, records + at[0], end - at[0])
            close_record(writer, p + (end - at[0]), writer.last_offset_delta + 1, timestamp)
        at[0] = end
    return 0


cdef int record_key(const uint8_t *records, size_t size, size_t *at, const uint8_t **key,
                    int64_t *key_size) noexcept nogil:
    cdef uint64_t number
    cdef size_t end
    if not take_varint(records, size, at, &number) or number & 1 or number >> 1 > size - at[0] or number == 0:
        return WRITER_BAD_ROW
    end = at[0] + (number >> 1)
    at[0] += 1  # attributes
    if not take_varint(records, end, at, &number) or not take_varint(records, end, at, &number):  # timestamp, offset
        return WRITER_BAD_ROW
    if not take_varint(records, end, at, &number):
        return WRITER_BAD_ROW
    key_size[0] = kw_unzigzag(number)
    if key_size[0] < -1 or key_size[0] > <int64_t> (end - at[0]):
        return WRITER_BAD_ROW
    key[0] = records + at[0]
    at[0] = end
    return 0


# --- the batch ------------------------------------------------------------------------------------------------------

cdef int writer_seal(BatchWriter *writer, int codec, int level, kw_buf **out, bint shrinks) noexcept nogil:
    cdef kw_buf *batch = NULL
    cdef kw_buf *smaller
    cdef const char *reason
    cdef int code
    if codec != CODEC_NONE:
        batch = kw_buf_new(process_pool(), BATCH_HEADER + SLACK)
        if batch is NULL:
            return WRITER_NO_MEMORY
        batch.size = BATCH_HEADER
        code = compress(codec, level, writer.buf.data + BATCH_HEADER, writer.buf.size - BATCH_HEADER, &batch, &reason)
        if code == CODEC_OK and shrinks and batch.size >= writer.buf.size:
            kw_buf_unref(batch)
            codec = CODEC_NONE
        elif code != CODEC_OK or batch.size > LARGEST_BATCH:
            kw_buf_unref(batch)
            return code - 100 if code != CODEC_OK else WRITER_TOO_LARGE
    if codec == CODEC_NONE:
        batch = writer.buf
        writer.buf = NULL
    else:
        # compressors ask for worst-case room; a batch that waits to be sent should not keep it
        if batch.size < batch.capacity // 4:
            smaller = kw_buf_new(process_pool(), batch.size)
            if smaller is not NULL:
                memcpy(smaller.data, batch.data, batch.size)
                smaller.size = batch.size
                kw_buf_unref(batch)
                batch = smaller
        writer_close(writer)
    kw_put_be64(batch.data, writer.base_offset)
    kw_put_be32(batch.data + 8, <int32_t>(batch.size - LOG_OVERHEAD))
    kw_put_be32(batch.data + 12, -1)  # partition leader epoch: set by the broker
    batch.data[16] = 2
    kw_put_be32(batch.data + CRC_AT, 0)
    kw_put_be16(batch.data + 21, <int16_t>(writer.attributes | <uint16_t>codec))
    kw_put_be32(batch.data + 23, max(writer.last_offset_delta, 0))
    kw_put_be64(batch.data + 27, writer.base_timestamp)
    kw_put_be64(batch.data + 35, writer.max_timestamp)
    kw_put_be32(batch.data + 57, writer.count)
    out[0] = batch
    return 0


cdef int64_t batch_base_timestamp(const uint8_t *batch) noexcept nogil:
    return kw_be64(batch + 27)


cdef void batch_stamp(uint8_t *batch, size_t size, int64_t producer_id, int16_t producer_epoch,
                      int32_t base_sequence) noexcept nogil:
    kw_put_be64(batch + 43, producer_id)
    kw_put_be16(batch + 51, producer_epoch)
    kw_put_be32(batch + 53, base_sequence)
    kw_put_be32(batch + CRC_AT, <int32_t>crc32c(0, batch + CRC_FROM, size - CRC_FROM))


# --- headers from Python --------------------------------------------------------------------------------------------

cdef object header_part(object data, str what):
    """Return bytes for the key or value of a header; text is encoded as UTF-8."""
    if isinstance(data, bytes) or data is None and what == "value":
        return data
    if isinstance(data, str) and what == "key":
        return (<str>data).encode("utf-8", "surrogateescape")
    if isinstance(data, str):
        try:
            return (<str>data).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"a header value is not Unicode text: {error}") from None
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise ConfigError(f"a header {what} must be {'str or bytes' if what == 'key' else 'bytes, str or None'}, "
                      f"not {type(data).__name__}")


cdef bytes encode_headers(object headers):
    cdef list parts
    cdef bytes out
    cdef size_t total
    cdef int64_t size
    cdef uint8_t *p
    if not headers:
        return b""
    parts = []
    for pair in headers.items() if isinstance(headers, dict) else headers:
        try:
            key, value = pair
        except (TypeError, ValueError):
            raise ConfigError(f"a header must be a (key, value) pair, not {pair!r}") from None
        parts.append(header_part(key, "key"))
        parts.append(header_part(value, "value"))
    total = kw_uvarint_size(kw_zigzag(len(parts) // 2))
    for part in parts:
        size = -1 if part is None else PyBytes_GET_SIZE(part)
        total += kw_uvarint_size(kw_zigzag(size)) + max(size, <int64_t>0)
    out = PyBytes_FromStringAndSize(NULL, total)
    p = kw_put_uvarint(<uint8_t *>PyBytes_AS_STRING(out), kw_zigzag(len(parts) // 2))
    for part in parts:
        if part is None:
            p = kw_put_uvarint(p, kw_zigzag(-1))
        else:
            size = PyBytes_GET_SIZE(part)
            p = kw_put_uvarint(p, kw_zigzag(size))
            memcpy(p, PyBytes_AS_STRING(part), size)
            p += size
    return out
