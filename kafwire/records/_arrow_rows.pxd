"""Rows to produce, read in place from Arrow data: views over imported columns. No pyarrow."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from kafwire.records._arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema


cdef enum:
    # BytesView.form
    FORM_ABSENT = 0
    FORM_OFFSETS_32 = 1
    FORM_OFFSETS_64 = 2
    FORM_VIEW = 3
    FORM_FIXED = 4
    FORM_NULL = 5  # every row is null
    # of BytesView and NumberView: each row is an index into shared values
    FORM_DICTIONARY = 16


# One imported variable-length column.
cdef struct BytesView:
    int form  # FORM_*
    int32_t width  # of a fixed-size binary
    const uint8_t *validity
    int64_t offset  # of the first row, in elements
    const void *offsets  # int32, int64, 16-byte views, or a Dictionary
    const uint8_t *data
    const void **buffers  # the variadic data buffers of views


cdef struct NumberView:
    int form  # 0 absent, bytes per element, or FORM_DICTIONARY
    bint is_unsigned
    const uint8_t *validity
    int64_t offset
    const void *data  # of FORM_DICTIONARY: a Dictionary
    int64_t multiply  # timestamps to ms: value * multiply, then floor-divided by divide
    int64_t divide


# The values of a dictionary-encoded column: either `bytes` or `numbers`.
cdef struct Dictionary:
    NumberView index
    int64_t length
    BytesView bytes
    NumberView numbers
    Dictionary *next  # next dictionary of the same rows


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


# Row i of a dictionary-encoded column; otherwise like the functions below.
cdef int dictionary_bytes(const Dictionary *dictionary, int64_t i, const uint8_t **data, int64_t *size) noexcept nogil
cdef int dictionary_number(const Dictionary *dictionary, int64_t i, int64_t *out) noexcept nogil


# 1: *data/*size is row i; 0: null; `i` must be < length. The producer of the array is trusted, as the interface
# requires.
cdef inline int bytes_at(const BytesView *view, int64_t i, const uint8_t **data, int64_t *size) noexcept nogil:
    cdef const uint8_t *cell
    cdef int32_t length, index, start
    i += view.offset
    if view.form == FORM_NULL or view.form == FORM_ABSENT or (
            view.validity is not NULL and not view.validity[i >> 3] >> (i & 7) & 1):
        data[0] = NULL
        size[0] = -1
        return 0
    if view.form == FORM_OFFSETS_32:
        data[0] = view.data + (<const int32_t *>view.offsets)[i]
        size[0] = (<const int32_t *>view.offsets)[i + 1] - (<const int32_t *>view.offsets)[i]
    elif view.form == FORM_OFFSETS_64:
        data[0] = view.data + (<const int64_t *>view.offsets)[i]
        size[0] = (<const int64_t *>view.offsets)[i + 1] - (<const int64_t *>view.offsets)[i]
    elif view.form == FORM_FIXED:
        data[0] = view.data + i * view.width
        size[0] = view.width
    elif view.form == FORM_DICTIONARY:
        return dictionary_bytes(<const Dictionary *>view.offsets, i, data, size)
    else:  # 16-byte views: length, then 12 bytes inline, or a 4-byte prefix, buffer index and start
        cell = <const uint8_t *>view.offsets + 16 * i
        memcpy(&length, cell, 4)
        size[0] = length
        if length <= 12:
            data[0] = cell + 4
        else:
            memcpy(&index, cell + 8, 4)
            memcpy(&start, cell + 12, 4)
            data[0] = <const uint8_t *>view.buffers[index] + start
    return 1


# 1: *out is row i; 0: null; -1: does not fit
cdef inline int number_at(const NumberView *view, int64_t i, int64_t *out) noexcept nogil:
    cdef int64_t value
    i += view.offset
    if view.form == 0 or (view.validity is not NULL and not view.validity[i >> 3] >> (i & 7) & 1):
        return 0
    if view.form == 8:
        value = (<const int64_t *>view.data)[i]
        if view.is_unsigned and value < 0:
            return -1
    elif view.is_unsigned:  # (a common expression would make C convert everything to unsigned)
        if view.form == 4:
            value = (<const uint32_t *>view.data)[i]
        elif view.form == 2:
            value = (<const uint16_t *>view.data)[i]
        else:
            value = (<const uint8_t *>view.data)[i]
    elif view.form == 4:
        value = (<const int32_t *>view.data)[i]
    elif view.form == 2:
        value = (<const int16_t *>view.data)[i]
    elif view.form == FORM_DICTIONARY:
        return dictionary_number(<const Dictionary *>view.data, i, out)
    else:
        value = (<const int8_t *>view.data)[i]
    if view.multiply > 1:
        if value > 0x7FFFFFFFFFFFFFFFLL // view.multiply or value < -(0x7FFFFFFFFFFFFFFFLL // view.multiply):
            return -1
        value *= view.multiply
    if view.divide > 1:
        # towards minus infinity: C's division rounds towards zero
        value = value // view.divide - (1 if value % view.divide < 0 else 0)
    out[0] = value
    return 1


cdef class Rows:
    """One struct array of rows to produce, imported over the Arrow C data interface, valid while this object lives."""
    cdef RowsView view
    cdef ArrowArray array
    cdef Dictionary *dictionaries
    cdef object topic_problem  # None, or the ConfigError of a column `topic` that cannot be read

    @staticmethod
    cdef list load(object source)  # -> list[Rows], one per chunk


# The chunks of Arrow data; a subclass says of what class they are.
cdef class ArrowChunks:
    cdef object capsule
    cdef object ready
    cdef ArrowArrayStream *stream
    cdef ArrowSchema schema
    cdef object take(self, const ArrowSchema *schema, ArrowArray *array)  # takes ownership of the array
    cdef int check(self, int code) except -1


cdef class RowsReader(ArrowChunks):
    pass
