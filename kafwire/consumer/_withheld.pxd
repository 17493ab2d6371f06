"""Rows that were decoded and are above a reader's limit: the queue has their slice, and they wait for the next read."""
from libc.stdint cimport int32_t, int64_t

from kafwire._codec cimport AbortedTransaction
from kafwire.consumer._fetch_buffer cimport kw_place, kw_queue, kw_records
from kafwire.records._columns cimport Columns


# The queue has the slice again, from its first withheld row on, and the partition's position is there. So a row that is
# withheld is a row that was fetched and not read: seeking, pausing, dropping and revoking the partition, its position
# and what is committed need to know nothing of it. The columns only save decoding the slice once more, and count if the
# queue still has the same slice when its turn comes. Its frame is referred to, so that nothing else can lie there.
cdef struct Withheld:
    bint has_rows
    Columns columns
    kw_records slice  # as the queue gives it
    size_t used  # bytes of it that the rows come from
    int64_t next_offset  # where reading goes on behind the rows
    # Decoding marks the aborted transactions whose end it has passed: the marks before the rows, and behind them.
    AbortedTransaction *before
    AbortedTransaction *behind
    int32_t room  # of both


# Decoding of a chunk begins in this slice. False: there is no memory to take its rows back.
cdef bint withheld_begin(Withheld *withheld, const kw_records *slice) noexcept nogil
# Take the rows behind the first `rows` out of `columns`, which were decoded from `begin` to `used` of the slice. It is
# the slice to give back then: nothing of it is used, and reading goes on at `columns.next_offset`.
cdef void withheld_keep(Withheld *withheld, Columns *columns, int64_t rows, kw_records *slice, size_t begin,
                        size_t used, int64_t next_offset) noexcept nogil
# Take what was withheld, if the queue's next slice has it: that is popped, and `out` filled. Otherwise drop it.
cdef bint withheld_take(Withheld *withheld, kw_queue *queue, kw_place *only, Columns *out, kw_records *slice)\
    noexcept nogil
cdef void withheld_drop(Withheld *withheld) noexcept nogil
# Drop it, and what else it holds.
cdef void withheld_end(Withheld *withheld) noexcept nogil
