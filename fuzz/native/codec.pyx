"""Record bytes become columns that agree with themselves, whole or batch by batch, or an error; within their limit of
memory.

Input: one byte of flags, one of columns and limit, then record batches. Flag 1: put each CRC right first, so that lies
behind it get through. Flag 2: the first batch's records are plain, compress them as its attributes say. No interpreter
is used per input.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire._codec cimport (
    DECODE_NEED_CODEC, DECODE_OK, STOP_CHUNK_FULL, STOP_END_OF_DATA, AbortedTransaction, DecodeSpec, DecodeStatus,
    aborted_sort, crc32c, decode_chunk, spec_init,
)
from kafwire.records._batch_header cimport ATTRIBUTE_CODEC, BATCH_HEADER, BatchHeader, batch_header
from kafwire.records._columns cimport (
    COLUMN_ALL, COLUMN_HEADERS, COLUMN_KEY, COLUMN_OFFSET, COLUMN_TIMESTAMP, COLUMN_VALUE, Bytes, Columns,
    columns_bytes, columns_clear, columns_finish, columns_init, columns_share,
)
from kafwire.records._codec_status cimport CODEC_LEVEL_DEFAULT, CODEC_LZ4, CODEC_NONE, CODEC_OK
from kafwire.records._compress cimport compress, resolve_codec


cdef enum:
    RIGHT_CRC = 1
    PACK = 2
    NO_CRC = 4
    READ_COMMITTED = 8
    KEEP_CONTROL = 16
    IN_ORDER = 32
    BOUNDED = 64
    CHUNKED = 128

    LARGEST_DECOMPRESSED = 1 << 20
    # The memory of a batch beyond its records: rows of a fixed size each (a record is 7 bytes at least), growth by
    # doubling, lz4's and gzip's rooms of 64 KiB.
    MEMORY_FACTOR = 64

cdef size_t[4] LIMITS = [1 << 16, 1000, 1 << 18, LARGEST_DECOMPRESSED]
cdef uint32_t _crc_table[256]


def prepare():
    """Bind the libraries of all codecs, and make the table of CRC-32."""
    cdef uint32_t i, crc
    cdef int codec
    for codec in range(5):
        resolve_codec(codec)
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320u if crc & 1 else 0)
        _crc_table[i] = crc


cdef uint32_t crc32(const uint8_t *data, size_t size) noexcept nogil:
    cdef uint32_t crc = 0xFFFFFFFFu
    cdef size_t i
    for i in range(size):
        crc = crc >> 8 ^ _crc_table[(crc ^ data[i]) & 255]
    return ~crc


cdef void put32(uint8_t *to, uint32_t value) noexcept nogil:
    to[0] = value >> 24
    to[1] = value >> 16 & 255
    to[2] = value >> 8 & 255
    to[3] = value & 255


cdef void right_crcs(uint8_t *data, size_t size) noexcept nogil:
    cdef BatchHeader header
    cdef const char *reason
    cdef size_t at = 0, whole
    while batch_header(data + at, size - at, &header, &reason) == 1:
        whole = 12 + <size_t>header.length
        if header.magic == 2:
            put32(data + at + 17, crc32c(0, data + at + 21, whole - 21))
        else:
            put32(data + at + 12, crc32(data + at + 16, whole - 16))
        at += whole


cdef kw_buf *packed(const uint8_t *data, size_t size) noexcept nogil:
    """The same with the records of the first batch compressed; NULL where that cannot be."""
    cdef BatchHeader header
    cdef const char *reason
    cdef size_t whole
    cdef kw_buf *out
    cdef int codec
    if batch_header(data, size, &header, &reason) != 1 or header.magic != 2:
        return NULL
    codec = header.attributes & ATTRIBUTE_CODEC
    if codec == CODEC_NONE or codec > 4:
        return NULL
    whole = 12 + <size_t>header.length
    out = kw_buf_new(process_pool(), BATCH_HEADER)
    memcpy(out.data, data, BATCH_HEADER)
    out.size = BATCH_HEADER
    if compress(codec, CODEC_LEVEL_DEFAULT, data + BATCH_HEADER, whole - BATCH_HEADER, &out, &reason) != CODEC_OK:
        kw_buf_unref(out)
        return NULL
    put32(out.data + 8, out.size - 12)
    return out


# --- what columns must be -------------------------------------------------------------------------------------------

cdef uint64_t mix(uint64_t hash_, uint64_t value) noexcept nogil:
    return (hash_ ^ value) * 0x9E3779B97F4A7C15ULL ^ (hash_ >> 29)


cdef bint is_set(const kw_buf *bits, int64_t row) noexcept nogil:
    return bits is NULL or bits.data[row >> 3] >> (row & 7) & 1


cdef const char *look_at_bytes(const Bytes *column, int64_t start, int64_t rows, int64_t capacity,
                               uint64_t *hash_) noexcept nogil:
    """Check rows [start, rows) and take their content into the hash."""
    cdef const int32_t *offsets
    cdef int64_t row, i, nulls = 0
    if rows == 0:
        return NULL
    if column.offsets is NULL or column.offsets.capacity < 4 * <size_t>(rows + 1):
        return b"a column without room for its offsets"
    offsets = <const int32_t *>column.offsets.data
    if offsets[0] != 0 or offsets[rows] != column.used:
        return b"a column's offsets do not span its bytes"
    if column.used > 0 and (column.data is NULL or column.data.capacity < <size_t>column.used):
        return b"a column without room for its bytes"
    for row in range(rows):
        if offsets[row + 1] < offsets[row]:
            return b"a column's offsets fall"
        if not is_set(column.validity, row):
            nulls += 1
            if offsets[row + 1] != offsets[row]:
                return b"a null with bytes"
        if row >= start:
            hash_[0] = mix(hash_[0], offsets[row + 1] - offsets[row] if is_set(column.validity, row) else -1)
            for i in range(offsets[row], offsets[row + 1]):
                hash_[0] = mix(hash_[0], column.data.data[i])
    if nulls != column.nulls:
        return b"nulls are miscounted"
    return NULL


cdef const char *look_at(const Columns *c, const DecodeSpec *spec, uint64_t *hash_) noexcept nogil:
    """NULL, or the fault of the columns; the hash is of all they hold."""
    cdef int64_t row, nulls = 0, headers
    cdef const int32_t *offsets
    cdef const char *wrong = NULL
    hash_[0] = mix(hash_[0], c.length)
    for row in range(c.length):
        if c.columns & COLUMN_OFFSET:
            hash_[0] = mix(hash_[0], (<int64_t *>c.offset.data)[row])
            if not spec.start <= (<int64_t *>c.offset.data)[row] < spec.end:
                return b"an offset that was not asked for"
            if spec.check_order and row and (<int64_t *>c.offset.data)[row] <= (<int64_t *>c.offset.data)[row - 1]:
                return b"offsets do not rise"
        if c.columns & COLUMN_TIMESTAMP:
            hash_[0] = mix(hash_[0], (<int64_t *>c.timestamp.data)[row])
            nulls += not is_set(c.timestamp_validity, row)
            if is_set(c.timestamp_validity, row) != ((<int64_t *>c.timestamp.data)[row] != -1):
                return b"a timestamp is null and is not"
        hash_[0] = mix(hash_[0], (<int8_t *>c.timestamp_type.data)[row] if c.timestamp_type is not NULL
                       else c.timestamp_type_all)
    if c.columns & COLUMN_TIMESTAMP and nulls != c.timestamp_nulls:
        return b"null timestamps are miscounted"
    if c.columns & COLUMN_KEY:
        wrong = look_at_bytes(&c.key, 0, c.length, c.capacity, hash_)
    if wrong is NULL and c.columns & COLUMN_VALUE:
        wrong = look_at_bytes(&c.value, 0, c.length, c.capacity, hash_)
    if wrong is NULL and c.columns & COLUMN_HEADERS and c.length > 0:
        offsets = <const int32_t *>c.header_offsets.data
        headers = offsets[c.length]
        if offsets[0] != 0 or headers != c.header_count:
            return b"header offsets do not span the headers"
        for row in range(c.length):
            hash_[0] = mix(hash_[0], offsets[row + 1] - offsets[row])
            if offsets[row + 1] < offsets[row]:
                return b"header offsets fall"
        wrong = look_at_bytes(&c.header_key, 0, headers, c.header_capacity, hash_)
        if wrong is NULL and c.header_key.nulls:
            wrong = b"a header without a key"
        if wrong is NULL:
            wrong = look_at_bytes(&c.header_value, 0, headers, c.header_capacity, hash_)
    return wrong


# After a batch that failed the columns must be as before it, so that more can be appended: sound records without nulls.

cdef enum:
    SOUND_ROWS = 1  # few, so that the buffers need not grow: growing would mend their bits
    SOUND_SIZE = BATCH_HEADER + 7 * SOUND_ROWS


cdef const char *append_sound(Columns *c) noexcept nogil:
    cdef uint8_t batch[SOUND_SIZE]
    cdef DecodeSpec spec
    cdef DecodeStatus status
    cdef int64_t rows = c.length
    cdef uint64_t ignored = 0
    cdef int i
    memset(batch, 0, SOUND_SIZE)
    batch[11] = SOUND_SIZE - 12
    batch[16] = 2
    batch[26] = batch[60] = SOUND_ROWS
    for i in range(SOUND_ROWS):
        batch[BATCH_HEADER + 7 * i] = 12  # the record's length, 6
        batch[BATCH_HEADER + 7 * i + 3] = 2 * i  # its offset delta; key and value are empty
    spec_init(&spec)
    spec.columns = c.columns
    spec.verify_crc = False
    if decode_chunk(batch, SOUND_SIZE, &spec, c, &status) != DECODE_OK or c.length != rows + SOUND_ROWS:
        return b"after a failed batch a sound one does not decode"
    return look_at(c, &spec, &ignored)


# --- one input ------------------------------------------------------------------------------------------------------

cdef enum:
    ABORTED = 3


cdef void new_spec(DecodeSpec *spec, AbortedTransaction *aborted, uint8_t flags, uint8_t choice) noexcept nogil:
    spec_init(spec)
    spec.columns = choice & COLUMN_ALL if choice & COLUMN_ALL else COLUMN_ALL
    spec.max_decompressed = LIMITS[choice >> 6]
    spec.verify_crc = not flags & NO_CRC
    spec.skip_control = not flags & KEEP_CONTROL
    spec.check_order = flags & IN_ORDER != 0
    if flags & BOUNDED:
        spec.start = 1
        spec.end = 40
    if flags & CHUNKED:
        spec.chunk_bytes = 64
    if flags & READ_COMMITTED:
        memset(aborted, 0, ABORTED * sizeof(AbortedTransaction))
        aborted[0].producer_id = 1000
        aborted[1].first_offset = 2
        aborted[2].producer_id = 1
        aborted_sort(aborted, ABORTED)
        spec.aborted = aborted
        spec.aborted_count = ABORTED


cdef const char *decode(const uint8_t *data, size_t size, uint8_t flags, uint8_t choice, size_t max_batches,
                        uint64_t *hash_, int *kind, size_t *consumed, int64_t *rows) noexcept nogil:
    """Decode all of it in as many calls as it takes, into one set of columns."""
    cdef AbortedTransaction aborted[ABORTED]
    cdef DecodeSpec spec
    cdef DecodeStatus status
    cdef Columns columns, shared
    cdef const char *wrong = NULL
    cdef size_t at = 0
    cdef uint64_t again = 0
    new_spec(&spec, aborted, flags, choice)
    if max_batches:
        spec.max_batches = max_batches
        spec.chunk_bytes = 0
    columns_init(&columns)
    while True:
        kind[0] = decode_chunk(data + at, size - at, &spec, &columns, &status)
        if kind[0] == DECODE_NEED_CODEC:
            wrong = b"a codec is not resolved"
        elif status.consumed > size - at or (
                kind[0] == DECODE_OK and status.stop == STOP_END_OF_DATA and status.consumed + status.partial != size - at):
            wrong = b"consumed and partial bytes do not add up"
        elif kind[0] != DECODE_OK and status.error_offset > size - at:
            wrong = b"an error beyond the data"
        elif columns_bytes(&columns) > MEMORY_FACTOR * (spec.max_decompressed + size + 4096):
            wrong = b"more memory than the limits allow"
        at += status.consumed
        if wrong is not NULL or kind[0] != DECODE_OK or status.stop != STOP_CHUNK_FULL or status.batches == 0:
            break
        columns.raw_bytes = 0
    consumed[0] = at
    rows[0] = columns.length
    if wrong is NULL:
        wrong = look_at(&columns, &spec, hash_)
    if wrong is NULL and kind[0] != DECODE_OK and columns.columns != 0:
        wrong = append_sound(&columns)
    elif wrong is NULL:
        columns_finish(&columns)
        columns_share(&columns, &shared)
        columns_clear(&columns)
        wrong = look_at(&shared, &spec, &again)
        columns_clear(&shared)
        if wrong is NULL and again != hash_[0]:
            wrong = b"finishing or sharing changes the columns"
    columns_clear(&columns)
    return wrong


cdef const char *check(const uint8_t *data, size_t size, uint8_t flags, uint8_t choice) noexcept nogil:
    cdef uint64_t whole_hash = 0, single_hash = 0
    cdef int whole_kind, single_kind
    cdef size_t whole_used, single_used
    cdef int64_t whole_rows, single_rows
    cdef const char *wrong
    wrong = decode(data, size, flags, choice, 0, &whole_hash, &whole_kind, &whole_used, &whole_rows)
    if wrong is NULL:
        wrong = decode(data, size, flags, choice, 1, &single_hash, &single_kind, &single_used, &single_rows)
    if wrong is NULL and (whole_kind != single_kind or whole_used != single_used or whole_rows != single_rows
                          or whole_hash != single_hash):
        wrong = b"batch by batch comes out otherwise than whole"
    return wrong


cdef public const char *fuzz_one(const uint8_t *data, size_t size) noexcept nogil:
    cdef kw_buf *compressed = NULL
    cdef uint8_t *copy
    cdef size_t length
    cdef const char *wrong
    if size < 2:
        return NULL
    if data[0] & PACK:
        compressed = packed(data + 2, size - 2)
    length = size - 2 if compressed is NULL else compressed.size
    copy = <uint8_t *>malloc(length + (length == 0))  # exactly as long as it is: a read beyond it shows
    if length:
        memcpy(copy, data + 2 if compressed is NULL else compressed.data, length)
    kw_buf_unref(compressed)
    if data[0] & RIGHT_CRC:
        right_crcs(copy, length)
    wrong = check(copy, length, data[0], data[1])
    free(copy)
    return wrong
