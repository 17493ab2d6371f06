"""Message sets of magic 0 and 1 (before Kafka 0.11; old segments are still served), rewritten as magic 2 records.

They are rare, and slow by their format, so one decoder of records is enough: `_codec`'s.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kafwire.records._batch_header cimport BatchHeader
from kafwire.memory._buffer cimport kw_buf


cdef extern from "kafwire/records/native/crc32.h" nogil:
    uint32_t kw_crc32(const uint8_t *data, size_t size)


# Rewrite one whole message (plain, or a wrapper of compressed ones) as magic 2 records in *out (from its start), and
# return the values for the batch header. Returns CODEC_OK or another CODEC_* of _compress, with *reason.
cdef int legacy_records(const uint8_t *message, size_t size, const BatchHeader *header, kw_buf **out, size_t limit,
                        bint verify_crc, int32_t *count, int64_t *base_offset, int32_t *last_offset_delta,
                        int64_t *base_timestamp, const char **reason) noexcept nogil
