# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/encode.c kafwire/avro/native/encode.c
"""The program that writes columns of one Arrow type, for `native/encode.c`."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from kafwire.value_columns._value_encoding cimport Writer, kw_output, kw_view, kw_wrong

from kafwire.memory._buffer import seal_types


cdef extern from "kafwire/avro/native/encode.h" nogil:
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
        const int32_t *tables
        const uint8_t *constants
    int kw_avro_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong)


@cython.final
cdef class AvroWriter(Writer):
    """The operations for columns of one Arrow type, from a `write_program.Writing`."""

    cdef kw_avro_writer own
    cdef kw_avro_write *ops
    cdef int32_t *tables
    cdef bytes constants

    def __cinit__(self):
        self.ops = NULL
        self.tables = NULL

    def __init__(self, ops, tables, bytes constants not None, int32_t root, int32_t views):
        cdef int32_t i
        cdef kw_avro_write *op
        if self.ops is not NULL:
            raise TypeError("an AvroWriter cannot be initialised twice")
        self.constants = constants
        self.views = views
        self.ops = <kw_avro_write *>calloc(len(ops) + 1, sizeof(kw_avro_write))
        self.tables = <int32_t *>calloc(len(tables) + 1, sizeof(int32_t))
        if self.ops is NULL or self.tables is NULL:
            raise MemoryError("no memory for the program of an Avro schema")
        for i in range(<int32_t>len(ops)):
            op = &self.ops[i]
            (op.code, op.view, op.index, op.index_form, op.form, op.where, op.null_branch, op.value_branch, op.end,
             op.a, op.b, op.c) = ops[i]
        for i in range(<int32_t>len(tables)):
            self.tables[i] = tables[i]
        self.own.ops = self.ops
        self.own.count = len(ops)
        self.root = root
        self.own.tables = self.tables
        self.own.constants = <const uint8_t *>PyBytes_AS_STRING(self.constants)
        self.program = &self.own
        self.encode = kw_avro_encode

    def __dealloc__(self):
        free(self.ops)
        free(self.tables)


seal_types(AvroWriter)
