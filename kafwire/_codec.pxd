"""Record batches (magic 0, 1, 2) to columns, in one pass without the GIL.

The wire side of decision "columns, not objects": `decode_chunk` walks wire batches, checks CRC-32C, decompresses
and appends records to `Columns`, whose large buffers come from the process's pool. This module has no Python objects,
and threads share only the state that `_compress` guards. Below it, `_columns` has the columns and `_decode` the loop
over records. `_arrow` exports Columns, `_records` wraps them, `_encode` goes the other way.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kafwire.records._batch_header cimport BatchHeader
from kafwire.records._columns cimport Columns


cdef enum:
    # DecodeStatus.kind, the return value of decode_chunk
    DECODE_OK = 0
    DECODE_NEED_CODEC = 1  # take the GIL, resolve_codec(status.codec), call again
    DECODE_NO_MEMORY = 2
    DECODE_CORRUPT = 3  # the bytes contradict themselves
    DECODE_CRC = 4
    DECODE_TOO_LARGE = 5  # above max_decompressed, above the process's budget, or a column would pass 2 GiB
    DECODE_UNSUPPORTED = 6  # a magic or codec that does not exist
    DECODE_ORDER = 7  # base offsets that do not rise (check_order)

    # DecodeStatus.stop: why decode_chunk stopped
    STOP_END_OF_DATA = 0  # no whole batch is left; status.partial bytes of an incomplete one may be
    STOP_CHUNK_FULL = 1  # chunk_bytes or max_batches reached; call again from `consumed`
    STOP_END_OFFSET = 2  # the next batch starts at or after spec.end
    STOP_ERROR = 3

    # The decompressed bytes of a batch and the columns in `out` together take at most max_decompressed plus this: seven
    # bytes of an empty record become thirty in columns. Decompressed bytes are freed while columns are made of them.
    COLUMN_ROOM = 33554432


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
    size_t max_batches  # stop after this many wire batches; 0: no limit
    size_t max_decompressed  # of one wire batch; see COLUMN_ROOM
    size_t row_bytes  # bytes that an export of the columns adds for each row (from the Layout)
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


cdef void spec_init(DecodeSpec *spec) noexcept nogil  # all columns, verify, skip control, no limits but 256 MiB
cdef void aborted_sort(AbortedTransaction *aborted, int32_t count) noexcept nogil

# Decode whole batches from `data` and append their records to `out`; DecodeSpec has the stop conditions. Returns
# status.kind. On an error, `out` holds the rows of all batches before the bad one, and `consumed` is the start of the
# bad one.
cdef int decode_chunk(const uint8_t *data, size_t size, const DecodeSpec *spec, Columns *out,
                      DecodeStatus *status) noexcept nogil


cdef uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) noexcept nogil  # crc: 0, or the value so far

# With the GIL: raise ProtocolError for a failed status. `position` is added to its byte offset.
cdef object decode_error(const DecodeStatus *status, size_t position)
