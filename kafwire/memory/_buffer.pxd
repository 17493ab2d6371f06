"""Pooled byte buffers, shared by the native thread, the codecs and Python.

`Buffer` is the only Python object around a `kw_buf`; it offers the buffer protocol and counts one reference.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from "kafwire/memory/native/buf.h" nogil:
    ctypedef struct kw_pool:
        pass
    ctypedef struct kw_buf:
        size_t size
        size_t capacity
        uint8_t *data
        kw_buf *next
    kw_buf *kw_buf_new(kw_pool *pool, size_t capacity)
    void kw_buf_ref(kw_buf *buf)
    void kw_buf_unref(kw_buf *buf)
    int kw_buf_reserve(kw_buf **buf, size_t capacity)
    void kw_pool_trim(kw_pool *pool, size_t keep)
    void kw_pool_claim(kw_pool *pool, size_t more, size_t less)
    size_t kw_pool_limit(kw_pool *pool)
    size_t kw_pool_idle_bytes(kw_pool *pool)
    size_t kw_pool_live_bytes(kw_pool *pool)
    void kw_buf_discard(kw_buf *buf, size_t start, size_t stop)
    long kw_pool_fail_after(kw_pool *pool, long count)
    void kw_pool_set_budget(kw_pool *pool, size_t limit)
    size_t kw_pool_budget(kw_pool *pool)
    size_t kw_pool_charged(kw_pool *pool)
    int kw_scratch_reserve(kw_pool *pool, kw_buf **buf, size_t capacity)
    kw_buf *kw_scratch_wait(kw_pool *pool, size_t capacity)
    enum:
        KW_BUF_LARGE
        KW_OVER_BUDGET


cdef extern from "Python.h" nogil:
    unsigned long PyThread_get_thread_ident()  # Cython's own declaration returns a long


cdef extern from "kafwire/memory/native/atomic.h" nogil:
    int kw_acquire(int *p)
    int kw_exchange_if(int *p, int old, int new)
    void kw_release(int *p, int value)
    void *kw_swap(void **p, void *value)
    bint kw_put_if_null(void **p, void *value)


# Numbers and text as bytes. Functions without `end` or `left` check nothing.
cdef extern from "kafwire/memory/native/bytes.h" nogil:
    void kw_copy16(uint8_t *to, const uint8_t *source)
    void kw_copy32(uint8_t *to, const uint8_t *source)
    int16_t kw_be16(const uint8_t *p)
    int32_t kw_be32(const uint8_t *p)
    int64_t kw_be64(const uint8_t *p)
    void kw_put_be16(uint8_t *p, int16_t value)
    void kw_put_be32(uint8_t *p, int32_t value)
    void kw_put_be64(uint8_t *p, int64_t value)
    uint32_t kw_le32(const uint8_t *p)
    uint64_t kw_zigzag(int64_t value)
    int64_t kw_unzigzag(uint64_t value)
    # Returns the byte after the varint, or NULL.
    const uint8_t *kw_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *out)
    const uint8_t *kw_uvarlong(const uint8_t *p, const uint8_t *end, uint64_t *out)
    const uint8_t *kw_varint(const uint8_t *p, const uint8_t *end, int32_t *out)
    const uint8_t *kw_varlong(const uint8_t *p, const uint8_t *end, int64_t *out)
    size_t kw_uvarint_size(uint64_t value)
    uint8_t *kw_put_uvarint(uint8_t *p, uint64_t value)
    size_t kw_utf8_character(const uint8_t *p, size_t left)
    size_t kw_utf8_replaced(const uint8_t *p, size_t left)
    bint kw_is_utf8(const uint8_t *p, size_t size)


cdef kw_pool *process_pool() noexcept nogil
cdef int process_generation() noexcept nogil  # another number in each fork


cdef class Buffer:
    cdef kw_buf *buf

    @staticmethod
    cdef Buffer steal(kw_buf *buf)


cdef enum:
    DISCARD_STEP = 4194304  # how much of a large buffer is read before its memory is released


cdef inline void move_out(uint8_t *to, const uint8_t *source, size_t size, kw_buf *owner) noexcept nogil:
    """Copy bytes out of `owner`, and release its memory in steps: both copies never exist completely."""
    cdef size_t piece
    while size > DISCARD_STEP:
        piece = DISCARD_STEP
        memcpy(to, source, piece)
        kw_buf_discard(owner, source - owner.data, source - owner.data + piece)
        to += piece
        source += piece
        size -= piece
    memcpy(to, source, size)


# A reader over bytes it does not own. Every read checks the bytes that are left; after a failed one `failed` stays set
# and all further reads return 0, so a parser may check once at its end.
cdef struct Reader:
    const uint8_t *at
    const uint8_t *end
    bint failed


cdef inline bint has(Reader *r, size_t n) noexcept nogil:
    if r.failed or <size_t> (r.end - r.at) < n:
        r.failed = True
        return False
    return True


cdef inline uint8_t read_u8(Reader *r) noexcept nogil:
    if not has(r, 1):
        return 0
    r.at += 1
    return (r.at - 1)[0]


cdef inline int16_t read_i16(Reader *r) noexcept nogil:
    if not has(r, 2):
        return 0
    r.at += 2
    return kw_be16(r.at - 2)


cdef inline int32_t read_i32(Reader *r) noexcept nogil:
    if not has(r, 4):
        return 0
    r.at += 4
    return kw_be32(r.at - 4)


cdef inline int64_t read_i64(Reader *r) noexcept nogil:
    if not has(r, 8):
        return 0
    r.at += 8
    return kw_be64(r.at - 8)


cdef inline uint32_t read_uvarint(Reader *r) noexcept nogil:
    """Read an unsigned varint of at most 32 bits; a longer one is a failure."""
    cdef uint32_t value
    cdef const uint8_t *behind
    if r.failed:
        return 0
    behind = kw_uvarint(r.at, r.end, &value)
    if behind is NULL:
        r.at += min(<ptrdiff_t>5, r.end - r.at)  # skip the invalid bytes
        r.failed = True
        return 0
    r.at = behind
    return value


cdef inline const uint8_t *read_bytes(Reader *r, size_t n) noexcept nogil:
    """Return a pointer to the next n bytes, or NULL."""
    if not has(r, n):
        return NULL
    r.at += n
    return r.at - n


cdef inline void skip_tags(Reader *r) noexcept nogil:
    """Skip a tagged-field section."""
    cdef uint32_t count = read_uvarint(r)
    while count and not r.failed:
        read_uvarint(r)
        read_bytes(r, read_uvarint(r))
        count -= 1
