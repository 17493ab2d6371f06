"""Runs declared messages: bytes to objects and back, by a table of operations made once per (message, version).

`Structure` is the base of every message and nested struct; its subclasses hold their fields in slots. `Layout` knows
where those slots lie in an instance, and `Plan` what one version of the protocol puts between them: an array of C
structs, so that a field costs a switch and a store, not a call into Python. Parsing raises `ProtocolError` and nothing
else, apart from `MemoryError`.

Of a large message, arrays of structs that lie inside other structs (the partitions of a topic) are only checked at
first, by the same code that reads them, and become objects when they are touched: most of the cost of a large answer
is the making of objects that nobody looks at.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_FromDouble
from cpython.list cimport PyList_Append, PyList_CheckExact, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject, PyObject_RichCompareBool, PyTypeObject, Py_EQ
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT16_MAX, INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memmove, memset

import operator
import uuid

from kafwire.errors import ProtocolError


cdef extern from *:
    """
    #include <structmember.h>
    /* Where a slot lies in an instance, or -1 when `descriptor` is no plain slot. */
    static Py_ssize_t kw_slot_offset(PyObject *descriptor) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    static PyObject *kw_allocate(PyObject *cls) { return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0); }
    """
    Py_ssize_t kw_slot_offset(PyObject *descriptor)
    object kw_allocate(PyObject *cls)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    double PyFloat_AsDouble(object value) except? -1
    bint PyIndex_Check(object value)
    int PyGC_Disable()
    int PyGC_Enable()


cdef enum Kind:
    BOOL
    INT8
    INT16
    UINT16
    INT32
    UINT32
    INT64
    FLOAT64
    UUID
    STRING
    BYTES
    RECORDS
    STRUCT

KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": RECORDS, "struct": STRUCT,
}
cdef int *KIND_SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16, 0, 0, 0, 0]
cdef int64_t *KIND_LOW = [0, -0x80, -0x8000, 0, -0x80000000, 0, INT64_MIN]
cdef int64_t *KIND_HIGH = [1, 0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, INT64_MAX]

cdef enum Fill:  # how a field that is not on the wire gets its value
    SHARED
    NEW_LIST
    NEW_STRUCT

DEF MAX_DEPTH = 16
# Longer lists grow with what is really there: a lying count must not make a list of its size.
DEF PREALLOCATED = 65536
DEF LARGE = 16384
DEF WORTH_DELAYING = 4  # elements
DEF MOST_TAG = 0x7FFFFFFE

cdef struct Op:
    int kind  # of the elements, where `array` is set
    bint array
    bint nullable
    bint compact
    bint ignorable
    int fill
    uint32_t tag
    Py_ssize_t slot
    Py_ssize_t element_size  # the fewest bytes that one element takes
    PyObject *plan  # of the struct; the parent plan keeps it alive
    PyObject *name  # these three: the layout keeps them alive
    PyObject *default
    PyObject *struct

cdef struct Place:  # one level of where we are in a message; read only when an error is described
    const Op *op
    Py_ssize_t element

cdef struct Trace:
    int depth
    PyObject *plan
    Place at[MAX_DEPTH]


# --- instances ---

@cython.final
cdef class Layout:
    """Where a struct class keeps its fields, and what they start from."""
    cdef readonly tuple names
    cdef readonly dict index
    cdef readonly tuple defaults  # None for the fields that start from a new list or struct
    cdef PyObject *cls  # borrowed: the class owns its layout
    cdef Op *ops
    cdef Py_ssize_t unknown_slot
    cdef tuple structs

    def __cinit__(self, object cls, tuple fields not None):
        cdef Py_ssize_t i
        cdef Op *op
        self.cls = <PyObject *>cls
        self.names = tuple(field.name for field in fields)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.defaults = tuple(None if field.fresh else field.default for field in fields)
        self.structs = tuple(field.struct for field in fields)
        self.unknown_slot = slot_of(cls, "unknown_tagged_fields")
        self.ops = <Op *>PyMem_Calloc(len(fields) + 1, sizeof(Op))
        if self.ops is NULL:
            raise MemoryError
        for i, field in enumerate(fields):
            op = &self.ops[i]
            op.kind = KINDS[field.kind]
            op.array = field.array
            op.ignorable = field.ignorable
            op.slot = slot_of(cls, field.name)
            op.name = <PyObject *>self.names[i]
            op.default = <PyObject *>self.defaults[i]
            op.struct = <PyObject *>self.structs[i]
            op.fill = (NEW_LIST if field.array else NEW_STRUCT) if field.fresh else SHARED
            if field.array and field.struct is not None:
                setattr(cls, field.name, DelayedSlot(cls.__dict__[field.name]))

    def __dealloc__(self):
        PyMem_Free(self.ops)


cdef Py_ssize_t slot_of(object cls, str name) except -1:
    descriptor = cls.__dict__[name]
    cdef Py_ssize_t offset = kw_slot_offset(<PyObject *>descriptor)
    if offset <= 0:
        raise TypeError(f"{cls.__qualname__}.{name} is not a slot")
    return offset


cdef inline PyObject **slot_at(PyObject *instance, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>instance + offset)


cdef inline void put(object instance, Py_ssize_t offset, object value) noexcept:
    """Fill a slot that is still empty."""
    Py_INCREF(value)
    slot_at(<PyObject *>instance, offset)[0] = <PyObject *>value


cdef object start_value(const Op *op):
    if op.fill == SHARED:
        return <object>op.default
    if op.fill == NEW_LIST:
        return []
    return blank(layout_of(<object>op.struct))


cdef object blank(Layout layout):
    """An instance with every field at its default."""
    cdef object instance = kw_allocate(layout.cls)
    cdef Py_ssize_t i
    for i in range(len(layout.names)):
        put(instance, layout.ops[i].slot, start_value(&layout.ops[i]))
    put(instance, layout.unknown_slot, ())
    return instance


cdef inline Layout layout_of(object cls):
    return <Layout?>cls.__layout__


cdef inline object get(object instance, const Op *op):
    cdef PyObject *value = slot_at(<PyObject *>instance, op.slot)[0]
    if value is NULL:
        raise AttributeError(f"{type(instance).__qualname__}.{<object>op.name} is not set")
    if type(<object>value) is Delayed:
        return settle(instance, op.slot)
    return <object>value


@cython.final
@cython.no_gc
cdef class Delayed:
    """An array that was checked but not made yet; what a slot holds until somebody looks."""
    cdef object view  # of the whole message
    cdef Plan plan
    cdef const Op *op
    cdef Py_ssize_t start


cdef object settle(object instance, Py_ssize_t offset):
    """Make the array that was put off, and put it where it belongs."""
    cdef Delayed delayed = <Delayed>slot_at(<PyObject *>instance, offset)[0]
    cdef Source source = Source()
    cdef PyObject **slot
    cdef PyObject *old
    source.open(delayed.plan, delayed.view)
    try:
        source.trace.depth = 0
        source.reader.at += delayed.start
        values = read_array(delayed.op, source)
    finally:
        source.close()
    slot = slot_at(<PyObject *>instance, offset)
    if slot[0] is not <PyObject *>delayed:  # somebody was faster: another thread, while the objects were made
        return get_settled(slot)
    old = slot[0]
    Py_INCREF(values)
    slot[0] = <PyObject *>values
    Py_XDECREF(old)
    return values


cdef object get_settled(PyObject **slot):
    if slot[0] is NULL:
        raise AttributeError("deleted while it was read")
    return <object>slot[0]


@cython.final
cdef class DelayedSlot:
    """The attribute of a field that may be put off: as the slot under it, but it makes the array when it is read."""
    cdef object slot
    cdef object owner
    cdef Py_ssize_t offset

    def __init__(self, slot):
        self.slot = slot
        self.owner = slot.__objclass__
        self.offset = kw_slot_offset(<PyObject *>slot)

    def __get__(self, instance, owner):
        cdef PyObject *value
        if instance is None:
            return self.slot
        if not isinstance(instance, self.owner):
            raise TypeError(f"{self.slot.__qualname__} does not belong to {type(instance).__name__}")
        value = slot_at(<PyObject *>instance, self.offset)[0]
        if value is NULL:
            raise AttributeError(f"{self.slot.__qualname__} is not set")
        if type(<object>value) is Delayed:
            return settle(instance, self.offset)
        return <object>value

    def __set__(self, instance, value):
        self.slot.__set__(instance, value)

    def __delete__(self, instance):
        self.slot.__delete__(instance)


cdef class Structure:
    """A message, or a struct inside one: typed attributes in slots, a keyword-only constructor with Kafka's defaults."""
    __hash__ = None

    def __init__(self, **fields):
        cdef Layout layout = layout_of(type(self))
        cdef Py_ssize_t i
        cdef PyObject **slot
        cdef PyObject *old
        for i in range(len(layout.names)):
            name = layout.names[i]
            value = fields.pop(name) if name in fields else start_value(&layout.ops[i])
            slot = slot_at(<PyObject *>self, layout.ops[i].slot)
            old = slot[0]
            Py_INCREF(value)
            slot[0] = <PyObject *>value
            Py_XDECREF(old)
        self.unknown_tagged_fields = tuple(fields.pop("unknown_tagged_fields", ()))
        if fields:
            raise TypeError(f"{type(self).__qualname__} has no field {next(iter(fields))!r}; it has {list(layout.names)}")

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return equal(self, other)

    def __ne__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return not equal(self, other)

    def __repr__(self):
        cdef Layout layout = layout_of(type(self))
        parts = [f"{name}={shown(getattr(self, name, '<not set>'))}" for name in layout.names]
        if self.unknown_tagged_fields:
            parts.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def __reduce__(self):
        cdef Layout layout = layout_of(type(self))
        values = [getattr(self, name) for name in layout.names]
        values = [bytes(value) if isinstance(value, memoryview) else value for value in values]
        return restore, (type(self), tuple(values), self.unknown_tagged_fields)


def restore(cls, values, unknown_tagged_fields):
    """What unpickling calls."""
    return cls(**dict(zip(layout_of(cls).names, values, strict=True)), unknown_tagged_fields=unknown_tagged_fields)


cdef bint equal(object self, object other) except -1:
    cdef Layout layout = layout_of(type(self))
    cdef Py_ssize_t i
    for i in range(len(layout.names)):
        if not PyObject_RichCompareBool(get(self, &layout.ops[i]), get(other, &layout.ops[i]), Py_EQ):
            return False
    return self.unknown_tagged_fields == other.unknown_tagged_fields


cdef object shown(object value):
    if isinstance(value, (bytes, memoryview)) and len(value) > 64:
        return f"<{len(value)} bytes>"
    if isinstance(value, memoryview):
        return repr(bytes(value))
    return repr(value)


# --- plans ---

@cython.final
cdef class Plan:
    """What one version of a struct has on the wire. `fields` are the class's, `flexible` is the message's."""
    cdef readonly object cls
    cdef readonly str api
    cdef readonly int version
    cdef readonly bint flexible
    cdef readonly Py_ssize_t min_size
    cdef Layout layout
    cdef Op *ops
    cdef int count
    cdef Op *tagged  # by rising tag
    cdef int tagged_count
    cdef Op *absent
    cdef int absent_count
    cdef list plans
    cdef int levels  # of structs, this one included

    def __init__(self, object cls, str api not None, int version, bint flexible):
        cdef Py_ssize_t i, n
        cdef Op *op
        self.cls = cls
        self.api = api
        self.version = version
        self.flexible = flexible
        self.layout = layout_of(cls)
        self.plans = []
        self.levels = 1
        fields = cls.__fields__
        n = len(fields)
        PyMem_Free(self.ops)
        self.ops = <Op *>PyMem_Calloc(3 * n + 1, sizeof(Op))
        if self.ops is NULL:
            raise MemoryError
        self.tagged = self.ops + n
        self.absent = self.tagged + n
        self.count = self.tagged_count = self.absent_count = 0
        self.min_size = 1 if flexible else 0
        tagged = []
        for i, field in enumerate(fields):
            if version not in field.versions:
                self.absent[self.absent_count] = self.layout.ops[i]
                self.absent_count += 1
            elif version in field.tagged:
                tagged.append((field.tag, i, field))
            else:
                op = &self.ops[self.count]
                self.count += 1
                self.min_size += self.fill_op(op, i, field)
        for _, i, field in sorted(tagged):
            if not flexible:
                raise TypeError(f"{cls.__qualname__}.{field.name} is tagged in version {version}, which is not flexible")
            self.fill_op(&self.tagged[self.tagged_count], i, field)
            self.tagged_count += 1
        if self.levels > MAX_DEPTH:
            raise TypeError(f"{cls.__qualname__} nests more than {MAX_DEPTH} structs")

    def __dealloc__(self):
        PyMem_Free(self.ops)

    cdef Py_ssize_t fill_op(self, Op *op, Py_ssize_t i, object field) except -1:
        """Make the operation of one field that is present; returns the fewest bytes it can take."""
        cdef Plan plan
        cdef Py_ssize_t size
        op[0] = self.layout.ops[i]
        op.nullable = self.version in field.nullable
        op.compact = self.flexible and field.flexible
        op.tag = field.tag if field.tag is not None else 0
        if op.kind == STRUCT:
            plan = Plan(field.struct, self.api, self.version, self.flexible)
            self.plans.append(plan)
            self.levels = max(self.levels, plan.levels + 1)
            op.plan = <PyObject *>plan
            size = plan.min_size
        elif op.kind == STRING:
            size = 1 if op.compact else 2
        elif op.kind in (BYTES, RECORDS):
            size = 1 if op.compact else 4
        else:
            size = KIND_SIZES[op.kind]
        op.element_size = size
        if op.array:
            if size < 1:
                raise TypeError(f"{self.cls.__qualname__}.{field.name}: elements of no bytes cannot be counted")
            return 1 if op.compact else 4
        return 1 if op.kind == STRUCT and op.nullable else size

    def decode(self, data):
        """The message in `data`, which must hold it and no more."""
        cdef Source source = Source()
        cdef bint collecting = False
        source.open(self, data)
        # What is built here has no cycles, and walking it again and again as it grows doubles the time it takes.
        if source.buffer.len >= LARGE:
            collecting = PyGC_Disable()
            source.delaying = source.buffer.readonly
        try:
            message = read_struct(self, source)
            if reader_left(&source.reader):
                raise broken(source, f"{reader_left(&source.reader)} bytes are left over after the message")
        finally:
            if collecting:
                PyGC_Enable()
            source.close()
        return message

    def decode_prefix(self, data):
        """(the message that `data` begins with, the bytes it took): for headers."""
        cdef Source source = Source()
        source.open(self, data)
        try:
            message = read_struct(self, source)
            used = source.reader.at - source.reader.start
        finally:
            source.close()
        return message, used

    def encode(self, message, bytes prefix=b""):
        """`prefix` and then the bytes of `message`."""
        cdef Sink sink = Sink()
        sink.trace.plan = <PyObject *>self
        if prefix:
            check_room(write_raw(&sink.writer, <const char *>prefix, len(prefix)))
        write_struct(self, message, sink)
        return PyBytes_FromStringAndSize(<char *>sink.writer.data, sink.writer.size)


# --- reading ---

@cython.final
cdef class Source:
    """What is being read: the bytes, how far, and where in the message."""
    cdef Reader reader
    cdef Trace trace
    cdef Py_buffer buffer
    cdef object data
    cdef object view  # a memoryview of the data, made when something needs it
    cdef bint delaying  # inner arrays may be put off
    cdef bint checking  # nothing is made, only checked

    cdef int open(self, Plan plan, object data) except -1:
        if not PyObject_CheckBuffer(data):
            raise TypeError(f"{plan.api} is decoded from bytes, not from {type(data).__name__}")
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.data = data
        self.trace.depth = -1
        self.trace.plan = <PyObject *>plan
        reader_open(&self.reader, <const uint8_t *>self.buffer.buf, self.buffer.len)
        return 0

    cdef void close(self) noexcept:
        PyBuffer_Release(&self.buffer)

    cdef object whole(self):
        """The data as a memoryview."""
        if self.view is None:
            self.view = PyMemoryView_FromObject(self.data)
            if self.view.ndim != 1 or self.view.itemsize != 1:
                self.view = self.view.cast("B")
        return self.view

    cdef object slice(self, const uint8_t *at, Py_ssize_t size):
        """Records as a view of the data. Data that may change under the view is copied."""
        cdef Py_ssize_t start
        if not self.buffer.readonly:
            return PyBytes_FromStringAndSize(<const char *>at, size)
        start = at - self.reader.start
        return self.whole()[start:start + size]

    cdef object delay(self, const Op *op, const uint8_t *at):
        cdef Delayed delayed = Delayed.__new__(Delayed)
        delayed.view = self.whole()
        delayed.plan = <Plan>self.trace.plan
        delayed.op = op
        delayed.start = at - self.reader.start
        return delayed


cdef str place_of(const Trace *trace):
    cdef int i
    text = ""
    for i in range(trace.depth + 1):
        if trace.at[i].op is not NULL:
            text += f"{'.' if text else ''}{<object>trace.at[i].op.name}"
            if trace.at[i].element >= 0:
                text += f"[{trace.at[i].element}]"
    return text


cdef object broken(Source source, str what):
    cdef Plan plan = <Plan>source.trace.plan
    place = place_of(&source.trace)
    return ProtocolError(
        f"{place}: {what}" if place else what,
        api=plan.api, version=plan.version, offset=source.reader.at - source.reader.start,
    )


cdef object short(Source source, str what):
    return broken(source, f"{what} runs past the end; {reader_left(&source.reader)} bytes are left")


cdef object read_struct(Plan plan, Source source):
    cdef object instance = None if source.checking else kw_allocate(<PyObject *>plan.cls)
    cdef const Op *op
    cdef Place *place
    cdef int i
    source.trace.depth += 1
    place = &source.trace.at[source.trace.depth]
    place.element = -1
    for i in range(plan.count):
        op = &plan.ops[i]
        place.op = op
        value = read_field(op, source)
        if not source.checking:
            put(instance, op.slot, value)
    if not source.checking:
        for i in range(plan.absent_count):
            op = &plan.absent[i]
            put(instance, op.slot, <object>op.default if op.fill == SHARED else start_value(op))
    if plan.flexible:
        place.op = NULL
        read_tagged(plan, instance, source)
    elif not source.checking:
        put(instance, plan.layout.unknown_slot, ())
    source.trace.depth -= 1
    return instance


cdef int read_tagged(Plan plan, object instance, Source source) except -1:
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
    elif read_uvarint(reader, &count) < 0:
        raise short(source, "the number of tagged fields")
    if count > reader_left(reader) / 2:
        raise broken(source, f"{count} tagged fields do not fit into {reader_left(reader)} bytes")
    while count:
        count -= 1
        place.op = NULL
        if read_uvarint(reader, &tag) < 0 or read_uvarint(reader, &size) < 0:
            raise short(source, "the head of a tagged field")
        if tag <= last:
            raise broken(source, f"tag {tag} comes after tag {last}")
        if tag > MOST_TAG:
            raise broken(source, f"tag {tag}; {MOST_TAG} is the highest that Kafka allows")
        last = tag
        if size > reader_left(reader):
            raise short(source, f"tagged field {tag} of {size} bytes")
        while known < plan.tagged_count and plan.tagged[known].tag < tag:
            op = &plan.tagged[known]
            if not source.checking:
                put(instance, op.slot, start_value(op))
            known += 1
        if known < plan.tagged_count and plan.tagged[known].tag == tag:
            op = &plan.tagged[known]
            place.op = op
            reader.end = reader.at + size
            value = read_field(op, source)
            if not source.checking:
                put(instance, op.slot, value)
            known += 1
            if reader.at != reader.end:
                raise broken(source, f"{reader_left(reader)} bytes are left over in tagged field {tag}")
            reader.end = end
        else:
            if unknown is None:
                unknown = []
            if not source.checking:
                unknown.append((tag, PyBytes_FromStringAndSize(<const char *>reader.at, size)))
            reader.at += size
    if source.checking:
        return 0
    while known < plan.tagged_count:
        op = &plan.tagged[known]
        put(instance, op.slot, start_value(op))
        known += 1
    put(instance, plan.layout.unknown_slot, () if unknown is None else tuple(unknown))
    return 0


cdef inline object read_field(const Op *op, Source source):
    if op.array:
        return read_array(op, source)
    if op.kind == STRUCT and op.nullable:
        return read_nullable_struct(op, source)
    return read_value(op, source)


cdef object read_nullable_struct(const Op *op, Source source):
    cdef int mark
    if read_int8(&source.reader, &mark) < 0:
        raise short(source, "the mark of a nullable struct")
    if mark == -1:
        return None
    if mark != 1:
        raise broken(source, f"a nullable struct is marked {mark}, neither 1 nor -1")
    return read_struct(<Plan>op.plan, source)


cdef object read_value(const Op *op, Source source):
    cdef Reader *reader = &source.reader
    cdef int kind = op.kind
    cdef int byte
    cdef int16_t short_value
    cdef int32_t int_value
    cdef int64_t long_value
    cdef double double_value
    cdef Py_ssize_t size
    if kind == INT32:
        if read_int32(reader, &int_value) == 0:
            return None if source.checking else PyLong_FromLong(int_value)
    elif kind == INT16:
        if read_int16(reader, &short_value) == 0:
            return None if source.checking else PyLong_FromLong(short_value)
    elif kind == INT64:
        if read_int64(reader, &long_value) == 0:
            return None if source.checking else PyLong_FromLongLong(long_value)
    elif kind == STRING:
        size = read_size(op, source)
        if size < 0:
            return None
        return read_text(source, size)
    elif kind == STRUCT:
        return read_struct(<Plan>op.plan, source)
    elif kind == BOOL:
        if read_int8(reader, &byte) == 0:
            return byte != 0
    elif kind == UUID:
        if reader_left(reader) >= 16:
            reader.at += 16
            return None if source.checking else make_uuid(reader.at - 16)
    elif kind == INT8:
        if read_int8(reader, &byte) == 0:
            return None if source.checking else PyLong_FromLong(byte)
    elif kind == BYTES or kind == RECORDS:
        size = read_size(op, source)
        if size < 0:
            return None
        reader.at += size
        if source.checking:
            return None
        if kind == RECORDS:
            return source.slice(reader.at - size, size)
        return PyBytes_FromStringAndSize(<const char *>(reader.at - size), size)
    elif kind == UINT16:
        if read_int16(reader, &short_value) == 0:
            return None if source.checking else PyLong_FromLong(<uint16_t>short_value)
    elif kind == UINT32:
        if read_int32(reader, &int_value) == 0:
            return None if source.checking else PyLong_FromLongLong(<uint32_t>int_value)
    elif kind == FLOAT64:
        if read_int64(reader, &long_value) == 0:
            memcpy(&double_value, &long_value, 8)
            return PyFloat_FromDouble(double_value)
    raise short(source, f"a field of {op.element_size} bytes")


cdef Py_ssize_t read_size(const Op *op, Source source) except? -1:
    """The length of a string or of bytes, checked against what is there; -1 for an allowed null."""
    cdef Reader *reader = &source.reader
    cdef uint32_t plus_one
    cdef int16_t short_value
    cdef int32_t int_value
    cdef int64_t size
    if op.compact:
        if read_uvarint(reader, &plus_one) < 0:
            raise short(source, "a compact length")
        size = <int64_t>plus_one - 1
    elif op.kind == STRING:
        if read_int16(reader, &short_value) < 0:
            raise short(source, "a length")
        size = short_value
    else:
        if read_int32(reader, &int_value) < 0:
            raise short(source, "a length")
        size = int_value
    if size > <int64_t>reader_left(reader):
        raise broken(source, f"{size} bytes are announced, {reader_left(reader)} are left")
    if op.kind == STRING and size > INT16_MAX:
        raise broken(source, f"a string of {size} bytes; {INT16_MAX} is the most that Kafka allows")
    if size < 0:
        if size < -1:
            raise broken(source, f"a length of {size}")
        if op.array or not op.nullable:  # an array may be null, its elements never
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
    if source.checking and is_ascii(at, size):
        source.reader.at += size
        return None
    try:
        text = PyUnicode_DecodeUTF8(at, size, NULL)
    except UnicodeDecodeError as error:
        raise broken(source, f"a string that is not UTF-8: {error.reason} at its byte {error.start}") from None
    source.reader.at += size
    return text


cdef object read_array(const Op *op, Source source):
    cdef Reader *reader = &source.reader
    cdef Place *place = &source.trace.at[source.trace.depth]
    cdef uint32_t plus_one
    cdef int32_t int_value
    cdef int64_t count
    cdef Py_ssize_t i
    cdef list values
    cdef object value
    cdef const uint8_t *start = reader.at
    if op.compact:
        if read_uvarint(reader, &plus_one) < 0:
            raise short(source, "a compact array's count")
        count = <int64_t>plus_one - 1
    else:
        if read_int32(reader, &int_value) < 0:
            raise short(source, "an array's count")
        count = int_value
    if count < 0:
        if count < -1:
            raise broken(source, f"an array of {count} elements")
        if not op.nullable:
            raise broken(source, "null where null is not allowed")
        return None
    if count > <int64_t>(reader_left(reader) / op.element_size):
        raise broken(source, f"{count} elements do not fit into {reader_left(reader)} bytes")
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
    values = PyList_New(count if count <= PREALLOCATED else 0)
    if op.kind == STRUCT:
        for i in range(count):
            place.element = i
            value = read_struct(<Plan>op.plan, source)
            append(values, i, count, value)
    else:
        for i in range(count):
            place.element = i
            value = read_value(op, source)
            append(values, i, count, value)
    place.element = -1
    return values


cdef int check_elements(const Op *op, Source source, int64_t count) except -1:
    """Go over the elements of an array without making them."""
    cdef Place *place = &source.trace.at[source.trace.depth]
    cdef int64_t i
    if KIND_SIZES[op.kind]:  # that they are all there is known, and every value is allowed
        source.reader.at += count * KIND_SIZES[op.kind]
        return 0
    for i in range(count):
        place.element = i
        if op.kind == STRUCT:
            read_struct(<Plan>op.plan, source)
        else:
            read_value(op, source)
    place.element = -1
    return 0


cdef inline int append(list values, Py_ssize_t i, Py_ssize_t count, object value) except -1:
    if count <= PREALLOCATED:
        Py_INCREF(value)
        PyList_SET_ITEM(values, i, value)
        return 0
    return PyList_Append(values, value)


# --- UUIDs: uuid.UUID's constructor costs a microsecond, its two slots cost nothing ---

cdef object uuid_type = uuid.UUID
cdef object no_uuid = uuid.UUID(int=0)
cdef object uuid_safety = no_uuid.is_safe
cdef Py_ssize_t uuid_int_slot = kw_slot_offset(<PyObject *>uuid_type.__dict__["int"])
cdef Py_ssize_t uuid_safe_slot = kw_slot_offset(<PyObject *>uuid_type.__dict__["is_safe"])
cdef uint8_t[16] NO_BYTES
memset(NO_BYTES, 0, 16)


cdef object make_uuid(const uint8_t *at):
    cdef uint64_t high, low
    if memcmp(at, NO_BYTES, 16) == 0:
        return no_uuid
    if uuid_int_slot <= 0 or uuid_safe_slot <= 0:
        return uuid_type(bytes=PyBytes_FromStringAndSize(<const char *>at, 16))
    high = kw_load64(at)
    low = kw_load64(at + 8)
    number = (<object>high << 64) | low
    made = kw_allocate(<PyObject *>uuid_type)
    put(made, uuid_int_slot, number)
    put(made, uuid_safe_slot, uuid_safety)
    return made


# --- writing ---

@cython.final
cdef class Sink:
    """What is being written, and where in the message we are."""
    cdef Writer writer
    cdef Trace trace

    def __cinit__(self):
        self.trace.depth = -1

    def __dealloc__(self):
        free(self.writer.data)


cdef object unfit(Sink sink, str what):
    cdef Plan plan = <Plan>sink.trace.plan
    place = place_of(&sink.trace)
    return ProtocolError(f"{place}: {what}" if place else what, api=plan.api, version=plan.version)


cdef inline int check_room(int result) except -1:
    if result < 0:
        raise MemoryError("no memory to encode a message into")
    return 0


cdef int write_struct(Plan plan, object instance, Sink sink) except -1:
    cdef const Op *op
    cdef Place *place
    cdef int i
    if type(instance) is not plan.cls:
        raise unfit(sink, f"expected {plan.cls.__qualname__}, not {type(instance).__name__}")
    sink.trace.depth += 1
    place = &sink.trace.at[sink.trace.depth]
    place.element = -1
    for i in range(plan.absent_count):
        op = &plan.absent[i]
        place.op = op
        if not op.ignorable:
            value = field_of(instance, op, sink)
            if not is_default(op, value):
                raise unfit(sink, f"this version cannot carry {shown(value)}; it has no such field")
    for i in range(plan.count):
        op = &plan.ops[i]
        place.op = op
        write_field(op, field_of(instance, op, sink), sink)
    place.op = NULL
    if plan.flexible:
        write_tagged(plan, instance, sink)
    sink.trace.depth -= 1
    return 0


cdef inline object field_of(object instance, const Op *op, Sink sink):
    cdef PyObject *value = slot_at(<PyObject *>instance, op.slot)[0]
    if value is NULL:
        raise unfit(sink, "the field is not set")
    if type(<object>value) is Delayed:
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


cdef int write_tagged(Plan plan, object instance, Sink sink) except -1:
    cdef Writer *writer = &sink.writer
    cdef Place *place = &sink.trace.at[sink.trace.depth]
    cdef const Op *op
    cdef int i, taken
    cdef Py_ssize_t next_unknown = 0
    cdef Py_ssize_t known = 0
    cdef size_t start, size
    cdef tuple unknown
    cdef uint8_t head[5]
    present = []
    for i in range(plan.tagged_count):
        op = &plan.tagged[i]
        place.op = op
        if not is_default(op, field_of(instance, op, sink)):
            present.append(i)
    place.op = NULL
    unknown = checked_unknown(plan, instance, sink)
    check_room(write_uvarint(writer, len(present) + len(unknown)))
    while known < len(present) or next_unknown < len(unknown):
        if known < len(present) and (
            next_unknown == len(unknown) or plan.tagged[<int>present[known]].tag < <uint32_t>unknown[next_unknown][0]
        ):
            op = &plan.tagged[<int>present[known]]
            known += 1
            place.op = op
            check_room(write_uvarint(writer, op.tag))
            # The size comes first but is known last: write the field, then move it up by what the size takes.
            start = writer.size
            write_field(op, field_of(instance, op, sink), sink)
            place.op = NULL
            size = writer.size - start
            if size > INT32_MAX:
                raise unfit(sink, f"tagged field {op.tag} takes {size} bytes")
            taken = put_uvarint(head, <uint32_t>size)
            check_room(writer_need(writer, taken))
            memmove(writer.data + start + taken, writer.data + start, size)
            memcpy(writer.data + start, head, taken)
            writer.size += taken
        else:
            tag, data = unknown[next_unknown]
            next_unknown += 1
            check_room(write_uvarint(writer, tag))
            check_room(write_uvarint(writer, len(data)))
            check_room(write_raw(writer, <const char *><bytes>data, len(data)))
    return 0


cdef tuple checked_unknown(Plan plan, object instance, Sink sink):
    cdef PyObject *value = slot_at(<PyObject *>instance, plan.layout.unknown_slot)[0]
    cdef int i
    if value is NULL:
        return ()
    fields = <object>value
    if fields == ():
        return ()
    try:
        fields = tuple((operator.index(tag), bytes(data)) for tag, data in fields)
    except (TypeError, ValueError):
        raise unfit(sink, "unknown_tagged_fields takes (tag, bytes) pairs") from None
    known = {plan.tagged[i].tag for i in range(plan.tagged_count)}
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
        check_room(write_int8(&sink.writer, -1 if value is None else 1))
        if value is None:
            return 0
    return write_value(op, value, sink)


cdef int write_null(const Op *op, Sink sink) except -1:
    """Null for an array, text or bytes."""
    if not op.nullable:
        raise unfit(sink, "None is not allowed here in this version")
    if op.compact:
        return check_room(write_int8(&sink.writer, 0))
    if op.kind == STRING and not op.array:
        return check_room(write_int16(&sink.writer, -1))
    return check_room(write_int32(&sink.writer, -1))


cdef int write_count(const Op *op, Py_ssize_t count, Sink sink) except -1:
    """How many elements an array has."""
    if count > INT32_MAX - 1:
        raise unfit(sink, f"{count} elements; {INT32_MAX - 1} is the most that Kafka allows")
    if op.compact:
        return check_room(write_uvarint(&sink.writer, <uint32_t>(count + 1)))
    return check_room(write_int32(&sink.writer, <int32_t>count))


cdef int write_length(const Op *op, Py_ssize_t size, Sink sink) except -1:
    """How long text or bytes are."""
    cdef Py_ssize_t most = INT16_MAX if op.kind == STRING else INT32_MAX - 1
    if size > most:
        raise unfit(sink, f"{size} bytes; {most} is the most that Kafka allows")
    if op.compact:
        return check_room(write_uvarint(&sink.writer, <uint32_t>(size + 1)))
    if op.kind == STRING:
        return check_room(write_int16(&sink.writer, <int>size))
    return check_room(write_int32(&sink.writer, <int32_t>size))


cdef int write_array(const Op *op, object value, Sink sink) except -1:
    cdef Place *place = &sink.trace.at[sink.trace.depth]
    cdef Py_ssize_t i
    if value is None:
        return write_null(op, sink)
    if not isinstance(value, (list, tuple)):
        raise unfit(sink, f"expected a list, not {type(value).__name__}")
    # A copy, so that code run by an element's conversion cannot change what was counted.
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
    cdef Writer *writer = &sink.writer
    cdef int kind = op.kind
    cdef int64_t number
    cdef double double_value
    cdef const char *text
    cdef Py_ssize_t size
    if kind == STRUCT:
        if value is None:
            raise unfit(sink, "None is not allowed here in this version")
        return write_struct(<Plan>op.plan, value, sink)
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
        return check_room(write_raw(writer, text, size))
    if kind == BYTES or kind == RECORDS:
        return write_bytes(op, value, sink)
    if kind == UUID:
        if not isinstance(value, uuid_type):
            raise unfit(sink, f"expected a uuid.UUID, not {type(value).__name__}")
        data = value.bytes
        return check_room(write_raw(writer, <const char *><bytes>data, 16))
    if kind == FLOAT64:
        if not isinstance(value, (float, int)):
            raise unfit(sink, f"expected a float, not {type(value).__name__}")
        try:
            double_value = PyFloat_AsDouble(value)
        except OverflowError:
            raise unfit(sink, "the number is too large for a float64") from None
        memcpy(&number, &double_value, 8)
        return check_room(write_int64(writer, number))
    if kind == BOOL:
        if value is not True and value is not False:
            raise unfit(sink, f"expected a bool, not {type(value).__name__}")
        return check_room(write_int8(writer, value is True))
    number = whole_number(op, value, sink)
    if kind == INT32 or kind == UINT32:
        return check_room(write_int32(writer, <int32_t>number))
    if kind == INT64:
        return check_room(write_int64(writer, number))
    if kind == INT16 or kind == UINT16:
        return check_room(write_int16(writer, <int>number))
    return check_room(write_int8(writer, <int>number))


cdef int64_t whole_number(const Op *op, object value, Sink sink) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyIndex_Check(value):
        raise unfit(sink, f"expected an int, not {type(value).__name__}")
    number = PyLong_AsLongLongAndOverflow(operator.index(value), &overflow)
    if overflow or number < KIND_LOW[op.kind] or number > KIND_HIGH[op.kind]:
        raise unfit(sink, f"{value} is outside {KIND_LOW[op.kind]} to {KIND_HIGH[op.kind]}")
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
        check_room(write_raw(&sink.writer, buffer.buf, buffer.len))
    finally:
        PyBuffer_Release(&buffer)
    return 0
