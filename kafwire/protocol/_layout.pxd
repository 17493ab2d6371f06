"""The places of a message's fields: in an instance, and in one version of the protocol.

`Layout` belongs to a class, `Table` to a class and version; both are arrays of `Op`. `Structure` is the base of every
message. The decoder (`_message`) and the encoder (`_compose`) need only the tables.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint32_t


cdef extern from *:
    """
    #include <structmember.h>
    #ifndef KAFWIRE_LAYOUT
    #define KAFWIRE_LAYOUT
    /* Where a slot lies in an instance, or -1 when `descriptor` is no plain slot. */
    static inline Py_ssize_t kw_slot_offset(PyObject *descriptor) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    static inline PyObject *kw_allocate(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }
    /* The bytes that a value of a kind takes; 0 where it depends on the value. In the order of `Kind`. */
    static inline int kw_kind_size(int kind) {
        static const int sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 0, 0, 0, 0};
        return sizes[kind];
    }
    /* The memory of a value of a kind as an object, its contents aside, rounded up. In the order of `Kind`. A struct is
     * charged as a whole when it is read. */
    static inline int kw_kind_cost(int kind) {
        static const int costs[] = {0, 0, 32, 32, 32, 32, 48, 32, 128, 64, 48, 256, 0};
        return costs[kind];
    }
    static inline Py_ssize_t kw_instance_size(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_basicsize + 16; /* the collector's header before it */
    }
    #endif
    """
    Py_ssize_t kw_slot_offset(PyObject *descriptor)
    object kw_allocate(PyObject *cls)
    int kw_kind_size(int kind)
    int kw_kind_cost(int kind)
    Py_ssize_t kw_instance_size(PyObject *cls)
    void PyObject_GC_UnTrack(PyObject *object)


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

cdef enum Fill:  # the initial value of a field that is not on the wire
    SHARED
    NEW_LIST
    NEW_STRUCT

cdef enum:
    MAX_DEPTH = 16  # of nested structs
    LIST_COST = 80  # the memory of an empty list
    MOST_TAG = 0x7FFFFFFE  # the highest that Kafka's own classes accept

cdef struct Op:
    int kind  # of the elements, where `array` is set
    bint array
    bint nullable
    bint compact
    bint in_tag  # a tagged field in this version
    bint ignorable
    int fill
    uint32_t tag
    Py_ssize_t slot  # the offset in an instance
    Py_ssize_t element_size  # the fewest bytes of one element
    Py_ssize_t cost  # the minimal memory of a value, and of each element of an array
    PyObject *table  # of the struct; kept alive by the enclosing table
    PyObject *name  # these three are kept alive by the layout
    PyObject *default
    PyObject *struct

cdef struct Place:  # one level of the current place in a message; used only to describe an error
    const Op *op
    Py_ssize_t element

cdef struct Trace:
    int depth
    PyObject *table  # of the message
    Place at[MAX_DEPTH]


cdef class Layout:
    cdef readonly tuple names
    cdef readonly dict index
    cdef readonly tuple defaults  # None for the fields that start as a new list or struct
    cdef PyObject *cls  # borrowed: the class owns its layout
    cdef Op *ops
    cdef Py_ssize_t unknown_slot
    cdef Py_ssize_t size  # the memory of an instance itself
    cdef tuple structs


cdef class Table:
    cdef readonly object cls
    cdef readonly str api
    cdef readonly int version
    cdef readonly bint flexible
    cdef readonly Py_ssize_t min_size
    cdef Py_ssize_t cost  # the memory of an instance, and of its fields unless it depends on their values
    cdef Layout layout
    cdef Op *ops  # in wire order
    cdef int count
    cdef Op *tagged  # by rising tag
    cdef int tagged_count
    cdef Op *absent
    cdef int absent_count
    cdef list tables
    cdef int levels  # of nested structs, including this one
    cdef Py_ssize_t fill_op(self, Op *op, Py_ssize_t i, object field) except -1


cdef class Delayed:
    """An array that was checked but not made yet; its slot holds this until it is read."""
    cdef object view  # of the whole message
    cdef Table table  # of the whole message
    cdef const Op *op
    cdef Py_ssize_t start
    cdef object (*make)(Delayed self)


cdef class Structure:
    pass


cdef inline PyObject **slot_at(PyObject *instance, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>instance + offset)


cdef inline void put(object instance, Py_ssize_t offset, object value) noexcept:
    """Fill an empty slot."""
    Py_INCREF(value)
    slot_at(<PyObject *>instance, offset)[0] = <PyObject *>value


cdef inline object untracked(object made):
    """Untrack a decoded object: it has no cycles, and the garbage collector would traverse it again and again."""
    PyObject_GC_UnTrack(<PyObject *>made)
    return made


cdef object start_value(const Op *op)
cdef object settle(object instance, Py_ssize_t offset)
cdef str place_of(const Trace *trace)
cdef object shown(object value)
