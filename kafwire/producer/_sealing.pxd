"""Batches are sealed: compressed, and stamped with producer and sequence."""
from libc.stdint cimport int16_t, int32_t, int64_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.producer._queues cimport Queues
from kafwire.records._encode cimport BatchWriter


# One batch that is being sealed.
cdef struct SealWork:
    BatchWriter *writer
    kw_buf *wire  # NULL: what `writer` has is to be compressed
    bint stamp
    bint copy  # somebody may still read the bytes of the last stamp
    int64_t producer_id
    int16_t epoch
    int32_t sequence


# All of these batches, without the GIL: what is not compressed yet is, and each gets its stamp.
cdef int seal_batches(Queues queues, list batches) except -1
cdef int seal(SealWork *work, int codec, int level) noexcept nogil  # 0, or as `writer_seal`; -1: no memory
