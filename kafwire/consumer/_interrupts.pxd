"""Signals of a process whose threads read Arrow streams: exceptions of their handlers, and Ctrl-C in other threads."""
from libc.stdint cimport int64_t


# A stream's view of Ctrl-C. `give_up` is true once its read has to end.
cdef struct InterruptWatch:
    unsigned long main_thread
    bint is_watching  # SIGINT is counted for this stream
    int seen  # SIGINTs that concern this stream no more
    int64_t noticed_ms  # when one was counted that the main thread has not handled yet; 0: none was


# With the GIL, in any thread: the stream begins, or ends.
cdef void watch_begin(InterruptWatch *watch) noexcept
cdef void watch_end(InterruptWatch *watch) noexcept
# Without the GIL, in the thread that reads; the first as its read begins.
cdef void watch_thread(InterruptWatch *watch) noexcept nogil
cdef bint is_main(const InterruptWatch *watch) noexcept nogil
# In a thread of a library: whether the main thread had a Ctrl-C that it cannot raise, as it waits in C.
cdef bint main_is_stuck(InterruptWatch *watch) noexcept nogil
# With the GIL: the main thread raises `error` as soon as it runs Python code again.
cdef void carry(object error) noexcept
# Whether an exception of `carry` was not raised yet.
cdef bint is_carried() noexcept nogil
