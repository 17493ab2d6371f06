"""Records as text: writes rows of a batch in a format, without the GIL.

The columns come over the Arrow C data interface, so this module knows only a batch's schema. The size of the output is
bounded before it is written, so that each piece needs one allocation and the loop no checks.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strcmp

from kafwire.memory._buffer cimport kw_utf8_character
from kafwire.records._arrow cimport ArrowArray, ArrowSchema

from kafwire.errors import ConfigError


cdef enum:
    FIELD_LITERAL = 0
    FIELD_TOPIC = 1
    FIELD_PARTITION = 2
    FIELD_OFFSET = 3
    FIELD_TIMESTAMP = 4
    FIELD_KEY = 5
    FIELD_VALUE = 6
    FIELD_HEADERS = 7

    FORM_TEXT = -1
    FORM_RAW = 0
    FORM_HEX = 1
    FORM_BASE64 = 2
    FORM_JSON = 3
    FORM_JSON_HEX = 4
    FORM_JSON_BASE64 = 5
    FORM_SIZE = 6
    FORM_SIZE_BINARY = 7

    NUMBER_BYTES = 20  # of an int64 at most
    JSON_FACTOR = 6  # \u0000 for a byte
    TEXT_FACTOR = 4  # \x00 for a byte
    JSON_FIXED = 24  # around a string, including {"base64":""} and padding
    STAMP_FIXED = 64  # "tstype":"logappend","ts":-9223372036854775808,
    PIECE_BYTES = 1048576

_FIELDS = {"topic": FIELD_TOPIC, "partition": FIELD_PARTITION, "offset": FIELD_OFFSET, "timestamp": FIELD_TIMESTAMP,
           "key": FIELD_KEY, "value": FIELD_VALUE, "headers": FIELD_HEADERS}
_FORMS = {"text": FORM_TEXT, "raw": FORM_RAW, "hex": FORM_HEX, "base64": FORM_BASE64, "json": FORM_JSON,
          "json_hex": FORM_JSON_HEX,
          "json_base64": FORM_JSON_BASE64, "size": FORM_SIZE, "size_binary": FORM_SIZE_BINARY}
_JSON_FORMS = (FORM_JSON, FORM_JSON_HEX, FORM_JSON_BASE64)
_BINARY_FORMS = (FORM_TEXT, FORM_RAW, FORM_HEX, FORM_BASE64, *_JSON_FORMS)
_FORMS_OF = {
    FIELD_TOPIC: (FORM_RAW, FORM_JSON),
    FIELD_PARTITION: (FORM_RAW,),
    FIELD_OFFSET: (FORM_RAW,),
    FIELD_TIMESTAMP: (FORM_RAW, FORM_JSON),
    FIELD_KEY: (*_BINARY_FORMS, FORM_SIZE, FORM_SIZE_BINARY),
    FIELD_VALUE: (*_BINARY_FORMS, FORM_SIZE, FORM_SIZE_BINARY),
    FIELD_HEADERS: _BINARY_FORMS,
}
_COLUMNS_OF = {FIELD_OFFSET: ("offset",), FIELD_TIMESTAMP: ("timestamp", "timestamp_type"), FIELD_KEY: ("key",),
               FIELD_VALUE: ("value",), FIELD_HEADERS: ("headers",)}


cdef struct Span:
    const uint8_t *data
    int64_t size


cdef struct Part:
    int field
    int form
    Span text  # of a literal; of a topic or a partition, once the batch is known


cdef struct Cells:  # a binary column
    const uint8_t *validity
    const int32_t *offsets
    const uint8_t *data


cdef struct Rows:
    int64_t length
    const int64_t *offset
    const uint8_t *timestamp_validity
    const int64_t *timestamp
    const int8_t *timestamp_type
    Cells key
    Cells value
    const int32_t *header_offsets
    Cells header_key
    Cells header_value


# --- pieces of text -------------------------------------------------------------------------------------------------

cdef const uint8_t *HEX = <const uint8_t *>b"0123456789abcdef"
cdef const uint8_t *BASE64 = <const uint8_t *>b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

# How a byte is written in a JSON string: as itself (0), as \u00XX (1), or as a backslash and this character.
cdef uint8_t ESCAPES[256]
memset(ESCAPES, 0, sizeof(ESCAPES))
memset(ESCAPES, 1, 32)
ESCAPES[127] = 1
ESCAPES[34] = 34
ESCAPES[92] = 92
ESCAPES[8] = 98
ESCAPES[9] = 116
ESCAPES[10] = 110
ESCAPES[12] = 102
ESCAPES[13] = 114


cdef inline uint8_t *put(uint8_t *to, const void *data, int64_t size) noexcept nogil:
    memcpy(to, data, size)
    return to + size


cdef uint8_t *put_number(uint8_t *to, int64_t number) noexcept nogil:
    cdef uint8_t digits[NUMBER_BYTES]
    cdef int at = NUMBER_BYTES
    cdef uint64_t left = <uint64_t>number
    if number < 0:
        to[0] = 45
        to += 1
        left = 0 - left
    while True:
        at -= 1
        digits[at] = <uint8_t>(48 + left % 10)
        left //= 10
        if left == 0:
            break
    return put(to, digits + at, NUMBER_BYTES - at)


cdef uint8_t *put_hex(uint8_t *to, const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        to[2 * i] = HEX[data[i] >> 4]
        to[2 * i + 1] = HEX[data[i] & 15]
    return to + 2 * size


cdef uint8_t *put_base64(uint8_t *to, const uint8_t *data, int64_t size) noexcept nogil:
    cdef uint32_t bits
    while size > 0:
        bits = <uint32_t>data[0] << 16
        if size > 1:
            bits |= <uint32_t>data[1] << 8
        if size > 2:
            bits |= data[2]
        to[0] = BASE64[bits >> 18]
        to[1] = BASE64[bits >> 12 & 63]
        to[2] = BASE64[bits >> 6 & 63] if size > 1 else 61
        to[3] = BASE64[bits & 63] if size > 2 else 61
        to += 4
        data += 3
        size -= 3
    return to


cdef uint8_t *put_text(uint8_t *to, const uint8_t *data, int64_t size) noexcept nogil:
    """Write UTF-8 as it is, and other bytes and control characters, which can control a terminal, as \\xHH.

    Tabs and line ends stay.
    """
    cdef int64_t i = 0, n, j
    cdef bint plain
    while i < size:
        n = 1
        if data[i] < 0x80:
            plain = data[i] >= 32 and data[i] != 127 or data[i] == 9 or data[i] == 10 or (
                data[i] == 13 and i + 1 < size and data[i + 1] == 10)
        else:
            n = kw_utf8_character(data + i, size - i)
            plain = n > 0 and not (n == 2 and data[i] == 0xC2 and data[i + 1] <= 0x9F)
            n = max(n, 1)
        if plain:
            to = put(to, data + i, n)
        else:
            for j in range(i, i + n):
                to = put_hex(put(to, b"\\x", 2), data + j, 1)
        i += n
    return to


cdef uint8_t *put_json(uint8_t *to, const uint8_t *data, int64_t size) noexcept nogil:
    """Write a string, or {"base64": ...} for bytes that are not UTF-8.

    Control characters are escaped, those of 0x80 to 0x9f too: they can control a terminal.
    """
    cdef uint8_t *start = to
    cdef int64_t i = 0, n
    cdef uint8_t escape, low
    to[0] = 34
    to += 1
    while i < size:
        if data[i] < 0x80:
            escape = ESCAPES[data[i]]
            if escape == 0:
                to[0] = data[i]
                to += 1
                i += 1
                continue
            if escape != 1:
                to[0] = 92
                to[1] = escape
                to += 2
                i += 1
                continue
            low = data[i]
            n = 1
        else:
            n = kw_utf8_character(data + i, size - i)
            if n == 0:
                to = put(start, b'{"base64":"', 11)
                return put(put_base64(to, data, size), b'"}', 2)
            low = data[i + 1]
            if n != 2 or data[i] != 0xC2 or low > 0x9F:
                to = put(to, data + i, n)
                i += n
                continue
        to = put(to, b"\\u00", 4)
        to[0] = HEX[low >> 4]
        to[1] = HEX[low & 15]
        to += 2
        i += n
    to[0] = 34
    return to + 1


cdef uint8_t *put_bytes(uint8_t *to, int form, const uint8_t *data, int64_t size) noexcept nogil:
    if form == FORM_RAW:
        return put(to, data, size)
    if form == FORM_TEXT:
        return put_text(to, data, size)
    if form == FORM_JSON:
        return put_json(to, data, size)
    if form == FORM_HEX:
        return put_hex(to, data, size)
    if form == FORM_BASE64:
        return put_base64(to, data, size)
    to[0] = 34
    to = put_hex(to + 1, data, size) if form == FORM_JSON_HEX else put_base64(to + 1, data, size)
    to[0] = 34
    return to + 1


# --- rows -----------------------------------------------------------------------------------------------------------

cdef inline bint is_there(const uint8_t *validity, int64_t row) noexcept nogil:
    return validity is NULL or validity[row >> 3] >> (row & 7) & 1


cdef inline uint8_t *put_cell(uint8_t *to, int form, const Cells *cells, int64_t row, const Span *null) noexcept nogil:
    cdef int64_t size = -1
    cdef const uint8_t *data = NULL
    cdef int i
    if is_there(cells.validity, row):
        size = cells.offsets[row + 1] - cells.offsets[row]
        data = cells.data + cells.offsets[row]
    if form == FORM_SIZE:
        return put_number(to, size)
    if form == FORM_SIZE_BINARY:
        for i in range(4):
            to[i] = <uint8_t>(<uint32_t><int32_t>size >> (24 - 8 * i) & 255)
        return to + 4
    if size >= 0:
        return put_bytes(to, form, data, size)
    if form >= FORM_JSON:
        return put(to, b"null", 4)
    return put(to, null.data, null.size)


cdef inline int name_form(int form) noexcept nogil:
    """Return the form of a header's name for the form of its value."""
    return FORM_JSON if form >= FORM_JSON else FORM_TEXT if form == FORM_TEXT else FORM_RAW


cdef uint8_t *put_headers(uint8_t *to, int form, const Rows *rows, int64_t row) noexcept nogil:
    """Write name=value,name=value; in JSON the member "headers":["name","value"] of an object, or nothing."""
    cdef Span null
    cdef bint as_json = form >= FORM_JSON
    cdef int64_t first = rows.header_offsets[row], end = rows.header_offsets[row + 1], i
    if first == end:
        return to
    null.data = b"NULL"
    null.size = 4
    if as_json:
        to = put(to, b'"headers":[', 11)
    for i in range(first, end):
        if i > first:
            to[0] = 44
            to += 1
        to = put_cell(to, name_form(form), &rows.header_key, i, &null)
        to[0] = 44 if as_json else 61
        to = put_cell(to + 1, form, &rows.header_value, i, &null)
    return put(to, b"],", 2) if as_json else to


cdef uint8_t *put_timestamp(uint8_t *to, int form, const Rows *rows, int64_t row) noexcept nogil:
    cdef bint there = is_there(rows.timestamp_validity, row)
    if form == FORM_RAW:
        return put_number(to, rows.timestamp[row] if there else -1)
    if not there:
        return to
    if rows.timestamp_type[row] == 0:
        to = put(to, b'"tstype":"create","ts":', 23)
    else:
        to = put(to, b'"tstype":"logappend","ts":', 26)
    to = put_number(to, rows.timestamp[row])
    to[0] = 44
    return to + 1


cdef uint8_t *put_rows(uint8_t *to, const Part *parts, int count, const Rows *rows, int64_t start, int64_t stop,
                       const Span *null) noexcept nogil:
    cdef const Part *part
    cdef int64_t row
    cdef int i
    for row in range(start, stop):
        for i in range(count):
            part = &parts[i]
            if part.field <= FIELD_PARTITION:
                if part.text.size == 1:
                    to[0] = part.text.data[0]
                    to += 1
                else:
                    to = put(to, part.text.data, part.text.size)
            elif part.field == FIELD_VALUE:
                to = put_cell(to, part.form, &rows.value, row, null)
            elif part.field == FIELD_KEY:
                to = put_cell(to, part.form, &rows.key, row, null)
            elif part.field == FIELD_OFFSET:
                to = put_number(to, rows.offset[row])
            elif part.field == FIELD_TIMESTAMP:
                to = put_timestamp(to, part.form, rows, row)
            else:
                to = put_headers(to, part.form, rows, row)
    return to


cdef int64_t form_bound(int form, int64_t size, int64_t count) noexcept nogil:
    """Return the largest size of `count` cells of `size` bytes in total, without nulls."""
    if form == FORM_RAW:
        return size
    if form == FORM_TEXT:
        return TEXT_FACTOR * size
    if form == FORM_HEX or form == FORM_JSON_HEX:
        return 2 * size + JSON_FIXED * count
    if form == FORM_BASE64 or form == FORM_JSON_BASE64:
        return 2 * size + JSON_FIXED * count
    if form == FORM_JSON:
        return JSON_FACTOR * size + JSON_FIXED * count
    return NUMBER_BYTES * count


cdef int64_t rows_bound(const Part *parts, int count, const Rows *rows, int64_t start, int64_t stop,
                        const Span *null) noexcept nogil:
    """Return the largest size of rows [start, stop)."""
    cdef int64_t total = 0, number = stop - start, first, end
    cdef const Part *part
    cdef const Cells *cells
    cdef int i
    for i in range(count):
        part = &parts[i]
        if part.field <= FIELD_PARTITION:
            total += part.text.size * number
        elif part.field == FIELD_OFFSET:
            total += NUMBER_BYTES * number
        elif part.field == FIELD_TIMESTAMP:
            total += STAMP_FIXED * number
        elif part.field == FIELD_HEADERS:
            first, end = rows.header_offsets[start], rows.header_offsets[stop]
            total += JSON_FIXED * number + (JSON_FIXED + 8) * (end - first)
            if end > first:
                total += form_bound(part.form, rows.header_value.offsets[end] - rows.header_value.offsets[first],
                                    end - first)
                total += form_bound(name_form(part.form),
                                    rows.header_key.offsets[end] - rows.header_key.offsets[first], end - first)
        else:
            cells = &rows.key if part.field == FIELD_KEY else &rows.value
            total += form_bound(part.form, cells.offsets[stop] - cells.offsets[start], number) + null.size * number
    return total


# --- Python's side --------------------------------------------------------------------------------------------------

cdef const ArrowArray *find(const ArrowSchema *schema, const ArrowArray *array, const char *name,
                            const char *format) except NULL:
    cdef int64_t i
    for i in range(schema.n_children):
        if strcmp(schema.children[i].name, name) == 0:
            if strcmp(schema.children[i].format, format) != 0 or array.children[i].offset != 0:
                raise ConfigError(f"column {name.decode()} is of format {schema.children[i].format.decode()}, not "
                                  f"{format.decode()}: it must have a batch's default layout")
            return array.children[i]
    raise ConfigError(f"the batch has no column {name.decode()}: read it with a columns argument that includes it")


cdef void load(const ArrowArray *array, Cells *cells) noexcept:
    cells.validity = <const uint8_t *>array.buffers[0]
    cells.offsets = <const int32_t *>array.buffers[1]
    cells.data = <const uint8_t *>array.buffers[2]


@cython.final
cdef class Renderer:
    """Writes records by a format.

    `parts` are, in order, bytes that stand for themselves, and pairs of a field and a form:

    - "topic" (raw, json), "partition", "offset", "timestamp" (raw: milliseconds, -1 for none; json: the members tstype
      and ts of an object, with a comma behind, or nothing);
    - "key", "value" (raw, text, hex, base64, json, json_hex, json_base64, size, size_binary). In text, bytes that are
      not UTF-8, and control characters, are \\xHH. In json they are a string, or {"base64": ...} where they are not;
      null is `null` there, and elsewhere the bytes `null`. A size is -1 for null; size_binary is 4 bytes, big-endian;
    - "headers" (raw, text, hex, base64: name=value,name=value with NULL for null; json forms: the member "headers" of
      an object, a list of names and values in turn, with a comma behind, or nothing).

    `columns` names the columns that batches need. Raises `ConfigError` for a field or form that does not exist.
    """
    cdef Part *parts
    cdef int count
    cdef Span null
    cdef tuple kept  # objects that own the memory of the parts
    cdef readonly tuple columns

    def __cinit__(self, parts, *, bytes null=b""):
        cdef list kept = [null]
        cdef set columns = set()
        cdef bytes text
        cdef int i
        given = list(parts)
        self.parts = <Part *>calloc(len(given) + 1, sizeof(Part))
        if self.parts is NULL:
            raise MemoryError("no memory for a format")
        self.null.data = null
        self.null.size = PyBytes_GET_SIZE(null)
        self.count = <int>len(given)
        for i, part in enumerate(given):
            if isinstance(part, bytes):
                text = part
                kept.append(text)
                self.parts[i].text.data = text
                self.parts[i].text.size = PyBytes_GET_SIZE(text)
                continue
            field, form = part
            if field not in _FIELDS or _FORMS.get(form) not in _FORMS_OF[_FIELDS[field]]:
                raise ConfigError(f"there is no field {field!r} in the form {form!r}")
            self.parts[i].field = _FIELDS[field]
            self.parts[i].form = _FORMS[form]
            columns.update(_COLUMNS_OF.get(self.parts[i].field, ()))
        self.kept = tuple(kept)
        self.columns = tuple(sorted(columns)) or ("offset",)

    def __dealloc__(self):
        free(self.parts)

    def render(self, batch, int64_t start=0, stop=None):
        """Return an iterator over the rows [start, stop) of a batch as bytes, in pieces of about 1 MiB."""
        cdef Pieces pieces = Pieces.__new__(Pieces)
        pieces.open(self, batch, start, stop)
        return pieces


@cython.final
cdef class Pieces:
    cdef Part *parts
    cdef int count
    cdef Span null
    cdef Rows rows
    cdef int64_t row
    cdef int64_t stop
    cdef object kept

    def __dealloc__(self):
        free(self.parts)

    cdef int open(self, Renderer renderer, object batch, int64_t start, object stop) except -1:
        cdef const ArrowSchema *schema
        cdef const ArrowArray *array
        cdef const ArrowArray *column
        cdef bytes text
        cdef int i
        schema_capsule, array_capsule = batch.__arrow_c_array__()
        schema = <const ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        array = <const ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        if array.offset != 0:
            raise ConfigError("the Arrow array is a slice: give a whole batch")
        self.rows.length = array.length
        self.row = max(0, start)
        self.stop = array.length if stop is None else min(stop, array.length)
        kept = [renderer, array_capsule]
        self.null = renderer.null
        self.count = renderer.count
        self.parts = <Part *>calloc(self.count + 1, sizeof(Part))
        if self.parts is NULL:
            raise MemoryError("no memory for a format")
        memcpy(self.parts, renderer.parts, self.count * sizeof(Part))
        for i in range(self.count):
            if self.parts[i].field == FIELD_TOPIC or self.parts[i].field == FIELD_PARTITION:
                text = in_text(batch, self.parts[i].field, self.parts[i].form)
                kept.append(text)
                self.parts[i].text.data = text
                self.parts[i].text.size = PyBytes_GET_SIZE(text)
            elif self.parts[i].field == FIELD_OFFSET:
                self.rows.offset = <const int64_t *>find(schema, array, "offset", "l").buffers[1]
            elif self.parts[i].field == FIELD_TIMESTAMP:
                column = find(schema, array, "timestamp", "tsm:UTC")
                self.rows.timestamp_validity = <const uint8_t *>column.buffers[0]
                self.rows.timestamp = <const int64_t *>column.buffers[1]
                self.rows.timestamp_type = <const int8_t *>find(schema, array, "timestamp_type", "c").buffers[1]
            elif self.parts[i].field == FIELD_KEY:
                load(find(schema, array, "key", "z"), &self.rows.key)
            elif self.parts[i].field == FIELD_VALUE:
                load(find(schema, array, "value", "z"), &self.rows.value)
            elif self.parts[i].field == FIELD_HEADERS:
                column = find(schema, array, "headers", "+l")
                self.rows.header_offsets = <const int32_t *>column.buffers[1]
                load(column.children[0].children[0], &self.rows.header_key)
                load(column.children[0].children[1], &self.rows.header_value)
        self.kept = tuple(kept)
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef int64_t low = self.row + 1, high = self.stop, middle, bound
        cdef bytes piece
        cdef uint8_t *start
        cdef uint8_t *end
        if self.row >= self.stop:
            raise StopIteration
        # the most rows that certainly fit, but at least one
        while low < high:
            middle = low + (high - low + 1) // 2
            if rows_bound(self.parts, self.count, &self.rows, self.row, middle, &self.null) <= PIECE_BYTES:
                low = middle
            else:
                high = middle - 1
        bound = rows_bound(self.parts, self.count, &self.rows, self.row, low, &self.null)
        piece = PyBytes_FromStringAndSize(NULL, bound)
        start = <uint8_t *>PyBytes_AS_STRING(piece)
        with nogil:
            end = put_rows(start, self.parts, self.count, &self.rows, self.row, low, &self.null)
        self.row = low
        if end - start == bound:
            return piece
        return piece[:end - start]


def key_runs(batch, keys, int64_t start=0, stop=None):
    """Return the ranges of the rows [start, stop) of a batch whose keys are one of `keys`, which are bytes.

    The batch needs the column key, as for a `Renderer`.
    """
    cdef const ArrowSchema *schema
    cdef const ArrowArray *array
    cdef Cells cells
    cdef list runs = []
    cdef tuple wanted = tuple(keys)
    cdef int64_t row, end, begin = -1, size
    cdef const uint8_t *data
    cdef bytes key
    cdef bint found
    schema_capsule, array_capsule = batch.__arrow_c_array__()
    schema = <const ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    array = <const ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
    load(find(schema, array, "key", "z"), &cells)
    end = array.length if stop is None else min(<int64_t>stop, array.length)
    for row in range(max(0, start), end):
        found = False
        if is_there(cells.validity, row):
            size = cells.offsets[row + 1] - cells.offsets[row]
            data = cells.data + cells.offsets[row]
            for key in wanted:
                if PyBytes_GET_SIZE(key) == size and memcmp(PyBytes_AS_STRING(key), data, size) == 0:
                    found = True
                    break
        if found and begin < 0:
            begin = row
        elif not found and begin >= 0:
            runs.append((begin, row))
            begin = -1
    if begin >= 0:
        runs.append((begin, end))
    return runs


cdef bytes in_text(object batch, int field, int form):
    cdef bytes text, out
    cdef uint8_t *start
    if field == FIELD_PARTITION:
        return b"%d" % batch.partition
    text = batch.topic.encode()
    if form == FORM_RAW:
        return text
    out = PyBytes_FromStringAndSize(NULL, JSON_FACTOR * PyBytes_GET_SIZE(text) + JSON_FIXED)
    start = <uint8_t *>PyBytes_AS_STRING(out)
    return out[:put_json(start, text, PyBytes_GET_SIZE(text)) - start]
