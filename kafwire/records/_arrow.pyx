# distutils: sources = kafwire/memory/native/buf.c
"""The export of Columns over the Arrow C data interface; `records/_arrow.pxd` is the contract.

Ownership: every exported leaf holds its own references to its buffers, so a consumer may move any child out of its
parent and release it at any time from any thread. Releasing is plain C: it needs no GIL and touches no shared state
except atomic reference counts and the pool's lock.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strlen

from kafwire.memory._buffer cimport (
    kw_buf, kw_buf_new, kw_buf_ref, kw_buf_unref, kw_exchange_if, kw_release, kw_utf8_character, kw_utf8_replaced,
    process_generation, process_pool,
)
from kafwire.records._columns cimport (
    COLUMN_HEADERS, COLUMN_KEY, COLUMN_OFFSET, COLUMN_TIMESTAMP, COLUMN_TIMESTAMP_TYPE, COLUMN_VALUE, Bytes, Columns,
    columns_clear,
)
from kafwire.records._codec_status cimport SLACK

from kafwire.errors import ConfigError, ProtocolError
from kafwire.memory._buffer import seal_types


cdef extern from "sched.h" nogil:
    int sched_yield()


cdef enum:
    NULLABLE = 2
    MILLISECONDS = 3
    MICROSECONDS = 6
    KEPT_MOST = 8388608  # a longer topic column is built again for the next chunk


# Arrow expects a valid pointer instead of NULL for an empty buffer.
cdef int64_t _nothing[8]
memset(_nothing, 0, sizeof(_nothing))


# --- schemas --------------------------------------------------------------------------------------------------------

cdef struct SchemaOwner:
    char name[32]
    ArrowSchema children[MAX_FIELDS]
    ArrowSchema *pointers[MAX_FIELDS]


cdef void release_schema(ArrowSchema *schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i].release is not NULL:
            schema.children[i].release(schema.children[i])
    free(schema.private_data)
    schema.release = NULL


cdef SchemaOwner *open_schema(ArrowSchema *out, const char *format, const char *name, int children) noexcept nogil:
    cdef SchemaOwner *owner = <SchemaOwner *>calloc(1, sizeof(SchemaOwner))
    cdef int i
    memset(out, 0, sizeof(ArrowSchema))
    if owner is NULL:
        return NULL
    memcpy(owner.name, name, min(strlen(name), sizeof(owner.name) - 1))
    for i in range(children):
        owner.pointers[i] = &owner.children[i]
    out.format = format
    out.name = owner.name
    out.flags = NULLABLE
    out.n_children = children
    out.children = owner.pointers
    out.release = release_schema
    out.private_data = owner
    return owner


cdef int headers_schema(ArrowSchema *out, const char *name) noexcept nogil:
    cdef SchemaOwner *pair
    cdef SchemaOwner *owner = open_schema(out, "+l", name, 1)
    if owner is NULL:
        return EXPORT_NO_MEMORY
    pair = open_schema(&owner.children[0], "+s", "element", 2)
    if pair is NULL or open_schema(&pair.children[0], "u", "key", 0) is NULL \
            or open_schema(&pair.children[1], "z", "value", 0) is NULL:
        return EXPORT_NO_MEMORY
    return EXPORT_OK


cdef const char *format_of(const ArrowField *field) noexcept nogil:
    if field.kind == FIELD_TOPIC:
        return "u"
    if field.kind == FIELD_PARTITION:
        return "i"
    if field.kind == COLUMN_OFFSET:
        return "l"
    if field.kind == COLUMN_TIMESTAMP:
        return "tsu:UTC" if field.width == MICROSECONDS else "tsm:UTC"
    if field.kind == COLUMN_TIMESTAMP_TYPE:
        return "i" if field.width == 4 else "c"
    return "z"


cdef int layout_schema(const ArrowLayout *layout, ArrowSchema *out) noexcept nogil:
    cdef SchemaOwner *owner = open_schema(out, "+s", "", layout.count)
    cdef const ArrowField *field
    cdef bint good = owner is not NULL
    cdef int i
    if good:
        out.flags = 0
        for i in range(layout.count):
            field = &layout.fields[i]
            if field.kind == COLUMN_HEADERS:
                good = good and headers_schema(&owner.children[i], field.name) == EXPORT_OK
            else:
                good = good and open_schema(&owner.children[i], format_of(field), field.name, 0) is not NULL
    if not good:
        if out.release is not NULL:
            out.release(out)
        return EXPORT_NO_MEMORY
    return EXPORT_OK


# --- arrays ---------------------------------------------------------------------------------------------------------

cdef struct LeafOwner:
    const void *pointers[3]
    kw_buf *held[3]


cdef struct ParentOwner:
    const void *pointers[2]
    kw_buf *held
    ArrowArray children[MAX_FIELDS]
    ArrowArray *child_pointers[MAX_FIELDS]


cdef void release_leaf(ArrowArray *array) noexcept nogil:
    cdef LeafOwner *owner = <LeafOwner *>array.private_data
    cdef int i
    for i in range(3):
        kw_buf_unref(owner.held[i])
    free(owner)
    array.release = NULL


cdef void release_parent(ArrowArray *array) noexcept nogil:
    cdef ParentOwner *owner = <ParentOwner *>array.private_data
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i].release is not NULL:  # else moved away
            array.children[i].release(array.children[i])
    kw_buf_unref(owner.held)
    free(owner)
    array.release = NULL


cdef int leaf(ArrowArray *out, int64_t length, int64_t nulls, int buffers, kw_buf *validity, kw_buf *second,
              kw_buf *third) noexcept nogil:
    """Make a leaf that takes its own reference to each buffer."""
    cdef LeafOwner *owner = <LeafOwner *>calloc(1, sizeof(LeafOwner))
    cdef int i
    memset(out, 0, sizeof(ArrowArray))
    if owner is NULL:
        return EXPORT_NO_MEMORY
    owner.held[0] = validity if nulls != 0 else NULL
    owner.held[1] = second
    owner.held[2] = third
    for i in range(3):
        if owner.held[i] is not NULL:
            kw_buf_ref(owner.held[i])
            owner.pointers[i] = owner.held[i].data
        elif i > 0:
            owner.pointers[i] = _nothing
    out.length = length
    out.null_count = nulls
    out.n_buffers = buffers
    out.buffers = owner.pointers
    out.release = release_leaf
    out.private_data = owner
    return EXPORT_OK


cdef int rows_leaf(ArrowArray *out, const Columns *c, int64_t nulls, int buffers, kw_buf *validity, kw_buf *second,
                   kw_buf *third) noexcept nogil:
    """A leaf of the rows of `c`, a part of the rows of its buffers."""
    cdef int result = leaf(out, c.length, nulls, buffers, validity, second, third)
    out.offset = c.first
    if c.total and nulls:
        out.null_count = -1  # `nulls` counts the rows of the whole buffers
    return result


cdef ParentOwner *parent(ArrowArray *out, int64_t length, int children, kw_buf *offsets, bint is_list) noexcept nogil:
    """Make a struct or list; the caller fills the children, and release skips unfilled ones."""
    cdef ParentOwner *owner = <ParentOwner *>calloc(1, sizeof(ParentOwner))
    cdef int i
    memset(out, 0, sizeof(ArrowArray))
    if owner is NULL:
        return NULL
    if is_list:
        owner.pointers[1] = _nothing
        if offsets is not NULL:
            kw_buf_ref(offsets)
            owner.held = offsets
            owner.pointers[1] = offsets.data
    for i in range(children):
        owner.child_pointers[i] = &owner.children[i]
    out.length = length
    out.n_buffers = 2 if is_list else 1
    out.n_children = children
    out.buffers = owner.pointers
    out.children = owner.child_pointers
    out.release = release_parent
    out.private_data = owner
    return owner


cdef int bytes_leaf(ArrowArray *out, const Bytes *column, int64_t length) noexcept nogil:
    return leaf(out, length, column.nulls, 3, column.validity, column.offsets, column.data)


cdef int text_leaf(ArrowArray *out, const Bytes *column, int64_t length) noexcept nogil:
    """Copy `column`, with invalid UTF-8 replaced by U+FFFD."""
    cdef kw_buf *offsets = kw_buf_new(process_pool(), 4 * (length + 1) + SLACK)
    cdef kw_buf *data = kw_buf_new(process_pool(), 3 * column.used + SLACK)
    cdef const int32_t *old
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef uint8_t *to
    cdef size_t n
    cdef int64_t i
    cdef int code = EXPORT_NO_MEMORY
    if offsets is not NULL and data is not NULL:
        old = <const int32_t *>column.offsets.data
        to = data.data
        (<int32_t *>offsets.data)[0] = 0
        for i in range(length):
            p = column.data.data + old[i]
            end = column.data.data + old[i + 1]
            while p < end:
                n = kw_utf8_character(p, end - p)
                if n != 0:
                    memcpy(to, p, n)
                    to += n
                    p += n
                else:
                    memcpy(to, b"\xef\xbf\xbd", 3)
                    to += 3
                    p += kw_utf8_replaced(p, end - p)
            (<int32_t *>offsets.data)[i + 1] = <int32_t>(to - data.data)
        code = EXPORT_TOO_LARGE if to - data.data > 0x7FFFFFFF else leaf(out, length, 0, 3, NULL, offsets, data)
    kw_buf_unref(offsets)
    kw_buf_unref(data)
    return code


cdef int headers_array(ArrowArray *out, const Columns *c) noexcept nogil:
    cdef ParentOwner *pair
    cdef ParentOwner *owner = parent(out, c.length, 1, c.header_offsets, True)
    cdef int code
    if owner is NULL:
        return EXPORT_NO_MEMORY
    out.offset = c.first
    pair = parent(&owner.children[0], c.header_count, 2, NULL, False)
    if pair is NULL:
        return EXPORT_NO_MEMORY
    if c.header_key_not_utf8:
        code = text_leaf(&pair.children[0], &c.header_key, c.header_count)
    else:
        code = bytes_leaf(&pair.children[0], &c.header_key, c.header_count)
    if code != EXPORT_OK:
        return code
    return bytes_leaf(&pair.children[1], &c.header_value, c.header_count)


cdef int microseconds(ArrowArray *out, const Columns *c) noexcept nogil:
    cdef kw_buf *data = kw_buf_new(process_pool(), 8 * (c.first + c.length) + SLACK)
    cdef const int64_t *source = <const int64_t *>(c.timestamp.data if c.timestamp is not NULL else NULL)
    cdef int64_t *to
    cdef int64_t i, bad = 0
    cdef int code
    if data is NULL:
        return EXPORT_NO_MEMORY
    to = <int64_t *>data.data
    for i in range(c.first, c.first + c.length):
        bad |= source[i] > 9223372036854775LL or source[i] < -9223372036854775LL
        to[i] = <int64_t>(<uint64_t>source[i] * 1000u)
    code = EXPORT_OVERFLOW if bad else rows_leaf(out, c, c.timestamp_nulls, 2, c.timestamp_validity, data, NULL)
    kw_buf_unref(data)
    return code


# --- the constant columns, cached in the layout ---------------------------------------------------------------------

cdef int fill_int32(kw_buf **buf, int64_t rows, int32_t value) noexcept nogil:
    cdef kw_buf *fresh = kw_buf_new(process_pool(), 4 * rows + SLACK)
    cdef int64_t i
    if fresh is NULL:
        return EXPORT_NO_MEMORY
    for i in range(rows):
        (<int32_t *>fresh.data)[i] = value
    kw_buf_unref(buf[0])
    buf[0] = fresh
    return EXPORT_OK


cdef int fill_topic(const ArrowLayout *layout, Constants *own, int64_t rows) noexcept nogil:
    cdef size_t size = layout.topic.size if layout.topic is not NULL else 0
    cdef kw_buf *offsets
    cdef kw_buf *data
    cdef int64_t i
    if size != 0 and <size_t>rows > 0x7FFFFFFF // size:
        return EXPORT_TOO_LARGE
    offsets = kw_buf_new(process_pool(), 4 * (rows + 1) + SLACK)
    data = kw_buf_new(process_pool(), size * rows + SLACK)
    if offsets is NULL or data is NULL:
        kw_buf_unref(offsets)
        kw_buf_unref(data)
        return EXPORT_NO_MEMORY
    for i in range(rows):
        (<int32_t *>offsets.data)[i] = <int32_t>(size * i)
        if size != 0:
            memcpy(data.data + size * i, layout.topic.data, size)
    (<int32_t *>offsets.data)[rows] = <int32_t>(size * rows)
    kw_buf_unref(own.topic_offsets)
    kw_buf_unref(own.topic_data)
    own.topic_offsets = offsets
    own.topic_data = data
    return EXPORT_OK


cdef int fill_types(Constants *own, int which, int width, int64_t rows) noexcept nogil:
    cdef kw_buf *fresh
    if own.type_data[which] is not NULL and own.type_rows[which] >= rows and own.type_width[which] == width:
        return EXPORT_OK
    if width == 4:
        if fill_int32(&own.type_data[which], rows, which) != EXPORT_OK:
            return EXPORT_NO_MEMORY
    else:
        fresh = kw_buf_new(process_pool(), rows + SLACK)
        if fresh is NULL:
            return EXPORT_NO_MEMORY
        memset(fresh.data, which, rows)
        kw_buf_unref(own.type_data[which])
        own.type_data[which] = fresh
    own.type_rows[which] = rows
    own.type_width[which] = width
    return EXPORT_OK


cdef int fill_cache(const ArrowLayout *layout, Constants *own, int64_t rows) noexcept nogil:
    """Build topic and partition columns of at least `rows` rows."""
    cdef int i, code
    if rows <= own.rows:
        return EXPORT_OK
    rows += rows // 4  # spare room: otherwise every chunk that is the longest so far would build these again
    for i in range(layout.count):
        if layout.fields[i].kind == FIELD_TOPIC:
            code = fill_topic(layout, own, rows)
            if code != EXPORT_OK:
                return code
        elif layout.fields[i].kind == FIELD_PARTITION:
            code = fill_int32(&own.partition_data, rows, layout.partition)
            if code != EXPORT_OK:
                return code
    own.rows = rows
    return EXPORT_OK


cdef void constants_clear(Constants *own) noexcept nogil:
    """Drop the constant columns; exported arrays have their own references."""
    kw_buf_unref(own.topic_offsets)
    kw_buf_unref(own.topic_data)
    kw_buf_unref(own.partition_data)
    kw_buf_unref(own.type_data[0])
    kw_buf_unref(own.type_data[1])
    memset(own, 0, sizeof(Constants))


cdef inline void share(kw_buf *buf) noexcept nogil:
    if buf is not NULL:
        kw_buf_ref(buf)


cdef void lock_layout(ArrowLayout *layout) noexcept nogil:
    """Take the layout's lock: it is held for a few instructions, and two threads rarely use one layout."""
    cdef int me = process_generation()
    cdef int holder = kw_exchange_if(&layout.lock, 0, me)
    while holder != 0:
        # In a fork, the thread that held it does not exist, and may have stopped in the middle: its kept columns are
        # given up, with their references.
        if holder != me and kw_exchange_if(&layout.lock, holder, me) == holder:
            memset(&layout.kept, 0, sizeof(Constants))
            return
        sched_yield()
        holder = kw_exchange_if(&layout.lock, 0, me)


cdef void constants_take(ArrowLayout *layout, Constants *own) noexcept nogil:
    """Copy the layout's kept columns, with new references."""
    lock_layout(layout)
    own[0] = layout.kept
    share(own.topic_offsets)
    share(own.topic_data)
    share(own.partition_data)
    share(own.type_data[0])
    share(own.type_data[1])
    kw_release(&layout.lock, 0)


cdef void constants_give(ArrowLayout *layout, Constants *own) noexcept nogil:
    """Give these to the layout if they are longer than its own; clears `own`."""
    cdef Constants spare
    if not layout.transient and (own.topic_data is NULL or own.topic_data.capacity <= KEPT_MOST):
        lock_layout(layout)
        if own.rows > layout.kept.rows or own.type_rows[0] > layout.kept.type_rows[0] \
                or own.type_rows[1] > layout.kept.type_rows[1]:
            spare = layout.kept
            layout.kept = own[0]
            own[0] = spare
        kw_release(&layout.lock, 0)
    constants_clear(own)


cdef int types_array(ArrowArray *out, const Columns *c, Constants *own, int width) noexcept nogil:
    cdef kw_buf *wide
    cdef int64_t i, rows
    cdef int code, which = 1 if c.timestamp_type_all == 1 else 0
    if c.timestamp_type is NULL:
        rows = max(c.total, c.length)
        code = fill_types(own, which, width, rows + rows // 4)
        if code != EXPORT_OK:
            return code
        return rows_leaf(out, c, c.timestamp_nulls, 2, c.timestamp_validity, own.type_data[which], NULL)
    if width == 1:
        return rows_leaf(out, c, c.timestamp_nulls, 2, c.timestamp_validity, c.timestamp_type, NULL)
    wide = kw_buf_new(process_pool(), 4 * (c.first + c.length) + SLACK)
    if wide is NULL:
        return EXPORT_NO_MEMORY
    for i in range(c.first, c.first + c.length):
        (<int32_t *>wide.data)[i] = (<const int8_t *>c.timestamp_type.data)[i]
    code = rows_leaf(out, c, c.timestamp_nulls, 2, c.timestamp_validity, wide, NULL)
    kw_buf_unref(wide)
    return code


cdef int topic_array(ArrowArray *out, const Columns *c, const ArrowLayout *layout, const Constants *own) noexcept nogil:
    cdef kw_buf *validity = NULL
    cdef int code
    if layout.topic is NULL and c.length > 0:
        validity = kw_buf_new(process_pool(), (c.length + 7) // 8)
        if validity is NULL:
            return EXPORT_NO_MEMORY
        memset(validity.data, 0, validity.capacity)
    code = leaf(out, c.length, c.length if layout.topic is NULL else 0, 3, validity, own.topic_offsets,
                own.topic_data)
    kw_buf_unref(validity)
    return code


cdef int field_array(ArrowArray *out, const ArrowField *field, const Columns *c, const ArrowLayout *layout,
                     Constants *own) noexcept nogil:
    if field.kind == COLUMN_VALUE:
        return rows_leaf(out, c, c.value.nulls, 3, c.value.validity, c.value.offsets, c.value.data)
    if field.kind == COLUMN_KEY:
        return rows_leaf(out, c, c.key.nulls, 3, c.key.validity, c.key.offsets, c.key.data)
    if field.kind == COLUMN_OFFSET:
        return rows_leaf(out, c, 0, 2, NULL, c.offset, NULL)
    if field.kind == COLUMN_TIMESTAMP:
        if field.width == MICROSECONDS:
            return microseconds(out, c)
        return rows_leaf(out, c, c.timestamp_nulls, 2, c.timestamp_validity, c.timestamp, NULL)
    if field.kind == COLUMN_TIMESTAMP_TYPE:
        return types_array(out, c, own, field.width)
    if field.kind == COLUMN_HEADERS:
        return headers_array(out, c)
    if field.kind == FIELD_TOPIC:
        return topic_array(out, c, layout, own)
    return leaf(out, c.length, 0, 2, NULL, own.partition_data, NULL)


cdef int columns_export(Columns *columns, ArrowLayout *layout, ArrowArray *out) noexcept nogil:
    cdef Constants own
    cdef ParentOwner *owner
    cdef int code, i
    if columns.length > 0 and layout.columns & ~columns.columns:
        columns_clear(columns)
        return EXPORT_MISSING
    constants_take(layout, &own)
    code = fill_cache(layout, &own, columns.length)
    owner = parent(out, columns.length, layout.count, NULL, False)
    if owner is NULL:
        code = EXPORT_NO_MEMORY
    for i in range(layout.count):
        if code == EXPORT_OK:
            code = field_array(&owner.children[i], &layout.fields[i], columns, layout, &own)
    constants_give(layout, &own)
    if code != EXPORT_OK and out.release is not NULL:
        out.release(out)
    columns_clear(columns)
    return code


cdef void layout_clear(ArrowLayout *layout) noexcept nogil:
    kw_buf_unref(layout.topic)
    constants_clear(&layout.kept)
    memset(layout, 0, sizeof(ArrowLayout))


# --- layouts for Python ---------------------------------------------------------------------------------------------

_FIELDS = {
    "topic": FIELD_TOPIC,
    "partition": FIELD_PARTITION,
    "offset": COLUMN_OFFSET,
    "timestamp": COLUMN_TIMESTAMP,
    "timestamp_type": COLUMN_TIMESTAMP_TYPE,
    "key": COLUMN_KEY,
    "value": COLUMN_VALUE,
    "headers": COLUMN_HEADERS,
}
_UNITS = {"ms": MILLISECONDS, "us": MICROSECONDS}
_TYPES = {"int8": 1, "int32": 4}


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release is not NULL:
        schema.release(schema)
    free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release is not NULL:
        array.release(array)
    free(array)


cdef class Layout:
    """The columns of a struct array for exported batches: names in order, and the values of the constant ones.

    `columns`: names out of topic, partition, offset, timestamp, timestamp_type, key, value, headers, in the wanted
    order (None: all eight). `names` renames some of them. `timestamp_unit` "ms" or "us", `timestamp_type` "int8" or
    "int32". The constant columns are kept for the next batch, some 30 bytes per row of the longest one, unless
    `transient`, which is for many layouts. Raises ConfigError for an unknown name, or one given twice.
    """

    def __cinit__(self):
        memset(&self.layout, 0, sizeof(ArrowLayout))

    def __init__(self, topic=None, int32_t partition=-1, *, columns=None, names=None, str timestamp_unit="ms",
                 str timestamp_type="int8", bint transient=False):
        cdef bytes text
        cdef ArrowField *field
        if self.layout.count != 0 or self.layout.topic is not NULL:
            raise TypeError("a Layout cannot be initialised twice")
        columns = list(_FIELDS) if columns is None else list(columns)
        names = names or {}
        if timestamp_unit not in _UNITS or timestamp_type not in _TYPES:
            raise ConfigError(f"timestamp_unit {timestamp_unit!r}, timestamp_type {timestamp_type!r}: "
                              f"expected one of {list(_UNITS)} and one of {list(_TYPES)}")
        if len(set(columns)) != len(columns):
            raise ConfigError(f"a column is named twice: {columns}")
        self.layout.partition = partition
        self.layout.transient = transient
        for column in columns:
            if column not in _FIELDS:
                raise ConfigError(f"unknown column {column!r}: columns are {', '.join(_FIELDS)}")
            field = &self.layout.fields[self.layout.count]
            field.kind = _FIELDS[column]
            if field.kind == COLUMN_TIMESTAMP:
                field.width = _UNITS[timestamp_unit]
                self.layout.row_bytes += 8 if field.width == MICROSECONDS else 0
            elif field.kind == COLUMN_TIMESTAMP_TYPE:
                field.width = _TYPES[timestamp_type]
                self.layout.row_bytes += 2 * field.width
            elif field.kind == FIELD_PARTITION:
                self.layout.row_bytes += 5  # 4, and a quarter more: see fill_cache
            elif field.kind == FIELD_TOPIC:
                self.layout.row_bytes += 5
            if field.kind < FIELD_TOPIC:
                self.layout.columns |= <uint32_t>field.kind
            text = names.get(column, column).encode()
            if len(text) >= <Py_ssize_t>sizeof(field.name):
                raise ConfigError(f"a column name must have at most {sizeof(field.name) - 1} bytes: {text!r}")
            memcpy(field.name, <const char *>text, len(text) + 1)
            self.layout.count += 1
        if topic is not None:
            text = topic.encode() if isinstance(topic, str) else topic
            self.layout.topic = kw_buf_new(process_pool(), len(text) + SLACK)
            if self.layout.topic is NULL:
                raise MemoryError("no memory for a layout")
            memcpy(self.layout.topic.data, <const char *>text, len(text))
            self.layout.topic.size = len(text)
            self.layout.row_bytes += 5 * len(text) // 4 if "topic" in columns else 0

    def __dealloc__(self):
        layout_clear(&self.layout)

    cdef object schema_capsule(self):
        cdef ArrowSchema *schema = <ArrowSchema *>calloc(1, sizeof(ArrowSchema))
        if schema is NULL or layout_schema(&self.layout, schema) != EXPORT_OK:
            free(schema)
            raise MemoryError("no memory for an Arrow schema")
        return PyCapsule_New(schema, "arrow_schema", free_schema)

    cdef int export(self, Columns *columns, ArrowArray *out) except -1:
        cdef int code = columns_export(columns, &self.layout, out)
        if code != EXPORT_OK:
            export_error(code)
        return 0

    cdef object array_capsule(self, Columns *columns):
        cdef ArrowArray *array = <ArrowArray *>calloc(1, sizeof(ArrowArray))
        if array is NULL:
            columns_clear(columns)
            export_error(EXPORT_NO_MEMORY)
        try:
            self.export(columns, array)
        except BaseException:
            free(array)
            raise
        return PyCapsule_New(array, "arrow_array", free_array)

    def __arrow_c_schema__(self):
        """Return the schema as a PyCapsule "arrow_schema"."""
        return self.schema_capsule()


cdef object export_error(int code):
    if code == EXPORT_OVERFLOW:
        raise ProtocolError("a record's timestamp does not fit in microseconds: read it with timestamp unit ms")
    if code == EXPORT_TOO_LARGE:
        raise ProtocolError("the topic column, or the column of header keys, would exceed 2 GiB: read smaller chunks")
    if code == EXPORT_MISSING:
        raise ConfigError("a requested column was not decoded")
    raise MemoryError("no memory for Arrow arrays")


seal_types(Layout)
