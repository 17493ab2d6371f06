"""Interfaces of compiled modules, partly without the GIL: clock, waiter, notifier, response filter, request table.

Each class works by itself, without a native thread; `_io` has the implementations by the native I/O thread.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport kw_buf


cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        int64_t tv_sec
        long tv_nsec
    enum:
        CLOCK_MONOTONIC
        CLOCK_REALTIME
    int clock_gettime(int clock, timespec *now)


cdef class Clock:
    cdef bint is_system


cdef inline int64_t wall_ms(Clock clock) noexcept:
    """Milliseconds since the epoch."""
    cdef timespec now
    if not clock.is_system:
        return clock.time_ns() // 1000000
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef inline double monotonic_ms(Clock clock) noexcept:
    """Monotonic milliseconds."""
    cdef timespec now
    if not clock.is_system:
        return clock.monotonic() * 1e3
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6


cdef class Waiter:
    cpdef object wait(self, attempt, timeout_s)


# Any thread may call both, without the GIL, while the Notifier lives.
ctypedef struct kw_notifier:
    # Call the listener on the engine; calls that are still pending merge.
    void (*notify)(kw_notifier *notifier) noexcept nogil
    # Make the engine look at responses that a response filter consumed.
    void (*tell)(kw_notifier *notifier) noexcept nogil
    void *transport
    uint64_t number


cdef class Notifier:
    cdef kw_notifier notifier
    cdef bint is_set


# Sees each response of a connection before the engine, in the thread that received it. 1: another thread takes it, and
# notifies the engine later, so the engine is not woken now.
ctypedef int (*kw_response_filter)(void *context, uint64_t token, kw_buf *frame) noexcept nogil


cdef class ResponseFilter:
    cdef kw_response_filter function
    cdef void *context
    cdef object transport  # the transport it is attached to; None: none
    cdef uint32_t connection
    cdef void (*release)(ResponseFilter) noexcept

    cpdef detach(self)


cdef extern from "kafwire/runtime/native/stream.h":
    int KW_NOT_AUTHENTICATED
    ctypedef struct kw_stream:
        pass


cdef class StreamSource:
    cdef kw_stream *new_stream(self) except NULL


cdef class PendingRequest:
    cdef object callback
    cdef public object timer
    cdef readonly double sent_ms


cdef class RequestTable:
    cdef dict entries
    cdef readonly bint closed
    # Any thread that holds the GIL may call `submit`.
    cdef readonly bint accepts_threads

    cdef bint add(self, token, PendingRequest request) noexcept
    cdef bint remove(self, token) noexcept
    cdef int submit(
        self, uint32_t token, int32_t correlation_id, kw_buf **segments, int count
    ) noexcept
