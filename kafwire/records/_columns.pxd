"""Columns of decoded records, before export. Buffers come from the process's pool."""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from kafwire.memory._buffer cimport kw_buf, kw_buf_new, kw_buf_reserve, process_pool
from kafwire.records._codec_status cimport SLACK


cdef enum:
    # bits of Columns.columns, DecodeSpec.columns, ArrowLayout.columns
    COLUMN_OFFSET = 1
    COLUMN_TIMESTAMP = 2
    COLUMN_TIMESTAMP_TYPE = 4
    COLUMN_KEY = 8
    COLUMN_VALUE = 16
    COLUMN_HEADERS = 32
    COLUMN_ALL = 63

    HEADER_COST = 9  # bytes of columns for each header, without key and value


# A variable-length column. `length` rows live in Columns; offsets has length + 1 entries.
cdef struct Bytes:
    kw_buf *offsets  # int32
    kw_buf *data
    kw_buf *validity  # bit set: not null; NULL: no nulls seen
    int64_t used  # bytes in data
    int64_t nulls


# Rows decoded so far. Initialise with columns_init(); _decode appends. NULL buffer: column not requested, or no row
# yet. `columns_split` leaves the rows `first` to `first + length` of buffers with `total` rows.
cdef struct Columns:
    uint32_t columns
    int64_t length
    int64_t first  # 0 while rows are appended
    int64_t total  # 0: `length`, all rows of the buffers
    int64_t capacity  # rows for which there is room
    size_t raw_bytes  # decompressed bytes of these batches
    int64_t base_offset  # of the first wire batch; -1 before it
    int64_t next_offset
    kw_buf *offset  # int64
    kw_buf *timestamp  # int64, ms; -1 = none
    kw_buf *timestamp_validity  # bitmap; NULL: no nulls seen
    int64_t timestamp_nulls
    kw_buf *timestamp_type  # int8; NULL: every row has timestamp_type_all
    int8_t timestamp_type_all  # -1 before the first row
    Bytes key
    Bytes value
    # headers: rows -> [header_offsets[i], header_offsets[i + 1]) of header_key and header_value
    kw_buf *header_offsets  # int32
    int64_t header_count
    int64_t header_capacity
    Bytes header_key
    Bytes header_value
    bint header_key_not_utf8  # some header key is not UTF-8
    double ratio  # decompressed / compressed bytes of the last compressed batch, 0 unknown
    kw_buf *scratch  # buffer for decompressed batches; freed by columns_finish


cdef void columns_init(Columns *columns) noexcept nogil
cdef void columns_clear(Columns *columns) noexcept nogil  # drop all buffers; they can be filled again
cdef void columns_finish(Columns *columns) noexcept nogil  # drop scratch; shrink buffers much larger than their content
# make `out` a second owner of the same buffers
cdef void columns_share(const Columns *columns, Columns *out) noexcept nogil
# Leave the first `rows` rows in `columns`, and put the others in `rest`: both own the same buffers. The columns must
# include offsets; the first part ends after its last record.
cdef void columns_split(Columns *columns, int64_t rows, Columns *rest) noexcept nogil
cdef size_t columns_bytes(const Columns *columns) noexcept nogil  # memory of the buffers, after columns_finish

cdef size_t row_cost(const Columns *c) noexcept nogil  # bytes per row, without keys, values and headers
cdef size_t content_cost(const Columns *c) noexcept nogil  # bytes of keys, values and headers

# Makes room for `rows` more rows, before a batch is appended, in every requested column; the first time for `expected`,
# if that is more. 0, or -1 for no memory.
cdef int reserve_rows(Columns *c, int64_t rows, int64_t expected) noexcept nogil
# Sets type `kind` for the rows from c.length on. One value stands for all until two differ.
cdef int set_timestamp_type(Columns *c, int8_t kind, int64_t rows) noexcept nogil
# Drops the rows of a batch that failed half-way, at row `reached`.
cdef void roll_back(Columns *c, const Columns *before, int64_t reached) noexcept nogil


# Functions called for each record are inline: a call of another compiled module goes through a pointer.

cdef inline int grow(kw_buf **buf, size_t used, size_t wanted) noexcept nogil:
    """Make room for `wanted` bytes and the slack; keep the first `used`. 0, or -1 for no memory."""
    if buf[0] is NULL:
        buf[0] = kw_buf_new(process_pool(), wanted + SLACK)
        return -1 if buf[0] is NULL else 0
    buf[0].size = used
    return kw_buf_reserve(buf, wanted + SLACK)


cdef inline int grow_validity(kw_buf **bitmap, int64_t old_rows, int64_t rows) noexcept nogil:
    """Grow a bitmap; new bits are set, so that only nulls touch it."""
    cdef size_t used = (old_rows + 7) // 8
    if grow(bitmap, used, (rows + 7) // 8) != 0:
        return -1
    memset(bitmap[0].data + used, 0xFF, bitmap[0].capacity - used)
    return 0


cdef inline int grow_bytes(Bytes *column, int64_t old_rows, int64_t rows) noexcept nogil:
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


cdef inline int reserve_headers(Columns *c, int64_t count, size_t content) noexcept nogil:
    """Make room for `count` more headers with at most `content` bytes of keys and values in total."""
    cdef int64_t wanted = c.header_count + count, old = c.header_count
    if wanted > c.header_capacity or c.header_key.offsets is NULL:
        wanted = max(wanted, 2 * c.header_capacity)
        if grow_bytes(&c.header_key, old, wanted) != 0 or grow_bytes(&c.header_value, old, wanted) != 0:
            return -1
        c.header_capacity = wanted
    if grow(&c.header_key.data, c.header_key.used, c.header_key.used + content) != 0:
        return -1
    return grow(&c.header_value.data, c.header_value.used, c.header_value.used + content)
