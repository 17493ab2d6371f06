# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/memory/native/pool.c
cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from libc.string cimport memcpy


cdef extern from "kafwire/memory/native/buf.h" nogil:
    kw_pool *kw_pool_new(size_t limit)
    int kw_process_generation()


cdef kw_pool *_pool = kw_pool_new(32 << 20)
if _pool is NULL:
    raise MemoryError("kafwire could not make its buffer pool")
kw_pool_set_budget(_pool, 1 << 30)


cdef kw_pool *process_pool() noexcept nogil:
    return _pool


cdef int process_generation() noexcept nogil:
    return kw_process_generation()


cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        void *tp_dict
    ctypedef struct PyGetSetDef:
        const char *doc
    ctypedef struct PyGetSetDescrObject:
        PyGetSetDef *d_getset
    ctypedef struct PyMemberDef:
        const char *doc
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    PyTypeObject PyGetSetDescr_Type
    bint PyObject_TypeCheck(object value, PyTypeObject *cls)
    void PyType_Modified(type cls)
    const char *PyUnicode_AsUTF8(object text) except NULL


@staticmethod
def _made_by_calling(cls, *arguments, **names):
    raise TypeError(f"{cls.__name__}.__new__ cannot be used: call the class, or get its objects from kafwire")


def seal_types(*types):
    """Disable `__new__` of extension types: an object without `__init__` would have invalid pointers.

    Calling a sealed type still works if its `__init__` permits it, and so does compiled code's own `__new__`. A base
    class of Python classes cannot be sealed.
    """
    cdef type cls
    for cls in types:
        (<dict>(<PyTypeObject *>cls).tp_dict)["__new__"] = _made_by_calling
        PyType_Modified(cls)


def add_attributes(type cls, dict values):
    """Put `values` into the dict of an extension type, which takes no attributes from Python."""
    (<dict>(<PyTypeObject *>cls).tp_dict).update(values)
    PyType_Modified(cls)


cdef list _descriptions = []  # descriptors point into these


def describe_fields(type cls, dict texts):
    """Set the docstrings of `cdef readonly` fields of an extension type; Cython has no syntax for them."""
    for name, text in texts.items():
        descriptor = cls.__dict__[name]
        _descriptions.append(text)
        if PyObject_TypeCheck(descriptor, &PyGetSetDescr_Type):
            (<PyGetSetDescrObject *>descriptor).d_getset.doc = PyUnicode_AsUTF8(text)
        else:
            (<PyMemberDescrObject *>descriptor).d_member.doc = PyUnicode_AsUTF8(text)


@cython.final
cdef class Buffer:
    """Read-only bytes in a pooled buffer; `memoryview(buffer)` reads them without a copy."""

    def __cinit__(self):
        self.buf = NULL

    def __init__(self, data=None):
        """Make a buffer with a copy of `data` (bytes-like)."""
        cdef const uint8_t[::1] view
        if self.buf is not NULL:
            raise TypeError("a Buffer can be filled only once")
        if data is None:
            raise TypeError("Buffer needs bytes-like data")
        view = memoryview(data).cast("B")
        self.buf = kw_buf_new(_pool, view.shape[0])
        if self.buf is NULL:
            raise MemoryError(f"no memory for a buffer of {view.shape[0]} bytes")
        if view.shape[0]:
            memcpy(self.buf.data, &view[0], view.shape[0])
        self.buf.size = view.shape[0]

    @staticmethod
    cdef Buffer steal(kw_buf *buf):
        """Wrap `buf`, taking over the caller's reference."""
        cdef Buffer self = Buffer.__new__(Buffer)
        self.buf = buf
        return self

    def __dealloc__(self):
        kw_buf_unref(self.buf)

    def __len__(self):
        return self.buf.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("a kafwire Buffer is read-only")
        PyBuffer_FillInfo(view, self, self.buf.data, self.buf.size, 1, flags)

    def __repr__(self):
        return f"<kafwire Buffer of {self.buf.size} bytes>"


seal_types(Buffer)


def pool_bytes():
    """Return (live, idle): bytes in used buffers, and bytes kept for reuse, in this process."""
    return kw_pool_live_bytes(_pool), kw_pool_idle_bytes(_pool)


def pool_limit():
    """Return the pool's limit of idle bytes: 32 MiB plus the claims of this process's clients, 256 MiB at most."""
    return kw_pool_limit(_pool)


def trim_pool(size_t keep=0):
    """Free idle buffers until at most `keep` idle bytes remain."""
    with nogil:
        kw_pool_trim(_pool, keep)


def set_budget(size_t limit):
    """Set the limit of the scratch memory of all decompression in this process."""
    with nogil:
        kw_pool_set_budget(_pool, limit)


def budget():
    """Return (limit, charged): the budget, and the bytes that decompression holds now."""
    return kw_pool_budget(_pool), kw_pool_charged(_pool)


def fail_after(long count):
    """For tests: the pool returns `count` buffers and then fails once; negative: it never fails.

    Returns the rest of the previous count, negative if the failure has happened.
    """
    return kw_pool_fail_after(_pool, count)
