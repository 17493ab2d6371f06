cimport cython
from libc.stdint cimport int64_t

from kafwire._buffer cimport Buffer, kw_buf_ref, kw_buf_unref
from kafwire._encode cimport writer_close

import logging
import threading
import time

from kafwire.errors import KafkaError, KafkaTimeoutError
from kafwire.structs import RecordMetadata

_log = logging.getLogger("kafwire")


@cython.final
cdef class Budget:
    def __cinit__(self, size_t limit):
        self.limit = limit
        self.room = threading.Condition()
        self.listeners = {}

    cdef bint lacks(self, size_t size):
        """Whether `size` more bytes do not fit; one too large for the whole budget may come alone."""
        if self.used == 0 or self.used + size <= self.limit:
            return False
        self.need = size
        return True

    cdef void release(self, size_t size):
        self.used -= size
        if self.waiting:
            self.tell()

    cdef tell(self):
        """Whoever waits looks again."""
        with self.room:
            self.room.notify_all()
            listeners = list(self.listeners)
        for listener in listeners:
            listener()

    def close(self, reason):
        """Take nothing more; who waits for room is told."""
        self.closed = reason
        self.tell()

    def listen(self, listener):
        """Call `listener()`, on any thread, whenever there is more room: for who waits and is no thread.

        May be called for several who wait, each of whom calls `unlisten` in the end.
        """
        with self.room:
            self.waiting += 1
            self.listeners[listener] = self.listeners.get(listener, 0) + 1

    def unlisten(self, listener):
        """One of them waits no more."""
        with self.room:
            self.waiting -= 1
            self.listeners[listener] -= 1
            if not self.listeners[listener]:
                del self.listeners[listener]

    def wait(self, timeout):
        """Wait until what last found no room fits, at most `timeout` seconds: whether it does."""
        cdef size_t need = self.need  # others may come and need more
        with self.room:
            self.waiting += 1
            try:
                return self.room.wait_for(lambda: self.fits(need), timeout)
            finally:
                self.waiting -= 1

    def has_room(self):
        """Whether what last found no room fits, or nothing more is taken at all."""
        return self.fits(self.need)

    cdef bint fits(self, size_t size):
        return self.used == 0 or self.used + size <= self.limit or self.closed is not None


cdef class Shortcut:
    cdef void wait(self, ProducerBatch batch, double seconds) except *:
        pass

    cdef void call_off(self):
        pass


@cython.final
cdef class ProducerBatch:
    def __cinit__(self, Budget budget, sink, int64_t now_ms):
        self.budget = budget
        self.sink = sink
        self.created_ms = now_ms
        self.sequence = -1
        self.base_offset = -1
        self.log_append_ms = -1

    def __dealloc__(self):
        writer_close(&self.writer)
        kw_buf_unref(self.wire)

    @property
    def size(self):
        """Bytes of the batch as it goes over the wire, or would if it went now."""
        return self.wire.size if self.wire is not NULL else (self.writer.buf.size if self.writer.buf is not NULL else 0)

    @property
    def count(self):
        """Records in it."""
        return self.count

    @property
    def is_part(self):
        """Whether it was cut from another one."""
        return self.whole is not None

    def outcomes(self):
        """Of a batch that is done: (records, error or None) for what it was sent as, in the order of its records."""
        cdef list leaves = []
        _leaves(self, 0, self.count, leaves)
        return [(count, (<ProducerBatch> batch).error) for batch, _, count in leaves]

    cdef void charge(self, size_t size):
        """It grew by `size` bytes."""
        self.charged += size
        self.budget.used += size

    cdef void recharge(self):
        """A sealed batch may be much smaller than what it was made of: give back the difference."""
        cdef size_t too_much
        if self.raw_size == 0:
            self.raw_size = self.charged
        if self.wire is not NULL and self.charged > self.wire.size:
            too_much = self.charged - self.wire.size
            self.charged = self.wire.size
            self.budget.release(too_much)  # last: it may tell others, in Python

    def payload(self):
        """The sealed batch as a Buffer, shared."""
        kw_buf_ref(self.wire)
        return Buffer.steal(self.wire)

    def succeed(self, int64_t base_offset, int64_t log_append_ms):
        """The broker has it, from `base_offset` on (-1: it did not say)."""
        self.base_offset = base_offset
        self.log_append_ms = log_append_ms
        self.finish()

    def fail(self, error):
        """It was not delivered, or nobody knows; `error` says which."""
        self.error = error
        self.finish()

    cdef void finish(self):
        if self.done:
            return
        self.drop_bytes()
        self.conclude()

    cdef void drop_bytes(self):
        cdef size_t charged = self.charged
        writer_close(&self.writer)
        kw_buf_unref(self.wire)
        self.wire = NULL
        self.charged = 0
        self.budget.release(charged)

    cdef void divide(self, list parts):
        """Its records go on in `parts` of (index of the first record, batch): it is done when all of them are."""
        cdef ProducerBatch part
        self.parts = parts
        self.parts_left = <int32_t> len(parts)
        for _, part in parts:
            part.whole = self
        self.drop_bytes()

    cdef ProducerBatch part_of(self, int32_t *index):
        """The batch that the record `index` is in now; `index` becomes that in it."""
        cdef ProducerBatch batch = self
        while batch.parts is not None:
            for first, part in reversed(batch.parts):
                if <int32_t> first <= index[0]:
                    index[0] -= <int32_t> first
                    batch = <ProducerBatch> part
                    break
        return batch

    cdef bint is_observed(self):
        """Whether anybody but a thread on its shortcut is told of its end: then Python code runs in `conclude`."""
        return self.event is not None or self.callbacks is not None or self.budget.waiting > 0

    cdef void conclude(self):
        cdef ProducerBatch whole
        cdef Shortcut shortcut
        self.done = True
        whole, self.whole = self.whole, None
        if whole is not None:
            whole.parts_left -= 1
            if whole.parts_left == 0:
                whole.conclude()
        shortcut, self.shortcut = self.shortcut, None
        if shortcut is not None:
            shortcut.call_off()
        if self.event is not None:
            self.event.set()
        callbacks, self.callbacks = self.callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    _log.exception("kafwire: a delivery callback raised")

    def add_done_callback(self, callback):
        """Call `callback()` on the engine once done, or now if that is past."""
        cdef list alone = [callback]  # made first: an allocation may let other threads run
        if self.done:
            callback()
        elif self.callbacks is None:
            self.callbacks = alone
        else:
            self.callbacks.append(callback)

    cdef wait(self, timeout):
        cdef double began
        cdef Shortcut shortcut
        if not self.done:
            if threading.current_thread().name == "kafwire-engine":
                raise KafkaError(
                    f"a delivery callback waited for {self.sink.name}, which only the thread that it runs on can "
                    "deliver: hand the work to another thread"
                )
            left = timeout
            shortcut = self.shortcut  # a reference of its own: the batch lets go of it when it is done
            if shortcut is not None and self.budget.closed is None:
                began = time.monotonic()
                shortcut.wait(self, 1e9 if timeout is None else timeout)
                if self.done:
                    return
                left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
            event = threading.Event()
            if self.event is None:  # another thread may have set one meanwhile: all wait for the same
                self.event = event
            if not self.done and not self.event.wait(left):
                raise KafkaTimeoutError(
                    f"no acknowledgement from {self.sink.name} within {timeout:g} s; the record is still on its way"
                )


cdef _leaves(ProducerBatch batch, int32_t first, int32_t count, list out):
    """The `count` records of a batch from `first` on, as (batch, first, count) of what they are in now."""
    cdef ProducerBatch part
    if batch.parts is None:
        out.append((batch, first, count))
        return
    for begin, part in batch.parts:
        low = max(first, <int32_t> begin)
        high = min(first + count, <int32_t> begin + part.count)
        if low < high:
            _leaves(part, low - <int32_t> begin, high - low, out)


# Kept by the million, and a collection of garbage would look at each. A cycle through one goes by its batch, which lets
# go of its callbacks when it is done.
@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Delivery:
    """What becomes of one sent record. Resolves by itself; nothing has to be polled."""

    def done(self):
        """Whether the outcome is known."""
        return self.batch.done

    def result(self, timeout=None):
        """Wait for the acknowledgement, at most `timeout` seconds: `RecordMetadata`.

        `offset` is -1 with acks=0. Raises the record's `KafkaError`, or `KafkaTimeoutError` when the wait is over
        first.
        """
        cdef int32_t index = self.index
        cdef ProducerBatch batch
        self.batch.wait(timeout)
        batch = self.batch.part_of(&index)
        if batch.error is not None:
            raise batch.error.with_traceback(None)
        return RecordMetadata(
            batch.sink.topic,
            batch.sink.partition,
            batch.base_offset + index if batch.base_offset >= 0 else -1,
            batch.log_append_ms if batch.log_append_ms >= 0 else self.timestamp_ms,
        )

    def exception(self, timeout=None):
        """The error that `result` would raise, or None; waits as it does."""
        cdef int32_t index = self.index
        self.batch.wait(timeout)
        return self.batch.part_of(&index).error

    def add_done_callback(self, function):
        """Call `function(delivery)` when done, on the engine's thread: it must be quick, and not wait for kafwire."""
        self.batch.add_done_callback(lambda: function(self))

    def __repr__(self):
        cdef int32_t index = self.index
        state = "pending"
        if self.batch.done:
            state = "delivered" if self.batch.part_of(&index).error is None else "failed"
        return f"<Delivery to {self.batch.sink.name}: {state}>"


@cython.final
cdef class BatchDelivery:
    """What becomes of the rows of one `send_batch`."""

    def __cinit__(self, list parts):
        self.parts = parts

    def done(self):
        """Whether the outcome of every row is known."""
        return all((<ProducerBatch> batch).done for batch, _, _ in self.parts)

    def result(self, timeout=None):
        """Wait for all acknowledgements: [(topic, partition, first_offset, count)], in the order of sending.

        Rows of one partition keep their order; ranges that touch are one. first_offset is -1 with acks=0. Raises the
        first failed batch's `KafkaError`, or `KafkaTimeoutError`.
        """
        cdef ProducerBatch batch
        deadline = None if timeout is None else time.monotonic() + timeout
        ranges = {}
        out = []
        pieces = []
        for batch, first, count in self.parts:
            batch.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            _leaves(batch, first, count, pieces)
        for batch, first, count in pieces:
            if batch.error is not None:
                raise batch.error.with_traceback(None)
            where = (batch.sink.topic, batch.sink.partition)
            offset = batch.base_offset + first if batch.base_offset >= 0 else -1
            index = ranges.get(where)
            if index is not None and (out[index][2] < 0 or out[index][2] + out[index][3] == offset):
                topic, partition, begin, total = out[index]
                out[index] = (topic, partition, begin, total + count)
            else:
                ranges[where] = len(out)
                out.append((*where, offset, count))
        return out

    def __len__(self):
        return sum(count for _, _, count in self.parts)

    def __repr__(self):
        return f"<BatchDelivery of {len(self)} rows: {'done' if self.done() else 'pending'}>"
