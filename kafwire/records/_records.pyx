# distutils: sources = kafwire/memory/native/buf.c
"""Decoded batches for Python; `kafwire.records` is the public module.

A `Record` is made when somebody asks for it, and holds copies of its own key and value, so keeping one keeps no
chunk alive.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafwire._codec cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND, ATTRIBUTE_TRANSACTIONAL, COLUMN_ROOM, DECODE_NEED_CODEC,
    DECODE_OK, DECODE_TOO_LARGE, AbortedTransaction, DecodeSpec, DecodeStatus, aborted_sort, batch_header, decode_chunk,
    decode_error, spec_init,
)
from kafwire.memory._buffer cimport kw_buf, kw_buf_unref
from kafwire.records._arrow cimport ArrowArray, Layout
from kafwire.records._arrow_rows cimport Rows, RowsReader
from kafwire.records._columns cimport (
    Bytes, Columns, columns_bytes, columns_clear, columns_finish, columns_init, columns_share,
)
from kafwire.records._compress cimport CODEC_LEVEL_DEFAULT, CODEC_NO_MEMORY, resolve_codec
from kafwire.records._encode cimport (
    WRITER_NO_MEMORY, WRITER_TOO_LARGE, BatchWriter, batch_stamp, encode_headers, writer_append_at, writer_append_rows,
    writer_close, writer_open, writer_seal,
)

from kafwire.errors import ConfigError, ProtocolError, RecordTooLargeError
from kafwire.memory._buffer import seal_types
from kafwire.records._compress import NAMES, codec_id


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

# Out of the cyclic collector's sight: what a list of records holds is bytes and text, which it would walk over again
# and again as the list grows. Only who makes a record out of a container with that very record in it makes a cycle.
@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Record:
    """One record.

    Args:
        value: bytes or None, or what a deserializer made of bytes.
        key: bytes or None, or what a deserializer made of bytes.
        headers: pairs of str and bytes or None. A name that is not UTF-8 is kept by surrogateescape.
        timestamp_ms: milliseconds since the epoch; None if it has no timestamp.
        timestamp_type: 0 for create time, 1 for log append time; None if it has no timestamp.
        offset: its offset; -1 if it was not read from anywhere.
        topic: its topic; None if it was decoded from bytes alone.
        partition: its partition; None if it was decoded from bytes alone.

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
        self.pairs = tuple([(k, v) for k, v in (headers.items() if isinstance(headers, dict) else headers)]) or None

    @property
    def timestamp_ms(self):
        return None if self.timestamp == -1 else self.timestamp

    @property
    def timestamp_type(self):
        return None if self.timestamp == -1 else self.kind

    @property
    def headers(self):
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
    """Show Python the field of `record` that holds `value` and nothing else does."""
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
    """bytes of a row, None for a null or a column that was not decoded."""
    cdef const int32_t *offsets
    if column.offsets is NULL or (
            column.nulls != 0 and not column.validity.data[row >> 3] >> (row & 7) & 1):
        return None
    offsets = <const int32_t *>column.offsets.data
    return PyBytes_FromStringAndSize(
        <const char *>column.data.data + offsets[row] if column.data is not NULL else NULL,
        offsets[row + 1] - offsets[row])


cdef tuple header_pairs(const Columns *c, int64_t row):
    cdef const int32_t *offsets = <const int32_t *>c.header_offsets.data
    cdef int64_t i
    if offsets[row] == offsets[row + 1]:
        return None
    return tuple([((<bytes>cell(&c.header_key, i)).decode("utf-8", "surrogateescape"), cell(&c.header_value, i))
                  for i in range(offsets[row], offsets[row + 1])])


@cython.final
cdef class RecordIterator:
    """The records of `batches` one by one, an iterable of Batch or RecordBatch; next batches are taken when needed.

    `batch` is the one in hand (None before the first), `row` how many of its records were handed out. Asking for more
    after the end, or after an error, goes on where it was: a record that could not be made is not counted.
    """

    def __init__(self, batches):
        self.batches = iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        cdef Records batch = self.batch
        cdef int64_t row = self.row
        while batch is None or row >= batch.rows:
            if self.batches is None:
                raise StopIteration
            batch = next(self.batches)
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

    def peek(self):
        """The record that comes next, which stays the next one, with its key and value as bytes."""
        cdef Records batch = self.batch
        while batch is None or self.row >= batch.rows:
            if self.batches is None:
                raise StopIteration
            batch = next(self.batches)
            self.batch = batch
            self.row = 0
        return batch.raw(self.row)

    def skip(self):
        """Count the record that comes next, which somebody has from `peek`, as handed out."""
        cdef Records batch = self.batch
        if batch is not None and self.row < batch.rows:
            self.row += 1

    @property
    def offset(self):
        """That of the record that was handed out last; -1 where that is not known."""
        cdef Records batch = self.batch
        if batch is None or self.row == 0:
            return -1
        if batch.away:
            batch.fetch()
        return (<const int64_t *>batch.columns.offset.data)[self.row - 1] if batch.columns.offset is not NULL else -1

    def __length_hint__(self):
        return 0 if self.batch is None else max(self.batch.rows - self.row, 0)

    @property
    def next_offset(self):
        """The offset at which to read on so that no record handed out comes again and none else is left out.

        -1 with no batch in hand, and inside of one whose offsets were not decoded.
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
        offsets = <const int64_t *>batch.columns.offset.data
        return offsets[0] if self.row == 0 else offsets[self.row - 1] + 1

    def drop(self):
        """Leave out the records that are left of the batch in hand."""
        self.batch = None
        self.row = 0


# How much one record of a batch may be before it is looked at whether there is room for its Python objects. A header
# takes a tuple, a str and a bytes; an str may take four bytes for each of UTF-8, beside the bytes it is made from.
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
    """Raise ProtocolError for a record whose objects would pass, with the columns, what decoding may take."""
    cdef const Columns *c = &batch.columns
    cdef const int32_t *headers
    cdef size_t size = cell_size(&c.key, row, row + 1) + cell_size(&c.value, row, row + 1)
    if c.header_offsets is not NULL:
        headers = <const int32_t *>c.header_offsets.data
        size += <size_t>HEADER_OBJECTS * (headers[row + 1] - headers[row])
        size += TEXT_FACTOR * cell_size(&c.header_key, headers[row], headers[row + 1])
        size += cell_size(&c.header_value, headers[row], headers[row + 1])
    if size + columns_bytes(c) > batch.space:
        raise ProtocolError(f"record {row} takes {size} bytes as Python objects, beside columns of {columns_bytes(c)}: "
                            "more than max_decompressed allows; raise that, or read it with to_arrow()")
    return 0


cdef str unexported(object topic, object partition, int64_t base_offset, int64_t next_offset, object problem):
    """What is said of rows that Arrow's columns cannot hold."""
    return (f"{topic}-{partition}, offsets {base_offset} to {next_offset - 1}, cannot be given as Arrow: {problem}; "
            "take their batches and iterate over the records")


cdef class Records:
    def __cinit__(self):
        columns_init(&self.columns)

    def __init__(self):
        raise TypeError(f"{type(self).__name__} is made by decoding, not by calling it")

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
        record.topic = self.topic
        record.partition = self.partition
        record.offset = (<const int64_t *>c.offset.data)[row] if c.offset is not NULL else -1
        record.timestamp = (<const int64_t *>c.timestamp.data)[row] if c.timestamp is not NULL else -1
        record.kind = c.timestamp_type_all
        if c.timestamp_type is not NULL:
            record.kind = (<const int8_t *>c.timestamp_type.data)[row]
        record.key = cell(&c.key, row)
        record.value = cell(&c.value, row)
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

    cdef object not_exported(self, object problem):
        """The same error, and of which rows."""
        if self.topic is None:
            return problem
        return type(problem)(unexported(self.topic, self.partition, self.base_offset, self.end_offset(), problem))

    def __arrow_c_schema__(self):
        """The schema as a PyCapsule "arrow_schema"."""
        if self.deserializer is not None and self.deserializer.has_columns:
            return self.to_arrow().schema.__arrow_c_schema__()
        return self.layout.schema_capsule()

    def __arrow_c_array__(self, requested_schema=None):
        """(schema, array) PyCapsules of a struct array. Nothing is copied; `requested_schema` is not looked at."""
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
            if array.release is not NULL:  # whoever takes an array over leaves it released
                array.release(&array)


@cython.final
cdef class Batch(Records):
    """Consecutive wire batches of one partition, decoded in one call: a sequence of `Record`.

    `topic` and `partition` say where it was read. `base_offset` is the first offset of the first wire batch,
    `next_offset` is where reading goes on. Holes left by compaction, and control records, count as read. A consumer or
    a scan makes it.

    Example:
        >>> batch, = kafwire.scan(bootstrap, topic).batches()
        >>> len(batch), batch[0].value, batch.next_offset
        (3, b'EWR-IAH', 3)
        >>> pa.record_batch(batch).num_rows
        3
    """

    @property
    def nbytes(self):
        """Bytes of memory that the columns hold."""
        return columns_bytes(&self.columns)

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


# The columns of a batch decoded from bytes alone: no topic, no partition.
_PLAIN = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


@cython.final
@cython.no_gc_clear  # it leaves its cache when it dies
cdef class RecordBatch(Records):
    """One wire batch (magic 2), or one message of magic 0 or 1 with what is compressed in it: a sequence of `Record`.

    Its fields are those on the wire. `producer_id`, `producer_epoch`, `base_sequence` and `partition_leader_epoch` are
    -1 where there is none; `max_timestamp_ms` is None where the wire says -1. `decode_batches` makes it.

    Example:
        >>> batch, = kafwire.records.decode_batches(kafwire.records.encode_batch([b"EWR-IAH"], base_offset=7))
        >>> batch.base_offset, batch.magic, batch[0].value
        (7, 2, b'EWR-IAH')
    """

    def __dealloc__(self):
        if self.cache is not None:
            self.cache.drop(self)
            self.cache.kept -= OBJECT_BYTES
            self.cache.objects -= OBJECT_BYTES

    cdef int fetch(self) except -1:
        cdef size_t consumed
        return self.cache.decode(self, &consumed)

    cdef int64_t end_offset(self) noexcept:
        return self.header.base_offset + self.header.last_offset_delta + 1

    @property
    def base_offset(self):
        return self.header.base_offset

    @property
    def last_offset(self):
        return self.header.base_offset + self.header.last_offset_delta

    @property
    def magic(self):
        return self.header.magic

    @property
    def compression(self):
        return NAMES[self.header.attributes & ATTRIBUTE_CODEC]

    @property
    def crc(self):
        return self.header.crc

    @property
    def attributes(self):
        return self.header.attributes

    @property
    def producer_id(self):
        return self.header.producer_id

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @property
    def is_transactional(self):
        return self.header.magic == 2 and self.header.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self):
        return self.header.magic == 2 and self.header.attributes & ATTRIBUTE_CONTROL != 0

    @property
    def timestamp_type(self):
        return 1 if self.header.attributes & ATTRIBUTE_LOG_APPEND else 0

    @property
    def partition_leader_epoch(self):
        return self.header.leader_epoch

    @property
    def base_timestamp_ms(self):
        return None if self.header.base_timestamp == -1 else self.header.base_timestamp

    @property
    def max_timestamp_ms(self):
        return None if self.header.max_timestamp == -1 else self.header.max_timestamp

    def __repr__(self):
        return (f"<kafwire RecordBatch of magic {self.magic}: {self.rows} records, "
                f"offsets {self.base_offset} to {self.last_offset}, compression {self.compression}>")


# --- decode ---------------------------------------------------------------------------------------------------------

cdef int run(const uint8_t *data, size_t size, const DecodeSpec *spec, Columns *columns,
             DecodeStatus *status) except -100:
    """decode_chunk, resolving codecs on the way; its positions are from `data` on."""
    cdef int answer
    cdef size_t done = 0
    while True:
        with nogil:
            answer = decode_chunk(data + done, size - done, spec, columns, status)
        done += status.consumed
        status.error_offset += done - status.consumed
        status.consumed = done
        if answer != DECODE_NEED_CODEC:
            return answer
        resolve_codec(status.codec)


cdef enum:
    OBJECT_BYTES = 768  # what a RecordBatch takes beside the buffers of its columns


@cython.final
@cython.no_gc_clear  # the batches of a cache die after it has been found garbage, and leave it then
cdef class DecodedBatchCache:
    """The batches of one blob, in bounded memory.

    All together may hold what one may take. When one more does not fit, all others put their columns away; whoever is
    touched next decodes its bytes again.
    """

    def __cinit__(self, const uint8_t[::1] data, bint verify_crc, size_t max_decompressed):
        self.data = data
        self.layout = Layout(columns=_PLAIN)
        spec_init(&self.spec)
        self.spec.verify_crc = verify_crc
        self.spec.skip_control = False
        self.spec.max_batches = 1
        self.spec.max_decompressed = max_decompressed
        self.spec.row_bytes = self.layout.layout.row_bytes

    cdef RecordBatch read(self, size_t at, size_t *consumed):
        """The batch at `at`, or None where only part of one is left."""
        cdef RecordBatch batch = RecordBatch.__new__(RecordBatch)
        cdef const char *reason
        cdef int64_t last
        batch.layout = self.layout
        batch.at = at
        batch.size = self.data.shape[0] - at
        self.decode(batch, consumed)
        if consumed[0] == 0:
            return None
        batch_header(&self.data[at], batch.size, &batch.header, &reason)
        batch.size = consumed[0]
        last = batch.columns.next_offset - 1
        batch.header.base_offset = batch.columns.base_offset
        batch.header.last_offset_delta = <int32_t>(last - batch.header.base_offset)
        return batch

    cdef int decode(self, RecordBatch batch, size_t *consumed) except -1:
        """Give `batch` its columns."""
        cdef Columns columns
        cdef DecodeStatus status
        cdef DecodeSpec spec = self.spec
        cdef int answer
        columns_init(&columns)
        try:
            spec.kept = self.kept
            answer = run(&self.data[batch.at], batch.size, &spec, &columns, &status)
            if answer == DECODE_TOO_LARGE and spec.kept > self.objects:
                self.put_away()
                # What is still there is being read, maybe by other threads: no reason for this one to fail.
                spec.kept = self.objects
                answer = run(&self.data[batch.at], batch.size, &spec, &columns, &status)
            if answer == DECODE_TOO_LARGE and self.objects > self.spec.max_decompressed // 2:
                self.too_many(batch.at)
            if answer != DECODE_OK:
                decode_error(&status, batch.at)
            columns_finish(&columns)
            if batch.away and columns.length != batch.rows:
                raise ProtocolError(
                    f"the bytes given to decode_batches were changed: a batch of {batch.rows} records has "
                    f"{columns.length} now. Leave them as they are while its batches are used, or give it bytes",
                    offset=batch.at)
            consumed[0] = status.consumed
            if batch.columns.length == 0:  # another thread may have been as fast
                columns_clear(&batch.columns)
                memcpy(&batch.columns, &columns, sizeof(Columns))
                columns_init(&columns)
                batch.away = False
                batch.settle(&spec)
                if batch.cache is not None:
                    self.keep(batch)
        finally:
            columns_clear(&columns)
        return 0

    cdef object too_many(self, size_t at):
        raise ProtocolError(f"more than {self.objects // OBJECT_BYTES} batches in one call take more memory than "
                            "max_decompressed allows: read them one by one, with iter_batches", offset=at)

    cdef void keep(self, RecordBatch batch) noexcept:
        if batch.rows == 0:
            return
        batch.taken = columns_bytes(&batch.columns)
        self.kept += batch.taken
        batch.previous = NULL
        batch.next = self.first
        if self.first is not NULL:
            (<RecordBatch>self.first).previous = <PyObject *>batch
        self.first = <PyObject *>batch

    cdef void drop(self, RecordBatch batch) noexcept:
        if batch.taken == 0:
            return
        self.kept -= batch.taken
        batch.taken = 0
        if batch.previous is not NULL:
            (<RecordBatch>batch.previous).next = batch.next
        else:
            self.first = batch.next
        if batch.next is not NULL:
            (<RecordBatch>batch.next).previous = batch.previous
        batch.next = batch.previous = NULL

    cdef void put_away(self) noexcept:
        cdef PyObject *place = self.first
        cdef RecordBatch batch
        while place is not NULL:
            batch = <RecordBatch>place
            place = batch.next
            if batch.pins == 0 and batch.rows != 0:
                self.drop(batch)
                columns_clear(&batch.columns)
                batch.away = True


def decode_batches(const uint8_t[::1] data, bint verify_crc, size_t max_decompressed):
    cdef DecodedBatchCache cache = DecodedBatchCache(data, verify_crc, max_decompressed)
    cdef size_t at = 0, size = data.shape[0], consumed = 0
    cdef RecordBatch batch
    cdef list batches = []
    cdef bint spilled = False
    while at < size:
        batch = cache.read(at, &consumed)
        if batch is None:
            break
        batch.cache = cache
        cache.objects += OBJECT_BYTES
        cache.kept += OBJECT_BYTES
        cache.keep(batch)
        batches.append(batch)
        at += consumed
        if cache.objects > max_decompressed + COLUMN_ROOM:
            cache.too_many(at)
    for batch in batches:
        spilled = spilled or batch.away
    if not spilled:  # nobody needs the bytes again
        for batch in batches:
            cache.drop(batch)
            batch.cache = None
    return batches


@cython.final
cdef class BatchIterator:
    """The batches of a blob one by one; each keeps its own columns."""
    cdef DecodedBatchCache cache
    cdef size_t at

    def __init__(self, const uint8_t[::1] data, bint verify_crc, size_t max_decompressed):
        self.cache = DecodedBatchCache(data, verify_crc, max_decompressed)

    def __iter__(self):
        return self

    def __next__(self):
        cdef size_t consumed = 0
        cdef RecordBatch batch = None
        if self.at < <size_t>self.cache.data.shape[0]:
            batch = self.cache.read(self.at, &consumed)
        if batch is None:
            raise StopIteration
        self.at += consumed
        return batch


def decode_chunks(const uint8_t[::1] data, Layout layout, *, topic=None, partition=None, size_t chunk_bytes=4 << 20,
                  start=None, end=None, bint verify_crc=True, bint check_order=False, aborted=None,
                  size_t max_decompressed=256 << 20, timestamps=None):
    """As a fetch does it: `data` as a list of Batch of about `chunk_bytes` each, with the columns of `layout`,
    records in [start, end) and of the `timestamps` [from, to), without control batches, and without the batches of the
    `aborted` [(producer id, first offset)]."""
    cdef const uint8_t *p = &data[0] if data.shape[0] else NULL
    cdef size_t at = 0, size = data.shape[0]
    cdef DecodeSpec spec
    cdef DecodeStatus status
    cdef Columns columns
    cdef list batches = []
    cdef AbortedTransaction *transactions = NULL
    cdef size_t i
    spec_init(&spec)
    spec.columns = layout.layout.columns
    spec.check_order = check_order
    spec.verify_crc = verify_crc
    spec.chunk_bytes = chunk_bytes
    spec.max_decompressed = max_decompressed
    spec.row_bytes = layout.layout.row_bytes
    if start is not None:
        spec.start = start
    if end is not None:
        spec.end = end
    if timestamps is not None:
        spec.by_timestamp = True
        spec.from_ms, spec.to_ms = timestamps
    columns_init(&columns)
    try:
        if aborted is not None:
            transactions = <AbortedTransaction *>calloc(len(aborted) + 1, sizeof(AbortedTransaction))
            if transactions is NULL:
                raise MemoryError
            for i, (producer_id, first_offset) in enumerate(aborted):
                transactions[i].producer_id = producer_id
                transactions[i].first_offset = first_offset
            aborted_sort(transactions, len(aborted))
            spec.aborted = transactions
            spec.aborted_count = len(aborted)
        while at < size:
            if run(p + at, size - at, &spec, &columns, &status) != DECODE_OK:
                decode_error(&status, at)
            if status.consumed == 0:
                break
            at += status.consumed
            columns_finish(&columns)
            batches.append(Batch.take(&columns, layout, topic, partition, &spec))
    finally:
        columns_clear(&columns)
        free(transactions)
    return batches


# --- encode ---------------------------------------------------------------------------------------------------------

cdef int writer_error(ssize_t answer, object what) except -1:
    if answer == WRITER_NO_MEMORY:
        raise MemoryError("no memory for a record batch")
    if answer == WRITER_TOO_LARGE:
        raise RecordTooLargeError(f"{what}: a record batch cannot pass 2 GiB")
    raise ConfigError(f"{what}: its timestamp does not fit in milliseconds, or a header has no key")


cdef int span(object data, str what, const uint8_t **start, int32_t *size) except -1:
    """Where the bytes of `data` are; -1 for None."""
    if data is None:
        start[0] = NULL
        size[0] = -1
    elif isinstance(data, bytes):
        if PyBytes_GET_SIZE(data) > 0x7FFFFFFF:
            raise RecordTooLargeError(f"a {what} of {len(data)} bytes: a record cannot pass 2 GiB")
        start[0] = <const uint8_t *>PyBytes_AS_STRING(data)
        size[0] = <int32_t>PyBytes_GET_SIZE(data)
    else:
        raise ConfigError(f"a record's {what} must be bytes or None, not {type(data).__name__}")
    return 0


cdef object as_bytes(object data):
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data


_RECORD_KEYS = frozenset(("value", "key", "timestamp_ms", "timestamp", "headers", "offset"))


cdef tuple parts_of(object item):
    """(key, value, timestamp or None, headers, offset or -1) of whatever stands for a record."""
    cdef Record record
    if isinstance(item, Record):
        record = item
        return record.key, record.value, record.timestamp, record.pairs, record.offset
    if isinstance(item, dict):
        if not _RECORD_KEYS.issuperset(item):
            unknown = sorted(map(str, set(item) - _RECORD_KEYS))
            raise ConfigError(f"a record has no {unknown}: it has {sorted(_RECORD_KEYS)}")
        offset = item.get("offset")
        return (item.get("key"), item.get("value"), item.get("timestamp_ms", item.get("timestamp")),
                item.get("headers"), -1 if offset is None else offset)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return None, item, None, None, -1
    if isinstance(item, tuple) and 2 <= len(item) <= 4:
        return (item[0], item[1], item[2] if len(item) > 2 else None, item[3] if len(item) > 3 else None, -1)
    raise ConfigError(f"not a record: {item!r}; give a Record, a dict, a tuple (key, value[, timestamp_ms[, headers]]) "
                      "or the value as bytes")


cdef int append_objects(BatchWriter *writer, object records) except -1:
    cdef const uint8_t *key_start
    cdef const uint8_t *value_start
    cdef const uint8_t *headers_start
    cdef int32_t key_size, value_size, delta
    cdef int64_t timestamp, own
    cdef bytes headers
    cdef ssize_t answer
    for number, item in enumerate(records):
        key, value, stamp, pairs, offset = parts_of(item)
        key, value = as_bytes(key), as_bytes(value)
        span(key, "key", &key_start, &key_size)
        span(value, "value", &value_start, &value_size)
        headers = encode_headers(pairs)
        headers_start = headers
        timestamp = -1 if stamp is None else stamp
        # a record keeps its offset where it can, so that the holes of a compacted batch survive
        delta = writer.last_offset_delta + 1
        own = <int64_t>offset - writer.base_offset if offset >= writer.base_offset else -1
        if delta < own <= 0x7FFFFFFF:
            delta = <int32_t>own
        answer = writer_append_at(writer, delta, timestamp, key_start, key_size, value_start, value_size, headers_start,
                                  len(headers))
        if answer < 0:
            writer_error(answer, f"record {number}")
    return 0


cdef int append_arrow(BatchWriter *writer, object source) except -1:
    cdef Rows rows
    cdef int64_t taken, bad = 0
    for chunk in RowsReader(source):
        rows = chunk
        with nogil:
            taken = writer_append_rows(writer, &rows.view, NULL, 0, rows.view.length, <size_t>-1, -1, &bad)
        if taken < 0:
            writer_error(taken, f"row {bad}")
        if taken < rows.view.length:
            raise RecordTooLargeError("a record batch cannot pass 2 GiB")
    return 0


cdef bytes seal(BatchWriter *writer, str compression, object level, int64_t producer_id, int producer_epoch,
                int32_t base_sequence):
    cdef kw_buf *out = NULL
    cdef int codec = codec_id(compression)
    cdef int c_level = CODEC_LEVEL_DEFAULT if level is None else level, answer
    resolve_codec(codec)
    with nogil:
        answer = writer_seal(writer, codec, c_level, &out)
        if answer == 0:
            batch_stamp(out.data, out.size, producer_id, producer_epoch, base_sequence)
    if answer != 0:
        if answer == CODEC_NO_MEMORY - 100:
            raise MemoryError("no memory to compress a record batch")
        if answer == WRITER_TOO_LARGE or answer == WRITER_NO_MEMORY:
            writer_error(answer, "batch")
        raise ConfigError(f"compression {compression!r} failed; is level {level!r} one it has?")
    try:
        return PyBytes_FromStringAndSize(<const char *>out.data, out.size)
    finally:
        kw_buf_unref(out)


def encode_batch(records_or_arrow, str compression, level, int64_t base_offset, int64_t producer_id, int producer_epoch,
                 int32_t base_sequence, bint transactional, bint control, int timestamp_type, max_timestamp_ms):
    cdef BatchWriter writer
    if writer_open(&writer, 4096) != 0:
        raise MemoryError("no memory for a record batch")
    try:
        writer.base_offset = base_offset
        writer.attributes = ((ATTRIBUTE_TRANSACTIONAL if transactional else 0) | (ATTRIBUTE_CONTROL if control else 0)
                             | (ATTRIBUTE_LOG_APPEND if timestamp_type else 0))
        if hasattr(records_or_arrow, "__arrow_c_stream__") or (
                hasattr(records_or_arrow, "__arrow_c_array__") and not isinstance(records_or_arrow, Records)):
            append_arrow(&writer, records_or_arrow)
        else:
            append_objects(&writer, records_or_arrow)
        if max_timestamp_ms is not None:
            writer.max_timestamp = max_timestamp_ms
        return seal(&writer, compression, level, producer_id, producer_epoch, base_sequence)
    finally:
        writer_close(&writer)


seal_types(RecordIterator, Records, Batch, RecordBatch, DecodedBatchCache, BatchIterator)
