"""Pooled byte buffers, shared by the native thread, the codecs and Python.

`Buffer` is the only Python object around a `kw_buf`; it offers the buffer protocol and counts one reference.
"""
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "native/buf.h" nogil:
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
    size_t kw_pool_idle_bytes(kw_pool *pool)
    size_t kw_pool_live_bytes(kw_pool *pool)


cdef kw_pool *process_pool() noexcept nogil


cdef class Buffer:
    cdef kw_buf *buf

    @staticmethod
    cdef Buffer steal(kw_buf *buf)
