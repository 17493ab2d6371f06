"""The C libraries behind three of Kafka's codecs: functions that need no GIL, and answer CODEC_* of `_compress`.

They may be called only once `open_library` has bound their library.
"""
from libc.stdint cimport uint8_t

from kafwire.memory._buffer cimport kw_buf


# Open the shared object at `path` and bind the functions of `codec` (with `zlib`: of gzip by zlib, else by ISA-L).
# False: it is not there, or lacks one. Needs the GIL, and nobody using the codec meanwhile.
cdef bint open_library(int codec, str path, bint zlib) except *

cdef enum:
    LZ4_ROOM = 65536  # lz4 decodes into this much room at once, and may be that much beyond the limit when it stops


# The first `head_size` bytes are taken from `head` instead.
cdef int lz4_decompress(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                        size_t limit, size_t hint, const char **reason) noexcept nogil
cdef int lz4_compress(int level, const uint8_t *source, size_t size, kw_buf **out, const char **reason) noexcept nogil
cdef int zstd_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil
cdef int zstd_compress(int level, const uint8_t *source, size_t size, kw_buf **out, const char **reason) noexcept nogil
cdef int isal_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil
cdef int isal_compress(int level, const uint8_t *source, size_t size, kw_buf **out, const char **reason) noexcept nogil
cdef int zlib_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil
cdef int zlib_compress(int level, const uint8_t *source, size_t size, kw_buf **out, const char **reason) noexcept nogil
