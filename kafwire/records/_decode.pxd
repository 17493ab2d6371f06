"""Decodes the records of one batch to rows of columns; `_codec` calls it once per batch."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._columns cimport Columns


cdef enum:
    SMALLEST_RECORD = 7  # length, attributes, timestamp, offset, key length, value length, header count: one byte each


# The decompressed records of one batch, and the parameters of their decoding.
cdef struct Payload:
    const uint8_t *start
    const uint8_t *end
    const uint8_t *readable  # end of the readable memory (not of the data)
    int64_t base_offset
    int32_t last_offset_delta
    int32_t count
    int64_t base_timestamp
    int64_t log_append  # timestamp of every record, if is_log_append
    bint is_log_append
    kw_buf *scratch  # the large buffer of these bytes, released in steps; NULL: not owned
    const uint8_t *discarded  # released up to here
    int64_t most_headers  # limit of headers in `Columns`
    # results
    const char *reason  # of a failure; NULL: no memory
    bint too_large
    const uint8_t *at
    int32_t record
    int32_t control_type  # from the first record's key; -1 without one


# Which records become rows.
cdef struct RowFilter:
    bint none
    int64_t start  # start <= offset < end
    int64_t end
    bint by_timestamp  # from_ms <= timestamp < to_ms, of records that have a timestamp
    int64_t from_ms
    int64_t to_ms


# Check all records and append those that pass `filter`; there must be room (`reserve_rows`, and for the whole payload
# in the values). 0, or -1 with in_.reason, at, record and too_large, and `c` unchanged.
cdef int append_records(Columns *c, Payload *in_, const RowFilter *filter) noexcept nogil
