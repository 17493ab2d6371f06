"""The accumulator: records are encoded into their partition's open batch at once, by whichever thread sends them.

Everything here runs under the GIL but the long parts (encoding rows, compressing, stamping), which own what they touch
while they run: a batch that is being filled by `append_rows` is detached from its sink, and a sealed one is changed by
the engine only. What is sent when, and what becomes of errors, is decided in `net/producer.py` and `logic/sequence.py`.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from kafwire._arrow cimport Rows, RowsView, bytes_at
from kafwire._buffer cimport kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire._codec cimport ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER
from kafwire._compress cimport CODEC_LEVEL_DEFAULT, decompress, resolve_codec
from kafwire._delivery cimport Budget, Delivery, ProducerBatch
from kafwire._encode cimport (
    WRITER_BAD_ROW,
    WRITER_TOO_LARGE,
    BatchWriter,
    batch_base_timestamp,
    batch_stamp,
    encode_headers,
    record_bound,
    writer_append,
    writer_append_rows,
    writer_close,
    writer_copy,
    writer_open,
    writer_seal,
)
from kafwire._express cimport Express, Passage
from kafwire._io cimport Loop, kw_loop_post
from kafwire._partition cimport (
    ELSEWHERE,
    HASH_NONE,
    SPREAD_FUNCTION,
    SPREAD_RANDOM,
    SPREAD_STICKY,
    SPREAD_TURNS,
    Course,
    Rule,
    Shares,
    assign,
    by_key,
    by_topic,
    draw,
    is_over,
    move_on,
    pick,
    read_rule,
    take_turn,
)

import collections
import operator
import time

from kafwire.errors import ConfigError, KafkaError, ProtocolError, RecordTooLargeError, TransactionStateError

cdef enum:
    FIRST_RESERVE = 4096  # a batch starts small: thousands of quiet partitions must not cost a full one each
    EXPRESS_BYTES = 16384  # a larger batch is compressed without the GIL, by the engine
    ROWS_AT_ONCE = 16  # batches encoded by one hold-less pass of append_rows, at the most

CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        int64_t tv_sec
        long tv_nsec
    enum:
        CLOCK_REALTIME
    int clock_gettime(int clock, timespec *now)


cdef object system_time = time


cdef inline int64_t now_ms() noexcept:
    return <int64_t> (time.monotonic() * 1000.0)


cdef inline int64_t wall_ms() noexcept:
    """For each record: the system's clock without a detour, unless a simulated world has put its own in `time`."""
    cdef timespec now
    if time is not system_time:
        return time.time_ns() // 1000000
    clock_gettime(CLOCK_REALTIME, &now)
    return now.tv_sec * 1000 + now.tv_nsec // 1000000


@cython.final
cdef class Sink:
    """One partition's queue of batches: `fresh`, then `sealed`, then the open one."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef ProducerBatch open
    cdef readonly object sealed  # deque of ProducerBatch, oldest first; threads that fill one take it out and put it in
    cdef readonly object fresh  # deque of ProducerBatch: those that no thread knows any more, the engine's
    cdef bint is_ready  # in Accumulator.ready
    cdef public object sequencer
    cdef public Express express  # None, or by what a thread may send past the engine while nothing is before its record

    def __cinit__(self, str topic, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.sealed = collections.deque()
        self.fresh = collections.deque()

    def advance(self):
        """Make the engine's what is before the first batch that is being filled; answers `fresh`.

        In one step: between two of Python's, a thread may take the last batch out, or put one in.
        """
        while self.sealed and not (<ProducerBatch> self.sealed[0]).filling:
            self.fresh.append(self.sealed.popleft())
        return self.fresh

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
    """A topic's sinks, and how records that no key places are spread over them."""

    cdef readonly str name
    cdef readonly list sinks
    cdef readonly Shares shares
    cdef Course course

    @property
    def sticky(self):
        """The partition that records without a key stick to; -1: none yet, or it was taken from them."""
        return self.course.sticky


# One batch being filled by append_rows.
cdef struct _Fill:
    BatchWriter writer
    kw_buf *wire  # sealed: it is full
    size_t bytes  # added in this pass
    int32_t count  # rows added in this pass


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
    cdef int64_t era  # of the accumulator

    def __dealloc__(self):
        free(self.index)
        free(self.bounds)

    @property
    def finished(self):
        """Whether every row is in a batch."""
        return self.group >= self.groups


@cython.final
cdef class Accumulator:
    """All open and sealed batches of a producer, within `buffer_memory` bytes."""

    cdef Loop native
    cdef uint64_t cookie
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
    cdef uint64_t chance
    cdef bint timer_armed
    cdef bint is_short  # somebody found no room since the engine last looked
    cdef str ended  # None, or why nobody collects any more
    cdef public object after_pass  # None, or what a test does between a pass of append_rows and its end
    cdef uint16_t attributes  # of all batches
    cdef public object refusal  # None, or what makes the error for records that come now
    cdef public int64_t era  # grows when records that came before and after must not be in one transaction
    cdef readonly int32_t passes  # threads that add rows without the GIL

    def __cinit__(self, Loop native, uint64_t cookie, *, size_t batch_size, size_t max_request_size, int64_t linger_ms,
                  size_t buffer_memory, str compression, level, rule, uint64_t chance,
                  bint transactional=False):
        self.native = native
        self.cookie = cookie
        self.topics = {}
        self.ready = []
        self.lingering = collections.deque()
        self.late = []
        self.batch_size = batch_size
        self.max_request_size = max_request_size
        self.linger_ms = linger_ms
        self.budget = Budget(buffer_memory)
        self.codec = CODEC_IDS[compression]
        self.level = CODEC_LEVEL_DEFAULT if level is None else level
        if self.codec:
            resolve_codec(self.codec)
        read_rule(rule, &self.rule)
        self.function = rule.function
        self.chance = chance
        self.attributes = ATTRIBUTE_TRANSACTIONAL if transactional else 0

    def set_topic(self, str name, int32_t partitions, Shares shares not None):
        """Make a topic known, or take note of partitions added to it."""
        cdef Topic topic = self.topics.get(name)
        if topic is None:
            topic = Topic.__new__(Topic)
            topic.name = name
            topic.sinks = []
            topic.course.sticky = -1
            topic.course.chance = draw(&self.chance)
        while len(topic.sinks) < partitions:
            topic.sinks.append(Sink(name, len(topic.sinks)))
        if topic.shares is None:
            topic.shares = shares
        self.topics[name] = topic
        self.set_shares(name, shares)

    def set_shares(self, str name, Shares shares not None):
        """Draw the partitions of a topic by `shares`. Records that stick to one that has none leave it at once."""
        cdef Topic topic = self.topics[name]
        if max(shares.ids) >= len(topic.sinks):
            raise ValueError(f"topic {name!r} has {len(topic.sinks)} partitions, and shares for {shares.ids}")
        topic.shares = shares
        if topic.course.sticky not in shares.ids:
            topic.course.sticky = -1

    # ---- one record

    def append(self, str topic_name, value, key, headers, timestamp_ms, partition):
        """Encode one record: its Delivery, or None when the topic is unknown, or there is no room (`Budget.wait`)."""
        return self.put(topic_name, value, key, headers, timestamp_ms, partition)

    cdef Delivery put(self, str topic_name, value, key, headers, timestamp_ms, partition):
        cdef Topic topic
        cdef Sink sink
        cdef ProducerBatch batch
        cdef Delivery delivery = Delivery.__new__(Delivery)  # while nothing has changed that would be left half done
        cdef Py_buffer value_view
        cdef Py_buffer key_view
        cdef const uint8_t *value_data = NULL
        cdef const uint8_t *key_data = NULL
        cdef Py_ssize_t value_size = -1
        cdef Py_ssize_t key_size = -1
        cdef bint value_held = False
        cdef bint key_held = False
        cdef bytes header_bytes = b""
        cdef size_t bound
        cdef ssize_t added
        cdef int64_t timestamp
        cdef int32_t chosen
        cdef int spread = -1
        cdef bint is_first = False
        cdef tuple entry = None
        topic = self.latest
        if topic is None or topic.name is not topic_name:
            topic = self.topics.get(topic_name)
            if topic is None:
                if self.budget.closed is not None:
                    raise KafkaError(self.budget.closed)
                return None
            self.latest = topic
        try:
            if value is not None:
                if PyBytes_CheckExact(value):
                    value_data = <const uint8_t *> PyBytes_AS_STRING(value)
                    value_size = PyBytes_GET_SIZE(value)
                else:
                    _get_view(value, "value", &value_view)
                    value_held = True
                    value_data = <const uint8_t *> value_view.buf
                    value_size = value_view.len
            if key is not None:
                if PyBytes_CheckExact(key):
                    key_data = <const uint8_t *> PyBytes_AS_STRING(key)
                    key_size = PyBytes_GET_SIZE(key)
                else:
                    _get_view(key, "key", &key_view)
                    key_held = True
                    key_data = <const uint8_t *> key_view.buf
                    key_size = key_view.len
            if headers:
                header_bytes = encode_headers(headers)
            timestamp = wall_ms() if timestamp_ms is None else timestamp_ms
            bound = record_bound(max(key_size, 0), max(value_size, 0), len(header_bytes))
            if bound + BATCH_HEADER > self.max_request_size:
                raise _too_large(bound, topic_name, self.max_request_size)
            if partition is not None:
                if not 0 <= partition < len(topic.sinks):
                    raise ConfigError(
                        f"topic {topic_name!r} has partitions 0 to {len(topic.sinks) - 1}, not {partition!r}"
                    )
                sink = <Sink> topic.sinks[partition]
            else:
                chosen = by_key(&self.rule, key_data, key_size, <int32_t> len(topic.sinks))
                if chosen >= 0:
                    sink = <Sink> topic.sinks[chosen]
                else:
                    spread = self.rule.spread
                    if spread == SPREAD_STICKY:
                        sink = self.stick(topic, bound)
                    else:
                        sink = <Sink> topic.sinks[self.spread(topic, key_data, key_size)]
            if self.budget.closed is not None:
                raise KafkaError(self.budget.closed)
            if self.refusal is not None:
                raise self.refusal()
            if sink.open is None and sink.express is not None:
                entry = sink.express.passage()
            batch = sink.open
            if batch is not None and batch.writer.buf.size + bound > self.batch_size:
                self.close_batch(batch)
                batch = None
            if self.budget.lacks(bound):
                self.is_short = True
                self.post()
                return None
            is_first = batch is None
            if is_first:
                batch = self.open_batch(sink, FIRST_RESERVE if bound < FIRST_RESERVE else bound + BATCH_HEADER)
            added = writer_append(
                &batch.writer, timestamp, key_data, <int32_t> key_size, value_data, <int32_t> value_size,
                <const uint8_t *> PyBytes_AS_STRING(header_bytes), PyBytes_GET_SIZE(header_bytes),
            )
            if added < 0:
                if is_first:
                    self.linger(batch)
                raise MemoryError(f"no memory for a record of {bound} bytes")
            batch.charge(added)
            if spread == SPREAD_STICKY:
                topic.course.stuck += added
            elif spread == SPREAD_TURNS:  # only now: a record that finds no room comes again
                topic.course.turn += 1
        finally:
            if value_held:
                PyBuffer_Release(&value_view)
            if key_held:
                PyBuffer_Release(&key_view)
        delivery.batch = batch
        delivery.index = batch.count
        delivery.timestamp_ms = timestamp
        batch.count += 1
        if is_first and (entry is None or not self.hurry(sink, batch, entry)):
            self.linger(batch)
        return delivery

    cdef Sink stick(self, Topic topic, size_t bound):
        """Where `bound` bytes go that stick to a partition: to another one after `batch_size` bytes (KIP-794).

        But not while the open batch has room, or it would leave half full; until twice as much is there.
        """
        cdef Course *course = &topic.course
        cdef ProducerBatch batch
        if not is_over(course, bound, self.batch_size):
            return <Sink> topic.sinks[course.sticky]
        if course.sticky >= 0:
            batch = (<Sink> topic.sinks[course.sticky]).open
            if batch is not None:
                if batch.writer.buf.size + bound > self.batch_size:
                    self.close_batch(batch)
                elif course.stuck < 2 * self.batch_size:
                    return <Sink> topic.sinks[course.sticky]
        move_on(course, &topic.shares.table)
        return <Sink> topic.sinks[course.sticky]

    cdef int32_t spread(self, Topic topic, const uint8_t *key, Py_ssize_t key_size) except -1:
        """The partition of a record that is neither placed by its key nor sticks."""
        if self.rule.spread == SPREAD_RANDOM:
            return pick(&topic.shares.table, draw(&topic.course.chance))
        if self.rule.spread == SPREAD_TURNS:
            return take_turn(&topic.course, &topic.shares.table)
        return self.ask(topic, key, key_size, "")

    cdef int32_t ask(self, Topic topic, const uint8_t *key_data, Py_ssize_t key_size, str where) except -1:
        """The partition that the user's function answers. It may do anything, sending included."""
        key = PyBytes_FromStringAndSize(<const char *> key_data, key_size) if key_size >= 0 else None
        partitions = len(topic.sinks)
        problem = None
        try:
            answer = self.function(topic.name, key, partitions, topic.shares.ids)
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

    cdef ProducerBatch open_batch(self, Sink sink, size_t reserve):
        cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch, self.budget, sink, now_ms())
        if writer_open(&batch.writer, reserve):
            raise MemoryError("no memory for a batch")
        batch.writer.attributes = self.attributes
        batch.charge(BATCH_HEADER)
        if sink.open is not None:  # making it ran a collection of garbage, and that another `send`
            self.close_batch(sink.open)
        sink.open = batch
        return batch

    cdef void linger(self, ProducerBatch batch):
        """The engine is to look when it is due."""
        self.lingering.append(batch)
        if not self.timer_armed:
            self.timer_armed = True
            self.post()

    cdef bint hurry(self, Sink sink, ProducerBatch batch, tuple entry) except -1:
        """Send the open batch of a partition past the engine, if nothing is before it; whether it is on its way."""
        cdef Passage passage = entry[0]
        cdef Express express = passage.express
        cdef _Work work
        cdef bint is_sent
        if sink.express is not express or sink.open is not batch or express.batch is not None or self.budget.waiting:
            return False
        if sink.sealed or sink.fresh or batch.writer.buf.size > EXPRESS_BYTES:
            return False
        if passage.identity[2] != express.sequence:
            return False
        memset(&work, 0, sizeof(work))
        work.writer = &batch.writer
        work.stamp = True
        work.producer_id = express.producer_id
        work.epoch = express.epoch
        work.sequence = express.sequence
        if _prepare(&work, self.codec, self.level):
            return False
        batch.wire = work.wire
        batch.identity = passage.identity
        try:
            is_sent = express.submit(batch, entry)
        except MemoryError:
            is_sent = False
        if is_sent:
            batch.closed = True
            sink.open = None
        else:  # the connection is gone: the engine takes it from here
            self.close_batch(batch)
        batch.recharge()
        return True

    cdef void close_batch(self, ProducerBatch batch, bint queued=False, bint tell=True):
        """The batch takes no more records and waits to be sent; `queued`: it has its place already.

        The engine is not told (`tell`) when it closes one itself: another turn would cost as much as the batch.
        """
        cdef Sink sink = <Sink> batch.sink
        cdef ProducerBatch older = sink.open
        batch.closed = True
        if older is batch:
            sink.open = None
        elif older is not None and not queued:
            # What the same thread sent before may be in it: another thread had taken it, and has put it back.
            older.closed = True
            sink.open = None
            sink.sealed.append(older)
        if not queued:
            sink.sealed.append(batch)
        self.make_ready(sink)
        if tell:
            self.post()

    cdef void make_ready(self, Sink sink):
        if not sink.is_ready:
            sink.is_ready = True
            self.ready.append(sink)

    cdef void post(self):
        kw_loop_post(self.native.loop, self.cookie)

    # ---- many rows

    def split_rows(self, topic, Rows rows, int64_t first_row):
        """What `plan_rows` is to be asked for: [(topic, row numbers)]; without a `topic` the rows' column says it."""
        return by_topic(rows, first_row) if topic is None else [(topic, None)]

    def plan_rows(self, str topic_name, Rows rows, partition, int64_t first_row, era=None, bytes chosen=None):
        """Decide where each row goes: a RowPlan for `append_rows`, or None when the topic is unknown.

        `era` is the one in which the first row of the table came; by default the current one. `chosen`: the numbers of
        the rows it is about (int32), all by default.
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
        cdef Shares shares
        cdef Course course
        if topic is None:
            return None
        partitions = len(topic.sinks)
        if partition is not None and not 0 <= partition < partitions:
            raise ConfigError(f"topic {topic_name!r} has partitions 0 to {partitions - 1}, not {partition!r}")
        if rows.view.length > INT32_MAX:
            raise ConfigError(f"a chunk of {rows.view.length} rows: send at most {INT32_MAX} rows at once")
        plan.topic = topic
        plan.rows = rows
        plan.first_row = first_row
        plan.fixed = -1 if partition is None else partition
        plan.era = self.era if era is None else era
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
        shares = topic.shares
        course = topic.course
        with nogil:
            bad = assign(
                &rows.view, numbers, n, &self.rule, &shares.table, partitions, self.batch_size, &course, assigned
            )
        if bad >= 0:
            raise ConfigError(
                f"row {first_row + bad}: its partition does not exist; topic {topic_name!r} has 0 to {partitions - 1}"
            )
        if self.rule.spread == SPREAD_FUNCTION:
            self.ask_for_rows(topic, rows, first_row, numbers, n, assigned)
        if topic.shares is shares:  # or else the course leads by shares that are no more
            topic.course = course
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

        Answers whether the plan is finished; if not, the budget is used up: see `Budget.wait`.
        """
        self.passes += 1
        try:
            return self.add_rows(plan, parts)
        finally:
            self.passes -= 1
            if self.refusal is not None:  # whoever ends the transaction waits for this
                self.post()

    cdef bint add_rows(self, RowPlan plan, list parts) except -1:
        cdef _Fill fills[ROWS_AT_ONCE]
        cdef Sink sink
        cdef ProducerBatch batch
        cdef int32_t n, limit, k, records
        cdef int64_t position, end, bad_row, added
        cdef int64_t timestamp = wall_ms()
        cdef bint sticky = plan.sticks
        cdef Topic topic = plan.topic
        cdef int codec = self.codec
        cdef int level = self.level
        cdef size_t batch_size = self.batch_size
        cdef uint16_t attributes = self.attributes
        cdef size_t before
        cdef int failed
        cdef RowsView *view = &plan.rows.view
        cdef int32_t *index = plan.index
        while plan.group < plan.groups:
            position = plan.position
            end = plan.bounds[plan.group + 1]
            if position >= end:
                plan.group += 1
                continue
            if self.budget.closed is not None:
                raise KafkaError(self.budget.closed)
            if self.refusal is not None:
                raise self.refusal()
            if plan.era != self.era:
                raise TransactionStateError(
                    "the transaction ended while rows were added to it: rows that were not added are not sent"
                )
            if self.budget.lacks(batch_size):
                self.is_short = True
                self.post()
                return False
            limit = <int32_t> min(max((self.budget.limit - min(self.budget.used, self.budget.limit)) // batch_size, 1),
                                  <size_t> ROWS_AT_ONCE)
            if sticky:
                sink = self.stick(topic, 1)
            else:
                sink = <Sink> topic.sinks[plan.group if plan.fixed < 0 else plan.fixed]
            memset(fills, 0, sizeof(fills))
            # Nobody else may fill the open batch while the GIL is away. It takes its place in the queue for that time:
            # what others send meanwhile comes after what they sent before, and a flush knows of it.
            batch = sink.open
            if batch is not None:
                sink.open = None
                batch.filling = True
                sink.sealed.append(batch)
                fills[0].writer = batch.writer
                memset(&batch.writer, 0, sizeof(BatchWriter))
            n = 0
            failed = 0
            bad_row = -1
            with nogil:
                while position < end and n < limit and not failed:
                    if fills[n].writer.buf is NULL:
                        failed = writer_open(&fills[n].writer, batch_size if end - position >= 64 else FIRST_RESERVE)
                        if failed:
                            break
                        fills[n].writer.attributes = attributes
                    before = fills[n].writer.buf.size
                    records = fills[n].writer.count
                    added = writer_append_rows(
                        &fills[n].writer, view, index, position, end, batch_size, timestamp, &bad_row
                    )
                    if added < 0:
                        failed = <int> added
                        added = position + fills[n].writer.count - records
                    fills[n].count = <int32_t> (added - position)
                    fills[n].bytes = fills[n].writer.buf.size - before
                    position = added
                    if position < end and not failed:
                        failed = writer_seal(&fills[n].writer, codec, level, &fills[n].wire)
                    n += 1
            plan.position = position
            if self.after_pass is not None:
                self.after_pass()
            for k in range(n):
                if k or batch is None:
                    if k and sticky:
                        move_on(&topic.course, &topic.shares.table)
                        sink = <Sink> topic.sinks[topic.course.sticky]
                    batch = ProducerBatch.__new__(ProducerBatch, self.budget, sink, now_ms())
                if sticky:
                    topic.course.stuck += fills[k].bytes
                    if fills[k].wire is not NULL:  # a full batch is enough, whoever else has filled it
                        topic.course.stuck = max(topic.course.stuck, batch_size)
                self.adopt(batch, sink, &fills[k], parts)
            if n == 0 and batch is not None:
                self.adopt(batch, sink, &fills[0], parts)
            if failed:
                self._rows_failed(failed, plan, bad_row)
        return True

    cdef adopt(self, ProducerBatch batch, Sink sink, _Fill *fill, list parts):
        """A batch comes back from a pass of append_rows: sealed, or open again."""
        cdef bint queued = batch.filling
        batch.filling = False
        if batch.done or self.ended is not None:  # its producer was closed meanwhile
            writer_close(&fill.writer)
            kw_buf_unref(fill.wire)
            if fill.count:
                parts.append((batch, batch.count, fill.count))
            if not batch.done:
                batch.fail(KafkaError(self.ended))
            return
        batch.writer = fill.writer
        batch.wire = fill.wire
        if fill.count:
            parts.append((batch, batch.count, fill.count))
        batch.count += fill.count
        batch.charge(fill.bytes)
        if batch.count == 1 and fill.bytes + BATCH_HEADER > max(self.max_request_size, self.batch_size):
            batch.closed = True
            batch.fail(_too_large(fill.bytes, sink.topic, self.max_request_size))
        elif fill.wire is not NULL:
            batch.recharge()
            self.close_batch(batch, queued)
        elif batch.count == 0:
            pass  # its first row was bad
        elif queued and (sink.open is not None or batch.closed or sink.sealed[len(sink.sealed) - 1] is not batch):
            self.close_batch(batch, queued)
        elif queued:
            sink.sealed.pop()
            sink.open = batch
        else:
            if sink.open is not None:
                self.close_batch(sink.open)
            sink.open = batch
            self.linger(batch)

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
        """Close batches that lingered long enough (or all), and return the sinks with something to send, each once.

        Also answers when to look again: milliseconds until the oldest open batch is due, or None. While somebody waits
        for room, batches are closed before they are due. A batch that cannot go yet, as others are before it, stays
        open: or what comes while a partition stands still would be many small ones, and a request takes one at a time.
        """
        cdef ProducerBatch batch
        cdef Sink sink
        cdef int64_t now = now_ms()
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
        ready, self.ready = self.ready, []
        for sink in ready:
            sink.is_ready = False
        return ready, wait

    cdef bint close_late(self, ProducerBatch batch, bint everything):
        """Whether a batch that has lingered is closed now, or will be by the thread that fills it."""
        cdef Sink sink = <Sink> batch.sink
        if sink.open is batch:
            if not everything and (sink.fresh or sink.sealed):
                return False
            self.close_batch(batch, False, False)
        elif batch.filling and not batch.closed:
            batch.closed = True
            self.make_ready(sink)
        return True

    cdef void make_way(self):
        """Close open batches, the oldest first, until half of the memory is on its way: room comes by sending.

        Not all: with much on its way room will come, and batches that have just begun would go out small.
        """
        cdef ProducerBatch batch
        cdef size_t held = 0
        self.is_short = False
        cdef list opened = [*self.late, *self.lingering]
        for batch in opened:
            if (<Sink> batch.sink).open is batch:
                held += batch.charged
        for batch in opened:
            if self.budget.used - held >= self.budget.limit // 2:
                break
            if (<Sink> batch.sink).open is batch:
                held -= batch.charged
                self.close_batch(batch)

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
        cdef const char *reason
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
                resolve_codec(codec)
                with nogil:
                    answer = decompress(codec, records, size, &raw, INT32_MAX, 0, &reason)
                if answer:
                    raise KafkaError(f"a batch could not be cut: decompressing it answered {answer}")
                records = raw.data
                size = raw.size
            for start, end in zip(starts, ends, strict=True):
                count = <int32_t> (end - start)
                if refused is not None and start in refused:
                    part = ProducerBatch.__new__(ProducerBatch, self.budget, batch.sink, batch.created_ms)
                    answer = writer_copy(NULL, records, size, &at, count, base)
                else:
                    part = ProducerBatch.__new__(ProducerBatch, self.budget, batch.sink, batch.created_ms)
                    if writer_open(&part.writer, FIRST_RESERVE):
                        raise MemoryError("no memory for a part of a batch")
                    part.writer.attributes = batch.wire.data[22] & ~7
                    with nogil:
                        answer = writer_copy(&part.writer, records, size, &at, count, base)
                if answer:
                    raise KafkaError(f"a batch could not be cut: copying its records answered {answer}")
                part.count = count
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
                    part.fail(refused[start])
        return [part for start, part in parts if refused is None or start not in refused]

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
                if batch.filling:
                    raise ValueError("a batch that is being filled cannot be sent")
                producer_id, epoch = batch.producer if batch.producer is not None else (-1, -1)
                identity = (producer_id, epoch, batch.sequence)
                work[i].writer = &batch.writer
                work[i].wire = batch.wire
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
            for i in range(n):
                batch = <ProducerBatch> batches[i]
                batch.wire = work[i].wire
                if batch.wire is not NULL:
                    batch.recharge()
        finally:
            free(work)
        if failed:
            raise KafkaError(f"a batch could not be compressed (code {failed}): is there enough memory?")


cdef class RecordSender:
    """`send` of the blocking producer, which adds what is done when a record cannot be buffered at once.

    A base class in C as the loop that sends is where a producer's time goes.
    """

    cdef public Accumulator _accumulator

    def send(self, topic, value=None, *, key=None, headers=None, timestamp_ms=None, partition=None):
        """Buffer one record and return at once with the handle of its delivery.

        `value` and `key` are bytes-like, or None for null; `headers` are pairs of a str and bytes or None;
        `timestamp_ms` is now by default. Without `partition` the producer's `partitioner` decides: by default a key by
        Java's murmur2, and records without a key stick to a partition for a batch (KIP-794). Waits for the topic's
        metadata when it is new, and for room in `buffer_memory`, at most `max_block_ms` together, then raises
        `KafkaTimeoutError`. Raises `BrokerError` for a topic that does not exist, `RecordTooLargeError`, and
        `ConfigError`, for a partitioner's answer that is of no use among others.
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


cdef struct _Work:
    BatchWriter *writer
    kw_buf *wire
    bint stamp
    bint copy
    int64_t producer_id
    int16_t epoch
    int32_t sequence


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
