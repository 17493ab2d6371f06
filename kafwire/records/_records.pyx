# distutils: sources = kafwire/memory/native/buf.c
"""Decoded batches for Python; `kafwire.records` is the public module.

A `Record` is made on demand, and has copies of its own key and value, so keeping a record keeps no chunk alive.
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport PyObject
from libc.stdint cimport int8_t, int32_t, int64_t, uintptr_t
from libc.string cimport memcmp, memcpy

from kafwire._codec cimport COLUMN_ROOM, DecodeSpec
from kafwire.records._arrow cimport ArrowArray, Layout
from kafwire.records._columns cimport Bytes, Columns, columns_bytes, columns_clear, columns_init, columns_share

from kafwire.errors import ProtocolError
from kafwire.handles import refuse_copies
from kafwire.memory._buffer import add_attributes, describe_fields, seal_types
from kafwire.peer_names import BATCH, RECORD, attributes


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char *name
        int type
        Py_ssize_t offset
        int flags
        const char *doc
    enum:
        T_OBJECT_EX
        READONLY


cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject *tp_dict
    object PyDescr_NewMember(PyTypeObject *type, PyMemberDef *member)
    void PyType_Modified(PyTypeObject *type)


# --- records --------------------------------------------------------------------------------------------------------

# Not tracked by the cyclic garbage collector: records hold bytes and text, and a growing list of them would be
# traversed again and again. A cycle exists only if a record is made from a container with that very record in it.
@cython.final
@cython.no_gc
@cython.freelist(1024)
@cython.embedsignature(False)  # Cython puts the * after `headers`
cdef class Record:
    """Record(value=None, key=None, *, headers=(), timestamp_ms=None, timestamp_type=0, offset=-1, topic=None,
    partition=None)

    One record.

    Args:
        value: bytes or None, or a deserializer's result.
        key: bytes or None, or a deserializer's result.
        headers: pairs of str and bytes, str (kept as UTF-8) or None. A name that is not UTF-8 is kept by
            surrogateescape.
        timestamp_ms: milliseconds since the epoch; None if it has no timestamp.
        timestamp_type: 0 for create time, 1 for log append time; None if it has no timestamp.
        offset: its offset; -1 if it was not read from a topic.
        topic: its topic; None if it was decoded from plain bytes.
        partition: its partition; None if it was decoded from plain bytes.

    Example:
        >>> kafwire.Record(b"EWR-IAH", b"UA", headers=[("source", b"radar")]).headers
        [('source', b'radar')]
    """

    def __init__(self, value=None, key=None, *, headers=(), timestamp_ms=None, timestamp_type=0, offset=-1, topic=None,
                 partition=None):
        self.value = value
        self.key = key
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = -1 if timestamp_ms is None else timestamp_ms
        self.kind = 0 if timestamp_type is None else timestamp_type
        self.pairs = tuple([(k, v.encode() if isinstance(v, str) else v)
                            for k, v in (headers.items() if isinstance(headers, dict) else headers)]) or None

    @property
    def timestamp_ms(self):
        """The timestamp in milliseconds since the epoch; None if the record has none."""
        return None if self.timestamp == -1 else self.timestamp

    @property
    def timestamp_type(self):
        """0 for create time, 1 for log append time; None if the record has no timestamp."""
        return None if self.timestamp == -1 else self.kind

    @property
    def headers(self):
        """The headers: a list of pairs, of str and bytes or None. A name that is not UTF-8 has surrogate escapes."""
        return [] if self.pairs is None else list(self.pairs)

    def __eq__(self, other):
        cdef Record that
        if not isinstance(other, Record):
            return NotImplemented
        that = other
        return (self.offset == that.offset and self.timestamp == that.timestamp
                and (self.kind == that.kind or self.timestamp == -1)
                and self.key == that.key and self.value == that.value and self.pairs == that.pairs
                and self.topic == that.topic and self.partition == that.partition)

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset, self.timestamp, self.key, self.value))

    def __repr__(self):
        return (f"Record(topic={self.topic!r}, partition={self.partition!r}, offset={self.offset}, "
                f"timestamp_ms={self.timestamp_ms!r}, timestamp_type={self.timestamp_type!r}, key={self.key!r}, "
                f"value={self.value!r}, headers={self.headers!r})")

    def __reduce__(self):
        return _rebuild, (self.value, self.key, self.headers, self.timestamp_ms, self.timestamp_type, self.offset,
                          self.topic, self.partition)


cdef PyMemberDef members[4]


cdef int add_member(int i, const char *name, Record record, object value) except -1:
    """Expose the field of `record` that has `value`, which no other field has, as a member."""
    cdef Py_ssize_t offset = sizeof(PyObject)
    while (<PyObject **>(<char *><PyObject *>record + offset))[0] is not <PyObject *>value:
        offset += sizeof(PyObject *)
    members[i].name, members[i].offset = name, offset
    members[i].type = T_OBJECT_EX
    members[i].flags = READONLY
    (<dict>(<PyTypeObject *>Record).tp_dict)[name.decode()] = PyDescr_NewMember(<PyTypeObject *>Record, &members[i])
    return 0


cdef int add_members() except -1:
    topic, partition, key, value = object(), object(), object(), object()
    record = Record(value, key, topic=topic, partition=partition)
    add_member(0, "topic", record, topic)
    add_member(1, "partition", record, partition)
    add_member(2, "key", record, key)
    add_member(3, "value", record, value)
    PyType_Modified(<PyTypeObject *>Record)
    return 0


add_members()


def _rebuild(value, key, headers, timestamp_ms, timestamp_type, offset, topic, partition):
    return Record(value, key, headers=headers, timestamp_ms=timestamp_ms, timestamp_type=timestamp_type, offset=offset,
                  topic=topic, partition=partition)


cdef inline object cell(const Bytes *column, int64_t row):
    """Return a row's bytes, None for a null or a column that was not decoded."""
    cdef const int32_t *offsets
    if column.offsets is NULL or (
            column.nulls != 0 and not column.validity.data[row >> 3] >> (row & 7) & 1):
        return None
    offsets = <const int32_t *>column.offsets.data
    return PyBytes_FromStringAndSize(
        <const char *>column.data.data + offsets[row] if column.data is not NULL else NULL,
        offsets[row + 1] - offsets[row])


cdef tuple header_pairs(const Columns *c, int64_t row):
    cdef const int32_t *offsets = <const int32_t *>c.header_offsets.data + c.first
    cdef int64_t i
    if offsets[row] == offsets[row + 1]:
        return None
    return tuple([((<bytes>cell(&c.header_key, i)).decode("utf-8", "surrogateescape"), cell(&c.header_value, i))
                  for i in range(offsets[row], offsets[row + 1])])


cdef extern from *:
    """
    static inline PyObject *kw_context(void) { return PyThreadState_Get()->context; }
    """
    PyObject *kw_context()


cpdef object task_context():
    """Return the calling task's own context; None outside of any."""
    cdef PyObject *context = kw_context()
    return None if context is NULL else <object> context


@cython.final
cdef class RecordIterator:
    """Iterates over the records of `batches`, an iterable of Batch or RecordBatch; it takes batches on demand.

    `batch` is the current one (None before the first), `row` the number of its returned records. Calls after the end,
    or after an error, continue at the same place: a record that could not be made does not count.
    """

    __reduce_ex__ = refuse_copies("they read from batches of this process; hand over a list of their records")

    def __init__(self, batches):
        self.batches = iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        cdef Records batch = self.batch
        cdef int64_t row = self.row
        self.thread = PyThread_get_thread_ident()
        while batch is None or row >= batch.rows:
            if self.batches is None:
                raise StopIteration
            batch = next(self.batches)
            if batch is self.refused:
                batch = None
                continue
            self.batch = batch
            self.row = row = 0
        self.row = row + 1
        if not batch.heavy and not batch.away:
            return batch.raw(row)
        try:
            return batch.record(row)
        except BaseException:
            self.row = row
            raise

    def called(self):
        """Note the task that requests a record: `context` is its context from now on."""
        self.context = task_context()

    def peek(self):
        """Return the next record without advancing, with its key and value as bytes."""
        cdef Records batch = self.batch
        while batch is None or self.row >= batch.rows:
            if self.batches is None:
                raise StopIteration
            batch = next(self.batches)
            if batch is self.refused:
                batch = None
                continue
            self.batch = batch
            self.row = 0
        return batch.raw(self.row)

    def skip(self):
        """Advance past the next record, which the caller has from `peek`."""
        cdef Records batch = self.batch
        if batch is not None and self.row < batch.rows:
            self.row += 1

    @property
    def offset(self):
        """The offset of the last returned record; -1 if unknown."""
        cdef Records batch = self.batch
        if batch is None or self.row == 0:
            return -1
        if batch.away:
            batch.fetch()
        if batch.columns.offset is NULL:
            return -1
        return (<const int64_t *>batch.columns.offset.data)[batch.columns.first + self.row - 1]

    def __length_hint__(self):
        return 0 if self.batch is None else max(self.batch.rows - self.row, 0)

    @property
    def next_offset(self):
        """The offset to continue at, so that no returned record comes again and no other is left out.

        -1 without a current batch, and within one whose offsets were not decoded.
        """
        cdef Records batch = self.batch
        cdef const int64_t *offsets
        if batch is None:
            return -1
        if self.row >= batch.rows:
            return batch.end_offset()
        if batch.away:
            batch.fetch()
        if batch.columns.offset is NULL:
            return -1
        offsets = <const int64_t *>batch.columns.offset.data + batch.columns.first
        return offsets[0] if self.row == 0 else offsets[self.row - 1] + 1

    def drop(self):
        """Skip the rest of the current batch."""
        self.batch = None
        self.row = 0

    def refuse(self, batch):
        """Skip the rest of this batch, whether it is the current one or a later one of `batches`."""
        self.refused = batch
        if self.batch is batch:
            self.drop()


# Up to this size a record is not checked for room for its Python objects. A header takes a tuple, a str and a bytes; a
# str may take four bytes per UTF-8 byte, besides its source bytes.
cdef enum:
    HEAVY_LARGE = 1
    HEAVY_DESERIALIZED = 2
    HEAVY_BYTES = 16777216
    HEAVY_HEADERS = 65536
    HEADER_OBJECTS = 184
    TEXT_FACTOR = 6


cdef int64_t cell_size(const Bytes *column, int64_t start, int64_t stop) noexcept:
    cdef const int32_t *offsets
    if column.offsets is NULL:
        return 0
    offsets = <const int32_t *>column.offsets.data
    return offsets[stop] - offsets[start]


cdef int check_size(Records batch, int64_t row) except -1:
    """Raise ProtocolError for a record whose objects, with the columns, would exceed the memory limit of decoding."""
    cdef const Columns *c = &batch.columns
    cdef const int32_t *headers
    cdef int64_t at = c.first + row
    cdef size_t size = cell_size(&c.key, at, at + 1) + cell_size(&c.value, at, at + 1)
    if c.header_offsets is not NULL:
        headers = <const int32_t *>c.header_offsets.data + c.first
        size += <size_t>HEADER_OBJECTS * (headers[row + 1] - headers[row])
        size += TEXT_FACTOR * cell_size(&c.header_key, headers[row], headers[row + 1])
        size += cell_size(&c.header_value, headers[row], headers[row + 1])
    if size + columns_bytes(c) > batch.space:
        raise ProtocolError(f"record {row} takes {size} bytes as Python objects, beside columns of {columns_bytes(c)}: "
                            "more than max_decompressed allows; raise that, or read it with to_arrow()")
    return 0


cdef str unexported(object topic, object partition, int64_t base_offset, int64_t next_offset, object problem):
    """Return the error text for rows that do not fit Arrow columns."""
    return (f"{topic}-{partition}, offsets {base_offset} to {next_offset - 1}, do not fit Arrow columns: {problem}; "
            "take their batches and iterate over the records")


@cython.embedsignature(False)
cdef class Records:
    __reduce_ex__ = refuse_copies("they hold memory of the decoder; hand over a list of their records, or to_arrow()")

    def __cinit__(self):
        columns_init(&self.columns)

    def __init__(self):
        raise TypeError(f"{type(self).__name__} cannot be called: decoding makes its objects")

    def __dealloc__(self):
        columns_clear(&self.columns)

    def __len__(self):
        return self.rows

    cdef void settle(self, const DecodeSpec *spec) noexcept:
        cdef const Columns *c = &self.columns
        self.rows = c.length
        self.space = spec.max_decompressed + COLUMN_ROOM
        self.heavy = HEAVY_LARGE * (
            c.key.used + c.value.used + c.header_value.used + 4 * c.header_key.used > HEAVY_BYTES
            or c.header_count > HEAVY_HEADERS)

    cdef int fetch(self) except -1:
        raise NotImplementedError

    cdef int64_t end_offset(self) noexcept:
        return -1

    cdef Record record(self, int64_t row):
        cdef Record record
        if self.heavy & HEAVY_DESERIALIZED:
            record = self.raw(row)
            record.key, record.value = self.deserializer.deserialize(record)
            return record
        return self.raw(row)

    cdef Record raw(self, int64_t row):
        if self.away:
            self.fetch()
        if self.heavy & HEAVY_LARGE:
            check_size(self, row)
        self.pins += 1
        try:
            return self.made(row)
        finally:
            self.pins -= 1

    cdef Record made(self, int64_t row):
        cdef Record record = Record.__new__(Record)
        cdef const Columns *c = &self.columns
        cdef int64_t at = c.first + row
        record.topic = self.topic
        record.partition = self.partition
        record.offset = (<const int64_t *>c.offset.data)[at] if c.offset is not NULL else -1
        record.timestamp = (<const int64_t *>c.timestamp.data)[at] if c.timestamp is not NULL else -1
        record.kind = c.timestamp_type_all
        if c.timestamp_type is not NULL:
            record.kind = (<const int8_t *>c.timestamp_type.data)[at]
        record.key = cell(&c.key, at)
        record.value = cell(&c.value, at)
        record.pairs = header_pairs(c, row) if c.header_offsets is not NULL else None
        return record

    def __iter__(self):
        cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
        iterator.batch = self
        return iterator

    def __aiter__(self):
        if self.deserializer is None:
            raise TypeError(f"'async for' needs an async deserializer: iterate over {self!r} by 'for'")
        return self.deserializer.records(iter(self))

    def __getitem__(self, index):
        cdef int64_t row
        if isinstance(index, slice):
            return [self.record(row) for row in range(*index.indices(self.rows))]
        row = index
        if row < 0:
            row += self.rows
        if not 0 <= row < self.rows:
            raise IndexError(f"record {index} of {self.rows}")
        return self.record(row)

    def _repr_html_(self):
        """Return a table of the first records, which notebooks show; keys and values are the bytes that were read."""
        cdef int64_t row
        from kafwire.records.html import ROWS, html_table
        return html_table(repr(self), [self.raw(row) for row in range(min(self.rows, ROWS))], self.rows)

    cdef object not_exported(self, object problem):
        """Return the same error, with the rows it is about."""
        if self.topic is None:
            return problem
        return type(problem)(unexported(self.topic, self.partition, self.base_offset, self.end_offset(), problem))

    def __arrow_c_schema__(self):
        """Return the schema as a PyCapsule "arrow_schema"."""
        if self.deserializer is not None and self.deserializer.has_columns:
            return self.to_arrow().schema.__arrow_c_schema__()
        return self.layout.schema_capsule()

    def __arrow_c_array__(self, requested_schema=None):
        """Return (schema, array) PyCapsules of a struct array, without a copy; `requested_schema` is ignored."""
        cdef Columns shared
        if self.deserializer is not None and self.deserializer.has_columns:
            return self.to_arrow().__arrow_c_array__()
        if self.away:
            self.fetch()
        columns_share(&self.columns, &shared)
        try:
            return self.layout.schema_capsule(), self.layout.array_capsule(&shared)
        except (ProtocolError, MemoryError) as error:
            raise self.not_exported(error) from None

    def to_arrow(self):
        """Return the rows as a pyarrow.RecordBatch that shares their memory.

        Returns:
            The pyarrow.RecordBatch.

        Raises:
            ImportError: pyarrow is not installed.
            ProtocolError: the rows do not fit Arrow's columns.

        Example:
            >>> batch, = kafwire.records.decode_batches(kafwire.records.encode_batch([b"EWR-IAH", b"JFK-MIA"]))
            >>> batch.to_arrow()["value"].to_pylist()
            [b'EWR-IAH', b'JFK-MIA']
        """
        cdef Columns shared
        cdef ArrowArray array
        if self.layout.importer is None:
            from kafwire.arrow import importer
            self.layout.importer = importer(self.layout)
        if self.away:
            self.fetch()
        columns_share(&self.columns, &shared)
        try:
            self.layout.export(&shared, &array)
        except (ProtocolError, MemoryError) as error:
            raise self.not_exported(error) from None
        try:
            rows = self.layout.importer(<uintptr_t>&array)
            return rows if self.deserializer is None else self.deserializer.to_arrow(self, rows)
        finally:
            if array.release is not NULL:  # a consumer that took the array marked it as released
                array.release(&array)


@cython.final
@cython.embedsignature(False)
cdef class Batch(Records):
    """Consecutive wire batches of one partition, decoded in one call: a sequence of `Record`.

    `topic` and `partition` are its source. `base_offset` is the first offset of the first wire batch, `next_offset` is
    where reading continues. Gaps left by compaction, and control records, count as read. A consumer or a scan makes it.

    Example:
        >>> batch, = kafwire.scan(bootstrap, topic).batches()
        >>> len(batch), batch[0].value, batch.next_offset
        (3, b'EWR-IAH', 3)
        >>> pa.record_batch(batch).num_rows
        3
    """

    @property
    def nbytes(self):
        """Bytes of memory of the columns. Batches that share columns count them in proportion to their rows."""
        cdef size_t size = columns_bytes(&self.columns)
        return size if not self.columns.total else size * self.columns.length // self.columns.total

    @staticmethod
    cdef Batch take(Columns *columns, Layout layout, object topic, object partition, const DecodeSpec *spec):
        cdef Batch batch = Batch.__new__(Batch)
        memcpy(&batch.columns, columns, sizeof(Columns))
        columns_init(columns)
        batch.layout = layout
        batch.topic = topic
        batch.partition = partition
        batch.base_offset = batch.columns.base_offset
        batch.next_offset = batch.columns.next_offset
        batch.settle(spec)
        return batch

    cdef int64_t end_offset(self) noexcept:
        return self.next_offset

    cdef void use(self, object deserializer) noexcept:
        self.deserializer = deserializer
        if deserializer is not None:
            self.heavy |= HEAVY_DESERIALIZED

    def __repr__(self):
        return (f"<kafwire Batch of {self.topic}-{self.partition}: {self.rows} records, "
                f"offsets [{self.base_offset}, {self.next_offset})>")


def offsets_of(Records batch):
    """Return the offsets of a batch with records, as a range if they have no gaps. They must have been decoded."""
    cdef const int64_t *offsets
    if batch.away:
        batch.fetch()
    if batch.columns.offset is NULL or not batch.rows:
        raise ValueError("the batch has no offsets")
    offsets = <const int64_t *>batch.columns.offset.data + batch.columns.first
    if offsets[batch.rows - 1] - offsets[0] + 1 == batch.rows:
        return range(offsets[0], offsets[batch.rows - 1] + 1)
    return [offsets[row] for row in range(batch.rows)]


def heads(Records batch, bint keys, int64_t length):
    """Return the first `length` bytes of the keys, or values, each once, with its first row: {head: row}."""
    cdef const Bytes *column
    cdef const int32_t *offsets
    cdef const char *data
    cdef const char *last = NULL
    cdef int64_t row, at, size, last_size = -1
    cdef dict found = {}
    if batch.away:
        batch.fetch()
    column = &batch.columns.key if keys else &batch.columns.value
    if column.offsets is NULL or column.data is NULL:
        return found
    offsets = <const int32_t *>column.offsets.data
    data = <const char *>column.data.data
    for row in range(batch.rows):
        at = batch.columns.first + row
        if column.nulls != 0 and not column.validity.data[at >> 3] >> (at & 7) & 1:
            continue
        size = min(length, <int64_t>(offsets[at + 1] - offsets[at]))
        if size == last_size and memcmp(data + offsets[at], last, size) == 0:
            continue
        last, last_size = data + offsets[at], size
        found.setdefault(PyBytes_FromStringAndSize(last, size), row)
    return found


seal_types(RecordIterator, Records, Batch)
add_attributes(Record, attributes(RECORD))
add_attributes(Batch, attributes(BATCH))
describe_fields(Record, {
    "topic": "The topic; None if the record was decoded from plain bytes.",
    "partition": "The partition; None if the record was decoded from plain bytes.",
    "offset": "The offset; -1 if the record was not read from a topic.",
    "key": "The key: bytes, None for null, or the deserializer's result.",
    "value": "The value: bytes, None for null, or the deserializer's result.",
})
describe_fields(Records, {
    "topic": "The topic of the records; None if they were decoded from plain bytes.",
    "partition": "The partition of the records; None if they were decoded from plain bytes.",
})
describe_fields(Batch, {
    "base_offset": "The first offset of the first wire batch, or the offset at which reading began.",
    "next_offset": "The offset at which reading continues after these records.",
})
