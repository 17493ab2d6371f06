"""`RecordBatch` and what keeps those of one blob within bounds."""
from cpython.ref cimport PyObject
from libc.stdint cimport uint8_t

from kafwire._codec cimport BatchHeader, DecodeSpec
from kafwire.records._arrow cimport Layout
from kafwire.records._records cimport Records


# The batches of one blob, decoded with a limit on what they hold together. Those that have columns form a list, of
# borrowed references: a batch leaves it when it dies.
cdef class DecodedBatchCache:
    cdef const uint8_t[::1] data
    cdef DecodeSpec spec
    cdef Layout layout
    cdef PyObject *first
    cdef size_t kept  # bytes of columns and objects
    cdef size_t objects  # bytes of the batches as objects
    cdef bint shared  # its batches may be put away, and come back through it

    cdef RecordBatch read(self, size_t at, size_t *consumed)
    cdef int decode(self, RecordBatch batch, size_t *consumed) except -1
    cdef object too_many(self, size_t at)
    cdef void keep(self, RecordBatch batch) noexcept
    cdef void drop(self, RecordBatch batch) noexcept
    cdef void put_away(self) noexcept


cdef class RecordBatch(Records):
    cdef BatchHeader header
    cdef DecodedBatchCache cache  # None: it keeps its columns
    cdef size_t at  # where it lies in the cache's data
    cdef size_t size
    cdef size_t taken  # of the cache's `kept`, by its columns
    cdef PyObject *next
    cdef PyObject *previous
