"""The records of one batch to rows of columns: what `_codec` calls once for each batch."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._columns cimport Columns


cdef enum:
    SMALLEST_RECORD = 7  # length, attributes, timestamp, offset, key length, value length, header count: a byte each


# The records of one batch, decompressed, and what they are decoded with.
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
    const char *reason  # of a failure; NULL: no memory
    bint too_large
    const uint8_t *at
    int32_t record
    int32_t control_type  # of the first record's key, -1 if it is none


# Which records become rows.
cdef struct RowFilter:
    bint none
    int64_t start  # start <= offset < end
    int64_t end
    bint by_timestamp  # from_ms <= timestamp < to_ms, of records that have a timestamp
    int64_t from_ms
    int64_t to_ms


# Check all records and append those that `filter` lets pass; there has to be room for them (`reserve_rows`, and for all
# of the payload in the values). 0, or -1 with in_.reason, at, record and too_large, and `c` as it was before.
cdef int append_records(Columns *c, Payload *in_, const RowFilter *filter) noexcept nogil
