"""The Arrow C data interface, and the export of Columns over it. No pyarrow, and no GIL in `nogil` functions."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._columns cimport Columns


cdef extern from "kafwire/records/native/arrow.h" nogil:
    ctypedef struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept nogil
        void *private_data
    ctypedef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept nogil
        void *private_data
    ctypedef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data


# Destructors of the PyCapsules "arrow_schema" and "arrow_array": they call release() and free().
cdef void free_schema(object capsule) noexcept
cdef void free_array(object capsule) noexcept


cdef enum:
    # ArrowField.kind: the COLUMN_* of _columns, and
    FIELD_TOPIC = 64
    FIELD_PARTITION = 128
    MAX_FIELDS = 8

    EXPORT_OK = 0
    EXPORT_NO_MEMORY = -1
    EXPORT_OVERFLOW = -2  # a timestamp that does not fit in microseconds
    EXPORT_TOO_LARGE = -3  # the topic column would exceed 2 GiB
    EXPORT_MISSING = -4  # a column that was not decoded


cdef struct ArrowField:
    int kind  # COLUMN_* or FIELD_*
    int width  # timestamp: 3 (ms) or 6 (us); timestamp_type: 1 (int8) or 4 (int32); else 0
    char name[32]


# The constant columns of some number of rows.
cdef struct Constants:
    int64_t rows
    kw_buf *topic_offsets
    kw_buf *topic_data
    kw_buf *partition_data
    kw_buf *type_data[2]
    int64_t type_rows[2]
    int type_width[2]


# The selected columns, their order and names, and the values of the constant ones. One layout serves one partition. The
# constant columns are built once, grow when a chunk is longer than any before, and are shared by all exported arrays.
cdef struct ArrowLayout:
    int count
    ArrowField fields[MAX_FIELDS]
    uint32_t columns  # the mask for DecodeSpec.columns
    size_t row_bytes  # for DecodeSpec.row_bytes: bytes per row of constant columns and converted units
    int32_t partition
    kw_buf *topic  # UTF-8; NULL: null
    bint transient  # keep no constant columns between exports
    int lock  # guards `kept`: 0, or the process generation of the thread that has it
    Constants kept


cdef int layout_schema(const ArrowLayout *layout, ArrowSchema *out) noexcept nogil
# Columns -> struct array. Takes ownership of the columns' buffers, even on an error: share them first to keep them.
cdef int columns_export(Columns *columns, ArrowLayout *layout, ArrowArray *out) noexcept nogil
cdef object export_error(int code)  # raises the error of an EXPORT_* code
cdef void layout_clear(ArrowLayout *layout) noexcept nogil


cdef class Layout:
    cdef ArrowLayout layout
    cdef object importer  # makes pyarrow batches from arrays of this layout; None: not needed yet
    cdef object schema_capsule(self)  # "arrow_schema"
    cdef object array_capsule(self, Columns *columns)  # "arrow_array"; takes ownership of the columns' buffers; raises
    cdef int export(self, Columns *columns, ArrowArray *out) except -1  # the same, into the caller's memory
