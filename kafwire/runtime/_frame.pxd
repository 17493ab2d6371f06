"""The frame and correlation core, for transports that move the bytes themselves; see `native/frame.h`. No I/O."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport kw_buf, kw_pool


cdef extern from "kafwire/runtime/native/frame.h" nogil:
    int KW_CONNECTED
    int KW_RESPONSE
    int KW_SENT
    int KW_CLOSED
    int KW_POSTED
    int KW_MAX_SLICES
    int KW_EXPECT_RESPONSE
    int KW_PAST_HOLD
    int KW_POISON_OVERSIZE
    ctypedef struct kw_completion:
        kw_completion *next
        uint64_t token
        kw_buf *frame
        uint32_t connection
        int kind
    ctypedef struct kw_list:
        kw_completion *first
        kw_completion *last
    ctypedef struct kw_request:
        kw_completion done
    ctypedef struct kw_frames:
        kw_request *oldest
        size_t pending_bytes
        kw_list done
        uint32_t max_frame
        int poison


# A new reference: to the bytes of a Buffer, or to a copy of `bytes` (headers are short, payloads are Buffers).
cdef kw_buf *new_segment(object segment) except NULL


cdef class Frames:
    cdef kw_frames frames
