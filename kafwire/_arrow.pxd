"""The Arrow C data interface by hand: Columns out, rows to produce in. No pyarrow, and no GIL where it says nogil."""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kafwire._buffer cimport kw_buf
from kafwire._codec cimport Columns


cdef extern from "native/arrow.h" nogil:
    ctypedef struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t flags
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept
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
        void (*release)(ArrowArray *) noexcept
        void *private_data
    ctypedef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept
        const char *(*get_last_error)(ArrowArrayStream *) noexcept
        void (*release)(ArrowArrayStream *) noexcept
        void *private_data


cdef enum:
    # ArrowField.kind: the COLUMN_* of _codec, and
    FIELD_TOPIC = 64
    FIELD_PARTITION = 128
    MAX_FIELDS = 8

    EXPORT_OK = 0
    EXPORT_NO_MEMORY = -1
    EXPORT_OVERFLOW = -2  # a timestamp that does not fit in microseconds
    EXPORT_TOO_LARGE = -3  # the topic column would pass 2 GiB


cdef struct ArrowField:
    int kind  # COLUMN_* or FIELD_*
    int width  # timestamp: 3 (ms) or 6 (us); timestamp_type: 1 (int8) or 4 (int32); else 0
    char name[32]


# Which columns, in which order, under which names, and what the constant ones say. One layout serves one partition. The
# constant columns are built once, grow when a chunk is longer than any before, and are shared by all exported arrays.
cdef struct ArrowLayout:
    int count
    ArrowField fields[MAX_FIELDS]
    uint32_t columns  # the mask for DecodeSpec.columns
    int32_t partition
    kw_buf *topic  # UTF-8; NULL: null
    int busy  # guards the cache below
    int64_t cached_rows
    kw_buf *topic_offsets
    kw_buf *topic_data
    kw_buf *partition_data
    kw_buf *type_data[2]
    int64_t type_rows[2]
    int type_width[2]


cdef int layout_schema(const ArrowLayout *layout, ArrowSchema *out) noexcept nogil
# Columns -> struct array. Takes over the columns' buffers (on an error too): share them first to keep them.
cdef int columns_export(Columns *columns, ArrowLayout *layout, ArrowArray *out) noexcept nogil
cdef void layout_clear(ArrowLayout *layout) noexcept nogil


cdef class Layout:
    cdef ArrowLayout layout
    cdef object schema_capsule(self)  # "arrow_schema"
    cdef object array_capsule(self, Columns *columns)  # "arrow_array"; takes over the columns' buffers; raises


# One imported variable-length column. kind: 0 absent, else the FORM_* of _arrow.pyx
cdef struct BytesView:
    int form
    int32_t width  # of a fixed-size binary
    const uint8_t *validity
    int64_t offset  # of the first row, in elements
    const void *offsets  # int32, int64, or 16-byte views
    const uint8_t *data
    const void **buffers  # the variadic data buffers of views
    const int64_t *buffer_sizes
    int64_t buffer_count


cdef struct NumberView:
    int form  # 0 absent, else bytes per element
    const uint8_t *validity
    int64_t offset
    const void *data
    int64_t multiply  # timestamps to ms: value * multiply, then floor-divided by divide
    int64_t divide


cdef struct RowsView:
    int64_t length
    BytesView value
    BytesView key
    BytesView topic
    NumberView partition
    NumberView timestamp
    int headers_form  # 0 absent, 4 or 8: bytes per list offset
    const uint8_t *headers_validity
    int64_t headers_offset
    const void *headers_offsets
    int64_t header_offset  # of the struct array
    const uint8_t *header_validity
    BytesView header_key
    BytesView header_value


# 1: *data/*size is row i; 0: null; `i` must be < length. The producer of the array is trusted, as the interface asks for.
cdef int bytes_at(const BytesView *view, int64_t i, const uint8_t **data, int64_t *size) noexcept nogil
# 1: *out is row i; 0: null; -1: does not fit
cdef int number_at(const NumberView *view, int64_t i, int64_t *out) noexcept nogil


cdef class Rows:
    """One struct array of rows to produce, imported over the Arrow C data interface; `view` is valid while this lives."""
    cdef RowsView view
    cdef ArrowArray array
    cdef list _keep

    @staticmethod
    cdef list load(object source)  # -> list[Rows], one per chunk
