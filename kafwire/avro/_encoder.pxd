"""Encodes Arrow columns to Avro values, without the GIL; see `native/encode.h`."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.memory._buffer cimport kw_buf, kw_pool
from kafwire.records._arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema


cdef extern from "kafwire/avro/native/encode.h" nogil:
    ctypedef struct kw_avro_view:
        const uint8_t *validity
        int64_t offset
        int64_t length
        const uint8_t *data
        const uint8_t *more
        const void **buffers
        int32_t width
    ctypedef struct kw_avro_write:
        int32_t code
        int32_t view
        int32_t index
        int32_t index_form
        int32_t form
        int32_t where
        int32_t null_branch
        int32_t value_branch
        int32_t end
        int64_t a
        int64_t b
        int64_t c
    ctypedef struct kw_avro_writer:
        const kw_avro_write *ops
        int32_t count
        int32_t root
        const int32_t *tables
        const uint8_t *constants
    ctypedef struct kw_avro_values:
        int64_t nulls
        kw_buf *validity
        kw_buf *offsets
        kw_buf *data
    ctypedef struct kw_avro_wrong:
        int32_t code
        int32_t where
        int64_t row
        int64_t detail
    int kw_avro_encode(const kw_avro_writer *writer, const kw_avro_view *views, int64_t rows, const uint8_t *prefix,
                       int64_t prefix_size, kw_pool *pool, kw_avro_values *out, kw_avro_wrong *wrong)
    void kw_avro_values_clear(kw_avro_values *values)


cdef class Writer:
    cdef kw_avro_writer program
    cdef kw_avro_write *ops
    cdef int32_t *tables
    cdef bytes constants
    cdef int32_t views  # how many views the program may use


cdef class Columns:
    cdef ArrowArray array
    cdef kw_avro_view *views
    cdef int32_t count
    cdef readonly tuple description
    cdef int take(self, const ArrowSchema *schema, ArrowArray *array, tuple description) except -1


cdef class Reading:
    cdef object capsule
    cdef ArrowArrayStream *stream
    cdef ArrowSchema schema
    cdef tuple description
    cdef Columns ready
