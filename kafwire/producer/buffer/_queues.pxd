"""The queues of all partitions, and the steps of sending threads and of the engine; `_queues.pyx` has the rule."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from kafwire.producer.buffer._batch cimport Budget, ProducerBatch
from kafwire.producer.buffer._direct_send cimport DirectSend
from kafwire.producer.buffer._partitioner cimport PartitionWeights, Rule, StickyState, is_over
from kafwire.runtime._interfaces cimport Clock, Notifier

cdef enum:
    FIRST_RESERVE = 4096  # a batch starts small: thousands of quiet partitions must not cost a full one each

    # Status of a step.
    DONE = 0
    NEEDS_BATCH = 1  # the caller makes a batch, and calls again
    NO_ROOM = 2
    CLOSED = 3
    REFUSED = 4
    GONE = 5  # the topic was recreated
    NO_MEMORY = 6
    ENDED = 7  # the producer ended: the engine sends no more
    TOO_LARGE = 8
    OTHER_ERA = 9


cdef class PartitionQueue:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef ProducerBatch open
    # deque of ProducerBatch, oldest first; a thread that fills one takes it out and puts it back
    cdef readonly object sealed
    cdef readonly object fresh  # deque of ProducerBatch: sealed, no thread fills them, and only the engine uses them
    cdef bint is_ready  # in Queues.ready
    cdef readonly Topic owner
    cdef public object sequencer
    # None, or the path by which a thread may send without the engine while no batch is ahead of its record.
    cdef public DirectSend direct_send

    cdef void pass_on(self) noexcept


cdef class Topic:
    cdef readonly str name
    cdef readonly bint retired  # it was replaced: its batches move to the new Topic (`Accumulator.place_again`)
    cdef readonly int32_t passes  # threads that append rows to it without the GIL
    cdef readonly list queues
    cdef readonly PartitionWeights weights
    cdef StickyState sticky_state


cdef class Queues:
    cdef Notifier notifier
    cdef Clock clock
    cdef readonly dict topics
    cdef Topic latest  # the topic of the last record: the next record likely has the same
    cdef list ready
    cdef object lingering  # deque of open batches, oldest first
    # open batches whose linger time is over, and which stay open while other batches are ahead of them
    cdef readonly list late
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
    cdef bint is_short  # a sender found no room since the engine last looked
    cdef readonly str ended  # None, or why the engine sends no more
    # None, or the records that callbacks sent to topics and that are not queued yet, by topic.
    cdef public object deferred
    cdef uint16_t attributes  # attribute bits of every batch
    cdef public object send_gate  # None, or a function that makes the error for records sent now
    cdef public bint is_committing  # the gate is closed except for `deferred` records: the commit waits for them
    # Incremented when records sent before and after must not be in one transaction.
    cdef public int64_t transaction_generation
    cdef readonly int32_t passes  # threads that append rows without the GIL

    cdef Topic make_topic(self, str name, int32_t partitions, PartitionWeights weights)
    cdef int32_t choose_sticky(self, Topic topic, size_t bound) noexcept
    cdef void linger(self, ProducerBatch batch) noexcept
    cdef void close_batch(self, ProducerBatch batch, bint queued=*, bint tell=*) noexcept
    cdef void make_ready(self, PartitionQueue queue) noexcept
    cdef void post(self) noexcept
    cdef int64_t now_ms(self) except? -1
    cdef object problem(self, int status, size_t size)
    cdef object too_large(self, size_t size, str topic)
    cdef void take_ready(self, list fresh) noexcept
    cdef bint close_late(self, ProducerBatch batch, bint everything) noexcept
    cdef int make_way(self) except -1


cdef inline int32_t stick(Queues queues, Topic topic, size_t bound) noexcept:
    """Return the sticky partition for `bound` bytes; it changes after `batch_size` bytes (KIP-794)."""
    if is_over(&topic.sticky_state, bound, queues.batch_size):
        return queues.choose_sticky(topic, bound)
    return topic.sticky_state.sticky
