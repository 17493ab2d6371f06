# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/encode.c
"""Encodes Arrow columns to values by a format's encoder; `_value_encoding.pxd` has the structures."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport kw_buf, kw_buf_unref, process_pool
from kafwire.records._arrow cimport ArrowArray, ArrowSchema, free_array, free_schema
from kafwire.records._arrow_rows cimport ArrowChunks

from kafwire.errors import ConfigError
from kafwire.memory._buffer import seal_types


cdef enum:
    MAX_DEPTH = 200  # of Arrow types
    NULLABLE = 2


cdef class Writer:
    """The program for columns of one Arrow type. A format derives its class, whose constructor sets all attributes."""


# --- columns --------------------------------------------------------------------------------------------------------

cdef tuple described(const ArrowSchema *schema, list count, int depth):
    """Return (number, format, name, children, dictionary or None); numbers count in this order."""
    cdef int64_t i
    cdef int32_t number = len(count)
    if depth > MAX_DEPTH:
        raise ConfigError(f"the Arrow type is nested more than {MAX_DEPTH} deep")
    count.append(None)
    name = (schema.name or b"").decode(errors="replace") if schema.name is not NULL else ""
    dictionary = None if schema.dictionary is NULL else described(schema.dictionary, count, depth + 1)
    children = tuple([described(schema.children[i], count, depth + 1) for i in range(schema.n_children)])
    return number, (<bytes>schema.format).decode(), name, children, dictionary


cdef int32_t point(kw_view *views, int32_t number, const ArrowSchema *schema, const ArrowArray *array,
                   int64_t before) except -1:
    """Fill the views of an array from `number` on; `before` is added to its offset. Returns the next number."""
    cdef kw_view *view = &views[number]
    cdef const char *format = schema.format
    cdef int64_t i
    view.validity = <const uint8_t *>array.buffers[0] if array.null_count != 0 and array.n_buffers > 0 else NULL
    view.offset = before + array.offset
    view.length = array.length
    if array.n_buffers > 1:
        view.data = <const uint8_t *>array.buffers[1]
    if array.n_buffers > 2:
        view.more = <const uint8_t *>array.buffers[2]
        view.buffers = array.buffers + 2
    if format[0] == b"w" and format[1] == b":":
        view.width = int(format[2:])
    number += 1
    if schema.dictionary is not NULL:
        if array.dictionary is NULL:
            raise ConfigError("a dictionary-encoded Arrow array has no dictionary")
        number = point(views, number, schema.dictionary, array.dictionary, 0)
    if array.n_children != schema.n_children:
        raise ConfigError("an Arrow array has another number of children than its schema")
    for i in range(schema.n_children):
        number = point(views, number, schema.children[i], array.children[i],
                       view.offset if format[0] == b"+" and format[1] == b"s" else 0)
    return number


@cython.final
cdef class Columns:
    """One Arrow array, and views of its buffers. `description` is that of its type."""

    def __cinit__(self):
        memset(&self.array, 0, sizeof(ArrowArray))
        self.views = NULL

    def __init__(self):
        raise TypeError("Reading makes Columns")

    def __dealloc__(self):
        if self.array.release is not NULL:
            self.array.release(&self.array)
        free(self.views)

    def __len__(self):
        return self.array.length

    cdef int take(self, const ArrowSchema *schema, ArrowArray *array, tuple description) except -1:
        """Take ownership of the array."""
        memcpy(&self.array, array, sizeof(ArrowArray))
        array.release = NULL
        count = []
        self.description = described(schema, count, 0) if description is None else description
        self.count = len(count) if description is None else nodes(description)
        self.views = <kw_view *>calloc(self.count, sizeof(kw_view))
        if self.views is NULL:
            raise MemoryError("no memory for the views of Arrow arrays")
        if self.array.release is not NULL:  # else there are no rows, of a stream without chunks
            point(self.views, 0, schema, &self.array, 0)
        return 0


cdef int32_t nodes(tuple description) except -1:
    cdef int32_t found = 1
    if description[4] is not None:
        found += nodes(description[4])
    for child in description[3]:
        found += nodes(child)
    return found


@cython.final
cdef class Reading(ArrowChunks):
    """Iterates over Arrow data, with __arrow_c_array__ or __arrow_c_stream__, as one Columns per chunk, one at least."""

    cdef object take(self, const ArrowSchema *schema, ArrowArray *array):
        cdef Columns made = Columns.__new__(Columns)
        made.take(schema, array, self.description)
        self.description = made.description
        return made

    def __next__(self):
        cdef ArrowArray none
        try:
            return ArrowChunks.__next__(self)
        except StopIteration:
            if self.description is not None:
                raise
        memset(&none, 0, sizeof(none))  # of a stream without chunks
        return self.take(&self.schema, &none)


# --- values ---------------------------------------------------------------------------------------------------------

cdef struct Exported:
    const void *buffers[3]
    kw_buf *held[3]


cdef void release_values(ArrowArray *array) noexcept nogil:
    cdef Exported *owner = <Exported *>array.private_data
    cdef int i
    for i in range(3):
        kw_buf_unref(owner.held[i])
    free(owner)
    array.release = NULL


cdef void release_type(ArrowSchema *schema) noexcept nogil:
    schema.release = NULL


@cython.final
cdef class Encoded:
    """The values of some rows: a binary column. Its capsules can be taken once."""

    cdef kw_values values
    cdef int64_t rows
    cdef readonly tuple wrong  # code, number of the place, row and detail of a value that the schema does not allow

    def __cinit__(self):
        memset(&self.values, 0, sizeof(kw_values))

    def __init__(self):
        raise TypeError("encode_columns makes Encoded")

    def __dealloc__(self):
        kw_values_clear(&self.values)

    def __len__(self):
        return self.rows

    def __arrow_c_array__(self, requested_schema=None):
        """Return PyCapsules "arrow_schema" and "arrow_array" of a binary column."""
        cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        cdef Exported *owner = <Exported *>calloc(1, sizeof(Exported))
        cdef int i
        if schema is NULL or array is NULL or owner is NULL or self.values.offsets is NULL:
            free(schema)
            free(array)
            free(owner)
            if self.wrong is None and self.rows >= 0 and self.values.offsets is NULL:
                raise ConfigError("the encoded values were already exported")
            raise MemoryError("no memory for Arrow arrays")
        schema.format, schema.name, schema.flags, schema.release = b"z", b"", NULLABLE, release_type
        owner.held[0] = self.values.validity
        owner.held[1] = self.values.offsets
        owner.held[2] = self.values.data
        for i in range(3):
            owner.buffers[i] = owner.held[i].data if owner.held[i] is not NULL else NULL
        array.length, array.null_count, array.n_buffers = self.rows, self.values.nulls, 3
        array.buffers, array.private_data, array.release = owner.buffers, owner, release_values
        memset(&self.values, 0, sizeof(kw_values))
        made = PyCapsule_New(array, "arrow_array", free_array)
        return PyCapsule_New(schema, "arrow_schema", free_schema), made


def encode_columns(Writer writer not None, Columns columns not None, bytes prefix not None):
    """Encode all rows, each behind `prefix`."""
    cdef Encoded made = Encoded.__new__(Encoded)
    cdef kw_wrong wrong
    cdef const uint8_t *before = <const uint8_t *>PyBytes_AS_STRING(prefix)
    cdef int64_t size = len(prefix), rows = columns.array.length
    cdef int code
    if writer.views != columns.count:
        raise AssertionError(f"a program for {writer.views} Arrow arrays, not {columns.count}")
    with nogil:
        code = kw_encode_rows(writer.encode, writer.program, columns.views, writer.root, rows, before, size,
                              process_pool(), &made.values, &wrong)
    made.rows = rows
    if code != 0:
        made.wrong = (wrong.code, wrong.where, wrong.row, wrong.detail)
        kw_values_clear(&made.values)
    return made


seal_types(Columns, Reading, Encoded)
