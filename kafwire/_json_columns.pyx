# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/schemas/native/json_columns.c
"""Reads rows of JSON objects to columns of plain types without the GIL; `json_columns.py` is the public module.

Buffers are given and made by their addresses: this module needs no pyarrow.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free

from kafwire.memory._buffer import seal_types


cdef extern from "kafwire/schemas/native/json_columns.h" nogil:
    enum:
        KW_JSON_BOOL
        KW_JSON_INT
        KW_JSON_FLOAT32
        KW_JSON_FLOAT64
        KW_JSON_STRING
    ctypedef struct kw_json_field:
        const char *name
        int32_t name_size
        int32_t kind
        int32_t width
        int64_t low
        int64_t high
        uint8_t *valid
        uint8_t *values
        int32_t *offsets
        uint8_t *text
        int64_t text_size
        int64_t text_room
        int64_t nulls
        int64_t seen
    ctypedef struct kw_json_texts:
        const uint8_t *data
        const int32_t *offsets
        const uint8_t *valid
        int64_t valid_at
        int64_t rows
    int64_t kw_json_read(kw_json_field *fields, int32_t count, const kw_json_texts *texts, uint8_t *outcome,
                         uint8_t *valid)
    int64_t kw_json_join(const kw_json_texts *texts, uint8_t *out)


# The kinds of columns; an integer is (INT, width in bytes, lowest, highest).
BOOL, INT, FLOAT32, FLOAT64, STRING = KW_JSON_BOOL, KW_JSON_INT, KW_JSON_FLOAT32, KW_JSON_FLOAT64, KW_JSON_STRING
# The outcomes of rows.
ROW_NULL, ROW_READ, ROW_LEFT = 0, 1, 2


@cython.final
cdef class Memory:
    """Bytes outside of Python, freed with the object."""

    cdef void *start
    cdef int64_t length

    def __cinit__(self, int64_t size):
        self.start = calloc(size + 8, 1)
        self.length = size
        if self.start is NULL:
            raise MemoryError(f"no memory for {size} bytes of JSON columns")

    def __dealloc__(self):
        free(self.start)

    @property
    def address(self):
        """The address of the first byte."""
        return <uintptr_t> self.start

    @property
    def size(self):
        """The number of bytes."""
        return self.length


cdef void of_addresses(kw_json_texts *texts, uintptr_t data, uintptr_t offsets, int64_t first, int64_t rows,
                       uintptr_t valid):
    texts.data = <const uint8_t *> data
    texts.offsets = <const int32_t *> offsets + first
    texts.valid = <const uint8_t *> valid
    texts.valid_at = first
    texts.rows = rows


def read_rows(list fields, uintptr_t data, uintptr_t offsets, int64_t first, int64_t rows, uintptr_t valid):
    """Read rows of a binary column, given by the addresses of its buffers (`valid` 0: no row is null).

    `fields` are tuples (name, kind, width, lowest, highest). Returns the number of rows that are left to another
    reader, the outcome of each row in a byte, a bitmap of the rows that were read, and for each field (number of
    nulls, bitmap, values, offsets of strings or None).
    """
    cdef kw_json_texts texts
    cdef Memory outcome = Memory(rows), is_read = Memory((rows + 7) // 8), made
    cdef list held = [], found = []
    cdef int32_t count = len(fields), i
    cdef int64_t left
    cdef kw_json_field *field
    cdef kw_json_field *into = <kw_json_field *> calloc(count + 1, sizeof(kw_json_field))
    if into is NULL:
        raise MemoryError("no memory for the fields of JSON columns")
    try:
        of_addresses(&texts, data, offsets, first, rows, valid)
        for i in range(count):
            name, kind, width, low, high = fields[i]
            field = &into[i]
            field.name, field.name_size = name, len(name)
            field.kind, field.width, field.low, field.high, field.seen = kind, width, low, high, -1
            made = Memory((rows + 7) // 8)
            field.valid = <uint8_t *> made.start
            held.append(made)
            made = Memory(4 * (rows + 1) if kind == STRING else (rows + 7) // 8 if kind == BOOL else width * rows)
            if kind == STRING:
                field.offsets = <int32_t *> made.start
            else:
                field.values = <uint8_t *> made.start
            held.append(made)
        with nogil:
            left = kw_json_read(into, count, &texts, <uint8_t *> outcome.start, <uint8_t *> is_read.start)
        if left < 0:
            raise MemoryError("no memory for the text of JSON columns")
        for i in range(count):
            field = &into[i]
            if field.kind == KW_JSON_STRING:
                made = Memory(0)
                if field.text is not NULL:
                    free(made.start)
                    made.start, made.length = field.text, field.text_size
                    field.text = NULL
                found.append((field.nulls, held[2 * i], made, held[2 * i + 1]))
            else:
                found.append((field.nulls, held[2 * i], held[2 * i + 1], None))
        return left, outcome, is_read, found
    finally:
        for i in range(count):
            free(into[i].text)
        free(into)


def join_rows(uintptr_t data, uintptr_t offsets, int64_t first, int64_t rows, uintptr_t valid):
    """Return the rows that are not null as lines `{"v":...}`; arguments as of `read_rows`."""
    cdef kw_json_texts texts
    cdef Memory made
    of_addresses(&texts, data, offsets, first, rows, valid)
    made = Memory(7 * rows + texts.offsets[rows] - texts.offsets[0])
    with nogil:
        made.length = kw_json_join(&texts, <uint8_t *> made.start)
    return made


seal_types(Memory)
