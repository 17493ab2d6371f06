# distutils: sources = kafwire/memory/native/buf.c
"""Batches decoded from bytes: `RecordBatch` one by one, in bounded memory, or `Batch` as a fetch makes them."""
cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafwire._codec cimport (
    COLUMN_ROOM, DECODE_NEED_CODEC, DECODE_OK, DECODE_TOO_LARGE, AbortedTransaction, DecodeSpec, DecodeStatus,
    aborted_sort, decode_chunk, decode_error, spec_init,
)
from kafwire.records._batch_header cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND, ATTRIBUTE_TRANSACTIONAL, batch_header,
)
from kafwire.records._arrow cimport Layout
from kafwire.records._columns cimport Columns, columns_bytes, columns_clear, columns_finish, columns_init
from kafwire.records._compress cimport resolve_codec
from kafwire.records._records cimport Batch

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import seal_types
from kafwire.records._compress import NAMES


# The columns of a batch decoded from plain bytes: no topic, no partition.
_PLAIN = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")


@cython.final
@cython.no_gc_clear  # it leaves its cache when it is freed
cdef class RecordBatch(Records):
    """One wire batch (magic 2), or one message of magic 0 or 1 with its inner messages: a sequence of `Record`.

    Its fields are those on the wire. `producer_id`, `producer_epoch`, `base_sequence` and `partition_leader_epoch` are
    -1 if there is none; `max_timestamp_ms` is None if the wire has -1. `decode_batches` makes it.

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
        """The offset of the first record."""
        return self.header.base_offset

    @property
    def last_offset(self):
        """The offset of the last record, even if compaction removed it."""
        return self.header.base_offset + self.header.last_offset_delta

    @property
    def magic(self):
        """The format of the batch: 2, or 0 and 1 for messages of old Kafka versions."""
        return self.header.magic

    @property
    def compression(self):
        """The name of the compression codec, one of `kafwire.compression.CODECS`."""
        return NAMES[self.header.attributes & ATTRIBUTE_CODEC]

    @property
    def crc(self):
        """The checksum on the wire: CRC-32C for magic 2, CRC-32 for magic 0 and 1."""
        return self.header.crc

    @property
    def attributes(self):
        """The attribute bits on the wire."""
        return self.header.attributes

    @property
    def producer_id(self):
        """The id of the idempotent producer; -1 if there is none."""
        return self.header.producer_id

    @property
    def producer_epoch(self):
        """The epoch of the producer id; -1 if there is none."""
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        """The sequence number of the first record; -1 if there is none."""
        return self.header.base_sequence

    @property
    def is_transactional(self):
        """True if the batch belongs to a transaction."""
        return self.header.magic == 2 and self.header.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self):
        """True if the batch has a control record, such as a commit marker."""
        return self.header.magic == 2 and self.header.attributes & ATTRIBUTE_CONTROL != 0

    @property
    def timestamp_type(self):
        """0 for create time, 1 for log append time."""
        return 1 if self.header.attributes & ATTRIBUTE_LOG_APPEND else 0

    @property
    def partition_leader_epoch(self):
        """The epoch of the partition leader that wrote the batch; -1 if there is none."""
        return self.header.leader_epoch

    @property
    def base_timestamp_ms(self):
        """The base of the records' timestamps, in milliseconds; None if the wire has -1."""
        return None if self.header.base_timestamp == -1 else self.header.base_timestamp

    @property
    def max_timestamp_ms(self):
        """The latest timestamp of the records, in milliseconds; None if the wire has -1."""
        return None if self.header.max_timestamp == -1 else self.header.max_timestamp

    def __repr__(self):
        return (f"<kafwire RecordBatch of magic {self.magic}: {self.rows} records, "
                f"offsets {self.base_offset} to {self.last_offset}, compression {self.compression}>")


# --- decode ---------------------------------------------------------------------------------------------------------

cdef int run(const uint8_t *data, size_t size, const DecodeSpec *spec, Columns *columns,
             DecodeStatus *status) except -100:
    """Run decode_chunk, and resolve codecs if needed; positions are relative to `data`."""
    cdef int code
    cdef size_t done = 0
    while True:
        with nogil:
            code = decode_chunk(data + done, size - done, spec, columns, status)
        done += status.consumed
        status.error_offset += done - status.consumed
        status.consumed = done
        if code != DECODE_NEED_CODEC:
            return code
        resolve_codec(status.codec)


cdef enum:
    OBJECT_BYTES = 768  # memory of a RecordBatch besides the buffers of its columns


@cython.final
@cython.no_gc_clear  # the batches of a garbage cache are freed later, and then leave it
cdef class DecodedBatchCache:
    """The batches of one blob, in bounded memory.

    All together may take the memory limit of one. When another one does not fit, all others drop their columns; the
    next access to one decodes its bytes again.
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
        """Return the batch at `at`, or None if only part of one is left."""
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
        """Decode the columns of `batch`."""
        cdef Columns columns
        cdef DecodeStatus status
        cdef DecodeSpec spec = self.spec
        cdef int code
        columns_init(&columns)
        try:
            spec.kept = self.kept
            code = run(&self.data[batch.at], batch.size, &spec, &columns, &status)
            if code == DECODE_TOO_LARGE and spec.kept > self.objects:
                self.put_away()
                # The columns still kept are in use, perhaps by other threads: this decode must not fail for them.
                spec.kept = self.objects
                code = run(&self.data[batch.at], batch.size, &spec, &columns, &status)
            if code == DECODE_TOO_LARGE and self.objects > self.spec.max_decompressed // 2:
                self.too_many(batch.at)
            if code != DECODE_OK:
                decode_error(&status, batch.at)
            columns_finish(&columns)
            if batch.away and columns.length != batch.rows:
                raise ProtocolError(
                    f"the bytes given to decode_batches have changed: a batch of {batch.rows} records now has "
                    f"{columns.length}. Do not change them while its batches are in use, or give it bytes",
                    offset=batch.at)
            consumed[0] = status.consumed
            if batch.columns.length == 0:  # unless another thread was faster
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
    if not spilled:  # the bytes are not needed again
        for batch in batches:
            cache.drop(batch)
            batch.cache = None
    return batches


@cython.final
cdef class BatchIterator:
    """Iterates over the batches of a blob; each keeps its own columns."""
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
    """Decode `data` as a fetch does, to a list of Batch of about `chunk_bytes` each, with the columns of `layout`.

    Includes records in [start, end) and of the `timestamps` [from, to), without control batches, and without the
    batches of the `aborted` [(producer id, first offset)].
    """
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


seal_types(RecordBatch, DecodedBatchCache, BatchIterator)
