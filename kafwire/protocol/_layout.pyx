# decoder: its lines are counted by scripts/coverage.py
cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject, PyObject_RichCompareBool, Py_EQ
from cpython.ref cimport Py_INCREF, Py_XDECREF

from kafwire.secret import HIDDEN

KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": RECORDS, "struct": STRUCT,
}


@cython.final
cdef class Layout:
    """The places of a struct class's fields, and their initial values."""
    def __cinit__(self, object cls, tuple fields not None):
        cdef Py_ssize_t i
        cdef Op *op
        self.cls = <PyObject *>cls
        self.names = tuple(field.name for field in fields)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.defaults = tuple(None if field.fresh else field.default for field in fields)
        self.structs = tuple(field.struct for field in fields)
        self.unknown_slot = slot_of(cls, "unknown_tagged_fields")
        self.size = kw_instance_size(<PyObject *>cls)
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


cdef object start_value(const Op *op):
    if op.fill == SHARED:
        return <object>op.default
    if op.fill == NEW_LIST:
        return []
    return blank(layout_of(<object>op.struct))


cdef object blank(Layout layout):
    """Return an instance with every field at its default."""
    cdef object instance = kw_allocate(layout.cls)
    cdef Py_ssize_t i
    for i in range(len(layout.names)):
        put(instance, layout.ops[i].slot, start_value(&layout.ops[i]))
    put(instance, layout.unknown_slot, ())
    return instance


cdef Py_ssize_t start_cost(const Op *op) except -1:
    """Return the memory of a field's initial value."""
    cdef Layout layout
    cdef Py_ssize_t i, cost
    if op.fill == SHARED:
        return 0
    if op.fill == NEW_LIST:
        return LIST_COST
    layout = layout_of(<object>op.struct)
    cost = layout.size
    for i in range(len(layout.names)):
        cost += start_cost(&layout.ops[i])
    return cost


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
    """An array that was checked but not made yet; its slot holds this until it is read."""


cdef object settle(object instance, Py_ssize_t offset):
    """Make a delayed array, and put it into its slot."""
    cdef Delayed delayed = <Delayed>slot_at(<PyObject *>instance, offset)[0]
    cdef PyObject **slot = slot_at(<PyObject *>instance, offset)
    cdef PyObject *old
    values = delayed.make(delayed)
    if slot[0] is NULL:
        raise AttributeError("a field was deleted while it was read")
    if slot[0] is not <PyObject *>delayed:  # another thread was faster, while the objects were made
        return <object>slot[0]
    old = slot[0]
    Py_INCREF(values)
    slot[0] = <PyObject *>values
    Py_XDECREF(old)
    return values


@cython.final
cdef class DelayedSlot:
    """The attribute of a field that may be delayed: like the slot under it, but it makes the array on first read."""
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
    """A message, or a struct in one: typed attributes in slots, a keyword-only constructor with Kafka's defaults."""
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
            unknown = next(iter(fields))
            raise TypeError(f"{type(self).__qualname__} has no field {unknown!r}; it has {', '.join(layout.names)}")

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
        parts = [
            f"{name}={HIDDEN if self.hides(name) else shown(getattr(self, name, '<not set>'))}" for name in layout.names
        ]
        if self.unknown_tagged_fields:
            parts.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__qualname__}({', '.join(parts)})"

    def __reduce__(self):
        cdef Layout layout = layout_of(type(self))
        values = [getattr(self, name) for name in layout.names]
        values = [bytes(value) if isinstance(value, memoryview) else value for value in values]
        return restore, (type(self), tuple(values), self.unknown_tagged_fields)


def restore(cls, values, unknown_tagged_fields):
    """Restore an object for unpickling."""
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


cdef class Table:
    """The wire format of one version of a struct. `flexible` is the message's."""
    def __init__(self, object cls, str api not None, int version, bint flexible):
        cdef Py_ssize_t i, n
        cdef Op *op
        self.cls = cls
        self.api = api
        self.version = version
        self.flexible = flexible
        self.layout = layout_of(cls)
        self.tables = []
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
        self.cost = self.layout.size
        tagged = []
        for i, field in enumerate(fields):
            if version not in field.versions:
                self.absent[self.absent_count] = self.layout.ops[i]
                self.cost += start_cost(&self.layout.ops[i])
                self.absent_count += 1
            elif version in field.tagged:
                tagged.append((field.tag, i, field))
            else:
                op = &self.ops[self.count]
                self.count += 1
                self.min_size += self.fill_op(op, i, field)
        for _, i, field in sorted(tagged):
            if not flexible:
                raise TypeError(f"{cls.__qualname__}.{field.name} is tagged in version {version}, not a flexible one")
            self.fill_op(&self.tagged[self.tagged_count], i, field)
            self.tagged[self.tagged_count].in_tag = True
            self.cost += start_cost(&self.layout.ops[i])
            self.tagged_count += 1
        if self.levels > MAX_DEPTH:
            raise TypeError(f"{cls.__qualname__} nests more than {MAX_DEPTH} structs")

    def __dealloc__(self):
        PyMem_Free(self.ops)

    cdef Py_ssize_t fill_op(self, Op *op, Py_ssize_t i, object field) except -1:
        """Make the operation of one present field; return its fewest bytes."""
        cdef Table table
        cdef Py_ssize_t size
        op[0] = self.layout.ops[i]
        op.nullable = self.version in field.nullable
        op.compact = self.flexible and field.flexible
        op.tag = field.tag if field.tag is not None else 0
        if op.kind == STRUCT:
            table = Table(field.struct, self.api, self.version, self.flexible)
            self.tables.append(table)
            self.levels = max(self.levels, table.levels + 1)
            op.table = <PyObject *>table
            size = table.min_size
        elif op.kind == STRING:
            size = 1 if op.compact else 2
        elif op.kind in (BYTES, RECORDS):
            size = 1 if op.compact else 4
        else:
            size = kw_kind_size(op.kind)
        op.element_size = size
        op.cost = kw_kind_cost(op.kind)
        self.cost += LIST_COST if op.array else op.cost
        if op.array:
            op.cost += sizeof(PyObject *)
            if size < 1:
                raise TypeError(f"{self.cls.__qualname__}.{field.name}: elements of no bytes cannot be counted")
            return 1 if op.compact else 4
        return 1 if op.kind == STRUCT and op.nullable else size


cdef str place_of(const Trace *trace):
    cdef int i
    text = ""
    for i in range(trace.depth + 1):
        if trace.at[i].op is not NULL:
            text += f"{'.' if text else ''}{<object>trace.at[i].op.name}"
            if trace.at[i].element >= 0:
                text += f"[{trace.at[i].element}]"
    return text
