"""Encodes Arrow columns to values by a format's encoder, without the GIL; see `native/encode.h`."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.memory._buffer cimport kw_buf, kw_pool
from kafwire.records._arrow cimport ArrowArray, ArrowSchema
from kafwire.records._arrow_rows cimport ArrowChunks


cdef extern from "kafwire/value_columns/native/encode.h" nogil:
    ctypedef struct kw_view:
        const uint8_t *validity
        int64_t offset
        int64_t length
        const uint8_t *data
        const uint8_t *more
        const void **buffers
        int32_t width
    ctypedef struct kw_values:
        int64_t nulls
        kw_buf *validity
        kw_buf *offsets
        kw_buf *data
    ctypedef struct kw_wrong:
        int32_t code
        int32_t where
        int64_t row
        int64_t detail
    ctypedef struct kw_output:
        pass
    ctypedef int (*kw_encode)(const void *program, const kw_view *views, int64_t row, kw_output *out,
                              kw_wrong *wrong) noexcept nogil
    int kw_encode_rows(kw_encode encode, const void *program, const kw_view *views, int32_t root, int64_t rows,
                       const uint8_t *prefix, int64_t prefix_size, kw_pool *pool, kw_values *out, kw_wrong *wrong)
    void kw_values_clear(kw_values *values)


# A format's class derives this, and sets all.
cdef class Writer:
    cdef kw_encode encode
    cdef const void *program
    cdef int32_t root  # the view whose nulls are null values; -1: every value is null
    cdef int32_t views  # how many views the program may use


cdef class Columns:
    cdef ArrowArray array
    cdef kw_view *views
    cdef int32_t count
    cdef readonly tuple description
    cdef int take(self, const ArrowSchema *schema, ArrowArray *array, tuple description) except -1


cdef class Reading(ArrowChunks):
    cdef tuple description
