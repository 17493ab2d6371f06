# distutils: sources = kafwire/memory/native/buf.c
"""The import of rows over the Arrow C data interface; `records/_arrow_rows.pxd` is the contract.

Formats and indices are checked once, when an array is taken; after that its producer is trusted, as the interface
requires.
"""
import re

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from kafwire.records._arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema

from kafwire.errors import ConfigError
from kafwire.memory._buffer import seal_types


_BYTES_FORMATS = {b"z": FORM_OFFSETS_32, b"u": FORM_OFFSETS_32, b"Z": FORM_OFFSETS_64, b"U": FORM_OFFSETS_64,
                  b"vz": FORM_VIEW, b"vu": FORM_VIEW, b"n": FORM_NULL}
_INTEGER_FORMATS = {b"c": (1, False), b"C": (1, True), b"s": (2, False), b"S": (2, True),
                    b"i": (4, False), b"I": (4, True), b"l": (8, False), b"L": (8, True)}
_TIME_UNITS = {b"tss": (1000, 1), b"tsm": (1, 1), b"tsu": (1, 1000), b"tsn": (1, 1000000)}
# columns that kafwire itself reads, and that are meaningless when written
_IGNORED = (b"offset", b"timestamp_type")
_PANDAS_INDEX = re.compile(rb"__index_level_\d+__")


cdef const uint8_t *validity_of(const ArrowArray *array) noexcept:
    return <const uint8_t *>array.buffers[0] if array.null_count != 0 and array.n_buffers > 0 else NULL


cdef int dictionary_bytes(const Dictionary *dictionary, int64_t i, const uint8_t **data, int64_t *size) noexcept nogil:
    cdef int64_t index
    if number_at(&dictionary.index, i, &index) == 1 and 0 <= index < dictionary.length:
        return bytes_at(&dictionary.bytes, index, data, size)
    data[0] = NULL
    size[0] = -1
    return 0


cdef int dictionary_number(const Dictionary *dictionary, int64_t i, int64_t *out) noexcept nogil:
    cdef int64_t index
    if number_at(&dictionary.index, i, &index) == 1 and 0 <= index < dictionary.length:
        return number_at(&dictionary.numbers, index, out)
    return 0


cdef int64_t wrong_index(const Dictionary *dictionary, int64_t first, int64_t last) noexcept nogil:
    """Return the first of the rows [first, last) whose index has no value; -1: none."""
    cdef int64_t i, index = 0
    cdef int code
    for i in range(first, last):
        code = number_at(&dictionary.index, i, &index)
        if code < 0 or (code == 1 and not 0 <= index < dictionary.length):
            return i
    return -1


cdef Dictionary *new_dictionary(Rows rows, const ArrowSchema *schema, const ArrowArray *array, int64_t offset,
                                int64_t first, int64_t last, str name) except NULL:
    """Make a checked dictionary without values. `offset`: of row 0 in the array; rows [first, last) are used."""
    cdef Dictionary *made = <Dictionary *>calloc(1, sizeof(Dictionary))
    cdef bytes format = schema.format
    cdef int64_t wrong
    if made is NULL:
        raise MemoryError("no memory for a dictionary of an Arrow array")
    made.next = rows.dictionaries
    rows.dictionaries = made
    if format not in _INTEGER_FORMATS or array.dictionary is NULL:
        raise ConfigError(f"column {name!r} is dictionary-encoded, but its index has the Arrow format "
                          f"{format.decode()!r}, or there are no values")
    made.length = array.dictionary.length
    made.index.form, made.index.is_unsigned = _INTEGER_FORMATS[format]
    made.index.multiply = made.index.divide = 1
    made.index.validity = validity_of(array)
    made.index.offset = offset
    made.index.data = array.buffers[1]
    with nogil:
        wrong = wrong_index(made, first, last)
    if wrong >= 0:
        raise ConfigError(f"column {name!r}, row {wrong - first}: its index is outside the dictionary of {made.length} "
                          "values")
    return made


cdef int view_bytes(Rows rows, BytesView *view, const ArrowSchema *schema, const ArrowArray *array, int64_t offset,
                    int64_t first, int64_t last, str name) except -1:
    """Point a view to row i at element `offset` + i of the array; the rows [first, last) are used."""
    cdef bytes format = schema.format
    cdef Dictionary *dictionary
    memset(view, 0, sizeof(BytesView))
    if schema.dictionary is not NULL:
        dictionary = new_dictionary(rows, schema, array, array.offset + offset, first, last, name)
        view_bytes(rows, &dictionary.bytes, schema.dictionary, array.dictionary, 0, 0, dictionary.length, name)
        view.form = FORM_DICTIONARY
        view.offsets = dictionary
        return 0
    if format.startswith(b"w:"):
        view.form = FORM_FIXED
        view.width = int(format[2:])
        view.data = <const uint8_t *>array.buffers[1]
    elif format in _BYTES_FORMATS:
        view.form = _BYTES_FORMATS[format]
        if view.form != FORM_NULL:
            view.offsets = array.buffers[1]
        if view.form == FORM_VIEW:
            view.buffers = array.buffers + 2
        elif view.form != FORM_NULL:
            view.data = <const uint8_t *>array.buffers[2]
    else:
        raise ConfigError(f"column {name!r} must be binary or string, not Arrow format {format.decode()!r}")
    if view.form != FORM_NULL:
        view.validity = validity_of(array)
    view.offset = array.offset + offset
    return 0


cdef int view_number(Rows rows, NumberView *view, const ArrowSchema *schema, const ArrowArray *array, int64_t offset,
                     int64_t first, int64_t last, str name) except -1:
    cdef bytes format = schema.format
    cdef Dictionary *dictionary
    memset(view, 0, sizeof(NumberView))
    view.multiply = view.divide = 1
    if schema.dictionary is not NULL:
        dictionary = new_dictionary(rows, schema, array, array.offset + offset, first, last, name)
        view_number(rows, &dictionary.numbers, schema.dictionary, array.dictionary, 0, 0, dictionary.length, name)
        view.form = FORM_DICTIONARY
        view.data = dictionary
        return 0
    if format == b"n":
        return 0
    if format in _INTEGER_FORMATS:
        view.form, view.is_unsigned = _INTEGER_FORMATS[format]
    elif name == "timestamp" and format[:3] in _TIME_UNITS:
        view.form = 8
        view.multiply, view.divide = _TIME_UNITS[format[:3]]
    elif name == "timestamp" and format == b"tdm":
        view.form = 8
    elif name == "timestamp" and format == b"tdD":
        view.form = 4
        view.multiply = 86400000
    else:
        raise ConfigError(f"column {name!r} must be {'a timestamp or ' if name == 'timestamp' else ''}an integer, "
                          f"not Arrow format {format.decode()!r}")
    view.validity = validity_of(array)
    view.offset = array.offset + offset
    view.data = array.buffers[1]
    return 0


cdef int view_headers(Rows rows, const ArrowSchema *schema, const ArrowArray *array, int64_t offset) except -1:
    cdef RowsView *view = &rows.view
    cdef bytes format = schema.format
    cdef const ArrowSchema *pair
    cdef const ArrowArray *pairs
    cdef bytes name
    cdef int64_t i, first = 0, last = 0
    cdef bint has_key = False, has_value = False
    if format == b"n":
        return 0
    if schema.dictionary is not NULL or (schema.n_children == 1 and schema.children[0].dictionary is not NULL):
        raise ConfigError("column 'headers': the list or its structs are dictionary-encoded: cast them to a "
                          "plain type")
    if format not in (b"+l", b"+L", b"+m") or schema.children[0].format != b"+s":
        raise ConfigError("column 'headers' must be list<struct<key: string, value: binary>>, "
                          f"not Arrow format {format!r}")
    pair = schema.children[0]
    pairs = array.children[0]
    view.headers_form = 8 if format == b"+L" else 4
    view.headers_validity = validity_of(array)
    view.headers_offset = array.offset + offset
    view.headers_offsets = array.buffers[1]
    if view.length > 0:  # the header pairs of these rows
        if view.headers_form == 8:
            first = (<const int64_t *>view.headers_offsets)[view.headers_offset]
            last = (<const int64_t *>view.headers_offsets)[view.headers_offset + view.length]
        else:
            first = (<const int32_t *>view.headers_offsets)[view.headers_offset]
            last = (<const int32_t *>view.headers_offsets)[view.headers_offset + view.length]
    view.header_offset = pairs.offset
    view.header_validity = validity_of(pairs)
    for i in range(pair.n_children):
        name = pair.children[i].name or b""  # the interface allows children without a name
        if name == b"key":
            view_bytes(rows, &view.header_key, pair.children[i], pairs.children[i], pairs.offset, first, last,
                       "headers.key")
            has_key = True
        elif name == b"value":
            view_bytes(rows, &view.header_value, pair.children[i], pairs.children[i], pairs.offset, first, last,
                       "headers.value")
            has_value = True
    if not (has_key and has_value):
        raise ConfigError("column 'headers' must hold structs with the fields 'key' and 'value'")
    return 0


cdef class Rows:
    def __cinit__(self):
        memset(&self.view, 0, sizeof(RowsView))
        memset(&self.array, 0, sizeof(ArrowArray))

    def __dealloc__(self):
        cdef Dictionary *dictionary
        while self.dictionaries is not NULL:
            dictionary = self.dictionaries
            self.dictionaries = dictionary.next
            free(dictionary)
        if self.array.release is not NULL:
            self.array.release(&self.array)

    def __len__(self):
        return self.view.length

    @staticmethod
    cdef list load(object source):
        return list(RowsReader(source))


cdef bint is_index(const ArrowSchema *schema, bytes name):
    """True if a column is the index of a pandas frame, by its name or pandas' metadata."""
    cdef const char *p = schema.metadata
    cdef int32_t size, pairs = 0
    cdef bytes key, value
    import json

    if _PANDAS_INDEX.fullmatch(name):
        return True
    if p is NULL:
        return False
    memcpy(&pairs, p, 4)
    p += 4
    for _ in range(pairs):
        memcpy(&size, p, 4)
        key = p[4:4 + size]
        p += 4 + size
        memcpy(&size, p, 4)
        value = p[4:4 + size]
        p += 4 + size
        if key == b"pandas":
            try:
                return name.decode() in json.loads(value)["index_columns"]
            except (ValueError, KeyError, TypeError):
                return False
    return False


cdef int describe(Rows rows, const ArrowSchema *schema, const ArrowArray *array) except -1:
    """Point its view to the array's buffers."""
    cdef RowsView *view = &rows.view
    cdef bytes format = schema.format
    cdef bytes name
    cdef int64_t i, n = array.length
    cdef const ArrowSchema *kind
    cdef const ArrowArray *column
    view.length = n
    if format != b"+s" or schema.dictionary is not NULL:  # a single column has the values
        return view_bytes(rows, &view.value, schema, array, 0, 0, n, "value")
    if array.null_count > 0:
        raise ConfigError("the rows themselves must not be null")
    for i in range(schema.n_children):
        kind = schema.children[i]
        column = array.children[i]
        name = kind.name or b""
        if name == b"value":
            view_bytes(rows, &view.value, kind, column, array.offset, 0, n, "value")
        elif name == b"key":
            view_bytes(rows, &view.key, kind, column, array.offset, 0, n, "key")
        elif name == b"topic":
            try:
                view_bytes(rows, &view.topic, kind, column, array.offset, 0, n, "topic")
            except ConfigError as error:  # raised only if the topic column is used
                rows.topic_problem = error
        elif name == b"partition":
            view_number(rows, &view.partition, kind, column, array.offset, 0, n, "partition")
        elif name == b"timestamp":
            view_number(rows, &view.timestamp, kind, column, array.offset, 0, n, "timestamp")
        elif name == b"headers":
            view_headers(rows, kind, column, array.offset)
        elif name not in _IGNORED and not is_index(schema, name):
            raise ConfigError(f"unknown column {name.decode(errors='replace')!r}: columns to produce are value, key, "
                              "partition, timestamp, headers, topic")
    if view.value.form == FORM_ABSENT:
        raise ConfigError("there is no column 'value'")
    return 0


cdef Rows take_rows(const ArrowSchema *schema, ArrowArray *array):
    """Make Rows from `array`, taking ownership."""
    cdef Rows rows = Rows.__new__(Rows)
    memcpy(&rows.array, array, sizeof(ArrowArray))
    array.release = NULL
    describe(rows, schema, &rows.array)
    return rows


cdef class ArrowChunks:
    """Iterates over the chunks of `source`, an object with __arrow_c_stream__ or __arrow_c_array__.

    Each chunk is pulled on demand. Raises ConfigError for a source, a column or a type that cannot be read.
    """

    def __cinit__(self):
        memset(&self.schema, 0, sizeof(ArrowSchema))
        self.stream = NULL

    def __init__(self, object source):
        if self.ready is not None or self.capsule is not None:
            raise TypeError(f"a {type(self).__name__} cannot be initialised twice")
        if hasattr(source, "__arrow_c_stream__"):
            self.capsule = source.__arrow_c_stream__()
            self.stream = <ArrowArrayStream *>PyCapsule_GetPointer(self.capsule, "arrow_array_stream")
            if self.stream.release is NULL:
                raise ConfigError("the Arrow stream was already consumed")
            self.check(self.stream.get_schema(self.stream, &self.schema))
        elif hasattr(source, "__arrow_c_array__"):
            schema, array = source.__arrow_c_array__()
            self.ready = self.take(<ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema"),
                                   <ArrowArray *>PyCapsule_GetPointer(array, "arrow_array"))
        else:
            raise ConfigError(f"{type(source).__name__} is not Arrow data: it needs __arrow_c_stream__ or "
                              "__arrow_c_array__ (a pyarrow.Table or RecordBatch, a polars or duckdb frame)")

    def __dealloc__(self):
        if self.schema.release is not NULL:
            self.schema.release(&self.schema)

    cdef object take(self, const ArrowSchema *schema, ArrowArray *array):
        raise NotImplementedError(f"{type(self).__name__} has no chunks")

    cdef int check(self, int code) except -1:
        cdef const char *why
        if code != 0:
            why = self.stream.get_last_error(self.stream)
            raise OSError(code, f"the Arrow stream failed: {why.decode(errors='replace') if why is not NULL else ''}")
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef ArrowArray array
        cdef int code
        if self.ready is not None:
            chunk, self.ready = self.ready, None
            return chunk
        if self.stream is not NULL:
            memset(&array, 0, sizeof(array))
            with nogil:  # it may wait, even for another thread of this process that needs the GIL
                code = self.stream.get_next(self.stream, &array)
            self.check(code)
            if array.release is not NULL:
                return self.take(&self.schema, &array)
        raise StopIteration


@cython.final
cdef class RowsReader(ArrowChunks):
    """Iterates over `source` as one Rows per chunk; a Rows is its own chunk."""

    def __init__(self, object source):
        if isinstance(source, Rows) and self.ready is None and self.capsule is None:
            self.ready = source
        else:
            ArrowChunks.__init__(self, source)

    cdef object take(self, const ArrowSchema *schema, ArrowArray *array):
        return take_rows(schema, array)


seal_types(Rows, ArrowChunks, RowsReader)
