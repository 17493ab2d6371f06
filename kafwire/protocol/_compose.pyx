"""Encodes messages by their tables: objects to bytes. A value that cannot be encoded raises `ProtocolError`."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_AsDouble
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.number cimport PyIndex_Check
from cpython.object cimport PyObject, PyObject_RichCompareBool, Py_EQ
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT16_MAX, INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from kafwire.memory._buffer cimport kw_put_be64, kw_put_uvarint
from kafwire.protocol._layout cimport (
    BOOL, BYTES, FLOAT64, INT16, INT32, INT64, MOST_TAG, NEW_LIST, RECORDS, SHARED, STRING, STRUCT, UINT16, UINT32,
    UUID, Delayed, Op, Place, Table, Trace, place_of, settle, shown, slot_at, start_value,
)

import operator
import uuid

from kafwire.errors import ProtocolError


# The range of the integers of each kind, in the order of `Kind`.
cdef int64_t *LOW = [0, -0x80, -0x8000, 0, -0x80000000, 0, INT64_MIN]
cdef int64_t *HIGH = [1, 0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, INT64_MAX]

cdef object uuid_type = uuid.UUID


cdef bytes compose(Table table, object message, bytes prefix):
    """Return `prefix` and the encoded `message`."""
    cdef Sink sink = Sink()
    sink.trace.table = <PyObject *>table
    if prefix:
        sink.raw(<const char *>prefix, len(prefix))
    write_struct(table, message, sink)
    return PyBytes_FromStringAndSize(<char *>sink.data, sink.size)


@cython.final
cdef class Sink:
    """The output of an encoding, and the current place in the message."""
    cdef uint8_t *data
    cdef size_t size
    cdef size_t capacity
    cdef Trace trace

    def __cinit__(self):
        self.trace.depth = -1

    def __dealloc__(self):
        free(self.data)

    cdef int need(self, size_t size) except -1:
        """Make room for `size` more bytes."""
        cdef size_t capacity
        cdef void *grown
        if self.capacity - self.size >= size:
            return 0
        capacity = max(<size_t>256, self.capacity * 2, self.size + size)
        grown = realloc(self.data, capacity)
        if grown is NULL:
            raise MemoryError(f"no memory to encode a message of {self.size + size} bytes")
        self.data = <uint8_t *>grown
        self.capacity = capacity
        return 0

    cdef int raw(self, const void *data, size_t size) except -1:
        self.need(size)
        if size:
            memcpy(self.data + self.size, data, size)
        self.size += size
        return 0

    cdef int number(self, int64_t value, int size) except -1:
        """Append the low `size` bytes of `value`."""
        cdef uint8_t big[8]
        kw_put_be64(big, value)
        self.need(size)
        memcpy(self.data + self.size, big + 8 - size, size)
        self.size += size
        return 0

    cdef int uvarint(self, uint32_t value) except -1:
        self.need(5)
        self.size = kw_put_uvarint(self.data + self.size, value) - self.data
        return 0


cdef object unfit(Sink sink, str what):
    cdef Table table = <Table>sink.trace.table
    place = place_of(&sink.trace)
    return ProtocolError(f"{place}: {what}" if place else what, api=table.api, version=table.version)


cdef int write_struct(Table table, object instance, Sink sink) except -1:
    cdef const Op *op
    cdef Place *place
    cdef int i
    if type(instance) is not table.cls:
        raise unfit(sink, f"expected {table.cls.__qualname__}, not {type(instance).__name__}")
    sink.trace.depth += 1
    place = &sink.trace.at[sink.trace.depth]
    place.element = -1
    for i in range(table.absent_count):
        op = &table.absent[i]
        place.op = op
        if not op.ignorable:
            value = field_of(instance, op, sink)
            if not is_default(op, value):
                raise unfit(sink, f"this version has no such field, so it cannot carry {shown(value)}")
    for i in range(table.count):
        op = &table.ops[i]
        place.op = op
        write_field(op, field_of(instance, op, sink), sink)
    place.op = NULL
    if table.flexible:
        write_tagged(table, instance, sink)
    sink.trace.depth -= 1
    return 0


cdef inline object field_of(object instance, const Op *op, Sink sink):
    cdef PyObject *value = slot_at(<PyObject *>instance, op.slot)[0]
    if value is NULL:
        raise unfit(sink, "the field is not set")
    if op.array and type(<object>value) is Delayed:
        return settle(instance, op.slot)
    return <object>value


cdef bint is_default(const Op *op, object value) except -1:
    if op.fill == SHARED:
        if <PyObject *>value is op.default:
            return True
        if op.default is <PyObject *>None or value is None:
            return False
        return PyObject_RichCompareBool(value, <object>op.default, Py_EQ)
    if op.fill == NEW_LIST:
        return isinstance(value, (list, tuple)) and len(value) == 0
    return PyObject_RichCompareBool(value, start_value(op), Py_EQ)


cdef int write_tagged(Table table, object instance, Sink sink) except -1:
    cdef Place *place = &sink.trace.at[sink.trace.depth]
    cdef const Op *op
    cdef int i, taken
    cdef Py_ssize_t next_unknown = 0
    cdef Py_ssize_t known = 0
    cdef size_t start, size
    cdef tuple unknown
    cdef uint8_t head[5]
    present = []
    for i in range(table.tagged_count):
        op = &table.tagged[i]
        place.op = op
        if not is_default(op, field_of(instance, op, sink)):
            present.append(i)
    place.op = NULL
    unknown = checked_unknown(table, instance, sink)
    sink.uvarint(len(present) + len(unknown))
    while known < len(present) or next_unknown < len(unknown):
        if known < len(present) and (
            next_unknown == len(unknown) or table.tagged[<int>present[known]].tag < <uint32_t>unknown[next_unknown][0]
        ):
            op = &table.tagged[<int>present[known]]
            known += 1
            place.op = op
            sink.uvarint(op.tag)
            # The size comes first but is known last: encode the field, then move it up by the bytes of the size.
            start = sink.size
            write_field(op, field_of(instance, op, sink), sink)
            place.op = NULL
            size = sink.size - start
            if size > INT32_MAX:
                raise unfit(sink, f"tagged field {op.tag} takes {size} bytes")
            taken = kw_put_uvarint(head, size) - head
            sink.need(taken)
            memmove(sink.data + start + taken, sink.data + start, size)
            memcpy(sink.data + start, head, taken)
            sink.size += taken
        else:
            tag, data = unknown[next_unknown]
            next_unknown += 1
            sink.uvarint(tag)
            sink.uvarint(len(data))
            sink.raw(<const char *><bytes>data, len(data))
    return 0


cdef tuple checked_unknown(Table table, object instance, Sink sink):
    cdef PyObject *value = slot_at(<PyObject *>instance, table.layout.unknown_slot)[0]
    cdef int i
    if value is NULL:
        return ()
    fields = <object>value
    if fields == ():
        return ()
    try:
        fields = tuple((operator.index(tag), bytes(memoryview(data))) for tag, data in fields)
    except (TypeError, ValueError):
        raise unfit(sink, "unknown_tagged_fields must be (tag, bytes) pairs") from None
    known = {table.tagged[i].tag for i in range(table.tagged_count)}
    last = -1
    for tag, data in fields:
        if not last < tag <= MOST_TAG or tag in known or len(data) > INT32_MAX:
            raise unfit(sink, f"unknown_tagged_fields: tag {tag} is out of range or order, or a field of this version")
        last = tag
    return fields


cdef int write_field(const Op *op, object value, Sink sink) except -1:
    if op.array:
        return write_array(op, value, sink)
    if op.kind == STRUCT and op.nullable:
        sink.number(1 if value is not None else 0 if op.in_tag else -1, 1)  # as in Java's generated code
        if value is None:
            return 0
    return write_value(op, value, sink)


cdef int write_null(const Op *op, Sink sink) except -1:
    """Encode null for an array, text or bytes."""
    if not op.nullable:
        raise unfit(sink, "None is not allowed here in this version")
    if op.compact:
        return sink.number(0, 1)
    if op.kind == STRING and not op.array:
        return sink.number(-1, 2)
    return sink.number(-1, 4)


cdef int write_count(const Op *op, Py_ssize_t count, Sink sink) except -1:
    """Encode the number of elements of an array."""
    if count > INT32_MAX - 1:
        raise unfit(sink, f"{count} elements; {INT32_MAX - 1} is the most that Kafka allows")
    if op.compact:
        return sink.uvarint(<uint32_t>(count + 1))
    return sink.number(<int32_t>count, 4)


cdef int write_length(const Op *op, Py_ssize_t size, Sink sink) except -1:
    """Encode the length of text or bytes."""
    cdef Py_ssize_t most = INT16_MAX if op.kind == STRING else INT32_MAX - 1
    if size > most:
        raise unfit(sink, f"{size} bytes; {most} is the most that Kafka allows")
    if op.compact:
        return sink.uvarint(<uint32_t>(size + 1))
    if op.kind == STRING:
        return sink.number(<int>size, 2)
    return sink.number(<int32_t>size, 4)


cdef int write_array(const Op *op, object value, Sink sink) except -1:
    cdef Place *place = &sink.trace.at[sink.trace.depth]
    cdef Py_ssize_t i
    if value is None:
        return write_null(op, sink)
    if not isinstance(value, (list, tuple)):
        raise unfit(sink, f"expected a list, not {type(value).__name__}")
    # A copy, so that code run by an element's conversion cannot change the counted elements.
    elements = tuple(value)
    write_count(op, len(elements), sink)
    for i, element in enumerate(elements):
        place.element = i
        if element is None:
            raise unfit(sink, "None is not allowed inside an array")
        write_value(op, element, sink)
    place.element = -1
    return 0


cdef int write_value(const Op *op, object value, Sink sink) except -1:
    cdef int kind = op.kind
    cdef int64_t number
    cdef double double_value
    cdef const char *text
    cdef Py_ssize_t size
    if kind == STRUCT:
        if value is None:
            raise unfit(sink, "None is not allowed here in this version")
        return write_struct(<Table>op.table, value, sink)
    if kind == STRING:
        if value is None:
            return write_null(op, sink)
        if not isinstance(value, str):
            raise unfit(sink, f"expected a str, not {type(value).__name__}")
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:
            raise unfit(sink, "the text has a lone surrogate, which UTF-8 cannot carry") from None
        write_length(op, size, sink)
        return sink.raw(text, size)
    if kind == BYTES or kind == RECORDS:
        return write_bytes(op, value, sink)
    if kind == UUID:
        if not isinstance(value, uuid_type):
            raise unfit(sink, f"expected a uuid.UUID, not {type(value).__name__}")
        data = value.bytes
        if type(data) is not bytes or len(data) != 16:
            raise unfit(sink, "a UUID whose bytes are not 16 bytes")
        return sink.raw(<const char *><bytes>data, 16)
    if kind == FLOAT64:
        if not isinstance(value, (float, int)):
            raise unfit(sink, f"expected a float, not {type(value).__name__}")
        try:
            double_value = PyFloat_AsDouble(value)
        except OverflowError:
            raise unfit(sink, "the number is too large for a float64") from None
        memcpy(&number, &double_value, 8)
        return sink.number(number, 8)
    if kind == BOOL:
        if value is not True and value is not False:
            raise unfit(sink, f"expected a bool, not {type(value).__name__}")
        return sink.number(value is True, 1)
    number = whole_number(op, value, sink)
    if kind == INT32 or kind == UINT32:
        return sink.number(<int32_t>number, 4)
    if kind == INT64:
        return sink.number(number, 8)
    if kind == INT16 or kind == UINT16:
        return sink.number(<int>number, 2)
    return sink.number(<int>number, 1)


cdef int64_t whole_number(const Op *op, object value, Sink sink) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyIndex_Check(value):
        raise unfit(sink, f"expected an int, not {type(value).__name__}")
    number = PyLong_AsLongLongAndOverflow(operator.index(value), &overflow)
    if overflow or number < LOW[op.kind] or number > HIGH[op.kind]:
        raise unfit(sink, f"{value} is outside {LOW[op.kind]} to {HIGH[op.kind]}")
    return number


cdef int write_bytes(const Op *op, object value, Sink sink) except -1:
    cdef Py_buffer buffer
    if value is None:
        return write_null(op, sink)
    if not PyObject_CheckBuffer(value):
        raise unfit(sink, f"expected bytes, not {type(value).__name__}")
    try:
        PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE)
    except BufferError:
        raise unfit(sink, "expected contiguous bytes") from None
    try:
        write_length(op, buffer.len, sink)
        sink.raw(buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
    return 0
