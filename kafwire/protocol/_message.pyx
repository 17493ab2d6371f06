# decoder: its lines are counted by scripts/coverage.py
"""Decodes and encodes declared messages by a table of operations made once per (message, version).

A field costs a switch and a store, not a call into Python. Parsing raises only `ProtocolError` and `MemoryError`. In a
large message, arrays of structs inside other structs (the partitions of a topic) are at first only checked, by the code
that decodes them, and become objects on first use: most of the cost of a large response is in objects that are never
used.

Objects take more memory than their bytes, at worst two hundred times as much. So every object is charged to an
allowance before it is made; delayed ones are charged when they are checked.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_FromDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT16_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from kafwire.memory._buffer cimport (
    Reader, kw_be64, read_bytes, read_i16, read_i32, read_i64, read_u8, read_uvarint,
)
from kafwire.protocol._compose cimport compose
from kafwire.protocol._layout cimport (
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST_COST, MOST_TAG, RECORDS, SHARED, STRING, STRUCT, UINT16,
    UINT32, UUID, Delayed, Op, Place, Table, Trace, kw_allocate, kw_kind_cost, kw_kind_size, kw_slot_offset, place_of,
    put, start_value, untracked,
)

import uuid

from kafwire.errors import ProtocolError


cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    int PyUnicode_KIND(object text)

cdef enum:
    LARGE = 16384  # bytes
    WORTH_DELAYING = 4  # elements
    # the memory of an unknown tagged field besides its bytes: a pair, a number, a place in two lists
    UNKNOWN_COST = 136


cdef class Plan(Table):
    """Decodes and encodes one version of a message."""

    def decode(self, data, int64_t max_memory=INT64_MAX):
        """Decode exactly one message in `data`, if its objects take at most `max_memory` bytes."""
        cdef Source source = Source()
        source.open(self, data, max_memory)
        source.delaying = source.buffer.len >= LARGE and source.buffer.readonly
        try:
            message = read_struct(self, source)
            if source.left():
                raise broken(source, f"{source.left()} bytes are left over after the message")
        finally:
            source.close()
        return message

    def decode_prefix(self, data, int64_t max_memory=INT64_MAX):
        """Decode the message at the start of `data`; return (message, its size): for headers."""
        cdef Source source = Source()
        source.open(self, data, max_memory)
        try:
            message = read_struct(self, source)
            used = source.offset()
        finally:
            source.close()
        return message, used

    def encode(self, message, bytes prefix=b""):
        """Return `prefix` and the encoded `message`."""
        return compose(self, message, prefix)


@cython.final
cdef class Source:
    """The input of a decoding: the bytes, the position, and the place in the message."""
    cdef Reader reader
    cdef Trace trace
    cdef Py_buffer buffer
    cdef object data
    cdef object view  # a memoryview of the data, made on demand
    cdef bint delaying  # inner arrays may be delayed
    cdef bint checking  # check only, make no objects
    cdef int64_t max_memory
    cdef int64_t allowance  # the rest of it

    cdef int open(self, Table table, object data, int64_t max_memory) except -1:
        if not PyObject_CheckBuffer(data):
            raise TypeError(f"{table.api} is decoded from bytes, not from {type(data).__name__}")
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.data = data
        self.max_memory = self.allowance = max_memory
        self.trace.depth = -1
        self.trace.table = <PyObject *>table
        self.reader.at = <const uint8_t *>self.buffer.buf
        self.reader.end = self.reader.at + self.buffer.len
        return 0

    cdef Py_ssize_t offset(self) noexcept:
        return self.reader.at - <const uint8_t *>self.buffer.buf

    cdef size_t left(self) noexcept:
        return self.reader.end - self.reader.at

    cdef void close(self) noexcept:
        PyBuffer_Release(&self.buffer)

    cdef object whole(self):
        """Return the data as a memoryview."""
        if self.view is None:
            self.view = PyMemoryView_FromObject(self.data)
            if self.view.ndim != 1 or self.view.itemsize != 1:
                self.view = self.view.cast("B")
        return self.view

    cdef object slice(self, const uint8_t *at, Py_ssize_t size):
        """Return records as a view of the data. Data that may change under the view is copied."""
        cdef Py_ssize_t start
        if not self.buffer.readonly:
            return PyBytes_FromStringAndSize(<const char *>at, size)
        start = at - <const uint8_t *>self.buffer.buf
        return self.whole()[start:start + size]

    cdef object delay(self, const Op *op, const uint8_t *at):
        cdef Delayed delayed = Delayed.__new__(Delayed)
        delayed.view = self.whole()
        delayed.table = <Table>self.trace.table
        delayed.op = op
        delayed.start = at - <const uint8_t *>self.buffer.buf
        delayed.make = make_delayed
        return delayed


cdef object broken(Source source, str what):
    cdef Table table = <Table>source.trace.table
    place = place_of(&source.trace)
    return ProtocolError(
        f"{place}: {what}" if place else what,
        api=table.api, version=table.version, offset=source.offset(),
    )


cdef object short(Source source, str what):
    return broken(source, f"{what} runs past the end; {source.left()} bytes are left")


cdef object no_varint(Source source, str what):
    return broken(source, f"{what} takes more than 32 bits") if source.left() else short(source, what)


cdef inline int pay(Source source, int64_t cost) except -1:
    source.allowance -= cost
    if source.allowance < 0:
        raise broken(source, f"the message would take more than {source.max_memory} bytes of memory as objects; "
                             "to accept it, raise max_memory")
    return 0


cdef object make_delayed(Delayed delayed):
    """Make an array that was checked and charged when the message was decoded, so this cannot fail."""
    cdef Source source = Source()
    source.open(delayed.table, delayed.view, INT64_MAX)
    try:
        source.trace.depth = 0
        source.reader.at += delayed.start
        return read_array(delayed.op, source)
    finally:
        source.close()


cdef inline object start(const Op *op):
    return <object>op.default if op.fill == SHARED else untracked(start_value(op))


cdef object read_struct(Table table, Source source):
    cdef object instance
    cdef const Op *op
    cdef Place *place
    cdef int i
    pay(source, table.cost)
    instance = None if source.checking else untracked(kw_allocate(<PyObject *>table.cls))
    source.trace.depth += 1
    place = &source.trace.at[source.trace.depth]
    place.element = -1
    for i in range(table.count):
        op = &table.ops[i]
        place.op = op
        value = read_field(op, source)
        if not source.checking:
            put(instance, op.slot, value)
    if not source.checking:
        for i in range(table.absent_count):
            op = &table.absent[i]
            put(instance, op.slot, start(op))
    if table.flexible:
        place.op = NULL
        read_tagged(table, instance, source)
    elif not source.checking:
        put(instance, table.layout.unknown_slot, ())
    source.trace.depth -= 1
    return instance


cdef int read_tagged(Table table, object instance, Source source) except -1:
    cdef Reader *reader = &source.reader
    cdef Place *place = &source.trace.at[source.trace.depth]
    cdef uint32_t count, tag, size
    cdef int64_t last = -1
    cdef const uint8_t *end = reader.end
    cdef const Op *op
    cdef int known = 0
    cdef list unknown = None
    if reader.at < reader.end and reader.at[0] == 0:
        reader.at += 1
        count = 0
    else:
        count = read_uvarint(reader)
    if reader.failed:
        raise no_varint(source, "the number of tagged fields")
    if count > source.left() / 2:
        raise broken(source, f"{count} tagged fields do not fit into {source.left()} bytes")
    while count:
        count -= 1
        place.op = NULL
        tag = read_uvarint(reader)
        size = read_uvarint(reader)
        if reader.failed:
            raise no_varint(source, "the head of a tagged field")
        if tag <= last:
            raise broken(source, f"tag {tag} comes after tag {last}")
        if tag > MOST_TAG:
            raise broken(source, f"tag {tag}; {MOST_TAG} is the highest that Kafka allows")
        last = tag
        if size > source.left():
            raise short(source, f"tagged field {tag} of {size} bytes")
        while known < table.tagged_count and table.tagged[known].tag < tag:
            op = &table.tagged[known]
            if not source.checking:
                put(instance, op.slot, start(op))
            known += 1
        if known < table.tagged_count and table.tagged[known].tag == tag:
            op = &table.tagged[known]
            place.op = op
            reader.end = reader.at + size
            value = read_field(op, source)
            if not source.checking:
                put(instance, op.slot, value)
            known += 1
            if reader.at != reader.end:
                raise broken(source, f"{source.left()} bytes are left over in tagged field {tag}")
            reader.end = end
        else:
            if unknown is None:
                unknown = []
            pay(source, kw_kind_cost(BYTES) + size + UNKNOWN_COST)
            if not source.checking:
                unknown.append((tag, PyBytes_FromStringAndSize(<const char *>reader.at, size)))
            reader.at += size
    if source.checking:
        return 0
    while known < table.tagged_count:
        op = &table.tagged[known]
        put(instance, op.slot, start(op))
        known += 1
    put(instance, table.layout.unknown_slot, () if unknown is None else tuple(unknown))
    return 0


cdef inline object read_field(const Op *op, Source source):
    if op.array:
        return read_array(op, source)
    if op.kind == STRUCT and op.nullable:
        return read_nullable_struct(op, source)
    return read_value(op, source)


cdef object read_nullable_struct(const Op *op, Source source):
    cdef int mark = <signed char>read_u8(&source.reader)
    if source.reader.failed:
        raise short(source, "the mark of a nullable struct")
    cdef int null = 0 if op.in_tag else -1  # as in Java's generated code
    if mark == null:
        return None
    if mark != 1:
        raise broken(source, f"a nullable struct is marked {mark}, neither 1 nor {null}")
    return read_struct(<Table>op.table, source)


cdef object read_value(const Op *op, Source source):
    cdef Reader *reader = &source.reader
    cdef int kind = op.kind
    cdef int byte
    cdef int16_t short_value
    cdef int32_t int_value
    cdef int64_t long_value
    cdef double double_value
    cdef Py_ssize_t size
    cdef const uint8_t *at
    if kind == INT32:
        int_value = read_i32(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLong(int_value)
    elif kind == INT16:
        short_value = read_i16(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLong(short_value)
    elif kind == INT64:
        long_value = read_i64(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLongLong(long_value)
    elif kind == STRING:
        size = read_size(op, source)
        if size < 0:
            return None
        return read_text(source, size)
    elif kind == STRUCT:
        return read_struct(<Table>op.table, source)
    elif kind == BOOL:
        byte = <signed char>read_u8(reader)
        if not reader.failed:
            return byte != 0
    elif kind == UUID:
        at = read_bytes(reader, 16)
        if at is not NULL:
            return None if source.checking else make_uuid(at)
    elif kind == INT8:
        byte = <signed char>read_u8(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLong(byte)
    elif kind == BYTES or kind == RECORDS:
        size = read_size(op, source)
        if size < 0:
            return None
        reader.at += size
        if kind == BYTES or not source.buffer.readonly:
            pay(source, size)
        if source.checking:
            return None
        if kind == RECORDS:
            return source.slice(reader.at - size, size)
        return PyBytes_FromStringAndSize(<const char *>(reader.at - size), size)
    elif kind == UINT16:
        short_value = read_i16(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLong(<uint16_t>short_value)
    elif kind == UINT32:
        int_value = read_i32(reader)
        if not reader.failed:
            return None if source.checking else PyLong_FromLongLong(<uint32_t>int_value)
    elif kind == FLOAT64:
        long_value = read_i64(reader)
        if not reader.failed:
            memcpy(&double_value, &long_value, 8)
            return PyFloat_FromDouble(double_value)
    raise short(source, f"a field of {op.element_size} bytes")


cdef Py_ssize_t read_size(const Op *op, Source source) except? -1:
    """Read the length of a string or of bytes, checked against the rest; -1 for an allowed null."""
    cdef Reader *reader = &source.reader
    cdef int64_t size
    if op.compact:
        size = <int64_t>read_uvarint(reader) - 1
    elif op.kind == STRING:
        size = read_i16(reader)
    else:
        size = read_i32(reader)
    if reader.failed:
        raise no_varint(source, "a compact length") if op.compact else short(source, "a length")
    if size > <int64_t>source.left():
        raise broken(source, f"the length is {size} bytes, but {source.left()} are left")
    if op.kind == STRING and size > INT16_MAX:
        raise broken(source, f"a string of {size} bytes; {INT16_MAX} is the most that Kafka allows")
    if size < 0:
        if size < -1:
            raise broken(source, f"a length of {size}")
        if op.array or not op.nullable:  # an array may be null, but not its elements
            raise broken(source, "null where null is not allowed")
    return size


cdef bint is_ascii(const char *at, Py_ssize_t size) noexcept:
    cdef Py_ssize_t i
    cdef char seen = 0
    for i in range(size):
        seen |= at[i]
    return (seen & 0x80) == 0


cdef object read_text(Source source, Py_ssize_t size):
    cdef const char *at = <const char *>source.reader.at
    pay(source, size)
    if source.checking and is_ascii(at, size):
        source.reader.at += size
        return None
    try:
        text = PyUnicode_DecodeUTF8(at, size, NULL)
    except UnicodeDecodeError as error:
        raise broken(source, f"a string that is not UTF-8: {error.reason} at its byte {error.start}") from None
    pay(source, PyUnicode_GET_LENGTH(text) * PyUnicode_KIND(text) - size)
    source.reader.at += size
    return text


cdef object read_array(const Op *op, Source source):
    cdef Reader *reader = &source.reader
    cdef Place *place = &source.trace.at[source.trace.depth]
    cdef int64_t count
    cdef Py_ssize_t i
    cdef list values
    cdef object value
    cdef const uint8_t *start = reader.at
    if op.compact:
        count = <int64_t>read_uvarint(reader) - 1
    else:
        count = read_i32(reader)
    if reader.failed:
        raise no_varint(source, "a compact array's count") if op.compact else short(source, "an array's count")
    if count < 0:
        if count < -1:
            raise broken(source, f"an array of {count} elements")
        if not op.nullable:
            raise broken(source, "null where null is not allowed")
        return None
    if count > <int64_t>(source.left() / op.element_size):
        raise broken(source, f"{count} elements do not fit into {source.left()} bytes")
    pay(source, LIST_COST + count * op.cost)
    if source.delaying and source.trace.depth > 0 and op.kind == STRUCT and count >= WORTH_DELAYING:
        source.delaying = False
        source.checking = True
        check_elements(op, source, count)
        source.checking = False
        source.delaying = True
        return source.delay(op, start)
    if source.checking:
        check_elements(op, source, count)
        return None
    values = untracked(PyList_New(count))
    for i in range(count):
        place.element = i
        value = read_struct(<Table>op.table, source) if op.kind == STRUCT else read_value(op, source)
        Py_INCREF(value)
        PyList_SET_ITEM(values, i, value)
    place.element = -1
    return values


cdef int check_elements(const Op *op, Source source, int64_t count) except -1:
    """Check the elements of an array without making them."""
    cdef Place *place = &source.trace.at[source.trace.depth]
    cdef int64_t i
    if kw_kind_size(op.kind):  # their bytes are known to be complete, and every value is allowed
        source.reader.at += count * kw_kind_size(op.kind)
        return 0
    for i in range(count):
        place.element = i
        if op.kind == STRUCT:
            read_struct(<Table>op.table, source)
        else:
            read_value(op, source)
    place.element = -1
    return 0


# --- UUIDs: uuid.UUID's constructor costs a microsecond, its two slots cost nothing ---

cdef object uuid_type = uuid.UUID
cdef object no_uuid = uuid.UUID(int=0)
cdef object uuid_safety = no_uuid.is_safe
cdef Py_ssize_t uuid_int_slot = kw_slot_offset(<PyObject *>uuid_type.__dict__["int"])
cdef Py_ssize_t uuid_safe_slot = kw_slot_offset(<PyObject *>uuid_type.__dict__["is_safe"])
cdef uint8_t[16] NO_BYTES
memset(NO_BYTES, 0, 16)


cdef object make_uuid(const uint8_t *at):
    if memcmp(at, NO_BYTES, 16) == 0:
        return no_uuid
    if uuid_int_slot <= 0 or uuid_safe_slot <= 0:
        return uuid_type(bytes=PyBytes_FromStringAndSize(<const char *>at, 16))
    number = (<object><uint64_t>kw_be64(at) << 64) | <uint64_t>kw_be64(at + 8)
    made = kw_allocate(<PyObject *>uuid_type)
    put(made, uuid_int_slot, number)
    put(made, uuid_safe_slot, uuid_safety)
    return made
