"""Record batches (magic 0, 1, 2) to columns, in one pass without the GIL.

The wire side of decision "columns, not objects": `decode_chunk` walks wire batches, checks CRC-32C, decompresses
and appends records to `Columns`, whose large buffers come from the process's pool. Nothing here is Python, nothing
here is shared between threads except what `_compress` guards. `_arrow` exports Columns, `_records` wraps them,
`_encode` goes the other way.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kafwire.memory._buffer cimport kw_buf


cdef enum:
    # DecodeSpec.columns, ArrowLayout: which columns
    COLUMN_OFFSET = 1
    COLUMN_TIMESTAMP = 2
    COLUMN_TIMESTAMP_TYPE = 4
    COLUMN_KEY = 8
    COLUMN_VALUE = 16
    COLUMN_HEADERS = 32
    COLUMN_ALL = 63

    # DecodeStatus.kind, the answer of decode_chunk
    DECODE_OK = 0
    DECODE_NEED_CODEC = 1  # take the GIL, resolve_codec(status.codec), call again
    DECODE_NO_MEMORY = 2
    DECODE_CORRUPT = 3  # the bytes contradict themselves
    DECODE_CRC = 4
    DECODE_TOO_LARGE = 5  # above max_decompressed, above the process's budget, or a column would pass 2 GiB
    DECODE_UNSUPPORTED = 6  # a magic or codec that does not exist
    DECODE_ORDER = 7  # base offsets that do not rise (check_order)

    # why decode_chunk stopped: DecodeStatus.stop
    STOP_END_OF_DATA = 0  # no whole batch is left; status.partial bytes of an incomplete one may be
    STOP_CHUNK_FULL = 1  # chunk_bytes or max_batches reached; call again from `consumed`
    STOP_END_OFFSET = 2  # the next batch starts at or after spec.end
    STOP_ERROR = 3

    BATCH_HEADER = 61  # bytes before the records of a magic 2 batch

    # What a batch decompresses to and the columns in `out` may take max_decompressed and this together: seven bytes of
    # an empty record become thirty in columns. Decompressed bytes go back to the system while columns are made of them.
    COLUMN_ROOM = 33554432

    ATTRIBUTE_CODEC = 7
    ATTRIBUTE_LOG_APPEND = 8
    ATTRIBUTE_TRANSACTIONAL = 16
    ATTRIBUTE_CONTROL = 32
    ATTRIBUTE_DELETE_HORIZON = 64


# One aborted transaction of a Fetch response. `done` is decode state: start with 0, keep it between the chunks of a
# response.
cdef struct AbortedTransaction:
    int64_t producer_id
    int64_t first_offset
    int8_t done


cdef struct DecodeSpec:
    uint32_t columns  # COLUMN_* mask: only these are filled
    bint verify_crc
    bint skip_control  # control batches give no rows (they count as progress)
    bint check_order  # base offsets must rise from batch to batch
    int64_t start  # keep start <= offset < end
    int64_t end
    bint by_timestamp  # keep from_ms <= timestamp < to_ms, of records that have a timestamp
    int64_t from_ms
    int64_t to_ms
    size_t chunk_bytes  # stop after the wire batch that takes Columns.raw_bytes to this; 0: no limit
    size_t max_batches  # stop after so many wire batches; 0: no limit
    size_t max_decompressed  # of one wire batch; see COLUMN_ROOM
    size_t row_bytes  # what an export of the columns adds for each row (Layout knows)
    size_t kept  # bytes of columns that the caller keeps meanwhile
    # read_committed: the response's list, after aborted_sort(); NULL: read_uncommitted
    AbortedTransaction *aborted
    int32_t aborted_count


cdef struct DecodeStatus:
    int kind
    int stop
    int codec  # the codec to resolve (DECODE_NEED_CODEC)
    size_t consumed  # bytes of `data` used up, always at a batch boundary
    size_t partial  # bytes of an incomplete batch at the end
    int64_t next_offset  # last offset of the last batch consumed + 1; untouched when none was
    int64_t base_offset  # on an error: of the bad batch (-1 unknown)
    size_t error_offset  # on an error: byte position in `data` (in a compressed batch: of its start)
    int64_t last_base_offset  # of the last batch consumed
    int32_t batches  # wire batches consumed by this call
    char message[192]


# A variable-length column. `length` rows live in Columns; offsets has length + 1 entries.
cdef struct Bytes:
    kw_buf *offsets  # int32
    kw_buf *data
    kw_buf *validity  # bit set = there; NULL: no nulls seen
    int64_t used  # bytes in data
    int64_t nulls


# Rows decoded so far. Start from columns_init(); decode_chunk appends. NULL buffer: column not asked for, or no row
# yet.
cdef struct Columns:
    uint32_t columns
    int64_t length
    int64_t capacity  # rows there is room for
    size_t raw_bytes  # decompressed bytes of the batches in here
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
    kw_buf *scratch  # where batches are decompressed; freed by columns_finish


# The header of one magic 2 batch, or of one magic 0/1 message.
cdef extern from "kafwire/records/native/batch.h" nogil:
    ctypedef struct BatchHeader "kw_batch_header":
        int64_t base_offset
        int32_t length
        int32_t leader_epoch
        int8_t magic
        uint32_t crc
        int16_t attributes
        int32_t last_offset_delta
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int16_t producer_epoch
        int32_t base_sequence
        int32_t count
    int batch_header "kw_batch_header_read"(const uint8_t *data, size_t size, BatchHeader *out, const char **reason)


cdef void columns_init(Columns *columns) noexcept nogil
cdef void columns_clear(Columns *columns) noexcept nogil  # drop all buffers; ready to be filled again
cdef void columns_finish(Columns *columns) noexcept nogil  # drop scratch, and what is much larger than its content
cdef void columns_share(const Columns *columns, Columns *out) noexcept nogil  # a second holder of the same buffers
cdef size_t columns_bytes(const Columns *columns) noexcept nogil  # memory held by buffers, after columns_finish

cdef void spec_init(DecodeSpec *spec) noexcept nogil  # all columns, verify, skip control, no limits but 256 MiB
cdef void aborted_sort(AbortedTransaction *aborted, int32_t count) noexcept nogil

# Decode whole batches from `data` and append their records to `out`; see DecodeSpec for when it stops. Answers
# status.kind. On an error `out` holds the rows of all batches before the bad one, and `consumed` is where the bad
# one starts.
cdef int decode_chunk(const uint8_t *data, size_t size, const DecodeSpec *spec, Columns *out,
                      DecodeStatus *status) noexcept nogil


cdef uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) noexcept nogil  # crc: 0, or the value so far

# With the GIL: raise ProtocolError for a failed status. `position` is added to its byte offset.
cdef object decode_error(const DecodeStatus *status, size_t position)
