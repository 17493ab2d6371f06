"""Decoding of fetched slices (`_fetch_buffer`) to columns, in the reader's thread, without the GIL."""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from posix.time cimport clock_gettime, clockid_t, timespec

from kafwire._codec cimport DecodeSpec
from kafwire.consumer.fetch._fetch_buffer cimport FetchBuffer, kw_place, kw_queue, kw_records
from kafwire.consumer.delivery._interrupts cimport InterruptWatch
from kafwire.consumer.delivery._read_ahead cimport ReadAhead
from kafwire.consumer.delivery._withheld cimport Withheld
from kafwire.records._arrow cimport ArrowLayout
from kafwire.records._columns cimport Columns
from kafwire.runtime._interfaces cimport kw_notifier


# A reader's state. It is separate from the Python object so that a stream can use it without the GIL.
cdef struct ReaderState:
    PyObject *owner  # borrowed: the ColumnReader
    kw_queue *queue
    ArrowLayout *schema
    kw_place *only  # the one partition to read; NULL: all unclaimed partitions
    kw_notifier notifier
    DecodeSpec spec
    bint skip_corrupt
    bint wakes  # the owner has an `on_wake`
    int silence_ms  # a stream ends after this time without records; -1: never
    bint ended
    bint endless  # the stream has no fixed end, so an interrupt may end it early without losing rows of a result
    InterruptWatch watch
    bint interrupted  # a signal handler raised in this stream; `carry` has the exception
    bint stuck  # Ctrl-C came while the main thread waits for this thread
    int64_t looked_ms  # when the stream last checked for signals
    # The slice that the last decoded rows end in, kept until they are delivered. Its place is lent to this reader.
    kw_records held
    size_t held_begin, held_used
    int64_t held_from, held_to  # the rows' offsets: held_from <= offset < held_to
    bint holds
    int64_t most  # rows of one delivery; 0: no limit
    Withheld withheld
    ReadAhead ahead
    int pid
    unsigned long thread  # the thread that is now in an Arrow stream's get_next or release; 0: none
    unsigned long left_by  # the thread that last left get_next; the next line: when, by both clocks
    int64_t left_ns, left_cpu_ns
    int64_t waited_ns  # how long that thread then waited, for the GIL or otherwise, before its next get_next
    char message[512]


cdef enum:
    READ_FAILED = -1
    READ_END = 0
    READ_ROWS = 1
    READ_SILENCE = 2


# The part of a reader that needs the GIL: its name and error, and the callbacks for refused rows and wake-ups.
cdef class ColumnReader:
    cdef FetchBuffer queue
    cdef object on_refuse
    cdef object on_wake
    cdef bint busy
    cdef readonly str what
    cdef readonly object error
    cdef ReaderState state

    cdef void set_error(self, error) noexcept


# Fill `out` with the next rows, all of one partition, and hold them: READ_ROWS; or another READ_*. After READ_FAILED
# the owner's `error` has the reason. The records that follow may be decoded while the reader waits for the GIL.
cdef int next_rows(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil
# Fill `out` with rows that were decoded ahead, and hold them, if the queue's next slice begins with them. With `wait`,
# wait for a chunk that is being decoded.
cdef bint next_ahead(ReaderState *state, bint wait, Columns *out, PyObject **place) noexcept nogil
# Fill `out` with the withheld rows, and hold them, if the queue's next slice is theirs.
cdef bint next_withheld(ReaderState *state, Columns *out, PyObject **place) noexcept nogil
# Leave at most `most` rows in `out` and in hand; withhold the others.
cdef void withhold(ReaderState *state, Columns *out) noexcept nogil
# Deliver the held rows: the position moves behind them. False: a revocation or a seek reset the partition while the
# rows were decoded, so they must not be delivered.
cdef bint hand_out(ReaderState *state) noexcept nogil
# Return the held rows undelivered, to be fetched again. A reader without `on_refuse` cannot refetch: its queue fails.
cdef void refuse(ReaderState *state, object error) noexcept
# Count delivered rows as processed.
cdef void settle(ReaderState *state) noexcept nogil
# True in a forked child: the engine does not run there, and a thread of the parent may hold the queue's lock.
cdef bint is_foreign(ReaderState *state) noexcept nogil
# Run signal handlers in the main thread. True: the read must end; the owner's `error` has the reason.
cdef bint is_interrupted(ReaderState *state) noexcept nogil
cdef int64_t now_ms() noexcept nogil
cdef ArrowLayout *layout_of(PyObject *place) noexcept nogil


cdef inline int64_t clock_ns(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec
