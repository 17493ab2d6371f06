# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/encode.c kafwire/protobuf/native/encode.c
"""The program that writes columns of one Arrow type, for `native/encode.c`."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from kafwire.value_columns._value_encoding cimport Writer, kw_output, kw_view, kw_wrong

from kafwire.memory._buffer import seal_types


cdef extern from "kafwire/protobuf/native/encode.h" nogil:
    ctypedef struct kw_pb_write:
        int32_t code
        int32_t flags
        uint32_t tag
        int32_t view
        int32_t index
        int32_t index_form
        int32_t form
        int32_t range
        int32_t before
        int32_t first
        int32_t end
        int32_t where
        int64_t a
        int64_t b
        int64_t c
    ctypedef struct kw_pb_writer:
        const kw_pb_write *ops
        int32_t count
        const int32_t *tables
        const uint8_t *texts
    int kw_pb_encode(const void *program, const kw_view *views, int64_t row, kw_output *out, kw_wrong *wrong)


@cython.final
cdef class ProtobufWriter(Writer):
    """The operations for columns of one Arrow type, from a `write_program.Writing`; the first `count` are the value's."""

    cdef kw_pb_writer own
    cdef kw_pb_write *ops
    cdef int32_t *tables
    cdef bytes texts

    def __cinit__(self):
        self.ops = NULL
        self.tables = NULL

    def __init__(self, ops, int32_t count, tables, bytes texts not None, int32_t root, int32_t views):
        cdef int32_t i
        cdef kw_pb_write *op
        if self.ops is not NULL:
            raise TypeError("a ProtobufWriter cannot be initialised twice")
        self.texts = texts
        self.ops = <kw_pb_write *>calloc(len(ops) + 1, sizeof(kw_pb_write))
        self.tables = <int32_t *>calloc(len(tables) + 1, sizeof(int32_t))
        if self.ops is NULL or self.tables is NULL:
            raise MemoryError("no memory for the program of a Protobuf message")
        for i in range(<int32_t>len(ops)):
            op = &self.ops[i]
            (op.code, op.flags, op.tag, op.view, op.index, op.index_form, op.form, op.range, op.before, op.first, op.end,
             op.where, op.a, op.b, op.c) = ops[i]
        for i in range(<int32_t>len(tables)):
            self.tables[i] = tables[i]
        self.own.ops = self.ops
        self.own.count = count
        self.own.tables = self.tables
        self.own.texts = <const uint8_t *>PyBytes_AS_STRING(self.texts)
        self.root = root
        self.views = views
        self.program = &self.own
        self.encode = kw_pb_encode

    def __dealloc__(self):
        free(self.ops)
        free(self.tables)


seal_types(ProtobufWriter)
