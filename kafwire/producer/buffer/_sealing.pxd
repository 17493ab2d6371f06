"""Seals batches: compresses them, and stamps them with producer and sequence."""
from libc.stdint cimport int16_t, int32_t, int64_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.producer.buffer._queues cimport Queues
from kafwire.records._encode cimport BatchWriter


# One batch that is being sealed.
cdef struct SealWork:
    BatchWriter *writer
    kw_buf *wire  # NULL: the contents of `writer` are to be compressed
    bint stamp
    bint copy  # another reader may still use the bytes of the last stamp
    int64_t producer_id
    int16_t epoch
    int32_t sequence


# Compress the batches that are not compressed, and stamp each, without the GIL.
cdef int seal_batches(Queues queues, list batches) except -1
cdef int seal(SealWork *work, int codec, int level) noexcept nogil  # 0, or as `writer_seal`; -1: no memory
