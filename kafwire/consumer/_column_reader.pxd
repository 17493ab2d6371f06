"""Slices of fetched records (`_fetch_buffer`) decoded to columns, without the GIL, in the thread of whoever reads."""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from posix.time cimport clock_gettime, clockid_t, timespec

from kafwire._codec cimport DecodeSpec
from kafwire.consumer._fetch_buffer cimport FetchBuffer, kw_place, kw_queue, kw_records
from kafwire.consumer._interrupts cimport InterruptWatch
from kafwire.consumer._read_ahead cimport ReadAhead
from kafwire.consumer._withheld cimport Withheld
from kafwire.records._arrow cimport ArrowLayout
from kafwire.records._columns cimport Columns
from kafwire.runtime._interfaces cimport kw_notifier


# A reader's state, apart from the object that owns it, so that a stream can run on it without the GIL.
cdef struct ReaderState:
    PyObject *owner  # borrowed: the ColumnReader
    kw_queue *queue
    ArrowLayout *schema
    kw_place *only  # the one partition that is read; NULL: all that nobody claimed
    kw_notifier notifier
    DecodeSpec spec
    bint skip_corrupt
    bint wakes  # the owner has an `on_wake`
    int silence_ms  # a stream ends after so long without records; -1: never
    bint ended
    bint endless  # an interrupt may end the stream early: no part of a whole is missing then
    InterruptWatch watch
    bint interrupted  # a signal handler raised in this stream; `carry` has the exception
    bint stuck  # the main thread waits for this thread, and had Ctrl-C
    int64_t looked_ms  # when a stream looked for signals last
    # The slice in which the rows end that were decoded last, until they are handed out: its place is lent so long.
    kw_records held
    size_t held_begin, held_used
    int64_t held_from, held_to  # the offsets between which they lie
    bint holds
    int64_t most  # rows that are handed out at once; 0: no limit
    Withheld withheld
    ReadAhead ahead
    int pid
    unsigned long thread  # that is in an Arrow stream's get_next or release now; 0: none
    unsigned long left_by  # the thread that has left get_next last, and when, by both clocks
    int64_t left_ns, left_cpu_ns
    int64_t waited_ns  # how long it then waited, for the GIL or otherwise, before it came back
    char message[512]


cdef enum:
    READ_FAILED = -1
    READ_END = 0
    READ_ROWS = 1
    READ_SILENCE = 2


# Who reads, as far as the GIL is needed for it: what errors name, where they go, what becomes of refused rows.
cdef class ColumnReader:
    cdef FetchBuffer queue
    cdef object on_refuse
    cdef object on_wake
    cdef bint busy
    cdef readonly str what
    cdef readonly object error
    cdef ReaderState state

    cdef void set_error(self, error) noexcept


# Fill `out` with the next rows, all of one partition, and hold them: READ_ROWS; or another READ_*. Failed: the owner's
# error says why. What follows may be decoded while the GIL is waited for.
cdef int next_rows(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil
# Fill `out` with rows that were decoded ahead, and hold them, if they are what comes next. With `wait`, it waits for a
# chunk that is being decoded.
cdef bint next_ahead(ReaderState *state, bint wait, Columns *out, PyObject **place) noexcept nogil
# Fill `out` with the withheld rows, and hold them, if the queue's next slice is theirs.
cdef bint next_withheld(ReaderState *state, Columns *out, PyObject **place) noexcept nogil
# Leave at most `most` rows in `out` and in hand; withhold the others.
cdef void withhold(ReaderState *state, Columns *out) noexcept nogil
# The rows are in the user's hand: reading goes on behind them. False: their partition was dropped, or sought in, while
# they were decoded, so that the user must not get them.
cdef bint hand_out(ReaderState *state) noexcept nogil
# Nobody gets the rows: they are to come again. Where nobody fetches them anew, the whole read fails.
cdef void refuse(ReaderState *state, object error) noexcept
# What was read counts as processed.
cdef void settle(ReaderState *state) noexcept nogil
# Whether this is a forked child: the engine that would bring more is not here, nor who may hold the lock.
cdef bint is_foreign(ReaderState *state) noexcept nogil
# Run signal handlers in the main thread; True: the read is to end, and the owner's error says why.
cdef bint is_interrupted(ReaderState *state) noexcept nogil
cdef int64_t now_ms() noexcept nogil
cdef ArrowLayout *layout_of(PyObject *place) noexcept nogil


cdef inline int64_t clock_ns(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec
