"""Decodes values to Arrow columns, without the GIL, by a format's decoder; see `native/columns.h`."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from kafwire.memory._buffer cimport kw_buf, kw_pool
from kafwire.records._arrow cimport ArrowArray, ArrowSchema
from kafwire.records._arrow_rows cimport BytesView


cdef extern from "kafwire/value_columns/native/columns.h" nogil:
    enum:
        KW_KIND_NULL
        KW_KIND_BOOLEAN
        KW_KIND_FIXED
        KW_KIND_BYTES
        KW_KIND_LIST
        KW_KIND_STRUCT
        KW_COLUMNS_OK
        KW_COLUMNS_NO_MEMORY
        KW_COLUMNS_FULL
        KW_BAD_MAGIC
        KW_BAD_HEADER
        KW_BAD_NULL
        KW_BAD_SCHEMA
        KW_BAD_TOO_LARGE
        KW_BAD_ID
    ctypedef struct kw_field:
        int32_t kind
        int32_t width
        int32_t children
        const int32_t *child
        const char *format
        const char *name
        int64_t flags
        kw_buf *symbol_offsets
        kw_buf *symbol_data
        int64_t symbols
    ctypedef struct kw_column:
        int64_t length
        int64_t capacity
        int64_t nulls
        int64_t used
        kw_buf *validity
        kw_buf *offsets
        kw_buf *data
    ctypedef struct kw_columns:
        const kw_field *fields
        kw_column *columns
        int32_t count
        kw_pool *pool
        size_t allocated
        size_t limit
    ctypedef struct kw_failure:
        int32_t code
        int32_t where
        int64_t at
        int64_t detail
    ctypedef struct kw_scratch:
        void (*release)(kw_scratch *scratch) noexcept nogil
    ctypedef int (*kw_decode)(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data,
                              size_t size, int64_t max_empty_items, kw_failure *failure) noexcept nogil
    void kw_columns_expect(kw_columns *c, int32_t number, int64_t rows)
    int kw_columns_append_null(kw_columns *c, int32_t number)
    void kw_columns_truncate(kw_columns *c, int32_t number, int64_t length)
    void kw_columns_clear(kw_columns *c)
    int kw_columns_export_schema(const kw_field *fields, int32_t number, ArrowSchema *out)
    int kw_columns_export_array(const kw_columns *c, int32_t number, int valid, ArrowArray *out)


cdef class Layout:
    cdef kw_field *fields
    cdef int32_t *child_numbers
    cdef int32_t count
    cdef object held  # owns the memory of the fields' texts
    cdef int set_symbols(self, kw_field *field, list symbols) except -1


# A decoder's program for one writer's schema; a format's class sets both.
cdef class Program:
    cdef kw_decode decode
    cdef const void *program


# The program of a schema id. A table is immutable: a new id makes another table.
cdef struct Entry:
    int32_t id
    kw_decode decode  # NULL: values with this id are bad
    const void *program


cdef class Table:
    cdef Entry *entries  # sorted by id
    cdef int32_t count
    cdef readonly dict programs  # by id: a Program, or the text why there is none


cdef struct Bad:
    int64_t row
    int32_t id  # -1: none was read
    kw_failure failure


cdef enum:
    # Policy.on_bad
    ON_BAD_ERROR = 0
    ON_BAD_NULL = 1
    ON_BAD_DROP = 2

    # decode_rows
    ROWS_DONE = 0
    ROWS_FULL = 1  # the columns, or memory, are full: the rows from *row on are left
    ROWS_NEED_SCHEMA = 2
    ROWS_STOPPED = 3  # at a bad value
    ROWS_NO_MEMORY = 4
    ROWS_TOO_SMALL = 5  # a null row alone exceeds the limit of the columns


cdef struct Policy:
    int on_bad
    bint null_is_bad
    bint framed  # with magic byte and schema id; else every value has the id 0
    int64_t max_empty_items


cdef struct Run:
    Policy policy
    kw_columns columns
    kw_scratch scratch
    const Entry *last
    int64_t first  # the first row of this part
    int32_t wanted  # ROWS_NEED_SCHEMA: the id
    Bad *bad
    int64_t bad_count
    int64_t bad_capacity


cdef int run_init(Run *run, Layout layout, const Policy *policy, size_t limit, int64_t rows) except -1
cdef void run_clear(Run *run) noexcept nogil
cdef int decode_rows(Run *run, const Entry *entries, int32_t count, const BytesView *view, int64_t *row,
                     int64_t stop) noexcept nogil
