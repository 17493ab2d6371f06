"""Decoded rows above a reader's limit: they wait for the next read, and their slice is back in the queue."""
from libc.stdint cimport int32_t, int64_t

from kafwire._codec cimport AbortedTransaction
from kafwire.consumer.fetch._fetch_buffer cimport kw_place, kw_queue, kw_records
from kafwire.records._columns cimport Columns


# The queue has the slice again, from its first withheld row on, and the partition's position is at that row. To the
# queue, a withheld row is fetched and unread: seeks, pauses, revocations, positions and commits need no code for it.
# The columns save a second decoding. They are valid while the queue has the same slice; the reference to its frame
# keeps the memory from being used again.
cdef struct Withheld:
    bint has_rows
    Columns columns
    kw_records slice  # as the queue will return it
    size_t used  # bytes of the slice that the rows take
    int64_t next_offset  # of the first record behind the rows
    # Decoding marks each aborted transaction whose end it has passed. The marks before the rows, and behind them:
    AbortedTransaction *before
    AbortedTransaction *behind
    int32_t room  # of both


# Keep the marks of the slice before a chunk of it is decoded. False: no memory.
cdef bint withheld_begin(Withheld *withheld, const kw_records *slice) noexcept nogil
# Move the rows behind the first `rows` out of `columns`, which come from the bytes `begin` to `used` of the slice. The
# caller then returns the slice to the queue, unused from `begin` on, with the position `columns.next_offset`.
cdef void withheld_keep(Withheld *withheld, Columns *columns, int64_t rows, kw_records *slice, size_t begin,
                        size_t used, int64_t next_offset) noexcept nogil
# Pop the queue's next slice and fill `out`, if the withheld rows come from that slice. Otherwise drop the rows.
cdef bint withheld_take(Withheld *withheld, kw_queue *queue, kw_place *only, Columns *out, kw_records *slice)\
    noexcept nogil
cdef void withheld_drop(Withheld *withheld) noexcept nogil
# Drop the rows, and free the marks.
cdef void withheld_end(Withheld *withheld) noexcept nogil
