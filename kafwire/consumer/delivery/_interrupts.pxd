"""Signals during reads of Arrow streams: exceptions of signal handlers, and Ctrl-C in threads but the main one."""
from libc.stdint cimport int64_t


# A stream's view of Ctrl-C.
cdef struct InterruptWatch:
    unsigned long main_thread
    bint is_watching  # SIGINT is counted for this stream
    int seen  # count of SIGINTs that are dealt with, or came before the stream
    int64_t noticed_ms  # when the stream noticed a SIGINT that the main thread has not handled yet; 0: none


# Begin or end a stream's watch. With the GIL, in any thread.
cdef void watch_begin(InterruptWatch *watch) noexcept
cdef void watch_end(InterruptWatch *watch) noexcept
# Without the GIL, in the reading thread. `watch_thread` is called at the begin of a read.
cdef void watch_thread(InterruptWatch *watch) noexcept nogil
cdef bint is_main(const InterruptWatch *watch) noexcept nogil
# True if this is a library's own thread, and the main thread cannot raise a Ctrl-C because it waits in C.
cdef bint main_is_stuck(InterruptWatch *watch) noexcept nogil
# Make the main thread raise `error` as soon as it runs Python code again. With the GIL.
cdef void carry(object error) noexcept
# True if the main thread has yet to raise an exception of `carry`.
cdef bint is_carried() noexcept nogil
