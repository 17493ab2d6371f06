# distutils: sources = kafwire/memory/native/buf.c
"""The accumulator: the sending thread encodes each record into its partition's open batch at once.

This module appends single records; `_rows` appends tables. `_queues.pyx` has the rule by which queues change.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from kafwire.records._batch_header cimport BATCH_HEADER
from kafwire.memory._buffer cimport process_generation
from kafwire.producer.buffer._batch cimport Delivery, ProducerBatch
from kafwire.producer.buffer._direct_send cimport DirectSend, PendingSend
from kafwire.producer.buffer._parts cimport cut_batch, place_batch_again
from kafwire.producer.buffer._partitioner cimport (
    SPREAD_RANDOM, SPREAD_STICKY, SPREAD_TURNS, ask, by_key, by_topic, draw, pick, take_turn,
)
from kafwire.producer.buffer._queues cimport (
    CLOSED, DONE, FIRST_RESERVE, GONE, NEEDS_BATCH, NO_MEMORY, NO_ROOM, REFUSED, PartitionQueue, Queues, Topic, stick,
)
from kafwire.producer.buffer._rows cimport RowPlan, add_table, plan_table
from kafwire.producer.buffer._sealing cimport SealWork, seal, seal_batches
from kafwire.records._arrow_rows cimport Rows
from kafwire.records._compress cimport runs_python
from kafwire.records._encode cimport encode_headers, record_bound, writer_append, writer_open
from kafwire.runtime._interfaces cimport wall_ms

import operator

from kafwire.errors import ConfigError, KafkaError, UnknownPartition, no_partition

cdef enum:
    EXPRESS_BYTES = 16384  # a larger batch is compressed without the GIL, by the engine


# A key or a value.
cdef struct _Data:
    const uint8_t *data
    Py_ssize_t size  # -1: null
    Py_buffer view
    bint is_view  # view must be released


# One record, with everything that is known before it has a batch.
cdef struct _Record:
    _Data key
    _Data value
    const uint8_t *headers
    size_t headers_size
    int64_t timestamp
    size_t bound  # upper bound of its encoded size in bytes
    int spread  # how the partition was chosen; -1: by the user or by the key
    bint placed  # the user named its partition
    bint is_beyond  # needs no room, and is accepted until the producer has ended
    bint is_deferred  # `defer` has accepted it: it belongs to the transaction that is being committed


@cython.final
cdef class Accumulator(Queues):
    """Appends records to the partition queues, and seals, splits and moves whole batches."""

    # ---- one record

    def append(self, str topic_name, value, key, headers, timestamp_ms, partition):
        """Encode one record and return its Delivery.

        None if the topic is unknown or there is no room (`Budget.wait`).
        """
        return self.put(topic_name, value, key, headers, timestamp_ms, partition)

    def append_beyond(self, str topic_name, value, key, headers, timestamp_ms, partition, *, bint is_deferred=False):
        """Like `append`, for a record sent by a delivery callback: it needs no room, and may follow `close`.

        A callback that waited for room would wait for itself. Returns None if the topic is unknown. `is_deferred`:
        `defer` has checked the record, and a commit that began since then waits for it.
        """
        return self.put(topic_name, value, key, headers, timestamp_ms, partition, True, is_deferred)

    def defer(self, str topic_name, value, key, headers, timestamp_ms):
        """Check a record whose topic is not known yet; return (the arguments for `append_beyond`, its Delivery).

        The record is charged to the budget. `ProducerBatch.follow` links the Delivery to the batch that takes the
        record later.
        """
        cdef Topic topic = Topic.__new__(Topic)
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef ProducerBatch batch
        cdef _Record record
        if self.ended is not None:
            raise KafkaError(self.budget.closed)
        if self.send_gate is not None:
            raise self.send_gate()
        topic.name = topic_name
        value = value if value is None or isinstance(value, str) else bytes(value)
        key = key if key is None or isinstance(key, str) else bytes(key)
        record.value.is_view = record.key.is_view = False
        read_data(value, "value", &record.value)
        read_data(key, "key", &record.key)
        self.measure(&record, topic, encode_headers(headers) if headers else None, timestamp_ms)
        batch = ProducerBatch.__new__(
            ProducerBatch, self.budget, PartitionQueue.__new__(PartitionQueue, topic_name, -1), self.now_ms()
        )
        batch.count = 1
        delivery.batch = batch
        delivery.timestamp_ms = record.timestamp
        batch.charge(record.bound)
        self.latest = None  # the next record checks whether its topic is in `deferred`
        return (topic_name, value, key, headers, record.timestamp), delivery

    cdef bint in_callback(self) except -1:
        """True if a delivery callback is sending."""
        return self.budget.callbacks is not None and self.budget.callbacks.is_current

    cdef Delivery put(self, str topic_name, value, key, headers, timestamp_ms, partition, bint is_beyond=False,
                      bint is_deferred=False):
        cdef Topic topic = self.latest
        cdef _Record record
        cdef bytes header_bytes = None
        if topic is None or topic.name is not topic_name:
            topic = self.topics.get(topic_name)
            if topic is None:
                if self.budget.closed is not None and not self.in_callback():
                    raise KafkaError(self.budget.closed)
                return None
            if not self.deferred:
                self.latest = topic
            elif not is_beyond and topic_name in self.deferred and self.in_callback():
                return None  # it follows the records of this topic that callbacks sent before
        record.is_beyond = is_beyond
        record.is_deferred = is_deferred
        record.value.is_view = record.key.is_view = False
        try:
            read_data(value, "value", &record.value)
            read_data(key, "key", &record.key)
            if headers:
                header_bytes = encode_headers(headers)
            self.measure(&record, topic, header_bytes, timestamp_ms)
            return self.add(topic, self.place(topic, &record, partition), &record)
        finally:
            give_back(&record.value)
            give_back(&record.key)

    cdef inline int measure(self, _Record *record, Topic topic, bytes header_bytes, timestamp_ms) except -1:
        """Set the record's headers, timestamp and size bound.

        Raise RecordTooLargeError if it exceeds `max_request_size`.
        """
        record.headers = NULL
        record.headers_size = 0
        if header_bytes is not None:
            record.headers = <const uint8_t *> PyBytes_AS_STRING(header_bytes)
            record.headers_size = PyBytes_GET_SIZE(header_bytes)
        if timestamp_ms is None:
            record.timestamp = wall_ms(self.clock)
        else:
            record.timestamp = timestamp_ms if PyLong_CheckExact(timestamp_ms) else whole(timestamp_ms)
            if record.timestamp < 0:
                raise OverflowError("the timestamp is before 1970")
        record.bound = record_bound(max(record.key.size, 0), max(record.value.size, 0), record.headers_size)
        if record.bound + BATCH_HEADER > self.max_request_size:
            raise self.too_large(record.bound, topic.name)
        return 0

    cdef inline int64_t place(self, Topic topic, _Record *record, partition) except -2:
        """Return the record's partition; -1: the sticky partition at the time it is added."""
        cdef int64_t chosen
        record.spread = -1
        record.placed = partition is not None
        if partition is not None:
            chosen = partition if PyLong_CheckExact(partition) else whole(partition)
            if not 0 <= chosen < len(topic.queues):
                raise no_partition(topic.name, len(topic.queues), operator.index(partition))
            return chosen
        chosen = by_key(&self.rule, record.key.data, record.key.size, <int32_t> len(topic.queues))
        if chosen < 0:
            record.spread = self.rule.spread
            if record.spread != SPREAD_STICKY:
                chosen = self.spread(topic, record)
        return chosen

    cdef int32_t spread(self, Topic topic, const _Record *record) except -1:
        """Return the partition of a record that has no key and is not sticky."""
        if self.rule.spread == SPREAD_RANDOM:
            return pick(&topic.weights.table, draw(&topic.sticky_state.rng_state))
        if self.rule.spread == SPREAD_TURNS:
            return take_turn(&topic.sticky_state, &topic.weights.table)
        return ask(
            self.function, topic.name, len(topic.queues), topic.weights, record.key.data, record.key.size, ""
        )

    cdef Delivery add(self, Topic topic, int64_t chosen, _Record *record):
        """Append to the partition's open batch, or to a new one.

        None if there is no room or the topic was recreated.
        """
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef ProducerBatch spare = None
        cdef PendingSend pending_send = None
        cdef DirectSend direct_send
        cdef PyObject *where = NULL
        cdef int status
        while True:
            status = self.take(topic, chosen, record, spare, pending_send, delivery, &where)
            if status == DONE:
                return delivery
            if status == NO_ROOM or status == GONE:
                return None
            if status == CLOSED and not record.is_beyond and self.in_callback():
                return None
            if status != NEEDS_BATCH:
                raise self.problem(status, record.bound)
            direct_send = (<PartitionQueue> where).direct_send
            pending_send = direct_send.pending_send() if direct_send is not None else None
            spare = self.new_batch(record.bound)

    cdef int take(self, Topic topic, int64_t chosen, const _Record *record, ProducerBatch spare,
                  PendingSend pending_send, Delivery delivery, PyObject **where) noexcept:
        """Append one record to its partition's open batch, or to `spare`, which becomes the open batch.

        NEEDS_BATCH: the partition has no open batch; `where` is its queue. NO_ROOM: the engine was notified.
        """
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        cdef ssize_t added
        if self.budget.closed is not None and (not record.is_beyond or self.ended is not None):
            return CLOSED
        if self.budget.process != process_generation():  # a fork in C runs no hook of Python's that would close it
            return CLOSED
        if self.send_gate is not None and not (record.is_deferred and self.is_committing):
            return REFUSED
        if topic.retired:
            return GONE
        if chosen < 0:
            chosen = stick(self, topic, record.bound)
        if chosen >= len(topic.queues):
            return GONE
        queue = <PartitionQueue> topic.queues[chosen]
        batch = queue.open
        if batch is not None and batch.writer.buf.size + record.bound > self.batch_size:
            self.close_batch(batch)
            batch = None
        if self.budget.lacks(record.bound) and not record.is_beyond:
            self.is_short = True
            self.post()
            return NO_ROOM
        if batch is None:
            if spare is None:
                where[0] = <PyObject *> queue
                return NEEDS_BATCH
            batch = spare
        added = writer_append(
            &batch.writer, record.timestamp, record.key.data, <int32_t> record.key.size, record.value.data,
            <int32_t> record.value.size, record.headers, record.headers_size,
        )
        if added < 0:
            return NO_MEMORY
        delivery.batch = batch
        delivery.index = batch.count
        delivery.timestamp_ms = record.timestamp
        batch.count += 1
        batch.placed += record.placed
        if record.spread == SPREAD_STICKY:
            topic.sticky_state.stuck += added
        elif record.spread == SPREAD_TURNS:  # only now: a record that finds no room is tried again
            topic.sticky_state.turn += 1
        if batch is not spare:
            batch.charge(added)
            return DONE
        batch.charge(BATCH_HEADER + added)
        batch.queue = queue
        queue.open = batch
        if pending_send is None or not self.hurry(queue, batch, pending_send):
            self.linger(batch)
        return DONE

    cdef ProducerBatch new_batch(self, size_t bound):
        """Return a batch in no queue, with room for a record."""
        cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch, self.budget, None, self.now_ms())
        if writer_open(&batch.writer, FIRST_RESERVE if bound < FIRST_RESERVE else bound + BATCH_HEADER):
            raise MemoryError("no memory for a batch")
        batch.writer.attributes = self.attributes
        return batch

    cdef bint hurry(self, PartitionQueue queue, ProducerBatch batch, PendingSend pending_send) noexcept:
        """Send a partition's open batch without the engine, if no batch is ahead of it; True if it was sent."""
        cdef DirectSend direct_send = pending_send.direct_send
        cdef SealWork work
        if queue.direct_send is not direct_send or queue.open is not batch:
            return False
        if direct_send.batch is not None or self.budget.waiting:
            return False
        if queue.sealed or queue.fresh or batch.writer.buf.size > EXPRESS_BYTES or runs_python(self.codec):
            return False
        if <int32_t> pending_send.identity[2] != direct_send.sequence:
            return False
        memset(&work, 0, sizeof(work))
        work.writer = &batch.writer
        work.stamp = True
        work.producer_id = direct_send.producer_id
        work.epoch = direct_send.epoch
        work.sequence = direct_send.sequence
        if seal(&work, self.codec, self.level):
            return False
        batch.wire = work.wire
        batch.identity = pending_send.identity
        if direct_send.submit(batch, pending_send):
            batch.closed = True
            queue.open = None
        else:  # the connection is closed: the engine sends the batch
            self.close_batch(batch)
        batch.recharge()  # no sender is waiting for room: `waiting` was checked above
        return True

    # ---- many rows

    def split_rows(self, topic, Rows rows, int64_t first_row):
        """List the arguments for `plan_rows`: (topic, row numbers) each.

        Without `topic`, the rows' topic column decides.
        """
        return by_topic(rows, first_row) if topic is None else [(topic, None)]

    def plan_rows(self, str topic_name, Rows rows, partition, int64_t first_row, transaction_generation=None,
                  bytes chosen=None):
        """Decide where each row goes: a RowPlan for `append_rows`, or None when the topic is unknown.

        `transaction_generation` is the generation in which the first row of the table was sent; default: the current
        one. `chosen`: the numbers of the rows to plan (int32); default: all.
        """
        if transaction_generation is None:
            transaction_generation = self.transaction_generation
        return plan_table(self, topic_name, rows, partition, first_row, transaction_generation, chosen)

    def append_rows(self, RowPlan plan, list parts):
        """Encode rows from the plan's position on while there is room, and append (batch, first, count) to `parts`.

        Returns True if the plan is finished. If not, the budget is used up (see `Budget.wait`), or the topic has become
        unknown.
        """
        return add_table(self, plan, parts)

    # ---- sealed batches

    def prepare(self, list batches):
        """Compress the batches that are not compressed and stamp each with its producer and sequence, without the GIL.
        """
        seal_batches(self, batches)

    def cut(self, ProducerBatch batch, list starts, refused=None):
        """Split a sealed batch into parts; return the parts to send, in order.

        `starts` are the indexes of the first records of all parts, the first of them 0. `refused` maps indexes to the
        errors of records that must not be sent: each of these must be a part of its own. If this raises (`KafkaError`,
        `MemoryError`), nothing has changed.
        """
        return cut_batch(self, batch, starts, refused)

    def place_again(self, ProducerBatch batch):
        """Move a batch of a retired topic to the recreated topic, to the partitions where its records belong now.

        Returns [(queue, batch)]: the batch itself, or parts of it if its records belong to several partitions. The
        caller queues them. A partition that the user named is kept. If this raises, nothing has changed: `KafkaError`
        when that partition does not exist, or when it is not known whether the user named it; `MemoryError`.
        """
        return place_batch_again(self, batch)


@cython.embedsignature(False)
cdef class RecordSender:
    """`send` of the blocking producer. The producer adds the wait for metadata and for room in the buffer.

    A compiled base class, since most of a producer's time is spent in the loop that sends.
    """

    cdef public Accumulator _accumulator

    def send(self, topic, value=None, *, key=None, headers=None, timestamp_ms=None, partition=None):
        """Buffer one record, and return the handle of its delivery.

        The call waits for the metadata of a new topic, and for room in `buffer_memory`: at most `max_block_ms`
        together.

        Args:
            topic: the topic.
            value: bytes-like, None for null, or what the `value_serializer` takes.
            key: bytes-like, None for null, or what the `key_serializer` takes.
            headers: pairs of a str and bytes, str (sent as UTF-8) or None; or a dict.
            timestamp_ms: milliseconds since the epoch; None: now.
            partition: the partition. None leaves it to the `partitioner`: by default Java's murmur2 of the key, and
                records without a key stick to one partition for a batch (KIP-794).

        Returns:
            A `Delivery`.

        Raises:
            ConfigError: an argument is not valid, or the partitioner returned no valid partition.
            BrokerError: the topic does not exist.
            RecordTooLargeError: the record is larger than `max_request_size`.
            SerializationError: a serializer failed.
            KafkaTimeoutError: there was no metadata or no room within `max_block_ms`.

        Example:
            >>> delivery = producer.send(topic, b"EWR-IAH", key=b"UA", headers=[("source", b"radar")])
            >>> delivery.result(timeout=10).offset
            3
        """
        cdef Accumulator accumulator = self._accumulator
        cdef Delivery delivery
        if accumulator is None:
            raise AttributeError("this producer was not initialised")
        try:
            if headers is not None and not isinstance(headers, (list, tuple, dict)):
                headers = list(headers)  # an iterator must not be empty when the record is sent again
            delivery = accumulator.put(<str?> topic, value, key, headers, timestamp_ms, partition)
            if delivery is not None:
                return delivery
            return self._send_later(topic, value, key, headers, timestamp_ms, partition)
        except UnknownPartition:
            pass
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise self._refusal(topic, headers, timestamp_ms, partition, error) from None
        return self._send_later(topic, value, key, headers, timestamp_ms, partition)


cdef object whole(object given):
    """Return an integer, such as numpy's, as an int; raise TypeError for a bool or a value that is no integer."""
    if isinstance(given, bool):
        raise TypeError("a bool is not a number")
    return operator.index(given)


cdef inline int read_data(object given, str what, _Data *out) except -1:
    out.data = NULL
    out.size = -1
    if given is not None:
        if PyBytes_CheckExact(given):
            out.data = <const uint8_t *> PyBytes_AS_STRING(given)
            out.size = PyBytes_GET_SIZE(given)
        else:
            read_view(given, what, out)
    return 0


cdef int read_view(object given, str what, _Data *out) except -1:
    if isinstance(given, str):
        raise ConfigError(f"the {what} is text: encode it first, as in {what}=text.encode()")
    try:
        PyObject_GetBuffer(given, &out.view, PyBUF_SIMPLE)
    except TypeError:
        raise ConfigError(f"the {what} must be bytes-like or None, not {type(given).__name__}") from None
    except BufferError as error:
        raise ConfigError(f"the {what} must be contiguous bytes: {error}; give bytes({what})") from None
    out.is_view = True
    out.data = <const uint8_t *> out.view.buf
    out.size = out.view.len
    return 0


cdef inline void give_back(_Data *data) noexcept:
    if data.is_view:
        PyBuffer_Release(&data.view)
