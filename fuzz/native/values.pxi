# Any bytes as values become columns that agree with themselves, within their limit of memory; a bad value leaves the
# columns as they were. A target's `prepare` calls `add` for each decoder.
#
# Input: the number of a decoder, the length of a first value, then that value and a second one. No interpreter is used
# per input.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from kafwire.value_columns._value_columns cimport (
    KW_KIND_BOOLEAN, KW_KIND_BYTES, KW_KIND_FIXED, KW_KIND_LIST, ON_BAD_DROP, ON_BAD_NULL,
    ROWS_DONE, Entry, Layout, Policy, Run, Table, decode_rows, kw_column, kw_columns,
    kw_columns_export_array, kw_field, run_clear, run_init,
)
from kafwire.records._arrow cimport ArrowArray
from kafwire.records._arrow_rows cimport FORM_OFFSETS_64, BytesView

from kafwire.value_columns._value_columns import Layout as make_layout, Table as make_table


cdef enum:
    MOST_PAIRS = 16
    MAX_EMPTY_ITEMS = 50
    LIMIT = 1 << 20
    # Bytes of columns for each byte of a value: a validity bit, offsets, structs of defaults; growth by doubling.
    MEMORY_FACTOR = 512
    MEMORY_FIXED = 1 << 17  # 64 values in each of the columns, and items without bytes

cdef int pairs = 0
cdef void *layouts[MOST_PAIRS]
cdef const Entry *entries[MOST_PAIRS]
_held = []


cdef int add(columns, program) except -1:
    """Add a decoder: its columns and its program."""
    global pairs
    cdef Table table
    layout = make_layout(columns)
    table = make_table({0: program})
    _held.append((layout, program, table))
    layouts[pairs] = <void *>layout
    entries[pairs] = table.entries
    pairs += 1
    return 0


cdef const char *look_at(const kw_columns *c, int32_t number, int64_t length, uint64_t *hash_) noexcept nogil:
    """Check a column of this length and its children, and take their content into the hash."""
    cdef const kw_field *field = &c.fields[number]
    cdef const kw_column *column = &c.columns[number]
    cdef const int32_t *offsets = NULL
    cdef const char *wrong
    cdef int64_t i, nulls = 0, size, below = length
    if column.length != length:
        return b"a column is longer or shorter than its parent says"
    if column.validity is not NULL:
        for i in range(length):
            nulls += not column.validity.data[i >> 3] >> (i & 7) & 1
    if nulls != column.nulls:
        return b"a column counts its nulls wrong"
    if field.kind == KW_KIND_BYTES or field.kind == KW_KIND_LIST:
        below = 0
        if column.offsets is NULL:
            if length:
                return b"a column without offsets"
        else:
            offsets = <const int32_t *>column.offsets.data
            for i in range(length):
                if offsets[i + 1] < offsets[i]:
                    return b"offsets fall"
            below = offsets[length]
            if offsets[0] != 0:
                return b"offsets do not begin at 0"
            take(hash_, <const uint8_t *>(offsets + 1), 4 * length)
        if field.kind == KW_KIND_BYTES:
            if column.used != below:
                return b"a column has other bytes than its offsets say"
            if below:
                take(hash_, column.data.data, below)
            return NULL
    size = 0
    if field.kind == KW_KIND_FIXED:
        size = field.width * length
    elif field.kind == KW_KIND_BOOLEAN:
        size = length // 8
    if size:
        take(hash_, column.data.data, size)
    hash_[0] = (hash_[0] ^ <uint64_t>nulls) * 0x9E3779B97F4A7C15ULL
    for i in range(field.children):
        wrong = look_at(c, field.child[i], below, hash_)
        if wrong is not NULL:
            return wrong
    return NULL


cdef void take(uint64_t *hash_, const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        hash_[0] = (hash_[0] ^ data[i]) * 0x100000001B3ULL


cdef const char *export_it(const kw_columns *c) noexcept nogil:
    cdef ArrowArray array
    if kw_columns_export_array(c, 0, False, &array) != 0:
        return b"columns that cannot be exported"
    array.release(&array)
    return NULL


cdef const char *decode(int pair, const uint8_t *data, const int64_t *ends, int64_t first, int64_t rows, int on_bad,
                        uint64_t *hash_, int64_t *bad, int64_t *length) noexcept nogil:
    """Decode the values [first, first + rows) of the input."""
    cdef BytesView view
    cdef Policy policy
    cdef Run run
    cdef int64_t row = 0
    cdef size_t size
    cdef const char *wrong = NULL
    memset(&view, 0, sizeof(view))
    view.form = FORM_OFFSETS_64
    view.offsets = ends + first
    view.data = data
    policy.on_bad, policy.null_is_bad, policy.framed, policy.max_empty_items = on_bad, True, False, MAX_EMPTY_ITEMS
    with gil:
        run_init(&run, <Layout>layouts[pair], &policy, LIMIT, rows)
    if decode_rows(&run, entries[pair], 1, &view, &row, rows) != ROWS_DONE or row != rows:
        wrong = b"not every value is taken"
    bad[0] = run.bad_count
    length[0] = run.columns.columns[0].length
    size = ends[first + rows] - ends[first]
    if wrong is NULL and run.columns.allocated > MEMORY_FIXED + MEMORY_FACTOR * size:
        wrong = b"more memory than the values account for"
    if wrong is NULL and length[0] != (rows - bad[0] if on_bad == ON_BAD_DROP else rows):
        wrong = b"rows are missing"
    if wrong is NULL:
        wrong = look_at(&run.columns, 0, length[0], hash_)
    if wrong is NULL:
        wrong = export_it(&run.columns)
    run_clear(&run)
    return wrong


cdef const char *check(int pair, const uint8_t *data, const int64_t *ends) noexcept nogil:
    cdef uint64_t both = 0, single = 0, ignored = 0
    cdef int64_t bad = 0, bad_first = 0, bad_second = 0, length = 0, rows = 0
    cdef const char *wrong = decode(pair, data, ends, 0, 1, ON_BAD_NULL, &ignored, &bad_first, &rows)
    if wrong is NULL:
        wrong = decode(pair, data, ends, 1, 1, ON_BAD_DROP, &single, &bad_second, &rows)
    if wrong is NULL:
        wrong = decode(pair, data, ends, 0, 2, ON_BAD_DROP, &both, &bad, &length)
    if wrong is NULL and bad != bad_first + bad_second:
        wrong = b"a value is bad beside another, or good"
    if wrong is NULL and bad_first and both != single:
        wrong = b"a bad value leaves something behind"
    return wrong


cdef public const char *fuzz_one(const uint8_t *data, size_t size) noexcept nogil:
    cdef int64_t ends[3]
    cdef uint8_t *copy
    cdef const char *wrong
    if size < 2:
        return NULL
    ends[0] = 0
    ends[2] = size - 2
    ends[1] = min(<int64_t>data[1], ends[2])
    copy = <uint8_t *>malloc(size - 2 + (size == 2))  # of exactly its length: a read beyond it shows
    if size > 2:
        memcpy(copy, data + 2, size - 2)
    wrong = check(data[0] % pairs, copy, ends)
    free(copy)
    return wrong
