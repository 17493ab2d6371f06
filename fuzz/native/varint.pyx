"""Every bounds-checked read gives what a slow, obvious reader gives, or both fail; and it never reads past the end.

Input: one byte that chooses. 0-127: each further byte of the first half is a read from the second half by
`_buffer`'s Reader. 128-191: the rest is the timestamp delta (a varlong) of a record, 192-255: its offset delta (a
varint), which `_codec` decodes. No interpreter is used per input.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport Reader, read_bytes, read_i16, read_i32, read_i64, read_u8, read_uvarint, skip_tags
from kafwire._codec cimport DECODE_OK, DecodeSpec, DecodeStatus, decode_chunk, spec_init
from kafwire.records._batch_header cimport BATCH_HEADER
from kafwire.records._columns cimport COLUMN_OFFSET, COLUMN_TIMESTAMP, Columns, columns_clear, columns_init


def prepare():
    """Nothing to make ready: importing has bound the functions of `_codec`."""


# --- the slow, obvious reader: a position, and its error ------------------------------------------------------------

cdef struct Slow:
    const uint8_t *data
    size_t size
    size_t at
    bint failed


cdef uint64_t slow_fixed(Slow *r, size_t width) noexcept nogil:
    cdef uint64_t value = 0
    cdef size_t i
    if r.failed or r.size - r.at < width:
        r.failed = True
        return 0
    for i in range(width):
        value = value * 256 + r.data[r.at + i]
    r.at += width
    return value


cdef uint64_t slow_varint(Slow *r, int most_bytes, uint64_t last_most) noexcept nogil:
    """Seven bits a byte, the lowest first; the byte number `most_bytes` is at most `last_most`."""
    cdef uint64_t value = 0, byte
    cdef int i
    for i in range(most_bytes):
        if r.failed or r.at == r.size:
            r.failed = True
            return 0
        byte = r.data[r.at]
        r.at += 1
        if i == most_bytes - 1 and byte > last_most:
            break
        value += (byte % 128) << (7 * i)
        if byte < 128:
            return value
    r.failed = True
    return 0


cdef void slow_tags(Slow *r) noexcept nogil:
    cdef uint64_t count = slow_varint(r, 5, 15), size
    while count > 0 and not r.failed:
        slow_varint(r, 5, 15)
        size = slow_varint(r, 5, 15)
        if r.failed or size > r.size - r.at:
            r.failed = True
            return
        r.at += size
        count -= 1


cdef const char *reads(const uint8_t *kinds, size_t count, const uint8_t *data, size_t size) noexcept nogil:
    cdef Reader fast
    cdef Slow slow
    cdef size_t i, wanted
    cdef uint64_t a, b
    cdef bint had_failed
    fast.at = data
    fast.end = data + size
    fast.failed = False
    slow.data = data
    slow.size = size
    slow.at = 0
    slow.failed = False
    for i in range(count):
        a = b = 0
        had_failed = fast.failed
        if kinds[i] % 8 == 0:
            a = read_u8(&fast)
            b = slow_fixed(&slow, 1)
        elif kinds[i] % 8 == 1:
            a = <uint64_t>read_i16(&fast) & 0xFFFF
            b = slow_fixed(&slow, 2)
        elif kinds[i] % 8 == 2:
            a = <uint32_t>read_i32(&fast)
            b = slow_fixed(&slow, 4)
        elif kinds[i] % 8 == 3:
            a = <uint64_t>read_i64(&fast)
            b = slow_fixed(&slow, 8)
        elif kinds[i] % 8 == 4:
            wanted = kinds[i] // 8 if kinds[i] < 240 else <size_t>-1 - kinds[i]
            if read_bytes(&fast, wanted) is NULL:
                a = 1
            if slow.failed or wanted > slow.size - slow.at:
                slow.failed = True
                b = 1
            else:
                slow.at += wanted
        elif kinds[i] % 8 == 5:
            skip_tags(&fast)
            slow_tags(&slow)
        else:
            a = read_uvarint(&fast)
            b = slow_varint(&slow, 5, 15)
        if fast.failed != slow.failed:
            return b"only one of the two readers fails"
        if fast.at < data or fast.at > data + size:
            return b"the reader has left its bytes"
        if not fast.failed and (a != b or fast.at != data + slow.at):
            return b"the two readers differ"
        if had_failed and kinds[i] % 8 != 4 and a != 0:
            return b"a read after a failed one gives something"
    return NULL


# --- zigzag varints, as a record has them ---------------------------------------------------------------------------

cdef const char *record(const uint8_t *data, size_t size, bint is_long) noexcept nogil:
    cdef uint8_t number[12]
    cdef uint8_t batch[BATCH_HEADER + 32]
    cdef size_t most = 10 if is_long else 5, used = 0, whole
    cdef Slow slow
    cdef Columns columns
    cdef DecodeSpec spec
    cdef DecodeStatus status
    cdef uint64_t zigzag
    cdef int64_t wanted, got = 0
    cdef bint decodes
    cdef uint8_t *p = batch + BATCH_HEADER
    # one whole varint, or one with too many bytes
    while used < most and used < size:
        number[used] = data[used]
        used += 1
        if number[used - 1] < 128:
            break
    if used == 0 or (number[used - 1] >= 128 and used < most):
        number[used] = 0
        used += 1
    slow.data = number
    slow.size = used
    slow.at = 0
    slow.failed = False
    zigzag = slow_varint(&slow, most, 1 if is_long else 15)
    wanted = <int64_t>(zigzag // 2)
    if zigzag % 2 == 1:
        wanted = -wanted - 1

    memset(batch, 0, sizeof(batch))
    p[0] = <uint8_t>(2 * (used + 5))  # the record's length, a zigzag varint of one byte; then attributes
    memcpy(p + 2 + (0 if is_long else 1), number, used)
    p[3 + used] = p[4 + used] = 1  # a null key and a null value; no headers
    whole = BATCH_HEADER + 6 + used
    batch[11] = <uint8_t>(whole - 12)
    batch[16] = 2
    batch[23] = 0x7F  # the last offset delta: the highest there is
    batch[24] = batch[25] = batch[26] = 0xFF
    batch[60] = 1
    spec_init(&spec)
    spec.verify_crc = False
    spec.columns = COLUMN_OFFSET | COLUMN_TIMESTAMP
    columns_init(&columns)
    decodes = decode_chunk(batch, whole, &spec, &columns, &status) == DECODE_OK
    if decodes and columns.length == 1:
        got = (<int64_t *>(columns.timestamp if is_long else columns.offset).data)[0]
    columns_clear(&columns)
    if decodes != (not slow.failed and (is_long or wanted >= 0)):
        return b"only one of the two readers takes the record's varint"
    if decodes and got != wanted:
        return b"the record's varint is read as something else"
    return NULL


cdef public const char *fuzz_one(const uint8_t *data, size_t size) noexcept nogil:
    cdef size_t half
    if size == 0:
        return NULL
    if data[0] >= 128:
        return record(data + 1, size - 1, data[0] < 192)
    half = (size - 1) // 2
    return reads(data + 1, half, data + 1 + half, size - 1 - half)
