"""A partition's direct send path: the sending thread submits a batch, and takes the response from the I/O thread."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.producer.buffer._batch cimport ProducerBatch, DirectWait
from kafwire.runtime._interfaces cimport Clock, Notifier, PendingRequest, RequestTable, ResponseFilter


cdef extern from "kafwire/producer/buffer/native/response_waiters.h" nogil:
    ctypedef struct kw_waiters:
        pass
    ctypedef struct kw_awaited_response:
        uint64_t token
        int state
        const uint8_t *plain
        size_t size
        size_t numbers_at
        int64_t base_offset
        int64_t log_append_ms
        void (*wake)(void *waiter) noexcept nogil
        void *waiter
    int KW_RECEIVED
    kw_waiters *kw_waiters_new()
    void kw_waiters_free(kw_waiters *direct_send)
    void kw_waiters_await(kw_waiters *direct_send, kw_awaited_response *awaited)
    int kw_waiters_leave(kw_waiters *direct_send, kw_awaited_response *awaited)
    void kw_waiters_call_off(kw_waiters *direct_send, kw_awaited_response *awaited)
    int kw_waiters_read(kw_awaited_response *awaited, const kw_buf *frame)
    int kw_waiters_take(void *direct_send, uint64_t token, kw_buf *frame)


cdef class ResponseWaiters(ResponseFilter):
    """Offers the responses of one connection to the threads that wait for them."""
    cdef Notifier notifier
    cdef kw_waiters *waiters
    cdef int quiet  # responses that the engine has not heard of

    cdef void tell(self) noexcept


cdef class PendingSend(PendingRequest):
    """The Python objects that a direct send needs.

    Allocated before the send examines any state: an allocation may run a garbage collection, and so any code, even
    another `send`.
    """
    cdef DirectSend direct_send
    cdef ProducerBatch batch
    cdef tuple identity  # identity of the batch, see ProducerBatch.identity
    cdef object token


# The GIL makes each of its steps atomic, and no step runs Python: an interrupt comes before or after a step. The
# `noexcept` functions are the steps.
cdef class DirectSend(DirectWait):
    cdef ResponseWaiters waiters
    cdef readonly object connection
    cdef RequestTable requests  # of the connection's socket at the time the partition was leased
    cdef Clock clock
    cdef object on_response
    cdef readonly ProducerBatch batch  # in flight, or None
    cdef readonly int64_t sent  # number of batches sent
    cdef readonly int64_t end  # the offset after the last acknowledged batch, or -1
    cdef bytes prefix
    cdef kw_buf *suffix
    cdef bint flexible
    cdef bytes plain
    cdef kw_awaited_response awaited
    cdef void *lock  # a PyThread lock; held, except between a wake and the return of the waiting thread
    cdef bint is_awaited
    cdef object producer
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef int32_t sequence
    cdef int64_t ordinal
    cdef readonly double sent_ms
    # Counted since the last `take_counts`.
    cdef int64_t batches, records, delivered, bytes, bytes_raw, batch_bytes_max, bytes_out, responses
    cdef double latency_ms_sum, latency_ms_max

    cdef PendingSend pending_send(self)
    cdef bint submit(self, ProducerBatch batch, PendingSend pending) noexcept
    cdef int conclude_plain(self, ProducerBatch batch) except -1
    cdef bint leave(self) noexcept
