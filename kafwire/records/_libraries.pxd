"""The C libraries of three of Kafka's codecs: functions that need no GIL, and return CODEC_* of `_compress`.

They may be called only once `open_library` has bound their library.
"""
from libc.stdint cimport uint8_t

from kafwire.memory._buffer cimport kw_buf


# Open the shared object at `path` and bind the functions of `codec` (with `zlib`: gzip by zlib, else by ISA-L). False:
# it is missing, or lacks a function. Needs the GIL, and the codec must not be in use.
cdef bint open_library(int codec, str path, bint zlib) except *

cdef enum:
    ZSTD_LEVEL = 3  # the default
    LZ4_ROOM = 65536  # room for one decoding step of lz4, which may exceed the limit by as much before it stops


# The first `head_size` bytes come from `head`.
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
