"""Batches until their outcome, the budget they are charged to, and the handles of sent records.

`noexcept` functions run no Python: no other thread, signal handler or destructor runs between their steps. Functions
that notify others may run any Python code, and come last: all are notified even if one raises.
"""
from libc.stdint cimport int32_t, int64_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._encode cimport BatchWriter
from kafwire.runtime._interfaces cimport Clock, Waiter


cdef enum:
    MIXED = -0x40000000  # far from any count


cdef class Budget:
    """`buffer_memory`: bytes of all batches that are not done yet."""
    cdef readonly size_t limit
    cdef Clock clock
    cdef Waiter waiter
    cdef int process  # process generation whose threads settle its batches
    cdef readonly size_t used
    cdef size_t need  # bytes that the last sender without room needs
    cdef readonly int waiting  # threads and tasks that wait for room
    cdef list locks  # one per waiting thread, held until there is news
    cdef dict listeners  # listener: how many wait with it, of waiters that are no threads
    cdef bint is_owed  # room has grown since waiters were last notified
    cdef public object callbacks  # runs delivery callbacks (`Callbacks`); None: in place
    cdef readonly int64_t callbacks_due  # batches whose callbacks were handed over and have not ended
    cdef public object when_called  # None, or a function to call when `callbacks_due` is 0
    cdef public object closed  # None, or why no more records are accepted
    cdef public bint reports_overlooked  # log failed batches whose outcome the program did not look at
    cdef int64_t overlooked  # records of such batches since the last line in the log
    cdef tuple last_overlooked  # the partition and the error of the last one
    cdef double next_report  # seconds of the clock: no line in the log before

    cdef bint lacks(self, size_t size) noexcept  # if True, it remembers the size for `wait`
    cdef void release(self, size_t size) noexcept  # `settle_up` must follow, as soon as Python may run
    cdef bint fits(self, size_t size) noexcept
    cdef object wait_for(self, size_t need, timeout)
    cdef double seconds(self) noexcept
    cdef int settle_up(self) except -1
    cdef int tell(self) except -1
    cdef int overlook(self, name, int64_t count, error) except -1


cdef class DirectWait:
    """A connection on which the thread that waits for a batch may receive the response before the engine does."""
    # returns after `seconds` at most, perhaps without news
    cdef void wait(self, ProducerBatch batch, double seconds) except *
    cdef void call_off(self) noexcept  # wake it


cdef class UserCallbacks:
    """The delivery callbacks of one batch."""
    cdef ProducerBatch batch
    cdef list functions


cdef class ProducerBatch:
    """One batch of one partition, from its first record to its acknowledgement."""
    cdef BatchWriter writer
    cdef kw_buf *wire  # the sealed batch; NULL while open
    cdef Budget budget
    cdef readonly object queue  # None until it is put into a queue
    cdef int32_t count
    cdef readonly int64_t created_ms  # monotonic
    cdef size_t charged  # bytes of the budget
    cdef readonly size_t raw_size  # uncompressed size; 0 until it is sealed
    cdef bint closed  # takes no more records
    # a thread adds rows without the GIL: it keeps its place in the queue, and cannot be sent yet
    cdef readonly bint filling
    cdef int32_t placed  # how many of its records have a partition that the user named; MIXED: unknown
    cdef object identity  # (producer id, epoch, sequence) of the last stamp
    cdef public object producer  # the producer identity that the sequencer assigned, or None
    cdef public int32_t sequence
    cdef public int64_t ordinal  # in the order of first sending
    cdef public int32_t attempts
    cdef public object last_error
    cdef readonly bint done
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_ms
    cdef readonly object error
    cdef public bint looked  # the program has its outcome, or will have it by another batch or another error
    cdef DirectWait direct_wait  # the connection it was sent on while in flight there, or None
    cdef list locks  # None, or one per thread that waits for it, held until it is done
    cdef list callbacks  # kafwire's own: they run where the batch is settled
    cdef UserCallbacks user_callbacks  # None, or the user's
    cdef list parts  # None, or the parts it was split into: (index of the first record, batch)
    cdef bytes places  # None, or, if parts took single records, each record's part and its index there (int32)
    cdef ProducerBatch whole  # None, or the batch it was split from
    cdef int32_t parts_left

    cdef int divide(self, list parts) except -1
    cdef ProducerBatch part_of(self, int32_t *index)

    cdef void charge(self, size_t size) noexcept
    cdef void recharge(self) noexcept  # `Budget.settle_up` must follow
    cdef void drop_bytes(self) noexcept  # `Budget.settle_up` must follow
    cdef void drop_contents(self) noexcept
    cdef void pass_charge(self) noexcept  # `Budget.settle_up` must follow
    cdef int add_user_callback(self, function) except -1
    cdef int finish(self) except -1
    cdef void mark_done(self) noexcept
    cdef bint is_observed(self) noexcept
    cdef wait(self, timeout)


cdef class Delivery:
    cdef readonly ProducerBatch batch
    cdef int32_t index
    cdef int64_t timestamp_ms


cdef class BatchDelivery:
    cdef readonly list parts  # (batch, index of the first row, rows)

    cdef list pieces(self, timeout)
