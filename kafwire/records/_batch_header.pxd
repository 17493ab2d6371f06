"""The header of a batch, as C reads it, and the bits of its attributes. A declaration only: no module of this name."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef enum:
    ATTRIBUTE_CODEC = 7
    ATTRIBUTE_LOG_APPEND = 8
    ATTRIBUTE_TRANSACTIONAL = 16
    ATTRIBUTE_CONTROL = 32
    ATTRIBUTE_DELETE_HORIZON = 64


# The header of one magic 2 batch, or of one magic 0/1 message.
cdef extern from "kafwire/records/native/batch.h" nogil:
    enum:
        LOG_OVERHEAD "KW_LOG_OVERHEAD"
        CRC_AT "KW_CRC_AT"
        CRC_FROM "KW_CRC_FROM"
        BATCH_HEADER "KW_BATCH_HEADER"
    ctypedef struct BatchHeader "kw_batch_header":
        int64_t base_offset
        int32_t length
        int32_t leader_epoch
        int8_t magic
        uint32_t crc
        int16_t attributes
        int32_t last_offset_delta
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int16_t producer_epoch
        int32_t base_sequence
        int32_t count
    int batch_header "kw_batch_header_read"(const uint8_t *data, size_t size, BatchHeader *out, const char **reason)
