# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c
"""Magic 0 and 1 messages; `records/_message_set.pxd` is the contract."""
from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from kafwire.records._batch_header cimport ATTRIBUTE_CODEC, ATTRIBUTE_LOG_APPEND, LOG_OVERHEAD
from kafwire.memory._buffer cimport kw_be32, kw_be64, kw_buf, kw_le32, kw_put_uvarint, kw_uvarint_size, kw_zigzag
from kafwire.records._codec_status cimport (
    CODEC_CORRUPT, CODEC_LZ4, CODEC_NONE, CODEC_OK, CODEC_UNKNOWN, CODEC_ZSTD, make_room,
)
from kafwire.records._compress cimport decompress, decompress_lz4


cdef struct Message:
    int64_t offset
    size_t size  # of the whole message
    int8_t magic
    int8_t attributes
    int64_t timestamp  # -1 with magic 0
    const uint8_t *key
    int32_t key_size
    const uint8_t *value
    int32_t value_size


cdef const char *read_message(const uint8_t *p, size_t size, bint verify_crc, Message *out) noexcept nogil:
    """Parse a message; return NULL, or why the bytes are not one."""
    cdef int32_t length
    cdef const uint8_t *end
    if size < LOG_OVERHEAD + 14:
        return "a message is truncated"
    out.offset = kw_be64(p)
    length = kw_be32(p + 8)
    out.magic = <int8_t>p[16]
    if out.magic != 0 and out.magic != 1:
        return "a message of another magic inside a message set"
    if length < (14 if out.magic == 0 else 22) or <size_t>length > size - LOG_OVERHEAD:
        return "a message length that is too small or beyond the data"
    out.size = LOG_OVERHEAD + <size_t>length
    end = p + out.size
    if verify_crc and kw_crc32(p + 16, out.size - 16) != <uint32_t>kw_be32(p + 12):
        return "the CRC-32 of a message does not match"
    out.attributes = <int8_t>p[17]
    p += 18
    out.timestamp = -1
    if out.magic == 1:
        out.timestamp = kw_be64(p)
        p += 8
    out.key_size = kw_be32(p)
    p += 4
    if out.key_size < -1 or out.key_size > end - p - 4:
        return "a key length beyond the message"
    out.key = p
    if out.key_size > 0:
        p += out.key_size
    out.value_size = kw_be32(p)
    p += 4
    if out.value_size < -1 or out.value_size > end - p:
        return "a value length beyond the message"
    out.value = p
    if out.value_size > 0:
        p += out.value_size
    if p != end:
        return "bytes left over in a message"
    return NULL


cdef uint8_t *put_bytes(uint8_t *p, const uint8_t *data, int32_t size) noexcept nogil:
    p = kw_put_uvarint(p, kw_zigzag(size))
    if size > 0:
        memmove(p, data, size)
        p += size
    return p


cdef uint8_t *put_record(uint8_t *p, const Message *message, int64_t timestamp_delta,
                         int64_t offset_delta) noexcept nogil:
    cdef size_t length = (1 + kw_uvarint_size(kw_zigzag(timestamp_delta)) + kw_uvarint_size(kw_zigzag(offset_delta))
                          + kw_uvarint_size(kw_zigzag(message.key_size)) + max(message.key_size, 0)
                          + kw_uvarint_size(kw_zigzag(message.value_size)) + max(message.value_size, 0) + 1)
    p = kw_put_uvarint(p, kw_zigzag(length))
    p[0] = 0
    p = kw_put_uvarint(p + 1, kw_zigzag(timestamp_delta))
    p = kw_put_uvarint(p, kw_zigzag(offset_delta))
    p = put_bytes(p, message.key, message.key_size)
    p = put_bytes(p, message.value, message.value_size)
    p[0] = 0
    return p + 1


# --- the lz4 header checksum of magic 0 -----------------------------------------------------------------------------
# Clients of that time included the frame's magic number (KAFKA-3160). A reader must accept both.

cdef uint32_t rotate(uint32_t value, int bits) noexcept nogil:
    return value << bits | value >> (32 - bits)


cdef uint32_t xxh32_short(const uint8_t *p, size_t size) noexcept nogil:
    """Return the xxHash-32, seed 0, of less than 16 bytes."""
    cdef uint32_t h = 374761393u + <uint32_t>size
    cdef size_t i = 0
    while i + 4 <= size:
        h = rotate(h + kw_le32(p + i) * 3266489917u, 17) * 668265263u
        i += 4
    while i < size:
        h = rotate(h + p[i] * 374761393u, 11) * 2654435761u
        i += 1
    h = (h ^ h >> 15) * 2246822519u
    h = (h ^ h >> 13) * 3266489917u
    return h ^ h >> 16


cdef int unpack(int codec, const Message *wrapper, kw_buf **out, size_t limit, const char **reason) noexcept nogil:
    cdef uint8_t head[15]
    cdef size_t size = wrapper.value_size, descriptor
    if codec != CODEC_LZ4 or wrapper.magic != 0 or size < 7:
        return decompress(codec, wrapper.value, size, out, limit, 0, reason)
    descriptor = 2 + (8 if wrapper.value[4] & 8 else 0)
    if size < 5 + descriptor:
        return decompress(codec, wrapper.value, size, out, limit, 0, reason)
    memcpy(head, wrapper.value, 5 + descriptor)
    head[4 + descriptor] = <uint8_t>(xxh32_short(head + 4, descriptor) >> 8 & 255)
    return decompress_lz4(head, 5 + descriptor, wrapper.value, size, out, limit, reason)


cdef int unwrap(const Message *wrapper, kw_buf *buf, bint verify_crc, int32_t *count, int64_t *base_offset,
                int32_t *last_offset_delta, int64_t *base_timestamp, const char **reason) noexcept nogil:
    """Rewrite the messages in `buf` as records in place.

    A message of magic 0 has 22 bytes before its key, 4 before its value and none after it, and becomes a record with at
    most 17, 5 and 1 of them (its timestamp takes one); one of magic 1 has 30, and 26 are needed. So the writes never
    overtake the reads.
    """
    cdef Message message
    cdef size_t at = 0
    cdef int64_t first = 0, first_timestamp = 0, timestamp
    cdef uint8_t *to = buf.data
    cdef int32_t n = 0
    while at < buf.size:
        reason[0] = read_message(buf.data + at, buf.size - at, verify_crc, &message)
        if reason[0] is not NULL:
            return CODEC_CORRUPT
        if message.magic != wrapper.magic or message.attributes & ATTRIBUTE_CODEC:
            reason[0] = "a compressed message, or one of another magic, inside a compressed one"
            return CODEC_CORRUPT
        timestamp = message.timestamp
        if wrapper.magic == 1 and wrapper.attributes & ATTRIBUTE_LOG_APPEND:
            timestamp = wrapper.timestamp
        if n == 0:
            first = message.offset
            first_timestamp = timestamp
        if message.offset < first or message.offset - first > 0x7FFFFFFF:
            reason[0] = "offsets inside a compressed message that do not rise"
            return CODEC_CORRUPT
        to = put_record(to, &message, <int64_t>(<uint64_t>timestamp - <uint64_t>first_timestamp),
                        message.offset - first)
        n += 1
        at += message.size
    if n == 0:
        reason[0] = "a compressed message without content"
        return CODEC_CORRUPT
    buf.size = to - buf.data
    count[0] = n
    last_offset_delta[0] = <int32_t>(message.offset - first)
    base_timestamp[0] = first_timestamp
    # Magic 0 stores absolute offsets; with magic 1 they are relative, and the wrapper has the last one's (KIP-31). A
    # producer's wrapper has 0.
    base_offset[0] = first
    if wrapper.magic == 1 and wrapper.offset >= message.offset:
        base_offset[0] = wrapper.offset - last_offset_delta[0]
    if base_offset[0] < 0:  # the offset after the last one must exist
        reason[0] = "offsets below zero"
        return CODEC_CORRUPT
    if base_offset[0] > INT64_MAX - 1 - last_offset_delta[0]:  # the offset after the last one has to exist
        reason[0] = "an offset above the largest"
        return CODEC_CORRUPT
    return CODEC_OK


cdef int legacy_records(const uint8_t *message, size_t size, const BatchHeader *header, kw_buf **out, size_t limit,
                        bint verify_crc, int32_t *count, int64_t *base_offset, int32_t *last_offset_delta,
                        int64_t *base_timestamp, const char **reason) noexcept nogil:
    cdef Message outer
    cdef int codec, code
    reason[0] = read_message(message, size, verify_crc, &outer)
    if reason[0] is not NULL:
        return CODEC_CORRUPT
    codec = outer.attributes & ATTRIBUTE_CODEC
    if out[0] is not NULL:
        out[0].size = 0
    if codec == CODEC_NONE:
        code = make_room(out, size)
        if code != CODEC_OK:
            return code
        out[0].size = put_record(out[0].data, &outer, 0, 0) - out[0].data
        count[0] = 1
        base_offset[0] = outer.offset
        last_offset_delta[0] = 0
        base_timestamp[0] = outer.timestamp
        return CODEC_OK
    if codec >= CODEC_ZSTD:
        return CODEC_UNKNOWN
    if outer.value_size < 0:
        reason[0] = "a compressed message without a value"
        return CODEC_CORRUPT
    code = unpack(codec, &outer, out, limit, reason)
    if code != CODEC_OK:
        return code
    if out[0] is NULL:
        reason[0] = "a compressed message without content"
        return CODEC_CORRUPT
    return unwrap(&outer, out[0], verify_crc, count, base_offset, last_offset_delta, base_timestamp, reason)
