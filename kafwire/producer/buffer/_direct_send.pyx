# distutils: sources = kafwire/memory/native/buf.c kafwire/producer/buffer/native/response_waiters.c
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kafwire.memory._buffer cimport Buffer, kw_buf, kw_buf_new, kw_buf_unref, kw_put_be32, kw_put_uvarint, process_pool
from kafwire.producer.buffer._batch cimport ProducerBatch
from kafwire.runtime._frame cimport new_segment
from kafwire.runtime._interfaces cimport (
    Clock, Notifier, PendingRequest, RequestTable, ResponseFilter, monotonic_ms,
)


cdef extern from "pythread.h" nogil:
    ctypedef void *PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    void PyThread_release_lock(PyThread_type_lock lock)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible)

cdef enum:
    TELL_AFTER = 64  # that many responses that the engine must discard make it run
    CORRELATION_ID_AT = 4
    SIZE_PREFIX = 4
    SLICE_US = 100000  # a signal just before a wait does not interrupt it: the wait checks for signals at this interval
    LAST_SEQUENCE = 0x7FFFFFFF

# Connections number their requests from 1 on; these numbers are negative, and all different.
cdef uint32_t last_number = 0


cdef void _wake(void *lock) noexcept nogil:
    PyThread_release_lock(<PyThread_type_lock> lock)


# The I/O thread uses its memory until it is detached: the garbage collector must not clear it before.
@cython.final
@cython.no_gc_clear
cdef class ResponseWaiters(ResponseFilter):
    def __cinit__(self, Notifier notifier not None):
        self.notifier = notifier
        self.waiters = kw_waiters_new()
        if self.waiters is NULL:
            raise MemoryError
        self.function = kw_waiters_take
        self.context = self.waiters

    def __dealloc__(self):
        self.detach()
        kw_waiters_free(self.waiters)

    cdef void tell(self) noexcept:
        """Make the engine check for responses that were not reported to it."""
        self.notifier.notifier.tell(&self.notifier.notifier)


@cython.final
@cython.no_gc_clear
cdef class PendingSend(PendingRequest):
    def complete(self, frame, error):
        """Report the response, or the error, to the engine."""
        self.direct_send.on_response(self.direct_send, self.batch, frame, error)


@cython.final
@cython.no_gc_clear
cdef class DirectSend(DirectWait):
    """Sends batches of an idle partition, one at a time, from the thread that has the record.

    `prefix` and `suffix` are the request before the batch's size and after the batch; `flexible`: how the size is
    encoded. `plain` is a response without an error, with its three numbers at `numbers_at`. `on_response(direct send,
    batch, frame, error)` is called on the engine for each request whose response no thread has taken by then. `place`
    is the producer, and the numbers of its next record and batch: (producer, sequence, ordinal), as `Sequencer.lease`
    returns it.
    """

    def __cinit__(self, ResponseWaiters waiters not None, RequestTable requests not None, connection,
                  Clock clock not None, on_response, bytes prefix not None, bytes suffix not None, *, bint flexible,
                  bytes plain not None, size_t numbers_at, tuple place not None):
        self.waiters = waiters
        self.connection = connection
        self.requests = requests
        self.clock = clock
        self.on_response = on_response
        self.prefix = prefix
        self.flexible = flexible
        self.plain = plain
        self.producer, self.sequence, self.ordinal = place
        self.producer_id, self.epoch = (-1, -1) if self.producer is None else self.producer
        if self.producer is None:
            self.sequence = -1
        self.end = -1
        self.lock = <void *> PyThread_allocate_lock()
        if self.lock is NULL:
            raise MemoryError
        PyThread_acquire_lock(<PyThread_type_lock> self.lock, 1)
        if suffix:
            self.suffix = new_segment(suffix)
        self.awaited.plain = <const uint8_t *> PyBytes_AS_STRING(plain)
        self.awaited.size = PyBytes_GET_SIZE(plain)
        self.awaited.numbers_at = numbers_at
        self.awaited.wake = _wake
        self.awaited.waiter = self.lock

    def __dealloc__(self):
        kw_buf_unref(self.suffix)
        if self.lock is not NULL:
            PyThread_release_lock(<PyThread_type_lock> self.lock)
            PyThread_free_lock(<PyThread_type_lock> self.lock)

    @property
    def token(self):
        """The token of the request in flight in the connection's request table."""
        return self.awaited.token

    cdef PendingSend pending_send(self):
        global last_number
        cdef PendingSend pending_send = PendingSend.__new__(PendingSend)
        pending_send.sent_ms = monotonic_ms(self.clock)
        last_number = last_number % LAST_SEQUENCE + 1
        pending_send.direct_send = self
        pending_send.token = <uint32_t> -last_number
        pending_send.identity = self.producer_id, self.epoch, self.sequence
        return pending_send

    cdef bint submit(self, ProducerBatch batch, PendingSend pending_send) noexcept:
        """Send a sealed and stamped batch; False: it cannot be sent, and nothing has changed."""
        cdef kw_buf *segments[3]
        cdef kw_buf *text
        cdef uint8_t *at
        cdef uint32_t size = <uint32_t> batch.wire.size
        cdef uint32_t token = pending_send.token
        cdef Py_ssize_t before = PyBytes_GET_SIZE(self.prefix)
        cdef int result
        if not self.requests.add(pending_send.token, pending_send):
            return False  # the connection was given up: no thread reads its responses
        text = kw_buf_new(process_pool(), before + 5)
        if text is NULL:
            self.requests.remove(pending_send.token)
            return False
        memcpy(text.data, PyBytes_AS_STRING(self.prefix), before)
        kw_put_be32(text.data + CORRELATION_ID_AT, <int32_t> token)
        at = text.data + before
        if self.flexible:
            at = kw_put_uvarint(at, <uint64_t> size + 1)
        else:
            kw_put_be32(at, <int32_t> size)
            at += 4
        text.size = at - text.data
        segments[0] = text
        segments[1] = batch.wire
        segments[2] = self.suffix
        result = self.requests.submit(token, <int32_t> token, segments, 2 if self.suffix is NULL else 3)
        size += <uint32_t> (SIZE_PREFIX + text.size + (0 if self.suffix is NULL else self.suffix.size))
        kw_buf_unref(text)
        if result:
            self.requests.remove(pending_send.token)
            return False
        self.awaited.token = token
        self.batch = batch
        self.sent_ms = pending_send.sent_ms
        pending_send.batch = batch
        batch.direct_wait = self
        batch.producer = self.producer
        batch.ordinal = self.ordinal
        self.ordinal += 1
        batch.sequence = self.sequence
        if self.producer is not None:
            self.sequence = <int32_t> ((<uint32_t> self.sequence + <uint32_t> batch.count) & LAST_SEQUENCE)
        self.sent += 1
        self.batches += 1
        self.records += batch.count
        self.bytes += batch.wire.size
        self.bytes_raw += batch.charged
        self.batch_bytes_max = max(self.batch_bytes_max, <int64_t> batch.wire.size)
        self.bytes_out += size
        return True

    cdef int conclude_plain(self, ProducerBatch batch) except -1:
        """Complete the batch in flight, which was acknowledged with the numbers in `awaited`."""
        self.batch = None
        self.delivered += batch.count
        if self.awaited.base_offset >= 0:
            self.end = self.awaited.base_offset + batch.count
        batch.succeed(self.awaited.base_offset, self.awaited.log_append_ms)
        return 0

    cdef void wait(self, ProducerBatch batch, double seconds) except *:
        cdef PyThread_type_lock lock = <PyThread_type_lock> self.lock
        cdef PyLockStatus status
        cdef double until = monotonic_ms(self.clock) + min(seconds, 1e9) * 1e3
        cdef double latency_ms
        cdef long long left
        if self.batch is not batch:
            return  # the engine has the batch
        if self.is_awaited:  # another thread waits, perhaps below this signal handler: the engine takes the response
            self.call_off()
            self.waiters.tell()
            return
        self.is_awaited = True
        kw_waiters_await(self.waiters.waiters, &self.awaited)
        try:
            while True:
                left = <long long> max((until - monotonic_ms(self.clock)) * 1e3, 0)
                with nogil:
                    status = PyThread_acquire_lock_timed(lock, min(left, SLICE_US), 1)
                if status == PY_LOCK_ACQUIRED or status == PY_LOCK_FAILURE and left <= SLICE_US:
                    break
                PyErr_CheckSignals()
        except BaseException:
            self.leave()
            self.waiters.tell()  # if the response has arrived, the engine takes it
            raise
        finally:
            self.is_awaited = False
        if status == PY_LOCK_FAILURE and not self.leave():
            return
        if self.awaited.state != KW_RECEIVED:
            return
        if self.batch is not batch or batch.is_observed():  # others must be notified: the engine does that
            self.waiters.tell()
            return
        # If the request is not in the table, the engine has counted it.
        if self.requests.remove(self.awaited.token):
            latency_ms = monotonic_ms(self.clock) - self.sent_ms
            self.responses += 1
            self.latency_ms_sum += latency_ms
            self.latency_ms_max = max(self.latency_ms_max, latency_ms)
        self.conclude_plain(batch)
        self.waiters.quiet += 1
        if self.waiters.quiet >= TELL_AFTER:
            self.waiters.quiet = 0
            self.waiters.tell()

    cdef bint leave(self) noexcept:
        """Stop waiting; True if it was woken."""
        if not kw_waiters_leave(self.waiters.waiters, &self.awaited):
            return False
        PyThread_acquire_lock(<PyThread_type_lock> self.lock, 0)
        return True

    cdef void call_off(self) noexcept:
        kw_waiters_call_off(self.waiters.waiters, &self.awaited)

    def complete(self, ProducerBatch batch, Buffer frame not None):
        """On the engine: take the response to the batch in flight, if it is a plain one; True if taken."""
        if self.batch is not batch or not kw_waiters_read(&self.awaited, frame.buf):
            return False
        self.call_off()  # first: afterwards this may be used for another batch
        self.conclude_plain(batch)
        return True

    def revoke(self):
        """End the direct path; return (sequence, ordinal, the batch in flight or None), for `Sequencer.resume`."""
        cdef ProducerBatch batch = self.batch
        self.batch = None
        if batch is not None:
            batch.direct_wait = None
            self.call_off()
            self.waiters.tell()  # its response may have arrived unnoticed by the engine
        return self.sequence, self.ordinal, batch

    def take_counts(self):
        """Return the counts since the last call, and reset them."""
        counts = {
            "batches": self.batches,
            "records": self.records,
            "delivered": self.delivered,
            "bytes": self.bytes,
            "bytes_raw": self.bytes_raw,
            "batch_bytes_max": self.batch_bytes_max,
            "bytes_out": self.bytes_out,
            "responses": self.responses,
            "bytes_in": self.responses * (SIZE_PREFIX + self.awaited.size),
            "latency_ms_sum": self.latency_ms_sum,
            "latency_ms_max": self.latency_ms_max,
        }
        self.batches = self.records = self.delivered = self.bytes = self.bytes_raw = self.bytes_out = 0
        self.responses = 0
        self.latency_ms_sum = 0.0
        return counts
