from libc.stdint cimport int32_t


cdef extern from "kafwire/consumer/fetch/native/partition_layout.h" nogil:
    ctypedef struct PartitionLayout "kw_partition_layout":
        int32_t head
        int32_t middle
        int32_t tail
        int32_t partition
        int32_t error_code
        int32_t high_watermark
        int32_t last_stable_offset
        int32_t preferred_read_replica


cdef const PartitionLayout *partition_layout(int version) noexcept
