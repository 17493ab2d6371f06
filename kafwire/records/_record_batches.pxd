"""`RecordBatch`, and the cache that bounds the memory of one blob's batches."""
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t

from kafwire._codec cimport DecodeSpec
from kafwire.records._batch_header cimport BatchHeader
from kafwire.records._arrow cimport Layout
from kafwire.records._records cimport Records


# The batches of one blob, decoded with a common memory limit. Batches with columns form a list of borrowed references:
# a batch leaves it when it is freed.
cdef class DecodedBatchCache:
    cdef const uint8_t[::1] data
    cdef DecodeSpec spec
    cdef Layout layout
    cdef PyObject *first
    cdef size_t kept  # bytes of columns and objects
    cdef size_t objects  # bytes of the batches as objects
    cdef bint shared  # its batches may drop their columns, and decode them again with it

    cdef RecordBatch read(self, size_t at, size_t *consumed)
    cdef int decode(self, RecordBatch batch, size_t *consumed) except -1
    cdef object too_many(self, size_t at)
    cdef void keep(self, RecordBatch batch) noexcept
    cdef void drop(self, RecordBatch batch) noexcept
    cdef void put_away(self) noexcept


cdef class RecordBatch(Records):
    cdef BatchHeader header
    cdef DecodedBatchCache cache  # None: it keeps its columns
    cdef size_t at  # its position in the cache's data
    cdef size_t size
    cdef size_t taken  # bytes of the cache's `kept` used by its columns
    cdef PyObject *next
    cdef PyObject *previous
