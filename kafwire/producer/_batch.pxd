"""Batches on their way to a broker, the budget they are charged to, and the handles of what was sent.

What is `noexcept` here runs no Python: no other thread, no signal handler and no destructor comes between its steps.
What tells others may run anything, and comes last: all of them are told, whatever one raises.
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
    cdef int process  # whose threads settle its batches: the generation of it
    cdef readonly size_t used
    cdef size_t need  # what the last sender that found no room asked for
    cdef readonly int waiting  # threads and tasks
    cdef list locks  # of the threads among them, each held until there is news
    cdef dict listeners  # the others, by how to tell them: how many
    cdef bint is_owed  # there is more room than those who wait were told of
    cdef public object callbacks  # where delivery callbacks run (`Callbacks`); None: in place
    cdef readonly int64_t callbacks_due  # batches whose callbacks were handed over and have not ended
    cdef public object when_called  # None, or what is called when none of these is left
    cdef public object closed  # None, or why nothing more is taken
    cdef public bint reports_overlooked  # log failed batches whose outcome the program did not look at
    cdef int64_t overlooked  # records of such batches since the last line in the log
    cdef tuple last_overlooked  # the partition and the error of the last one
    cdef double next_report  # seconds of the clock: no line in the log before

    cdef bint lacks(self, size_t size) noexcept  # and, if so, remembers the size for `wait`
    cdef void release(self, size_t size) noexcept  # `settle_up` must follow, as soon as Python may run
    cdef bint fits(self, size_t size) noexcept
    cdef object wait_for(self, size_t need, timeout)
    cdef double seconds(self) noexcept
    cdef int settle_up(self) except -1
    cdef int tell(self) except -1
    cdef int overlook(self, name, int64_t count, error) except -1


cdef class DirectWait:
    """A way on which the thread that waits for a batch may get the answer before the engine does."""
    cdef void wait(self, ProducerBatch batch, double seconds) except *  # at most so long, and perhaps for nothing
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
    cdef readonly object queue  # None until it is put into one
    cdef int32_t count
    cdef readonly int64_t created_ms  # monotonic
    cdef size_t charged  # bytes of the budget
    cdef readonly size_t raw_size  # before it was compressed; 0 until it is sealed
    cdef bint closed  # takes no more records
    cdef readonly bint filling  # a thread adds rows to it without the GIL: it holds its place, and cannot be sent yet
    cdef int32_t placed  # records in it whose partition the user named; MIXED: not known how many
    cdef object identity  # (producer id, epoch, sequence) of the last stamp
    cdef public object producer  # logic.sequence's identity, or None
    cdef public int32_t sequence
    cdef public int64_t ordinal  # in the order of first sending
    cdef public int32_t attempts
    cdef public object last_error
    cdef readonly bint done
    cdef readonly int64_t base_offset
    cdef readonly int64_t log_append_ms
    cdef readonly object error
    cdef public bint looked  # the program has its outcome, or will have it by another batch or another error
    cdef DirectWait direct_wait  # that it was sent on, while it is in flight there; or None
    cdef list locks  # None, or those of the threads that wait for it, each held until it is done
    cdef list callbacks  # of kafwire's own: they run where the batch is settled
    cdef UserCallbacks user_callbacks  # None, or those of its user
    cdef list parts  # None, or what it was cut into: (index of the first record, batch)
    cdef bytes places  # None, or, if parts took single records, of each record its part and its index there (int32)
    cdef ProducerBatch whole  # None, or what it was cut from
    cdef int32_t parts_left

    cdef int divide(self, list parts) except -1
    cdef ProducerBatch part_of(self, int32_t *index)

    cdef void charge(self, size_t size) noexcept
    cdef void recharge(self) noexcept  # `Budget.settle_up` must follow
    cdef void drop_bytes(self) noexcept  # the same
    cdef void drop_contents(self) noexcept
    cdef void pass_charge(self) noexcept  # the same
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
