# distutils: sources = kafwire/memory/native/buf.c
"""The accumulator: records are encoded into their partition's open batch at once, by whichever thread sends them.

Everything here runs under the GIL but the long parts (encoding rows, compressing, stamping), which own what they touch
while they run: a batch that is being filled by `append_rows` is detached from its queue, and a sealed one is changed by
the engine only. What is sent when, and what becomes of errors, is decided in `sender.py` and `sequencer.py`.

Python code may send, wait, raise, and give the GIL away; and it runs in more places than it is called: where an object
is made (a collection of garbage), where a buffer is given back, where others are told of room or of an outcome, and as
a signal handler in all of these. So whatever changes the queues is done in one step that runs none, a `noexcept`
function: all that it needs is made before, and it looks again at what may have changed meanwhile. What it did is told
afterwards, and nothing that is raised then undoes it.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport PyObject
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from kafwire._codec cimport ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER
from kafwire.memory._buffer cimport kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire.producer._batch cimport MIXED, Budget, Delivery, ProducerBatch
from kafwire.producer._direct_send cimport DirectSend, PendingSend
from kafwire.producer._partitioner cimport (
    ELSEWHERE, HASH_NONE, SPREAD_FUNCTION, SPREAD_RANDOM, SPREAD_STICKY, SPREAD_TURNS, PartitionWeights, Rule,
    StickyState, WeightTable, assign, by_key, by_topic, draw, is_over, move_on, pick, read_rule, take_turn,
)
from kafwire.records._arrow_rows cimport Rows, RowsView, bytes_at
from kafwire.records._compress cimport CODEC_LEVEL_DEFAULT, SLACK, decompress, resolve_codec, runs_python
from kafwire.records._encode cimport (
    WRITER_BAD_ROW, WRITER_TOO_LARGE, BatchWriter, batch_base_timestamp, batch_stamp, encode_headers, record_bound,
    record_key, writer_append, writer_append_rows, writer_close, writer_copy, writer_open, writer_seal,
)
from kafwire.records._libraries cimport LZ4_ROOM
from kafwire.runtime._interfaces cimport Clock, Notifier, Waiter, monotonic_ms, wall_ms

import collections
import operator

from kafwire.errors import ConfigError, KafkaError, ProtocolError, RecordTooLargeError, TransactionStateError

cdef enum:
    FIRST_RESERVE = 4096  # a batch starts small: thousands of quiet partitions must not cost a full one each
    EXPRESS_BYTES = 16384  # a larger batch is compressed without the GIL, by the engine
    ROWS_AT_ONCE = 16  # batches encoded by one hold-less pass of append_rows, at the most

    # What a step answers.
    DONE = 0
    NEEDS_BATCH = 1  # give it a new one, and come again
    NO_ROOM = 2
    CLOSED = 3
    REFUSED = 4
    GONE = 5  # the topic was made anew
    NO_MEMORY = 6
    ENDED = 7  # nobody collects any more
    TOO_LARGE = 8
    OTHER_ERA = 9

CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


cdef class Topic


@cython.final
cdef class PartitionQueue:
    """One partition's queue of batches: `fresh`, then `sealed`, then the open one.

    The steps put into deques and take from them: of all that these do, only a want of memory can fail.
    """

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef ProducerBatch open
    cdef readonly object sealed  # deque of ProducerBatch, oldest first; threads that fill one take it out and put it in
    cdef readonly object fresh  # deque of ProducerBatch: those that no thread knows any more, the engine's
    cdef bint is_ready  # in Accumulator.ready
    cdef readonly Topic owner
    cdef public object sequencer
    # None, or by what a thread may send past the engine while nothing is before its record.
    cdef public DirectSend direct_send

    def __cinit__(self, str topic, int32_t partition, Topic owner=None):
        self.topic = topic
        self.partition = partition
        self.owner = owner
        self.sealed = collections.deque()
        self.fresh = collections.deque()

    def advance(self):
        """Make the engine's what is before the first batch that is being filled; answers `fresh`.

        In one step: between two of Python's, a thread may take the last batch out, or put one in.
        """
        self.pass_on()
        return self.fresh

    cdef void pass_on(self) noexcept:
        while self.sealed and not (<ProducerBatch> self.sealed[0]).filling:
            self.fresh.append(self.sealed.popleft())

    @property
    def is_empty(self):
        """Whether no record waits here: what was sent is not counted."""
        return self.open is None and not self.sealed and not self.fresh

    @property
    def name(self):
        """As errors name it."""
        return f"{self.topic}-{self.partition}"


@cython.final
cdef class Topic:
    """A topic's queues, and how records that no key places are spread over them.

    One that is made anew, under the same name, is another Topic.
    """

    cdef readonly str name
    cdef readonly bint retired  # it was replaced: what is here moves over (`Accumulator.place_again`)
    cdef readonly int32_t passes  # threads that add rows to it without the GIL
    cdef readonly list queues
    cdef readonly PartitionWeights weights
    cdef StickyState sticky_state

    @property
    def sticky(self):
        """The partition that records without a key stick to; -1: none yet, or it was taken from them."""
        return self.sticky_state.sticky


# One record, as far as it can be known before its batch.
cdef struct _Record:
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    int32_t key_size  # -1: null
    int32_t value_size
    size_t headers_size
    int64_t timestamp
    size_t bound  # bytes that it takes at the most
    int spread  # how its partition was found, or -1
    bint placed  # the user named its partition


# One batch being filled by append_rows.
cdef struct _Fill:
    BatchWriter writer
    kw_buf *wire  # sealed: it is full
    bint full
    size_t bytes  # added in this pass
    int32_t count  # rows added in this pass
    int32_t first  # the index of the first of them in the batch
    int verdict  # DONE, or why the batch is to fail


# One pass of append_rows: what is encoded without the GIL.
cdef struct _Pass:
    _Fill fills[ROWS_AT_ONCE]
    int32_t n  # of them
    int32_t limit
    int64_t position  # in the plan's rows
    int64_t end
    int64_t bad_row
    int failed
    bint seals


@cython.final
cdef class RowPlan:
    """Which rows go to which partition: groups of row numbers, and how far they are encoded."""

    cdef Topic topic
    cdef Rows rows
    cdef int64_t first_row  # of these rows in the user's table, for errors
    cdef int32_t *index  # row numbers by group; NULL: all rows in order, one group
    cdef int64_t *bounds  # group g is index[bounds[g]:bounds[g + 1]]
    cdef int32_t groups
    cdef int32_t group  # being encoded
    cdef int64_t position  # in index
    cdef int32_t fixed  # the partition of a single group, or -1
    cdef bint sticks  # the single group goes where the topic's rows stick at the moment
    cdef object partition  # that the user named for all rows, or None
    cdef int64_t transaction_generation  # of the accumulator
    cdef PartitionQueue queue  # of the pass that is under way
    cdef ProducerBatch filled  # the open batch that it goes on with, or None

    def __dealloc__(self):
        free(self.index)
        free(self.bounds)

    @property
    def finished(self):
        """Whether every row is in a batch."""
        return self.group >= self.groups

    cdef int placed(self) noexcept:
        """Whether the user named the partitions: 0: no, 1: of all rows, 2: perhaps of some."""
        if self.partition is not None:
            return 1
        if not self.rows.view.partition.form:
            return 0
        return 1 if self.rows.view.partition.validity is NULL else 2


cdef kw_buf *plain_records(ProducerBatch batch, int codec, const uint8_t *records, size_t size) except NULL:
    """The records of a sealed batch, decompressed: into a buffer as large as they were, for which the engine need not
    wait until the budget of decompression has room."""
    cdef kw_buf *out
    cdef const char *reason
    cdef int answer
    resolve_codec(codec)
    out = kw_buf_new(process_pool(), batch.raw_size + 2 * LZ4_ROOM + SLACK)
    if out is NULL:
        raise MemoryError("no memory for the records of a batch")
    with nogil:
        answer = decompress(codec, records, size, &out, batch.raw_size, batch.raw_size, &reason)
    if answer:
        kw_buf_unref(out)
        raise KafkaError(f"a batch could not be read again: decompressing it answered {answer}")
    return out


@cython.final
cdef class Accumulator:
    """All open and sealed batches of a producer, within `buffer_memory` bytes."""

    cdef Notifier notifier
    cdef Clock clock
    cdef readonly dict topics
    cdef Topic latest  # that a record was sent to: the next is likely for the same
    cdef list ready
    cdef object lingering  # deque of batches that were opened, oldest first
    cdef readonly list late  # open batches that lingered long enough, and stay open while others are before them
    cdef readonly Budget budget
    cdef size_t batch_size
    cdef size_t max_request_size
    cdef int64_t linger_ms
    cdef int codec
    cdef int level
    cdef Rule rule
    cdef object function  # the user's partitioner, or None
    cdef uint64_t rng_state
    cdef bint timer_armed
    cdef bint is_short  # somebody found no room since the engine last looked
    cdef str ended  # None, or why nobody collects any more
    cdef public object after_pass  # None, or what a test does between a pass of append_rows and its end
    cdef uint16_t attributes  # of all batches
    cdef public object send_gate  # None, or what makes the error for records that come now
    # Grows when records that came before and after must not be in one transaction.
    cdef public int64_t transaction_generation
    cdef readonly int32_t passes  # threads that add rows without the GIL

    def __cinit__(self, Notifier notifier not None, *, Clock clock not None, Waiter waiter not None, size_t batch_size,
                  size_t max_request_size, int64_t linger_ms, size_t buffer_memory, str compression, level, rule,
                  uint64_t rng_state, bint transactional=False):
        self.notifier = notifier
        self.clock = clock
        self.topics = {}
        self.ready = []
        self.lingering = collections.deque()
        self.late = []
        self.batch_size = batch_size
        self.max_request_size = max_request_size
        self.linger_ms = linger_ms
        self.budget = Budget(buffer_memory, clock, waiter)
        self.codec = CODEC_IDS[compression]
        self.level = CODEC_LEVEL_DEFAULT if level is None else level
        if self.codec:
            resolve_codec(self.codec)
        read_rule(rule, &self.rule)
        self.function = rule.function
        self.rng_state = rng_state
        self.attributes = ATTRIBUTE_TRANSACTIONAL if transactional else 0

    def set_topic(self, str name, int32_t partitions, PartitionWeights weights not None):
        """Make a topic known, or take note of partitions added to it."""
        cdef Topic topic = self.topics.get(name)
        if topic is None:
            self.topics[name] = self.make_topic(name, partitions, weights)
            return
        while len(topic.queues) < partitions:
            topic.queues.append(PartitionQueue(name, len(topic.queues), topic))
        self.set_weights(name, weights)

    def replace_topic(self, str name, int32_t partitions, PartitionWeights weights not None):
        """The topic of a name is another one now: records go to that from here on. Answers the one before.

        What is in that stays there, and so does what threads have begun to add to it: see `place_again`.
        """
        cdef Topic before = self.topics[name]
        cdef Topic topic = self.make_topic(name, partitions, weights)
        self.topics[name] = topic
        before.retired = True
        if self.latest is before:
            self.latest = topic
        return before

    cdef Topic make_topic(self, str name, int32_t partitions, PartitionWeights weights):
        cdef Topic topic = Topic.__new__(Topic)
        topic.name = name
        topic.queues = []
        topic.weights = weights
        topic.sticky_state.sticky = -1
        topic.sticky_state.rng_state = draw(&self.rng_state)
        while len(topic.queues) < partitions:
            topic.queues.append(PartitionQueue(name, len(topic.queues), topic))
        return topic

    def set_weights(self, str name, PartitionWeights weights not None):
        """Draw the partitions of a topic by `weights`. Records that stick to one that has none leave it at once."""
        cdef Topic topic = self.topics[name]
        if max(weights.ids) >= len(topic.queues):
            raise ValueError(f"topic {name!r} has {len(topic.queues)} partitions, and weights for {weights.ids}")
        topic.weights = weights
        if topic.sticky_state.sticky not in weights.ids:
            topic.sticky_state.sticky = -1

    # ---- one record

    def append(self, str topic_name, value, key, headers, timestamp_ms, partition):
        """Encode one record: its Delivery, or None when the topic is unknown, or there is no room (`Budget.wait`)."""
        return self.put(topic_name, value, key, headers, timestamp_ms, partition)

    cdef Delivery put(self, str topic_name, value, key, headers, timestamp_ms, partition):
        cdef Topic topic
        cdef PyObject *where = NULL
        cdef DirectSend direct_send
        cdef ProducerBatch spare = None
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef _Record record
        cdef Py_buffer value_view
        cdef Py_buffer key_view
        cdef Py_ssize_t value_size = -1
        cdef Py_ssize_t key_size = -1
        cdef bint value_held = False
        cdef bint key_held = False
        cdef bytes header_bytes
        cdef int64_t chosen
        cdef int status
        cdef PendingSend pending_send = None
        topic = self.latest
        if topic is None or topic.name is not topic_name:
            topic = self.topics.get(topic_name)
            if topic is None:
                if self.budget.closed is not None:
                    raise KafkaError(self.budget.closed)
                return None
            self.latest = topic
        record.value = record.key = record.headers = NULL
        record.headers_size = 0
        record.spread = -1
        record.placed = partition is not None
        try:
            if value is not None:
                if PyBytes_CheckExact(value):
                    record.value = <const uint8_t *> PyBytes_AS_STRING(value)
                    value_size = PyBytes_GET_SIZE(value)
                else:
                    _get_view(value, "value", &value_view)
                    value_held = True
                    record.value = <const uint8_t *> value_view.buf
                    value_size = value_view.len
            if key is not None:
                if PyBytes_CheckExact(key):
                    record.key = <const uint8_t *> PyBytes_AS_STRING(key)
                    key_size = PyBytes_GET_SIZE(key)
                else:
                    _get_view(key, "key", &key_view)
                    key_held = True
                    record.key = <const uint8_t *> key_view.buf
                    key_size = key_view.len
            if headers:
                header_bytes = encode_headers(headers)
                record.headers = <const uint8_t *> PyBytes_AS_STRING(header_bytes)
                record.headers_size = PyBytes_GET_SIZE(header_bytes)
            record.timestamp = wall_ms(self.clock) if timestamp_ms is None else timestamp_ms
            record.bound = record_bound(max(key_size, 0), max(value_size, 0), record.headers_size)
            if record.bound + BATCH_HEADER > self.max_request_size:
                raise _too_large(record.bound, topic_name, self.max_request_size)
            record.key_size = <int32_t> key_size
            record.value_size = <int32_t> value_size
            if partition is not None:
                chosen = partition if PyLong_CheckExact(partition) else operator.index(partition)
                if not 0 <= chosen < len(topic.queues):
                    raise ConfigError(
                        f"topic {topic_name!r} has partitions 0 to {len(topic.queues) - 1}, not {partition!r}"
                    )
            else:
                chosen = by_key(&self.rule, record.key, key_size, <int32_t> len(topic.queues))
                if chosen < 0:
                    record.spread = self.rule.spread
                    if record.spread != SPREAD_STICKY:
                        chosen = self.spread(topic, record.key, key_size)
            while True:
                status = self.take(topic, chosen, &record, spare, pending_send, delivery, &where)
                if status == DONE:
                    break
                if status == NO_ROOM or status == GONE:
                    return None
                if status != NEEDS_BATCH:
                    raise self.problem(status, record.bound)
                direct_send = (<PartitionQueue> where).direct_send
                pending_send = direct_send.pending_send() if direct_send is not None else None
                spare = self.new_batch(record.bound)
        finally:
            if value_held:
                PyBuffer_Release(&value_view)
            if key_held:
                PyBuffer_Release(&key_view)
        return delivery

    cdef int take(self, Topic topic, int64_t chosen, _Record *record, ProducerBatch spare, PendingSend pending_send,
                  Delivery delivery, PyObject **where) noexcept:
        """The step that takes one record: into its partition's open batch, or into `spare`, which is open then.

        NEEDS_BATCH: there is none, `where` says for which queue. NO_ROOM: the engine was told.
        """
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        cdef ssize_t added
        if self.budget.closed is not None:
            return CLOSED
        if self.send_gate is not None:
            return REFUSED
        if topic.retired:
            return GONE
        if chosen < 0:
            chosen = self.stick(topic, record.bound)
        if chosen >= len(topic.queues):
            return GONE
        queue = <PartitionQueue> topic.queues[chosen]
        batch = queue.open
        if batch is not None and batch.writer.buf.size + record.bound > self.batch_size:
            self.close_batch(batch)
            batch = None
        if self.budget.lacks(record.bound):
            self.is_short = True
            self.post()
            return NO_ROOM
        if batch is None:
            if spare is None:
                where[0] = <PyObject *> queue
                return NEEDS_BATCH
            batch = spare
        added = writer_append(
            &batch.writer, record.timestamp, record.key, record.key_size, record.value, record.value_size,
            record.headers, record.headers_size,
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
        elif record.spread == SPREAD_TURNS:  # only now: a record that finds no room comes again
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

    cdef object problem(self, int status, size_t size):
        """The error for what a step answered."""
        if status == CLOSED:
            return KafkaError(self.budget.closed)
        if status == REFUSED:
            return self.send_gate()
        if status == OTHER_ERA:
            return TransactionStateError(
                "the transaction ended while rows were added to it: rows that were not added are not sent"
            )
        return MemoryError(f"no memory for a record of {size} bytes")

    cdef int32_t stick(self, Topic topic, size_t bound) noexcept:
        """Where `bound` bytes go that stick to a partition: to another one after `batch_size` bytes (KIP-794).

        But not while the open batch has room, or it would leave half full; until twice as much is there.
        """
        cdef StickyState *sticky_state = &topic.sticky_state
        cdef ProducerBatch batch
        if not is_over(sticky_state, bound, self.batch_size):
            return sticky_state.sticky
        if sticky_state.sticky >= 0:
            batch = (<PartitionQueue> topic.queues[sticky_state.sticky]).open
            if batch is not None:
                if batch.writer.buf.size + bound > self.batch_size:
                    self.close_batch(batch)
                elif sticky_state.stuck < 2 * self.batch_size:
                    return sticky_state.sticky
        move_on(sticky_state, &topic.weights.table)
        return sticky_state.sticky

    cdef int32_t spread(self, Topic topic, const uint8_t *key, Py_ssize_t key_size) except -1:
        """The partition of a record that is neither placed by its key nor sticks."""
        if self.rule.spread == SPREAD_RANDOM:
            return pick(&topic.weights.table, draw(&topic.sticky_state.rng_state))
        if self.rule.spread == SPREAD_TURNS:
            return take_turn(&topic.sticky_state, &topic.weights.table)
        return self.ask(topic, key, key_size, "")

    cdef int32_t ask(self, Topic topic, const uint8_t *key_data, Py_ssize_t key_size, str where) except -1:
        """The partition that the user's function answers. It may do anything, sending included."""
        key = PyBytes_FromStringAndSize(<const char *> key_data, key_size) if key_size >= 0 else None
        partitions = len(topic.queues)
        problem = None
        try:
            answer = self.function(topic.name, key, partitions, topic.weights.ids)
        except Exception as error:
            problem = error
            said = f"raised {type(error).__name__}: {error}"
        else:
            try:
                chosen = -1 if isinstance(answer, bool) else operator.index(answer)
            except TypeError:
                chosen = -1
            if 0 <= chosen < partitions:
                return chosen
            said = f"answered {answer!r}"
        raise ConfigError(
            f"{where}the partitioner {getattr(self.function, '__qualname__', self.function)} {said}; a partition of "
            f"topic {topic.name!r} is needed, 0 to {partitions - 1}, for key {_shown(key)}; what it was asked for was "
            "not sent"
        ) from problem

    cdef ProducerBatch new_batch(self, size_t bound):
        """One that no queue knows, with room for a record."""
        cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch, self.budget, None, self.now_ms())
        if writer_open(&batch.writer, FIRST_RESERVE if bound < FIRST_RESERVE else bound + BATCH_HEADER):
            raise MemoryError("no memory for a batch")
        batch.writer.attributes = self.attributes
        return batch

    cdef void linger(self, ProducerBatch batch) noexcept:
        """The engine is to look when it is due."""
        self.lingering.append(batch)
        if not self.timer_armed:
            self.timer_armed = True
            self.post()

    cdef bint hurry(self, PartitionQueue queue, ProducerBatch batch, PendingSend pending_send) noexcept:
        """Send the open batch of a partition past the engine, if nothing is before it; whether it is on its way."""
        cdef DirectSend direct_send = pending_send.direct_send
        cdef _Work work
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
        if _prepare(&work, self.codec, self.level):
            return False
        batch.wire = work.wire
        batch.identity = pending_send.identity
        if direct_send.submit(batch, pending_send):
            batch.closed = True
            queue.open = None
        else:  # the connection is gone: the engine takes it from here
            self.close_batch(batch)
        batch.recharge()  # nobody waits for room, or it would not go this way
        return True

    cdef void close_batch(self, ProducerBatch batch, bint queued=False, bint tell=True) noexcept:
        """The batch takes no more records and waits to be sent; `queued`: it has its place already.

        The engine is not told (`tell`) when it closes one itself: another turn would cost as much as the batch.
        """
        cdef PartitionQueue queue = <PartitionQueue> batch.queue
        cdef ProducerBatch older = queue.open
        batch.closed = True
        if older is not None and older is not batch and not queued:
            # What the same thread sent before may be in it: another thread had taken it, and has put it back.
            older.closed = True
            queue.sealed.append(older)
        if not queued:
            queue.sealed.append(batch)
        if older is batch or not queued:
            queue.open = None
        self.make_ready(queue)
        if tell:
            self.post()

    cdef void make_ready(self, PartitionQueue queue) noexcept:
        if not queue.is_ready:
            queue.is_ready = True
            self.ready.append(queue)

    cdef int64_t now_ms(self) noexcept:
        return <int64_t> monotonic_ms(self.clock)

    cdef void post(self) noexcept:
        self.notifier.notifier.notify(&self.notifier.notifier)

    # ---- many rows

    def split_rows(self, topic, Rows rows, int64_t first_row):
        """What `plan_rows` is to be asked for: [(topic, row numbers)]; without a `topic` the rows' column says it."""
        return by_topic(rows, first_row) if topic is None else [(topic, None)]

    def plan_rows(self, str topic_name, Rows rows, partition, int64_t first_row, transaction_generation=None,
                  bytes chosen=None):
        """Decide where each row goes: a RowPlan for `append_rows`, or None when the topic is unknown.

        `transaction_generation` is the one in which the first row of the table came; by default the current one.
        `chosen`: the numbers of the rows it is about (int32), all by default.
        """
        cdef Topic topic = self.topics.get(topic_name)
        cdef RowPlan plan = RowPlan.__new__(RowPlan)
        cdef int32_t *numbers = NULL if chosen is None else <int32_t *> PyBytes_AS_STRING(chosen)
        cdef int64_t n = rows.view.length if chosen is None else len(chosen) // <int64_t> sizeof(int32_t)
        cdef int64_t i, bad
        cdef int32_t g, partitions
        cdef int32_t *assigned
        cdef bint is_single
        cdef bint keyed = self.rule.hash != HASH_NONE and rows.view.key.form
        cdef PartitionWeights weights
        cdef StickyState sticky_state
        if topic is None:
            return None
        partitions = len(topic.queues)
        if partition is not None and not 0 <= partition < partitions:
            raise ConfigError(f"topic {topic_name!r} has partitions 0 to {partitions - 1}, not {partition!r}")
        if rows.view.length > INT32_MAX:
            raise ConfigError(f"a chunk of {rows.view.length} rows: send at most {INT32_MAX} rows at once")
        plan.topic = topic
        plan.partition = partition
        plan.rows = rows
        plan.first_row = first_row
        plan.fixed = -1 if partition is None else partition
        if transaction_generation is None:
            transaction_generation = self.transaction_generation
        plan.transaction_generation = transaction_generation
        plan.groups = 1
        plan.bounds = <int64_t *> calloc(partitions + 2, sizeof(int64_t))
        if plan.bounds is NULL:
            raise MemoryError
        plan.bounds[1] = n
        if n == 0:
            plan.group = 1
            return plan
        if partition is None and not keyed and not rows.view.partition.form:
            plan.fixed = by_key(&self.rule, NULL, -1, partitions)
            plan.sticks = plan.fixed < 0 and self.rule.spread == SPREAD_STICKY
        is_single = plan.fixed >= 0 or plan.sticks
        if is_single and numbers is NULL:
            return plan
        plan.index = <int32_t *> malloc((1 if is_single else 2) * n * sizeof(int32_t))
        if plan.index is NULL:
            raise MemoryError
        if is_single:
            memcpy(plan.index, numbers, n * sizeof(int32_t))
            return plan
        plan.groups = partitions
        assigned = plan.index + n
        weights = topic.weights
        sticky_state = topic.sticky_state
        with nogil:
            bad = assign(
                &rows.view, numbers, n, &self.rule, &weights.table, partitions, self.batch_size, &sticky_state, assigned
            )
        if bad >= 0:
            raise ConfigError(
                f"row {first_row + bad}: its partition does not exist; topic {topic_name!r} has 0 to {partitions - 1}"
            )
        if self.rule.spread == SPREAD_FUNCTION:
            self.ask_for_rows(topic, rows, first_row, numbers, n, assigned)
        if topic.weights is weights:  # or else the sticky state leads by weights that are no more
            topic.sticky_state = sticky_state
        with nogil:  # a counting sort, stable
            plan.bounds[1] = 0
            for i in range(n):
                plan.bounds[assigned[i] + 2] += 1
            for g in range(2, partitions + 1):
                plan.bounds[g] += plan.bounds[g - 1]
            for i in range(n):
                plan.index[plan.bounds[assigned[i] + 1]] = <int32_t> i if numbers is NULL else numbers[i]
                plan.bounds[assigned[i] + 1] += 1
        return plan

    cdef int ask_for_rows(self, Topic topic, Rows rows, int64_t first_row, const int32_t *chosen, int64_t count,
                          int32_t *assigned) except -1:
        """Have the user's function place all rows that are left to it."""
        cdef const uint8_t *data
        cdef int64_t i, j, size
        for j in range(count):
            if assigned[j] == ELSEWHERE:
                i = j if chosen is NULL else chosen[j]
                bytes_at(&rows.view.key, i, &data, &size)
                assigned[j] = self.ask(topic, data, size, f"row {first_row + i}: ")
        return 0

    def append_rows(self, RowPlan plan, list parts):
        """Encode on from where `plan` stands, as far as there is room, and append (batch, first, count) to `parts`.

        Answers whether the plan is finished; if not, the budget is used up (see `Budget.wait`), or the topic is unknown
        by now.
        """
        cdef Topic topic = plan.topic
        cdef bint finished = False
        self.passes += 1
        try:
            while True:
                if plan.topic.retired and not self.plan_again(plan):
                    return False
                topic = plan.topic
                topic.passes += 1
                try:
                    finished = self.add_rows(plan, parts)
                finally:
                    topic.passes -= 1
                if finished or not topic.retired:
                    return finished
        finally:
            self.passes -= 1
            # Whoever ends the transaction, or moves over, waits for this.
            if self.send_gate is not None or topic.retired:
                self.post()

    cdef bint plan_again(self, RowPlan plan) except -1:
        """The topic was made anew while rows were added to it: those that are left go to where they belong now.

        False: it is unknown by now.
        """
        cdef int64_t end = plan.bounds[plan.groups]
        cdef int64_t left = end - plan.position if plan.group < plan.groups else 0
        cdef bytes numbers = PyBytes_FromStringAndSize(NULL, left * <int64_t> sizeof(int32_t))
        cdef int32_t *out = <int32_t *> PyBytes_AS_STRING(numbers)
        cdef int64_t i
        cdef RowPlan again
        for i in range(left):
            out[i] = <int32_t> (plan.position + i) if plan.index is NULL else plan.index[plan.position + i]
        again = self.plan_rows(
            plan.topic.name, plan.rows, plan.partition, plan.first_row, plan.transaction_generation, numbers
        )
        if again is None:
            return False
        plan.index, again.index = again.index, plan.index
        plan.bounds, again.bounds = again.bounds, plan.bounds
        plan.topic = again.topic
        plan.groups = again.groups
        plan.group = again.group
        plan.position = 0
        plan.fixed = again.fixed
        plan.sticks = again.sticks
        return True

    cdef bint add_rows(self, RowPlan plan, list parts) except -1:
        cdef _Pass work
        cdef ProducerBatch batch
        cdef RowsView *view = &plan.rows.view
        cdef int64_t timestamp = wall_ms(self.clock)
        cdef size_t batch_size = self.batch_size
        cdef uint16_t attributes = self.attributes
        cdef int codec = self.codec
        cdef int level = self.level
        cdef int32_t *index = plan.index
        cdef list spares
        cdef Py_ssize_t needed
        cdef int status
        while True:
            while plan.group < plan.groups and plan.position >= plan.bounds[plan.group + 1]:
                plan.group += 1
            if plan.group == plan.groups:
                return True
            status = self.begin_pass(plan, &work)
            if status == NO_ROOM or status == GONE:
                return False
            if status != DONE:
                raise self.problem(status, 0)
            spares = None
            try:
                with nogil:
                    encode_rows(&work, view, index, batch_size, timestamp, attributes, codec, level)
                needed = work.n - (plan.filled is not None)
                spares = []
                while len(spares) < needed:
                    batch = ProducerBatch.__new__(ProducerBatch, self.budget, None, self.now_ms())
                    spares.append(batch)
                if self.after_pass is not None:
                    self.after_pass()
            finally:
                self.end_pass(plan, &work, spares)
                self.tell_of_pass(plan, &work, spares, parts)
            if work.failed:
                self._rows_failed(work.failed, plan, work.bad_row)

    cdef int begin_pass(self, RowPlan plan, _Pass *work) noexcept:
        """The step before rows are encoded: find their queue, and take its open batch out.

        Nobody else may fill that while the GIL is away. It takes its place in the queue for that time: what others send
        meanwhile comes after what they sent before, and a flush knows of it.
        """
        cdef Topic topic = plan.topic
        cdef int64_t number
        cdef ProducerBatch batch
        if topic.retired:
            return GONE
        if self.budget.closed is not None:
            return CLOSED
        if self.send_gate is not None:
            return REFUSED
        if plan.transaction_generation != self.transaction_generation:
            return OTHER_ERA
        if self.budget.lacks(self.batch_size):
            self.is_short = True
            self.post()
            return NO_ROOM
        if plan.sticks:
            number = self.stick(topic, 1)
        else:
            number = plan.group if plan.fixed < 0 else plan.fixed
        memset(work, 0, sizeof(_Pass))
        work.limit = <int32_t> min(
            max((self.budget.limit - min(self.budget.used, self.budget.limit)) // self.batch_size, <size_t> 1),
            <size_t> ROWS_AT_ONCE,
        )
        work.position = plan.position
        work.end = plan.bounds[plan.group + 1]
        work.bad_row = -1
        # A codec that calls Python is the engine's to call, in `prepare`: no signal comes there.
        work.seals = not runs_python(self.codec)
        plan.queue = <PartitionQueue> topic.queues[number]
        batch = plan.filled = plan.queue.open
        if batch is not None:
            plan.queue.open = None
            plan.queue.sealed.append(batch)
            batch.filling = True
            work.fills[0].writer = batch.writer
            memset(&batch.writer, 0, sizeof(BatchWriter))
        return DONE

    cdef void end_pass(self, RowPlan plan, _Pass *work, list spares) noexcept:
        """The step behind it: all that was encoded is put into its place.

        As far as there are batches for it: should one not have been made, its rows and those behind it are not sent.
        """
        cdef Topic topic = plan.topic
        cdef PartitionQueue queue = plan.queue
        cdef ProducerBatch batch
        cdef bint goes_on = plan.filled is not None
        cdef int32_t has = (0 if spares is None else <int32_t> len(spares)) + goes_on
        cdef int32_t k
        cdef _Fill *fill
        for k in range(work.n if work.n else goes_on):
            fill = &work.fills[k]
            if k >= has:
                writer_close(&fill.writer)
                kw_buf_unref(fill.wire)
                continue
            if k == 0 and goes_on:
                batch = plan.filled
            else:
                if k and plan.sticks:
                    move_on(&topic.sticky_state, &topic.weights.table)
                    queue = <PartitionQueue> topic.queues[topic.sticky_state.sticky]
                batch = <ProducerBatch> spares[k - goes_on]
                batch.queue = queue
            if plan.sticks:
                topic.sticky_state.stuck += fill.bytes
                if fill.full:  # a full batch is enough, whoever else has filled it
                    topic.sticky_state.stuck = max(topic.sticky_state.stuck, self.batch_size)
            plan.position += fill.count
            self.adopt(batch, queue, fill, plan.placed())
        work.n = min(work.n, has)

    cdef void adopt(self, ProducerBatch batch, PartitionQueue queue, _Fill *fill, int placed) noexcept:
        """A batch comes back from a pass: sealed, or open again; `verdict` says whether it is to fail.

        `placed`: see `RowPlan.placed`.
        """
        cdef bint queued = batch.filling
        batch.filling = False
        fill.first = batch.count
        if batch.done or self.ended is not None:  # its producer was closed meanwhile
            writer_close(&fill.writer)
            kw_buf_unref(fill.wire)
            fill.verdict = ENDED
            return
        batch.writer = fill.writer
        batch.wire = fill.wire
        batch.count += fill.count
        if placed:
            batch.placed = batch.placed + fill.count if placed == 1 else MIXED
        batch.charge(fill.bytes)
        if batch.count == 1 and fill.bytes + BATCH_HEADER > max(self.max_request_size, self.batch_size):
            batch.closed = True
            fill.verdict = TOO_LARGE
        elif fill.full:
            batch.recharge()
            self.close_batch(batch, queued)
        elif batch.count == 0:
            pass  # its first row was bad
        elif queued and (queue.open is not None or batch.closed or queue.sealed[len(queue.sealed) - 1] is not batch):
            self.close_batch(batch, queued)
        elif queued:
            queue.sealed.pop()
            queue.open = batch
        else:
            if queue.open is not None:
                self.close_batch(queue.open)
            queue.open = batch
            self.linger(batch)

    cdef int tell_of_pass(self, RowPlan plan, _Pass *work, list spares, list parts) except -1:
        """What `end_pass` did, for those whom it concerns: all of them, whatever one raises."""
        cdef ProducerBatch batch
        cdef bint goes_on = plan.filled is not None
        cdef _Fill *fill
        cdef int32_t k
        problem = None
        for k in range(work.n if work.n else goes_on):
            fill = &work.fills[k]
            if fill.verdict == DONE:
                continue
            batch = plan.filled if k == 0 and goes_on else <ProducerBatch> spares[k - goes_on]
            try:
                if fill.verdict == TOO_LARGE:
                    batch.fail(_too_large(fill.bytes, plan.topic.name, self.max_request_size))
                elif not batch.done:
                    batch.fail(KafkaError(self.ended))
            except BaseException as error:
                problem = error if problem is None else problem
        try:
            self.budget.settle_up()
        except BaseException as error:
            problem = error if problem is None else problem
        for k in range(work.n):
            fill = &work.fills[k]
            batch = plan.filled if k == 0 and goes_on else <ProducerBatch> spares[k - goes_on]
            if fill.count:
                parts.append((batch, fill.first, fill.count))
        plan.filled = None
        if problem is not None:
            raise problem
        return 0

    cdef _rows_failed(self, int failed, RowPlan plan, int64_t bad_row):
        if failed == WRITER_BAD_ROW:
            raise ProtocolError(
                f"row {plan.first_row + bad_row}: a timestamp out of range, or a header without a key; it is not sent, "
                "nor what comes after it in its partition"
            )
        if failed == WRITER_TOO_LARGE:
            raise RecordTooLargeError(
                f"row {plan.first_row + bad_row} is larger than 2 GiB; it is not sent, nor what comes after it in its "
                "partition"
            )
        raise MemoryError(f"rows could not be encoded (code {failed})")

    # ---- the engine's side

    def collect(self, *, bint everything=False):
        """Close batches that lingered long enough (or all), and return the queues with something to send, each once.

        Also answers when to look again: milliseconds until the oldest open batch is due, or None. While somebody waits
        for room, batches are closed before they are due. A batch that cannot go yet, as others are before it, stays
        open: or what comes while a partition stands still would be many small ones, and a request takes one at a time.
        """
        cdef ProducerBatch batch
        cdef int64_t now = self.now_ms()
        cdef int64_t due
        wait = None
        if self.is_short or self.budget.waiting:
            self.make_way()
        if self.late:
            self.late = [batch for batch in self.late if not self.close_late(batch, everything)]
        while self.lingering:
            batch = <ProducerBatch> self.lingering[0]
            if not batch.closed:
                due = batch.created_ms + self.linger_ms
                if due > now and not everything:
                    wait = due - now
                    break
                if not self.close_late(batch, everything):
                    self.late.append(batch)
            self.lingering.popleft()
        self.timer_armed = wait is not None
        cdef list fresh = []
        cdef list ready = self.ready
        self.take_ready(fresh)
        return ready, wait

    cdef void take_ready(self, list fresh) noexcept:
        cdef PartitionQueue queue
        for queue in self.ready:
            queue.is_ready = False
        self.ready = fresh

    cdef bint close_late(self, ProducerBatch batch, bint everything) noexcept:
        """Whether a batch that has lingered is closed now, or will be by the thread that fills it."""
        cdef PartitionQueue queue = <PartitionQueue> batch.queue
        if queue.open is batch:
            if not everything and (queue.fresh or queue.sealed):
                return False
            self.close_batch(batch, False, False)
        elif batch.filling and not batch.closed:
            batch.closed = True
            self.make_ready(queue)
        return True

    cdef int make_way(self) except -1:
        """Close open batches, the oldest first, until half of the memory is on its way: room comes by sending.

        Not all: with much on its way room will come, and batches that have just begun would go out small.
        """
        cdef ProducerBatch batch
        cdef size_t held = 0
        self.is_short = False
        cdef list opened = [*self.late, *self.lingering]
        for batch in opened:
            if (<PartitionQueue> batch.queue).open is batch:
                held += batch.charged
        for batch in opened:
            if self.budget.used - held >= self.budget.limit // 2:
                break
            if (<PartitionQueue> batch.queue).open is batch:
                held -= batch.charged
                self.close_batch(batch)
        return 0

    def end(self, str reason):
        """Nobody collects any more: batches that threads are still filling fail with `reason` when they come back."""
        self.ended = reason

    def cut(self, ProducerBatch batch, list starts, refused=None):
        """Have the records of a sealed batch go on in parts: answers those that are to be sent, in order.

        `starts` are the indexes of the first records of all parts, 0 the first. `refused` has, by index, the errors of
        records that are no more to be sent: each of these has to be a part of its own. Nothing has changed if this
        raises (`KafkaError`, `MemoryError`).
        """
        cdef ProducerBatch part
        cdef kw_buf *raw = NULL
        cdef const uint8_t *records
        cdef size_t size, at = 0
        cdef int32_t count
        cdef int64_t base
        cdef int codec, answer
        cdef list parts = []
        cdef list ends = starts[1:] + [batch.count]
        if batch.wire is NULL:
            raise ValueError("only a sealed batch is cut")
        codec = batch.wire.data[22] & 7
        base = batch_base_timestamp(batch.wire.data)
        records = batch.wire.data + BATCH_HEADER
        size = batch.wire.size - BATCH_HEADER
        try:
            if codec:
                raw = plain_records(batch, codec, records, size)
                records = raw.data
                size = raw.size
            for start, end in zip(starts, ends, strict=True):
                count = <int32_t> (end - start)
                if refused is not None and start in refused:
                    part = ProducerBatch.__new__(ProducerBatch, self.budget, batch.queue, batch.created_ms)
                    answer = writer_copy(NULL, records, size, &at, count, base)
                else:
                    part = ProducerBatch.__new__(ProducerBatch, self.budget, batch.queue, batch.created_ms)
                    if writer_open(&part.writer, FIRST_RESERVE):
                        raise MemoryError("no memory for a part of a batch")
                    part.writer.attributes = batch.wire.data[22] & ~7
                    with nogil:
                        answer = writer_copy(&part.writer, records, size, &at, count, base)
                if answer:
                    raise KafkaError(f"a batch could not be cut: copying its records answered {answer}")
                part.count = count
                part.placed = 0 if batch.placed == 0 else count if batch.placed == batch.count else MIXED
                part.closed = True
                parts.append((start, part))
        finally:
            kw_buf_unref(raw)
        for _, part in parts:
            if part.writer.buf is not NULL:
                part.charge(part.writer.buf.size)
        batch.divide(parts)
        if refused is not None:
            for start, part in parts:
                if start in refused:
                    part.fail(refused[start])  # on the engine, where it raises nothing
        return [part for start, part in parts if refused is None or start not in refused]

    def empty(self, PartitionQueue queue not None):
        """Take out all that was not sent, in order. Nobody may be filling a batch of it."""
        if queue.open is not None:
            self.close_batch(queue.open, False, False)
        found = list(queue.advance())
        queue.fresh.clear()
        return found

    def place_again(self, ProducerBatch batch):
        """Have a batch of a retired topic go on in the one that replaced it, where its records belong now.

        Answers [(queue, batch)]: the batch itself, or parts of it if its records belong to several partitions. The
        caller queues them. A partition that the user named is kept. Nothing has changed if this raises: `KafkaError`
        when that partition does not exist, or when it is not known who chose it; `MemoryError`.
        """
        cdef PartitionQueue queue = <PartitionQueue> batch.queue
        cdef Topic topic = self.topics[queue.topic]
        cdef int32_t partitions = <int32_t> len(topic.queues)
        cdef int32_t before = <int32_t> len(queue.owner.queues)
        cdef kw_buf *raw = NULL
        cdef const uint8_t *records
        cdef size_t size
        cdef int64_t base
        cdef int codec = 0
        cdef uint16_t attributes
        made_anew = f"topic {queue.topic!r} was made anew, with {partitions} partitions instead of {before}: "
        if queue.partition < partitions and (before == partitions or batch.placed == batch.count):
            batch.queue = topic.queues[queue.partition]
            return [(batch.queue, batch)]
        if batch.placed == batch.count:
            raise KafkaError(
                f"{made_anew}{batch.count} record(s) to partition {queue.partition}, which there is no more, are not "
                "in the log"
            )
        if batch.placed or self.rule.spread == SPREAD_FUNCTION:
            raise KafkaError(
                f"{made_anew}{batch.count} record(s) whose partitions were not all chosen by kafwire, or by a function "
                "of the user's, are not in the log: send them again"
            )
        if batch.wire is NULL:
            records = batch.writer.buf.data + BATCH_HEADER
            size = batch.writer.buf.size - BATCH_HEADER
            base = batch.writer.base_timestamp
            attributes = batch.writer.attributes
        else:
            codec = batch.wire.data[22] & 7
            records = batch.wire.data + BATCH_HEADER
            size = batch.wire.size - BATCH_HEADER
            base = batch_base_timestamp(batch.wire.data)
            attributes = batch.wire.data[22] & ~7
        try:
            if codec:
                raw = plain_records(batch, codec, records, size)
                records = raw.data
                size = raw.size
            return self.scatter(batch, topic, records, size, base, attributes)
        finally:
            kw_buf_unref(raw)

    cdef list scatter(self, ProducerBatch batch, Topic topic, const uint8_t *records, size_t size, int64_t base,
                      uint16_t attributes):
        """Where the records of a batch belong by their keys, and by what is left to the rule otherwise."""
        cdef int32_t partitions = <int32_t> len(topic.queues)
        cdef int32_t count = batch.count
        cdef bytes chosen = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t> sizeof(int32_t))
        cdef bytes places = PyBytes_FromStringAndSize(NULL, 2 * count * <Py_ssize_t> sizeof(int32_t))
        cdef bytes numbers = PyBytes_FromStringAndSize(NULL, partitions * <Py_ssize_t> sizeof(int32_t))
        cdef int32_t *partition = <int32_t *> PyBytes_AS_STRING(chosen)
        cdef int32_t *place = <int32_t *> PyBytes_AS_STRING(places)
        cdef int32_t *number = <int32_t *> PyBytes_AS_STRING(numbers)  # of the part that goes to a partition
        cdef PartitionWeights weights = topic.weights
        cdef StickyState sticky_state = topic.sticky_state
        cdef Rule rule = self.rule
        cdef ProducerBatch part
        cdef size_t at = 0
        cdef int answer = 0
        cdef int32_t i
        cdef list used = []
        cdef list parts = []
        with nogil:
            for i in range(count):
                answer = _choose(&rule, records, size, &at, partitions, &weights.table, &sticky_state, &partition[i])
                if answer:
                    break
        if answer:
            raise KafkaError(f"a batch of {batch.queue.name} could not be read again (code {answer})")
        topic.sticky_state = sticky_state
        memset(number, 0xff, partitions * sizeof(int32_t))
        for i in range(count):
            if number[partition[i]] < 0:
                number[partition[i]] = <int32_t> len(used)
                used.append(partition[i])
        if len(used) == 1:
            batch.queue = topic.queues[used[0]]
            return [(batch.queue, batch)]
        for chosen_partition in used:
            part = ProducerBatch.__new__(ProducerBatch, self.budget, topic.queues[chosen_partition], batch.created_ms)
            if writer_open(&part.writer, FIRST_RESERVE):
                raise MemoryError("no memory for a part of a batch")
            part.writer.attributes = attributes
            part.closed = True
            parts.append((0, part))
        at = 0
        for i in range(count):
            place[2 * i] = number[partition[i]]
            _, part = parts[number[partition[i]]]
            answer = writer_copy(&part.writer, records, size, &at, 1, base)
            if answer:
                raise KafkaError(f"a batch of {batch.queue.name} could not be copied (code {answer})")
            place[2 * i + 1] = part.count
            part.count += 1
        for _, part in parts:
            part.charge(part.writer.buf.size)
        batch.places = places
        batch.divide(parts)
        return [(part.queue, part) for _, part in parts]

    def prepare(self, list batches):
        """Compress what is not compressed yet and stamp every batch with its producer and sequence, without the GIL."""
        cdef Py_ssize_t n = len(batches)
        cdef Py_ssize_t i
        cdef ProducerBatch batch
        cdef _Work *work = <_Work *> calloc(max(n, 1), sizeof(_Work))
        cdef int codec = self.codec
        cdef int level = self.level
        cdef int failed = 0
        if work is NULL:
            raise MemoryError
        try:
            for i in range(n):
                batch = <ProducerBatch> batches[i]
                work[i].wire = batch.wire
            for i in range(n):
                batch = <ProducerBatch> batches[i]
                if batch.filling:
                    raise ValueError("a batch that is being filled cannot be sent")
                producer_id, epoch = batch.producer if batch.producer is not None else (-1, -1)
                identity = (producer_id, epoch, batch.sequence)
                work[i].writer = &batch.writer
                work[i].stamp = batch.identity != identity
                # A connection that died may still hold the bytes of the last stamp: they must not change under it.
                work[i].copy = batch.identity is not None and work[i].stamp
                work[i].producer_id = producer_id
                work[i].epoch = epoch
                work[i].sequence = batch.sequence
                batch.identity = identity
            with nogil:
                for i in range(n):
                    failed = _prepare(&work[i], codec, level)
                    if failed:
                        break
        finally:
            take_work(batches, n, work)
            free(work)
        self.budget.settle_up()
        if failed:
            raise KafkaError(f"a batch could not be compressed (code {failed}): is there enough memory?")


cdef class RecordSender:
    """`send` of the blocking producer, which adds what is done when a record cannot be buffered at once.

    A base class in C as the loop that sends is where a producer's time goes.
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
            headers: pairs of a str and bytes or None.
            timestamp_ms: milliseconds since the epoch; None: now.
            partition: the partition. None leaves it to the `partitioner`: by default Java's murmur2 of the key, and
                records without a key stick to one partition for a batch (KIP-794).

        Returns:
            A `Delivery`.

        Raises:
            ConfigError: an argument is not valid, or the partitioner's answer is not.
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
                headers = list(headers)  # an iterator must not be empty when the record comes again
            delivery = accumulator.put(<str?> topic, value, key, headers, timestamp_ms, partition)
            if delivery is not None:
                return delivery
            return self._send_later(topic, value, key, headers, timestamp_ms, partition)
        except (TypeError, OverflowError) as error:
            raise self._refusal(topic, headers, timestamp_ms, partition, error) from None


cdef int _choose(const Rule *rule, const uint8_t *records, size_t size, size_t *at, int32_t partitions,
                 const WeightTable *weights, StickyState *sticky_state, int32_t *out) noexcept nogil:
    """The partition of the record at `at`. What sticks goes where new records stick at the moment."""
    cdef const uint8_t *key
    cdef int64_t key_size
    cdef int answer = record_key(records, size, at, &key, &key_size)
    if answer:
        return answer
    out[0] = by_key(rule, key, key_size, partitions)
    if out[0] >= 0:
        return 0
    if rule.spread == SPREAD_RANDOM:
        out[0] = pick(weights, draw(&sticky_state.rng_state))
    elif rule.spread == SPREAD_TURNS:
        out[0] = take_turn(sticky_state, weights)
        sticky_state.turn += 1
    else:
        if sticky_state.sticky < 0:
            move_on(sticky_state, weights)
        out[0] = sticky_state.sticky
    return 0


cdef struct _Work:
    BatchWriter *writer
    kw_buf *wire
    bint stamp
    bint copy
    int64_t producer_id
    int16_t epoch
    int32_t sequence


cdef void take_work(list batches, Py_ssize_t n, _Work *work) noexcept:
    """The step in which batches get what was made of them."""
    cdef ProducerBatch batch
    cdef Py_ssize_t i
    for i in range(n):
        batch = <ProducerBatch> batches[i]
        batch.wire = work[i].wire
        if batch.wire is not NULL:
            batch.recharge()


cdef void encode_rows(_Pass *work, const RowsView *view, const int32_t *index, size_t batch_size, int64_t timestamp,
                      uint16_t attributes, int codec, int level) noexcept nogil:
    """Encode rows into as many batches as there is room for."""
    cdef _Fill *fill
    cdef size_t before
    cdef int32_t records
    cdef int64_t added
    while work.position < work.end and work.n < work.limit and not work.failed:
        fill = &work.fills[work.n]
        if fill.writer.buf is NULL:
            work.failed = writer_open(
                &fill.writer, batch_size if work.end - work.position >= 64 else <size_t> FIRST_RESERVE
            )
            if work.failed:
                return
            fill.writer.attributes = attributes
        before = fill.writer.buf.size
        records = fill.writer.count
        added = writer_append_rows(
            &fill.writer, view, index, work.position, work.end, batch_size, timestamp, &work.bad_row
        )
        if added < 0:
            work.failed = <int> added
            added = work.position + fill.writer.count - records
        fill.count = <int32_t> (added - work.position)
        fill.bytes = fill.writer.buf.size - before
        work.position = added
        if work.position < work.end and not work.failed:
            fill.full = True
            if work.seals:
                work.failed = writer_seal(&fill.writer, codec, level, &fill.wire)
                fill.full = not work.failed
        work.n += 1


cdef int _prepare(_Work *work, int codec, int level) noexcept nogil:
    cdef kw_buf *copy
    cdef int failed
    if work.wire is NULL:
        failed = writer_seal(work.writer, codec, level, &work.wire)
        if failed:
            return failed
    elif work.copy:
        copy = kw_buf_new(process_pool(), work.wire.size)
        if copy is NULL:
            return -1
        memcpy(copy.data, work.wire.data, work.wire.size)
        copy.size = work.wire.size
        kw_buf_unref(work.wire)
        work.wire = copy
    if work.stamp:
        batch_stamp(work.wire.data, work.wire.size, work.producer_id, work.epoch, work.sequence)
    return 0


cdef object _too_large(size_t size, str topic, size_t limit):
    return RecordTooLargeError(
        f"a record of about {size} bytes for topic {topic!r} is larger than max_request_size ({limit}): raise it, and "
        "max.message.bytes of the topic, or send less",
    )


cdef str _shown(key):
    return repr(key if key is None or len(key) <= 40 else key[:40] + b"...")


cdef int _get_view(object data, str what, Py_buffer *view) except -1:
    if isinstance(data, str):
        raise ConfigError(f"the {what} is text: encode it first, as in {what}=text.encode()")
    try:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    except TypeError:
        raise ConfigError(f"the {what} must be bytes-like or None, not {type(data).__name__}") from None
    return 0
