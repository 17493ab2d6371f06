# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/columns.c kafwire/avro/native/decode.c
"""The program of one writer's schema, for `native/decode.c`."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from kafwire.value_columns._value_columns cimport Program, kw_columns, kw_failure, kw_scratch

from kafwire.memory._buffer import seal_types


cdef extern from "kafwire/avro/native/decode.h" nogil:
    ctypedef struct kw_avro_op:
        int32_t code
        int32_t column
        int32_t where
        int64_t a
        int64_t b
        int64_t c
    ctypedef struct kw_avro_program:
        const kw_avro_op *ops
        int32_t count
        const int32_t *tables
        const uint8_t *constants
    int kw_avro_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                       int64_t max_empty_items, kw_failure *failure)


@cython.final
cdef class AvroProgram(Program):
    """The operations of one writer's schema, from a `program.Compiled`."""

    cdef kw_avro_program own
    cdef kw_avro_op *ops
    cdef int32_t *tables
    cdef bytes constants

    def __cinit__(self):
        self.ops = NULL
        self.tables = NULL

    def __init__(self, ops, tables, bytes constants not None):
        cdef int32_t i
        cdef kw_avro_op *op
        if self.ops is not NULL:
            raise TypeError("an AvroProgram cannot be initialised twice")
        self.constants = constants
        self.ops = <kw_avro_op *>calloc(len(ops) + 1, sizeof(kw_avro_op))
        self.tables = <int32_t *>calloc(len(tables) + 1, sizeof(int32_t))
        if self.ops is NULL or self.tables is NULL:
            raise MemoryError("no memory for the program of an Avro schema")
        for i in range(<int32_t>len(ops)):
            op = &self.ops[i]
            op.code, op.column, op.where, op.a, op.b, op.c = ops[i]
        for i in range(<int32_t>len(tables)):
            self.tables[i] = tables[i]
        self.own.ops = self.ops
        self.own.count = len(ops)
        self.own.tables = self.tables
        self.own.constants = <const uint8_t *>PyBytes_AS_STRING(self.constants)
        self.program = &self.own
        self.decode = kw_avro_decode

    def __dealloc__(self):
        free(self.ops)
        free(self.tables)


seal_types(AvroProgram)
