"""The bounds-checked reader and writer of Kafka's primitive types, for every module that parses or builds bytes.

A reader function returns 0, or -1 when the bytes are not there or not allowed; it never moves past `end`. A writer
grows; its functions return 0, or -1 for no memory. Neither touches a Python object.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint16_t kw_load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
    static inline uint32_t kw_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
    static inline uint64_t kw_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
    static inline void kw_store16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
    static inline void kw_store32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
    static inline void kw_store64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "kafwire supports little-endian machines"
    #endif
    """
    uint16_t kw_load16(const uint8_t *p) noexcept nogil
    uint32_t kw_load32(const uint8_t *p) noexcept nogil
    uint64_t kw_load64(const uint8_t *p) noexcept nogil
    void kw_store16(uint8_t *p, uint16_t v) noexcept nogil
    void kw_store32(uint8_t *p, uint32_t v) noexcept nogil
    void kw_store64(uint8_t *p, uint64_t v) noexcept nogil


cdef struct Reader:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end


cdef inline void reader_open(Reader *self, const uint8_t *data, size_t size) noexcept nogil:
    self.start = data
    self.at = data
    self.end = data + size


cdef inline size_t reader_left(const Reader *self) noexcept nogil:
    return self.end - self.at


cdef inline int read_int8(Reader *self, int *out) noexcept nogil:
    if self.at == self.end:
        return -1
    out[0] = <signed char>self.at[0]
    self.at += 1
    return 0


cdef inline int read_int16(Reader *self, int16_t *out) noexcept nogil:
    if self.end - self.at < 2:
        return -1
    out[0] = <int16_t>kw_load16(self.at)
    self.at += 2
    return 0


cdef inline int read_int32(Reader *self, int32_t *out) noexcept nogil:
    if self.end - self.at < 4:
        return -1
    out[0] = <int32_t>kw_load32(self.at)
    self.at += 4
    return 0


cdef inline int read_int64(Reader *self, int64_t *out) noexcept nogil:
    if self.end - self.at < 8:
        return -1
    out[0] = <int64_t>kw_load64(self.at)
    self.at += 8
    return 0


cdef inline int read_uvarint(Reader *self, uint32_t *out) noexcept nogil:
    """An unsigned varint of at most 32 bits; one that is longer is refused, not cut."""
    cdef uint32_t value = 0
    cdef uint32_t byte
    cdef int shift = 0
    cdef const uint8_t *at = self.at
    while at < self.end:
        byte = at[0]
        at += 1
        if shift == 28 and byte > 0x0F:
            return -1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            self.at = at
            out[0] = value
            return 0
        shift += 7
    return -1


cdef inline int read_skip(Reader *self, size_t size) noexcept nogil:
    if <size_t>(self.end - self.at) < size:
        return -1
    self.at += size
    return 0


cdef struct Writer:
    uint8_t *data  # from malloc; the owner frees it
    size_t size
    size_t capacity


cdef inline int writer_need(Writer *self, size_t size) noexcept nogil:
    """Make room for `size` more bytes."""
    cdef size_t capacity
    cdef void *grown
    if self.capacity - self.size >= size:
        return 0
    capacity = self.capacity * 2 if self.capacity * 2 > self.size + size else self.size + size
    if capacity < 256:
        capacity = 256
    grown = realloc(self.data, capacity)
    if grown is NULL:
        return -1
    self.data = <uint8_t *>grown
    self.capacity = capacity
    return 0


cdef inline int write_int8(Writer *self, int value) noexcept nogil:
    if writer_need(self, 1) < 0:
        return -1
    self.data[self.size] = <uint8_t>value
    self.size += 1
    return 0


cdef inline int write_int16(Writer *self, int value) noexcept nogil:
    if writer_need(self, 2) < 0:
        return -1
    kw_store16(self.data + self.size, <uint16_t>value)
    self.size += 2
    return 0


cdef inline int write_int32(Writer *self, int32_t value) noexcept nogil:
    if writer_need(self, 4) < 0:
        return -1
    kw_store32(self.data + self.size, <uint32_t>value)
    self.size += 4
    return 0


cdef inline int write_int64(Writer *self, int64_t value) noexcept nogil:
    if writer_need(self, 8) < 0:
        return -1
    kw_store64(self.data + self.size, <uint64_t>value)
    self.size += 8
    return 0


cdef inline int put_uvarint(uint8_t *at, uint32_t value) noexcept nogil:
    """Write a varint where there is room for five bytes; returns how many it took."""
    cdef int size = 0
    while value >= 0x80:
        at[size] = <uint8_t>(value | 0x80)
        value >>= 7
        size += 1
    at[size] = <uint8_t>value
    return size + 1


cdef inline int write_uvarint(Writer *self, uint32_t value) noexcept nogil:
    if writer_need(self, 5) < 0:
        return -1
    self.size += put_uvarint(self.data + self.size, value)
    return 0


cdef inline int write_raw(Writer *self, const void *data, size_t size) noexcept nogil:
    if writer_need(self, size) < 0:
        return -1
    if size:
        memcpy(self.data + self.size, data, size)
    self.size += size
    return 0
