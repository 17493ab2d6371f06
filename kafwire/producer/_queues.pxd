"""The queues of all partitions, and what threads and the engine do to them. `producer/_queues.pyx` has the rule."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from kafwire.producer._batch cimport Budget, ProducerBatch
from kafwire.producer._direct_send cimport DirectSend
from kafwire.producer._partitioner cimport PartitionWeights, Rule, StickyState, is_over
from kafwire.runtime._interfaces cimport Clock, Notifier

cdef enum:
    FIRST_RESERVE = 4096  # a batch starts small: thousands of quiet partitions must not cost a full one each

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


cdef class PartitionQueue:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef ProducerBatch open
    cdef readonly object sealed  # deque of ProducerBatch, oldest first; threads that fill one take it out and put it in
    cdef readonly object fresh  # deque of ProducerBatch: those that no thread knows any more, the engine's
    cdef bint is_ready  # in Queues.ready
    cdef readonly Topic owner
    cdef public object sequencer
    # None, or by what a thread may send past the engine while nothing is before its record.
    cdef public DirectSend direct_send

    cdef void pass_on(self) noexcept


cdef class Topic:
    cdef readonly str name
    cdef readonly bint retired  # it was replaced: what is here moves over (`Accumulator.place_again`)
    cdef readonly int32_t passes  # threads that add rows to it without the GIL
    cdef readonly list queues
    cdef readonly PartitionWeights weights
    cdef StickyState sticky_state


cdef class Queues:
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
    cdef readonly str ended  # None, or why nobody collects any more
    # None, or what has the topics to which callbacks have sent records that are not in their queues yet.
    cdef public object deferred
    cdef uint16_t attributes  # of all batches
    cdef public object send_gate  # None, or what makes the error for records that come now
    cdef public bint is_committing  # the gate is closed, but for `deferred` records: the commit waits for them
    # Grows when records that came before and after must not be in one transaction.
    cdef public int64_t transaction_generation
    cdef readonly int32_t passes  # threads that add rows without the GIL

    cdef Topic make_topic(self, str name, int32_t partitions, PartitionWeights weights)
    cdef int32_t stick_anew(self, Topic topic, size_t bound) noexcept
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
    """Where `bound` bytes go that stick to a partition: to another one after `batch_size` bytes (KIP-794)."""
    if is_over(&topic.sticky_state, bound, queues.batch_size):
        return queues.stick_anew(topic, bound)
    return topic.sticky_state.sticky
