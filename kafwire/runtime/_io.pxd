"""The native I/O thread: frames out, frames in, no GIL. `native/loop.h` is the contract.

Other extensions submit without the GIL through the two functions below (they come by Cython's import, so nobody
links loop.c twice). The caller keeps the `Loop` object alive for as long as it may call them.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport kw_buf


cdef extern from "kafwire/runtime/native/loop.h" nogil:
    ctypedef struct kw_loop:
        pass


# Queue one request on `connection`; takes a reference on each segment and never copies it. Any thread.
# 0, or a negative errno and nothing queued: -EPIPE (connection closed or unknown: its CLOSED completion is in the queue
# or was drained), -ESHUTDOWN (loop stopped), -ECHILD (after fork), -EINVAL (too large, or too many segments), -ENOMEM.
cdef int kw_loop_submit(
    kw_loop *loop, uint32_t connection, uint64_t token, int32_t correlation_id,
    kw_buf **segments, int count, int expect_response,
) noexcept nogil

# Wake whoever waits on the loop's descriptor with a POSTED completion. Any thread; equal pending cookies merge.
# 0, -ESHUTDOWN, -ECHILD or -ENOMEM.
cdef int kw_loop_post(kw_loop *loop, uint64_t cookie) noexcept nogil


# `filter` sees each answer of a connection before it is published, in the I/O thread; NULL: no more. See native/loop.h.
ctypedef int (*response_filter)(void *context, uint64_t token, kw_buf *frame) noexcept nogil
cdef int kw_loop_set_response_filter(
    kw_loop *loop, uint32_t connection, response_filter filter, void *context
) noexcept nogil

# Make the loop's descriptor readable if there is anything to drain: word of what a response filter kept quiet about.
cdef int kw_loop_tell(kw_loop *loop) noexcept nogil


cdef class Loop:
    cdef kw_loop *loop
