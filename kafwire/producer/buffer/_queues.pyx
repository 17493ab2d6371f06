"""The queues of all partitions: which batch is open, which wait, and which need the engine's attention.

Everything here runs under the GIL except the long parts (encoding rows, compressing, stamping), which own the data they
touch while they run: a batch that `append_rows` fills is detached from its queue, and only the engine changes a sealed
one. `dispatcher.py`, `retries.py` and `sequencer.py` decide when batches are sent and how errors are handled.

Python code may send, wait, raise, and release the GIL. It runs in more places than the visible calls: where an object
is allocated (garbage collection), where a buffer is released, where waiters are notified of room or of an outcome, and
as a signal handler in all of these. So every change of the queues, here and in the modules that use this one, is one
step that runs no Python, a `noexcept` function: the caller allocates what the step needs before it, and the step checks
again what may have changed meanwhile. Notifications come after the step, and an exception of theirs does not undo it.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from kafwire.records._batch_header cimport ATTRIBUTE_TRANSACTIONAL
from kafwire.producer.buffer._batch cimport Budget, ProducerBatch
from kafwire.producer.buffer._partitioner cimport PartitionWeights, StickyState, draw, move_on, read_rule
from kafwire.records._codec_status cimport CODEC_LEVEL_DEFAULT
from kafwire.records._compress cimport resolve_codec
from kafwire.runtime._interfaces cimport Clock, Notifier, Waiter, monotonic_ms

import collections

from kafwire.errors import FORKED, KafkaError, RecordTooLargeError, TransactionStateError

CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@cython.final
cdef class PartitionQueue:
    """One partition's queue of batches: `fresh`, then `sealed`, then the open one.

    The steps append to deques and pop from them; of these operations, only a lack of memory can fail.
    """

    def __cinit__(self, str topic, int32_t partition, Topic owner=None):
        self.topic = topic
        self.partition = partition
        self.owner = owner
        self.sealed = collections.deque()
        self.fresh = collections.deque()

    def advance(self):
        """Move the batches ahead of the first one that is being filled to `fresh`, and return `fresh`.

        In one step: between two Python operations, a thread may take the last batch out, or put one in.
        """
        self.pass_on()
        return self.fresh

    cdef void pass_on(self) noexcept:
        while self.sealed and not (<ProducerBatch> self.sealed[0]).filling:
            self.fresh.append(self.sealed.popleft())

    @property
    def is_empty(self):
        """True if no record waits here; batches in flight do not count."""
        return self.open is None and not self.sealed and not self.fresh

    @property
    def name(self):
        """The name for errors: `topic-partition`."""
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"


@cython.final
cdef class Topic:
    """A topic's queues, and the state that spreads records without a key over them.

    A recreated topic of the same name is another Topic.
    """

    @property
    def sticky(self):
        """The sticky partition of records without a key; -1: none yet, or its weight was taken away."""
        return self.sticky_state.sticky


cdef class Queues:
    """All batches of a producer that were not sent, within `buffer_memory` bytes."""

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

    # ---- topics

    def set_topic(self, str name, int32_t partitions, PartitionWeights weights not None):
        """Add a topic, or the partitions added to it."""
        cdef Topic topic = self.topics.get(name)
        if topic is None:
            self.topics[name] = self.make_topic(name, partitions, weights)
            return
        while len(topic.queues) < partitions:
            topic.queues.append(PartitionQueue(name, len(topic.queues), topic))
        self.set_weights(name, weights)

    def replace_topic(self, str name, int32_t partitions, PartitionWeights weights not None):
        """Replace a recreated topic: records go to the new Topic from now on. Return the old one.

        The old Topic keeps its batches, and those that threads have begun to fill: see `place_again`.
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
        """Choose the partitions of a topic by `weights`; a sticky partition without a weight is left at once."""
        cdef Topic topic = self.topics[name]
        if max(weights.ids) >= len(topic.queues):
            raise ValueError(f"topic {name!r} has {len(topic.queues)} partitions, and weights for {weights.ids}")
        topic.weights = weights
        if topic.sticky_state.sticky not in weights.ids:
            topic.sticky_state.sticky = -1

    cdef int32_t choose_sticky(self, Topic topic, size_t bound) noexcept:
        """Return the sticky partition for `bound` bytes when the current one has had a batch of them.

        It is another partition, unless the open batch of the current one still has room: that batch would leave half
        full. After twice the batch size, it is another one in any case.
        """
        cdef StickyState *sticky_state = &topic.sticky_state
        cdef ProducerBatch batch
        if sticky_state.sticky >= 0:
            batch = (<PartitionQueue> topic.queues[sticky_state.sticky]).open
            if batch is not None:
                if batch.writer.buf.size + bound > self.batch_size:
                    self.close_batch(batch)
                elif sticky_state.stuck < 2 * self.batch_size:
                    return sticky_state.sticky
        move_on(sticky_state, &topic.weights.table)
        return sticky_state.sticky

    # ---- steps of threads that append records

    cdef void linger(self, ProducerBatch batch) noexcept:
        """Remember an open batch, and wake the engine if no timer is armed."""
        self.lingering.append(batch)
        if not self.timer_armed:
            self.timer_armed = True
            self.post()

    cdef void close_batch(self, ProducerBatch batch, bint queued=False, bint tell=True) noexcept:
        """Close a batch, to be sent; `queued`: it already has its place in the queue.

        The engine closes batches with `tell` False: waking itself for another loop iteration would cost as much as the
        batch.
        """
        cdef PartitionQueue queue = <PartitionQueue> batch.queue
        cdef ProducerBatch older = queue.open
        batch.closed = True
        if older is not None and older is not batch and not queued:
            # The open batch may hold earlier records of this thread: another thread had taken it out, and put it back.
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

    cdef void post(self) noexcept:
        self.notifier.notifier.notify(&self.notifier.notifier)

    cdef int64_t now_ms(self) except? -1:
        """Monotonic milliseconds. Raises the exception of a clock that is written in Python."""
        return <int64_t> (monotonic_ms(self.clock) if self.clock.is_system else self.clock.monotonic() * 1e3)

    cdef object problem(self, int status, size_t size):
        """Return the error for a step's status."""
        if status == CLOSED:
            return KafkaError(FORKED if self.budget.closed is None else self.budget.closed)
        if status == REFUSED:
            return self.send_gate()
        if status == OTHER_ERA:
            return TransactionStateError(
                "the transaction ended while rows were added to it: the rows not yet added are not sent"
            )
        return MemoryError(f"no memory for a record of {size} bytes")

    cdef object too_large(self, size_t size, str topic):
        """Return the error for a record of `size` bytes."""
        return RecordTooLargeError(
            f"a record of about {size} bytes for topic {topic!r} is larger than max_request_size "
            f"({self.max_request_size}): raise it and the topic's max.message.bytes, or send smaller records",
        )

    # ---- the engine's side

    def collect(self, *, bint everything=False):
        """Close batches that lingered long enough (or all), and return the queues with something to send, each once.

        Also returns when to call it again: milliseconds until the oldest open batch is due, or None. While a sender
        waits for room, batches are closed before they are due. A batch behind others stays open: closed while the
        partition stands still, it would be one of many small batches, and a request takes one at a time.
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
        """Close a batch that has lingered, or let the thread that fills it close it; False: it stays open."""
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
        """Close open batches, oldest first, until half of the memory is in closed batches: sending frees room.

        Not all of them: batches that have just begun would be sent small, while those in flight free room anyway.
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
        """Stop: batches that threads are still filling fail with `reason` when the threads are finished."""
        self.ended = reason

    def empty(self, PartitionQueue queue not None):
        """Remove and return all unsent batches in order. No thread may be filling one of them."""
        if queue.open is not None:
            self.close_batch(queue.open, False, False)
        found = list(queue.advance())
        queue.fresh.clear()
        return found
