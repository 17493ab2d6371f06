# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/columns.c kafwire/protobuf/native/decode.c
"""The program of one message type, for `native/decode.c`."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from kafwire.value_columns._value_columns cimport Program, kw_columns, kw_failure, kw_scratch

from kafwire.memory._buffer import seal_types


cdef extern from "kafwire/protobuf/native/decode.h" nogil:
    ctypedef struct kw_pb_field:
        int32_t number
        int32_t type
        int32_t flags
        int32_t column
        int32_t item
        int32_t message
        int32_t oneof
        int32_t table
        int32_t entries
        int32_t where
    ctypedef struct kw_pb_message:
        int32_t form
        int32_t column
        int32_t first
        int32_t fields
        int32_t dense
        int32_t dense_size
        int64_t unit
        int32_t where
    ctypedef struct kw_pb_program:
        const kw_pb_message *messages
        const kw_pb_field *fields
        int32_t field_count
        const int32_t *tables
        const uint8_t *texts
        const uint8_t *indexes
        int32_t indexes_size
    int kw_pb_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                     int64_t max_empty_items, kw_failure *failure)


@cython.final
cdef class ProtobufProgram(Program):
    """The messages and fields of one type, from a `program.Compiled`; `indexes` None: none precede the values."""

    cdef kw_pb_program own
    cdef kw_pb_message *messages
    cdef kw_pb_field *fields
    cdef int32_t *tables
    cdef bytes texts
    cdef bytes indexes

    def __cinit__(self):
        self.messages = NULL
        self.fields = NULL
        self.tables = NULL

    def __init__(self, messages, fields, tables, bytes texts not None, bytes indexes):
        cdef int32_t i
        cdef kw_pb_message *message
        cdef kw_pb_field *field
        if self.messages is not NULL:
            raise TypeError("a ProtobufProgram cannot be initialised twice")
        self.texts = texts
        self.indexes = indexes
        self.messages = <kw_pb_message *>calloc(len(messages) + 1, sizeof(kw_pb_message))
        self.fields = <kw_pb_field *>calloc(len(fields) + 1, sizeof(kw_pb_field))
        self.tables = <int32_t *>calloc(len(tables) + 1, sizeof(int32_t))
        if self.messages is NULL or self.fields is NULL or self.tables is NULL:
            raise MemoryError("no memory for the program of a Protobuf message")
        for i in range(<int32_t>len(messages)):
            message = &self.messages[i]
            (message.form, message.column, message.first, message.fields, message.dense, message.dense_size,
             message.unit, message.where) = messages[i]
        for i in range(<int32_t>len(fields)):
            field = &self.fields[i]
            (field.number, field.type, field.flags, field.column, field.item, field.message, field.oneof, field.table,
             field.entries, field.where) = fields[i]
        for i in range(<int32_t>len(tables)):
            self.tables[i] = tables[i]
        self.own.messages = self.messages
        self.own.fields = self.fields
        self.own.field_count = len(fields)
        self.own.tables = self.tables
        self.own.texts = <const uint8_t *>PyBytes_AS_STRING(self.texts)
        if indexes is not None:
            self.own.indexes = <const uint8_t *>PyBytes_AS_STRING(self.indexes)
            self.own.indexes_size = len(indexes)
        self.program = &self.own
        self.decode = kw_pb_decode

    def __dealloc__(self):
        free(self.messages)
        free(self.fields)
        free(self.tables)


seal_types(ProtobufProgram)
