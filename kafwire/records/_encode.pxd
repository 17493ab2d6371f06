"""Encodes records to magic 2 batches, without the GIL: one by one (`writer_append`) or from columns."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._arrow_rows cimport RowsView


cdef enum:
    WRITER_NO_MEMORY = -1
    WRITER_TOO_LARGE = -2  # a record, or a batch, above 2 GiB
    WRITER_BAD_ROW = -3  # writer_append_rows: a timestamp that does not fit in milliseconds, or a header without a key


# An open batch. buf: 61 bytes of room for the header, then the records; its `size` is that of the uncompressed batch.
cdef struct BatchWriter:
    kw_buf *buf
    int32_t count
    int64_t base_timestamp
    int64_t max_timestamp
    uint16_t attributes  # ATTRIBUTE_LOG_APPEND, _TRANSACTIONAL, _CONTROL; the codec is added by writer_seal
    int64_t base_offset  # 0 in a producer's batches
    int32_t last_offset_delta


cdef int writer_open(BatchWriter *writer, size_t reserve) noexcept nogil  # 0 or WRITER_NO_MEMORY
cdef void writer_close(BatchWriter *writer) noexcept nogil  # drop the buffer; also after a seal, or twice
# Append one record; offset delta is the last one + 1. Lengths: -1 = null. `headers`: encoded section with its count
# varint, headers_size 0 = none. Returns the bytes added, or WRITER_*. The writer is unchanged after an error.
cdef ssize_t writer_append(BatchWriter *writer, int64_t timestamp, const uint8_t *key, int32_t key_size,
                           const uint8_t *value, int32_t value_size, const uint8_t *headers,
                           size_t headers_size) noexcept nogil
# The same with an explicit offset delta (must rise).
cdef ssize_t writer_append_at(BatchWriter *writer, int32_t offset_delta, int64_t timestamp, const uint8_t *key,
                              int32_t key_size, const uint8_t *value, int32_t value_size, const uint8_t *headers,
                              size_t headers_size) noexcept nogil
# Upper bound of a record's encoded size (sizes -1 count as 0).
cdef size_t record_bound(int64_t key_size, int64_t value_size, size_t headers_size) noexcept nogil
# Append rows `row_index[i]` (NULL: row i) for from <= i < to, until the batch would exceed limit_bytes (a first record
# is always taken). A null or absent timestamp becomes now_ms. Returns the first i not taken, or WRITER_* (row in
# *bad_row).
cdef int64_t writer_append_rows(BatchWriter *writer, const RowsView *rows, const int32_t *row_index, int64_t from_,
                                int64_t to, size_t limit_bytes, int64_t now_ms, int64_t *bad_row) noexcept nogil
# Append the next `count` of another batch's uncompressed records, from *at on, and move *at after them; with writer
# NULL they are skipped. `base` is that batch's base timestamp. Returns 0 or WRITER_* (WRITER_BAD_ROW: not valid
# records).
cdef int writer_copy(BatchWriter *writer, const uint8_t *records, size_t size, size_t *at, int32_t count,
                     int64_t base) noexcept nogil
# Compress and fill in the header, except producer id, epoch, sequence and CRC: see batch_stamp. Moves the buffer out
# (the writer is closed on success). Returns 0, WRITER_* or CODEC_UNRESOLVED - 100, CODEC_... - 100 of _compress.
# `shrinks`: a batch that compression does not make smaller stays uncompressed.
cdef int writer_seal(BatchWriter *writer, int codec, int level, kw_buf **out, bint shrinks) noexcept nogil
cdef void batch_stamp(uint8_t *batch, size_t size, int64_t producer_id, int16_t producer_epoch,
                      int32_t base_sequence) noexcept nogil
# The key of the record at `at`, which moves to the next record; size -1: null. 0, or WRITER_BAD_ROW.
cdef int record_key(const uint8_t *records, size_t size, size_t *at, const uint8_t **key,
                    int64_t *key_size) noexcept nogil
cdef int64_t batch_base_timestamp(const uint8_t *batch) noexcept nogil
# Encode [(str|bytes, bytes|None), ...] as a header section; b"" for none.
cdef bytes encode_headers(object headers)
