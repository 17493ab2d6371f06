# distutils: sources = kafwire/memory/native/buf.c
"""Encodes a batch from Python objects that describe records, or from Arrow rows."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.records._batch_header cimport ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND, ATTRIBUTE_TRANSACTIONAL
from kafwire.memory._buffer cimport kw_buf, kw_buf_unref
from kafwire.records._arrow_rows cimport Rows, RowsReader
from kafwire.records._codec_status cimport CODEC_LEVEL_DEFAULT, CODEC_NO_MEMORY
from kafwire.records._compress cimport resolve_codec
from kafwire.records._encode cimport (
    WRITER_NO_MEMORY, WRITER_TOO_LARGE, BatchWriter, batch_stamp, encode_headers, writer_append_at, writer_append_rows,
    writer_close, writer_open, writer_seal,
)
from kafwire.records._records cimport Record, Records

from kafwire.errors import ConfigError, RecordTooLargeError
from kafwire.records._compress import codec_id


cdef int writer_error(ssize_t code, object what) except -1:
    if code == WRITER_NO_MEMORY:
        raise MemoryError("no memory for a record batch")
    if code == WRITER_TOO_LARGE:
        raise RecordTooLargeError(f"{what}: a record batch cannot exceed 2 GiB")
    raise ConfigError(f"{what}: its timestamp does not fit in milliseconds, or a header has no key")


cdef int span(object data, str what, const uint8_t **start, int32_t *size) except -1:
    """Find the bytes of `data`; size -1 for None."""
    if data is None:
        start[0] = NULL
        size[0] = -1
    elif isinstance(data, bytes):
        if PyBytes_GET_SIZE(data) > 0x7FFFFFFF:
            raise RecordTooLargeError(f"a {what} of {len(data)} bytes: a record cannot exceed 2 GiB")
        start[0] = <const uint8_t *>PyBytes_AS_STRING(data)
        size[0] = <int32_t>PyBytes_GET_SIZE(data)
    else:
        raise ConfigError(f"a record's {what} must be bytes or None, not {type(data).__name__}")
    return 0


cdef object as_bytes(object data):
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data


_RECORD_KEYS = frozenset(("value", "key", "timestamp_ms", "timestamp", "headers", "offset"))


cdef tuple parts_of(object item):
    """Return (key, value, timestamp or None, headers, offset or -1) of an object that describes a record."""
    cdef Record record
    if isinstance(item, Record):
        record = item
        return record.key, record.value, record.timestamp, record.pairs, record.offset
    if isinstance(item, dict):
        if not _RECORD_KEYS.issuperset(item):
            unknown = sorted(map(str, set(item) - _RECORD_KEYS))
            raise ConfigError(f"a record has no {unknown}: it has {sorted(_RECORD_KEYS)}")
        offset = item.get("offset")
        return (item.get("key"), item.get("value"), item.get("timestamp_ms", item.get("timestamp")),
                item.get("headers"), -1 if offset is None else offset)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return None, item, None, None, -1
    if isinstance(item, tuple) and 2 <= len(item) <= 4:
        return (item[0], item[1], item[2] if len(item) > 2 else None, item[3] if len(item) > 3 else None, -1)
    raise ConfigError(f"not a record: {item!r}; give a Record, a dict, a tuple (key, value[, timestamp_ms[, headers]]) "
                      "or the value as bytes")


cdef int append_objects(BatchWriter *writer, object records) except -1:
    cdef const uint8_t *key_start
    cdef const uint8_t *value_start
    cdef const uint8_t *headers_start
    cdef int32_t key_size, value_size, delta
    cdef int64_t timestamp, own
    cdef bytes headers
    cdef ssize_t code
    for number, item in enumerate(records):
        key, value, stamp, pairs, offset = parts_of(item)
        key, value = as_bytes(key), as_bytes(value)
        span(key, "key", &key_start, &key_size)
        span(value, "value", &value_start, &value_size)
        headers = encode_headers(pairs)
        headers_start = headers
        timestamp = -1 if stamp is None else stamp
        # a record keeps its offset if possible, so that gaps of a compacted batch survive
        delta = writer.last_offset_delta + 1
        own = <int64_t>offset - writer.base_offset if offset >= writer.base_offset else -1
        if delta < own <= 0x7FFFFFFF:
            delta = <int32_t>own
        code = writer_append_at(writer, delta, timestamp, key_start, key_size, value_start, value_size, headers_start,
                                len(headers))
        if code < 0:
            writer_error(code, f"record {number}")
    return 0


cdef int append_arrow(BatchWriter *writer, object source) except -1:
    cdef Rows rows
    cdef int64_t taken, bad = 0
    for chunk in RowsReader(source):
        rows = chunk
        with nogil:
            taken = writer_append_rows(writer, &rows.view, NULL, 0, rows.view.length, <size_t>-1, -1, &bad)
        if taken < 0:
            writer_error(taken, f"row {bad}")
        if taken < rows.view.length:
            raise RecordTooLargeError("a record batch cannot exceed 2 GiB")
    return 0


cdef bytes seal(BatchWriter *writer, str compression, object level, int64_t producer_id, int producer_epoch,
                int32_t base_sequence):
    cdef kw_buf *out = NULL
    cdef int codec = codec_id(compression)
    cdef int c_level = CODEC_LEVEL_DEFAULT if level is None else level, code
    resolve_codec(codec)
    with nogil:
        code = writer_seal(writer, codec, c_level, &out, False)
        if code == 0:
            batch_stamp(out.data, out.size, producer_id, producer_epoch, base_sequence)
    if code != 0:
        if code == CODEC_NO_MEMORY - 100:
            raise MemoryError("no memory to compress a record batch")
        if code == WRITER_TOO_LARGE or code == WRITER_NO_MEMORY:
            writer_error(code, "batch")
        raise ConfigError(f"compression {compression!r} failed; is level {level!r} valid for it?")
    try:
        return PyBytes_FromStringAndSize(<const char *>out.data, out.size)
    finally:
        kw_buf_unref(out)


def encode_batch(records_or_arrow, str compression, level, int64_t base_offset, int64_t producer_id, int producer_epoch,
                 int32_t base_sequence, bint transactional, bint control, int timestamp_type, max_timestamp_ms):
    cdef BatchWriter writer
    if writer_open(&writer, 4096) != 0:
        raise MemoryError("no memory for a record batch")
    try:
        writer.base_offset = base_offset
        writer.attributes = ((ATTRIBUTE_TRANSACTIONAL if transactional else 0) | (ATTRIBUTE_CONTROL if control else 0)
                             | (ATTRIBUTE_LOG_APPEND if timestamp_type else 0))
        if hasattr(records_or_arrow, "__arrow_c_stream__") or (
                hasattr(records_or_arrow, "__arrow_c_array__") and not isinstance(records_or_arrow, Records)):
            append_arrow(&writer, records_or_arrow)
        else:
            append_objects(&writer, records_or_arrow)
        if max_timestamp_ms is not None:
            writer.max_timestamp = max_timestamp_ms
        return seal(&writer, compression, level, producer_id, producer_epoch, base_sequence)
    finally:
        writer_close(&writer)
