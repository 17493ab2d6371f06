# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/value_columns/native/columns.c
"""Decodes values to Arrow columns by a format's decoder; `_value_columns.pxd` has the structures.

The GIL is held to begin and end a part, and when a schema id is seen for the first time.
"""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from kafwire.memory._buffer cimport kw_be32, kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire.records._arrow cimport ArrowArray, ArrowSchema, free_array, free_schema
from kafwire.records._arrow_rows cimport FORM_OFFSETS_64, BytesView, Rows, RowsReader, bytes_at

from kafwire.errors import ConfigError
from kafwire.memory._buffer import seal_types


cdef enum:
    HEADER = 5  # the magic byte, and the schema id
    BAD_STEP = 64


# --- fixed parts ----------------------------------------------------------------------------------------------------

cdef kw_buf *copied(bytes data) except NULL:
    cdef kw_buf *made = kw_buf_new(process_pool(), len(data))
    if made is NULL:
        raise MemoryError("no memory for the symbols of an enum")
    memcpy(made.data, <const char *>data, len(data))
    made.size = len(data)
    return made


@cython.final
cdef class Layout:
    """The columns of one reader's schema, from `columns.Column`s in order."""

    def __cinit__(self):
        self.fields = NULL
        self.child_numbers = NULL

    def __init__(self, columns):
        cdef int32_t i, next_child = 0
        cdef kw_field *field
        if self.fields is not NULL:
            raise TypeError("a Layout cannot be initialised twice")
        columns = list(columns)
        self.held = []
        self.fields = <kw_field *>calloc(len(columns) + 1, sizeof(kw_field))
        self.child_numbers = <int32_t *>calloc(sum(len(column.children) for column in columns) + 1, sizeof(int32_t))
        if self.fields is NULL or self.child_numbers is NULL:
            raise MemoryError("no memory for the columns of a schema")
        self.count = len(columns)
        for i in range(self.count):
            column = columns[i]
            field = &self.fields[i]
            field.kind, field.width, field.flags = column.kind, column.width, column.flags
            format, name = column.format.encode(), column.name.encode()
            self.held += [format, name]
            field.format, field.name = format, name
            field.child = self.child_numbers + next_child
            field.children = len(column.children)
            for number in column.children:
                self.child_numbers[next_child] = number
                next_child += 1
            if column.symbols is not None:
                self.set_symbols(field, [symbol.encode() for symbol in column.symbols])

    cdef int set_symbols(self, kw_field *field, list symbols) except -1:
        cdef int32_t at = 0
        cdef int64_t i
        field.symbols = len(symbols)
        field.symbol_data = copied(b"".join(symbols))
        field.symbol_offsets = copied(bytes(4 * (len(symbols) + 1)))
        for i in range(field.symbols):
            at += len(symbols[i])
            (<int32_t *>field.symbol_offsets.data)[i + 1] = at
        return 0

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.count):
            kw_buf_unref(self.fields[i].symbol_offsets)
            kw_buf_unref(self.fields[i].symbol_data)
        free(self.fields)
        free(self.child_numbers)

    def __arrow_c_schema__(self):
        """Return the schema as a PyCapsule "arrow_schema"."""
        cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        if schema is NULL or kw_columns_export_schema(self.fields, 0, schema) != KW_COLUMNS_OK:
            free(schema)
            raise MemoryError("no memory for an Arrow schema")
        return PyCapsule_New(schema, "arrow_schema", free_schema)


cdef class Program:
    """The program of one writer's schema. A format derives its class, whose constructor sets `decode` and `program`."""


@cython.final
cdef class Table:
    """The programs by schema id: `programs` has a Program, or the text of the error that rejected the schema."""

    def __cinit__(self):
        self.entries = NULL

    def __init__(self, programs):
        cdef int32_t i = 0
        if self.entries is not NULL:
            raise TypeError("a Table cannot be initialised twice")
        self.programs = dict(sorted(programs.items()))
        self.entries = <Entry *>calloc(len(self.programs) + 1, sizeof(Entry))
        if self.entries is NULL:
            raise MemoryError("no memory for the programs of schemas")
        self.count = len(self.programs)
        for number, program in self.programs.items():
            self.entries[i].id = number
            if isinstance(program, Program):
                self.entries[i].decode = (<Program>program).decode
                self.entries[i].program = (<Program>program).program
            i += 1

    def __dealloc__(self):
        free(self.entries)


# --- rows -----------------------------------------------------------------------------------------------------------

cdef int run_init(Run *run, Layout layout, const Policy *policy, size_t limit, int64_t rows) except -1:
    cdef size_t row_bytes = 0
    cdef int32_t i
    memset(run, 0, sizeof(Run))
    run.policy = policy[0]
    run.columns.fields = layout.fields
    run.columns.count = layout.count
    run.columns.pool = process_pool()
    run.columns.limit = limit
    run.columns.columns = <kw_column *>calloc(layout.count, sizeof(kw_column))
    if run.columns.columns is NULL:
        raise MemoryError("no memory for the columns of values")
    for i in range(layout.count):
        row_bytes += layout.fields[i].width + 8
    # A quarter of the limit: the other columns must grow, too.
    kw_columns_expect(&run.columns, 0, min(rows, <int64_t>(limit // (4 * row_bytes))))
    return 0


cdef void run_clear(Run *run) noexcept nogil:
    if run.columns.columns is not NULL:
        kw_columns_clear(&run.columns)
    free(run.columns.columns)
    free(run.bad)
    if run.scratch.release is not NULL:
        run.scratch.release(&run.scratch)
    run.columns.columns = NULL
    run.bad = NULL
    memset(&run.scratch, 0, sizeof(run.scratch))
    run.bad_count = run.bad_capacity = 0


cdef const Entry *entry_of(const Entry *entries, int32_t count, int32_t number) noexcept nogil:
    cdef int32_t low = 0, high = count, middle
    while low < high:
        middle = low + (high - low) // 2
        if entries[middle].id < number:
            low = middle + 1
        else:
            high = middle
    return &entries[low] if low < count and entries[low].id == number else NULL


cdef int note(Run *run, int64_t row, int32_t number, const kw_failure *failure) noexcept nogil:
    cdef Bad *grown
    if run.bad_count == run.bad_capacity:
        grown = <Bad *>realloc(run.bad, (run.bad_capacity + max(run.bad_capacity, <int64_t>BAD_STEP)) * sizeof(Bad))
        if grown is NULL:
            return -1
        run.bad = grown
        run.bad_capacity += max(run.bad_capacity, <int64_t>BAD_STEP)
    run.bad[run.bad_count].row = row
    run.bad[run.bad_count].id = number
    run.bad[run.bad_count].failure = failure[0]
    run.bad_count += 1
    return 0


cdef int decode_value(Run *run, const Entry *entries, int32_t count, const uint8_t *data, int64_t size,
                      int32_t *number, kw_failure *failure) noexcept nogil:
    """Decode a value. 0, ROWS_NEED_SCHEMA with *number, or -1 with *failure."""
    cdef const Entry *entry
    cdef int64_t skipped = 0
    number[0] = -1
    memset(failure, 0, sizeof(kw_failure))
    if run.policy.framed:
        if size < HEADER:
            failure.code = KW_BAD_HEADER
            failure.detail = size
            return -1
        if data[0] != 0:
            failure.code = KW_BAD_MAGIC
            failure.detail = data[0]
            return -1
        if data[1] & 128:  # a registry's ids are positive
            failure.code = KW_BAD_ID
            failure.detail = kw_be32(data + 1)
            return -1
        number[0] = kw_be32(data + 1)
        skipped = HEADER
    else:
        number[0] = 0
    entry = run.last
    if entry is NULL or entry.id != number[0]:
        entry = entry_of(entries, count, number[0])
        if entry is NULL:
            return ROWS_NEED_SCHEMA
        run.last = entry
    if entry.decode is NULL:
        failure.code = KW_BAD_SCHEMA
        failure.at = skipped
        return -1
    if entry.decode(entry.program, &run.columns, &run.scratch, data + skipped, size - skipped,
                    run.policy.max_empty_items, failure) != KW_COLUMNS_OK:
        failure.at += skipped
        return -1
    return 0


cdef int decode_row(Run *run, const Entry *entries, int32_t count, const BytesView *view, int64_t row) noexcept nogil:
    """Decode a row. ROWS_DONE, or why the row is not accepted."""
    cdef const uint8_t *data
    cdef int64_t size, rows = run.columns.columns[0].length
    cdef int32_t number = -1
    cdef kw_failure failure
    cdef int code = -1
    if not bytes_at(view, row, &data, &size):
        memset(&failure, 0, sizeof(failure))
        failure.code = KW_BAD_NULL if run.policy.null_is_bad else 0
    else:
        code = decode_value(run, entries, count, data, size, &number, &failure)
    if code == ROWS_NEED_SCHEMA:
        run.wanted = number
        return ROWS_NEED_SCHEMA
    if code == 0:
        return ROWS_DONE
    kw_columns_truncate(&run.columns, 0, rows)
    if failure.code == KW_COLUMNS_NO_MEMORY:
        return ROWS_NO_MEMORY
    if failure.code == KW_COLUMNS_FULL:
        if row != run.first:
            return ROWS_FULL
        failure.code = KW_BAD_TOO_LARGE
    if failure.code != 0:
        if note(run, row, number, &failure) != 0:
            return ROWS_NO_MEMORY
        if run.policy.on_bad == ON_BAD_ERROR:
            return ROWS_STOPPED
        if run.policy.on_bad == ON_BAD_DROP:
            return ROWS_DONE
    code = kw_columns_append_null(&run.columns, 0)
    if code == KW_COLUMNS_OK:
        return ROWS_DONE
    kw_columns_truncate(&run.columns, 0, rows)
    if failure.code != 0:
        run.bad_count -= 1
    if code == KW_COLUMNS_NO_MEMORY:
        return ROWS_NO_MEMORY
    return ROWS_TOO_SMALL if row == run.first else ROWS_FULL


cdef int decode_rows(Run *run, const Entry *entries, int32_t count, const BytesView *view, int64_t *row,
                     int64_t stop) noexcept nogil:
    """Decode rows [*row, stop) into the columns; *row moves after the last one accepted. ROWS_*."""
    cdef int code
    run.last = NULL  # of another table
    while row[0] < stop:
        code = decode_row(run, entries, count, view, row[0])
        if code != ROWS_DONE:
            return code
        row[0] += 1
    return ROWS_DONE


# --- parts ----------------------------------------------------------------------------------------------------------

@cython.final
cdef class Part:
    """Decoded rows [first, stop) of the given values."""

    cdef Run run
    cdef Layout layout
    cdef Table table
    cdef readonly int64_t first
    cdef readonly int64_t stop
    cdef readonly bint stopped  # at a bad value, the last of `bad`

    def __cinit__(self):
        memset(&self.run, 0, sizeof(Run))

    def __init__(self):
        raise TypeError("decode_part makes Parts")

    def __dealloc__(self):
        run_clear(&self.run)

    def __len__(self):
        return self.run.columns.columns[0].length

    @property
    def bad(self):
        """Row, schema id (-1: none), code, index of the place in the schema, byte, detail of each bad value."""
        return [(self.run.bad[i].row, self.run.bad[i].id, self.run.bad[i].failure.code, self.run.bad[i].failure.where,
                 self.run.bad[i].failure.at, self.run.bad[i].failure.detail) for i in range(self.run.bad_count)]

    @property
    def programs(self):
        """The programs by schema id, to which `bad` refers."""
        return self.table.programs

    def arrow(self, *, bint valid=False):
        """Return PyCapsules "arrow_schema" and "arrow_array"; `valid`: no row is null, only its fields are."""
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array is NULL or kw_columns_export_array(&self.run.columns, 0, valid, array) != KW_COLUMNS_OK:
            free(array)
            raise MemoryError("no memory for Arrow arrays")
        try:
            capsule = PyCapsule_New(array, "arrow_array", free_array)
        except BaseException:
            array.release(array)
            free(array)
            raise
        return self.layout.__arrow_c_schema__(), capsule


@cython.final
cdef class Values:
    """A chunk of values to decode: a binary column, or a list of bytes and None."""

    cdef BytesView view
    cdef object held
    cdef int64_t length

    def __init__(self):
        raise TypeError("values_of makes Values")

    def __len__(self):
        return self.length


cdef Values from_list(list values):
    cdef Values made = Values.__new__(Values)
    cdef int64_t i, n = len(values)
    cdef bytes data = b"".join([value for value in values if value is not None])
    cdef bytearray offsets = bytearray(8 * (n + 1)), validity = bytearray((n + 7) // 8 + 1)
    cdef int64_t *ends = <int64_t *>PyByteArray_AS_STRING(offsets)
    cdef int64_t at = 0
    for i in range(n):
        if values[i] is not None:
            at += len(values[i])
            validity[i >> 3] |= 1 << (i & 7)
        ends[i + 1] = at
    memset(&made.view, 0, sizeof(BytesView))
    made.view.form = FORM_OFFSETS_64
    made.view.validity = <const uint8_t *>PyByteArray_AS_STRING(validity)
    made.view.offsets = ends
    made.view.data = <const uint8_t *>PyBytes_AS_STRING(data)
    made.held = (data, offsets, validity)
    made.length = n
    return made


def values_of(source):
    """Iterate over `source` as Values, one at least: Arrow data, binary or with a column `value`, or a list of bytes and None.

    Raises ConfigError for anything else.
    """
    cdef Rows rows
    cdef Values made = None
    if isinstance(source, (list, tuple)):
        for value in source:
            if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
                raise ConfigError(f"a list of values has bytes and None, not {type(value).__name__}")
        yield from_list([None if value is None else bytes(value) for value in source])
        return
    for chunk in RowsReader(source):
        rows = chunk
        made = Values.__new__(Values)
        made.view = rows.view.value
        made.held = rows
        made.length = rows.view.length
        yield made
    if made is None:  # a stream without chunks has no rows, but columns
        yield from_list([])


def decode_part(Layout layout not None, Table table not None, Values values not None, int64_t first, schema_of, *,
                int on_bad, bint null_is_bad, bint framed, int64_t max_empty_items, size_t max_bytes):
    """Decode values from row `first` on, as many as `max_bytes` of columns can hold.

    `schema_of(id)` is called for an id that is not in the table, and returns a table that has it.
    """
    cdef Part part = Part.__new__(Part)
    cdef Policy policy
    cdef int64_t row = first, stop = values.length
    cdef int code
    policy.on_bad, policy.null_is_bad, policy.framed = on_bad, null_is_bad, framed
    policy.max_empty_items = max_empty_items
    part.layout = layout
    part.table = table
    part.first = first
    run_init(&part.run, layout, &policy, max_bytes, stop - first)
    part.run.first = first
    while True:
        with nogil:
            code = decode_rows(&part.run, part.table.entries, part.table.count, &values.view, &row, stop)
        if code != ROWS_NEED_SCHEMA:
            break
        part.table = schema_of(part.run.wanted)
        if entry_of(part.table.entries, part.table.count, part.run.wanted) is NULL:
            raise AssertionError(f"schema {part.run.wanted} is not in the table that was made for it")
    if code == ROWS_NO_MEMORY:
        raise MemoryError("no memory for the columns of values")
    if code == ROWS_TOO_SMALL:
        raise ConfigError(f"max_bytes ({max_bytes}) has no room for the columns of one null row: raise it")
    part.stop = row
    part.stopped = code == ROWS_STOPPED
    return part


seal_types(Layout, Table, Part, Values)
