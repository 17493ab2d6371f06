# distutils: sources = kafwire/memory/native/buf.c
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t

from kafwire.memory._buffer cimport Buffer, kw_buf_ref, kw_buf_unref, process_generation
from kafwire.records._encode cimport writer_close
from kafwire.runtime._interfaces cimport Clock, Waiter, monotonic_ms

import threading
from struct import pack

from kafwire.errors import KafkaError, KafkaTimeoutError, PurgedError
from kafwire.handles import refuse_copies
from kafwire.memory._buffer import add_attributes, describe_fields, seal_types
from kafwire.peer_names import DELIVERY, attributes
from kafwire.runtime.log import log as _log
from kafwire.runtime.patched import is_patched, thread_name, wait_lock
from kafwire.types import RecordMetadata


REPORT_S = 10.0  # between two lines in the log about records that failed unseen


cdef object problem_of(function, str what):
    """Call a listener or callback; return an exception that must stop the program, or None.

    An `Exception` is logged. In both cases the caller calls the others too, then `raise_problem`.
    """
    try:
        try:
            function()
        except Exception:
            _log.exception("kafwire: %s raised", what)
    except BaseException as error:  # an interrupt, or a callback's `sys.exit()`
        return error
    return None


cdef int raise_problem(problem) except -1:
    """Raise a problem on the main thread, else log it.

    An exception on the engine would leave other batches without an outcome.
    """
    if problem is None:
        return 0
    if threading.get_ident() == threading.main_thread().ident:
        raise problem
    _log.error("kafwire: a callback raised %s; it stops no thread of kafwire's", type(problem).__name__,
               exc_info=problem)
    return 0


cdef void let_go(list locks) noexcept:
    """Wake the threads that wait for these locks."""
    if locks is not None:
        for lock in locks:
            lock.release()


@cython.final
cdef class Budget:
    def __cinit__(self, size_t limit, Clock clock not None, Waiter waiter not None):
        self.limit = limit
        self.clock = clock
        self.waiter = waiter
        self.process = process_generation()
        self.locks = []
        self.listeners = {}

    cdef bint lacks(self, size_t size) noexcept:
        """True if `size` more bytes do not fit. With an empty budget any size fits, even one larger than the limit."""
        if self.used == 0 or self.used + size <= self.limit:
            return False
        self.need = size
        return True

    cdef void release(self, size_t size) noexcept:
        self.used -= size
        if self.waiting and size:
            self.is_owed = True

    cdef int settle_up(self) except -1:
        """Notify the waiters if there is more room since the last notification."""
        if self.is_owed:
            self.tell()
        return 0

    cdef int tell(self) except -1:
        """Wake waiting threads and call the listeners: each checks again whether there is room."""
        cdef list fresh = []  # before the locks are taken out: an allocation may run any Python code
        cdef list locks
        self.is_owed = False
        locks, self.locks = self.locks, fresh
        let_go(locks)
        problem = None
        for listener in list(self.listeners):
            raised = problem_of(listener, "a listener for room in buffer_memory")
            problem = raised if problem is None else problem
        return raise_problem(problem)

    def close(self, reason):
        """Accept no more records, and notify the waiters."""
        self.closed = reason
        self.tell()

    cdef int overlook(self, name, int64_t count, error) except -1:
        """Count `count` records of a failed batch for the log, which has at most one line in `REPORT_S` seconds."""
        self.overlooked += count
        self.last_overlooked = name, error
        if self.seconds() >= self.next_report:
            self.report_overlooked()
        return 0

    def report_overlooked(self):
        """Log the number of failed records since the last log line."""
        cdef int64_t count = self.overlooked
        if count == 0:
            return
        self.overlooked = 0
        self.next_report = self.seconds() + REPORT_S
        _log.warning(
            "kafwire: %d record(s) were not delivered, and the program did not look at their deliveries; the last "
            "one to %s: %s. Call result(), exception() or add_done_callback()", count, *self.last_overlooked)

    def listen(self, listener):
        """Call `listener()`, on any thread, when there is more room: for a waiter that is not a thread.

        Several waiters may share a listener; each calls `unlisten` when it stops waiting.
        """
        self.listeners[listener] = self.listeners.get(listener, 0) + 1
        self.waiting += 1

    def unlisten(self, listener):
        """Count one waiter less for a listener."""
        cdef int left = self.listeners[listener] - 1
        if left:
            self.listeners[listener] = left
        else:
            del self.listeners[listener]
        self.waiting -= 1

    def wait(self, timeout):
        """Wait at most `timeout` seconds until the size that last found no room fits; True if it does."""
        cdef size_t need = self.need  # other senders may change `self.need` meanwhile
        return self.waiter.wait(lambda seconds: self.wait_for(need, seconds), timeout) is not None

    cdef object wait_for(self, size_t need, timeout):
        """Wait until `need` more bytes fit, then return True; None after `timeout` seconds."""
        cdef double until = self.seconds() + (threading.TIMEOUT_MAX if timeout is None else timeout)
        self.waiting += 1
        try:
            while not self.fits(need):
                lock = wait_lock()
                left = min(max(until - self.seconds(), 0.0), <double> threading.TIMEOUT_MAX)
                if self.fits(need):  # the calls above may have run any Python code
                    break
                self.locks.append(lock)
                try:
                    if not lock.acquire(True, left):
                        return True if self.fits(need) else None
                finally:
                    if lock in self.locks:
                        self.locks.remove(lock)
            return True
        finally:
            self.waiting -= 1

    cdef double seconds(self) noexcept:
        """Monotonic seconds, by the producer's clock."""
        return monotonic_ms(self.clock) / 1e3

    def has_room(self):
        """True if the size that last found no room fits, or the budget is closed."""
        return self.fits(self.need)

    cdef bint fits(self, size_t size) noexcept:
        return self.used == 0 or self.used + size <= self.limit or self.closed is not None


@cython.final
cdef class UserCallbacks:
    def __init__(self):
        raise TypeError("UserCallbacks are made by adding a callback")

    def hand_over(self):
        """Submit the callbacks to the callback thread, or call them here if there is none."""
        cdef Budget budget = self.batch.budget
        budget.callbacks_due += 1
        if budget.callbacks is None:
            self()
        else:
            budget.callbacks.submit(self)

    def __call__(self):
        cdef ProducerBatch batch = self.batch
        cdef Budget budget = batch.budget
        problem = None
        for function in self.functions:
            raised = problem_of(function, "a delivery callback")
            problem = raised if problem is None else problem
        self.functions = None
        budget.callbacks_due -= 1
        budget.release(batch.charged)
        batch.charged = 0
        try:
            budget.settle_up()
            if budget.callbacks_due == 0 and budget.when_called is not None:
                budget.when_called()
        except BaseException as error:
            problem = error if problem is None else problem
        raise_problem(problem)


cdef class DirectWait:
    cdef void wait(self, ProducerBatch batch, double seconds) except *:
        pass

    cdef void call_off(self) noexcept:
        pass


@cython.final
cdef class ProducerBatch:
    def __cinit__(self, Budget budget, queue, int64_t now_ms):
        self.budget = budget
        self.queue = queue
        self.created_ms = now_ms
        self.sequence = -1
        self.base_offset = -1
        self.log_append_ms = -1

    def __del__(self):
        """Report an error that no delivery of the batch can report any more."""
        if self.looked or not self.done or not self.budget.reports_overlooked:
            return
        if (self.error is None and self.parts is None) or self.budget.process != process_generation():
            return
        cdef int64_t failed = 0
        last = None
        for count, error in self.outcomes():
            if error is not None and not isinstance(error, PurgedError):
                failed += <int64_t> count
                last = error
        if failed:
            self.budget.overlook(self.queue.name, failed, last)

    def __dealloc__(self):
        writer_close(&self.writer)
        kw_buf_unref(self.wire)

    @property
    def size(self):
        """Encoded size in bytes: sealed, or as it is now."""
        return self.wire.size if self.wire is not NULL else (self.writer.buf.size if self.writer.buf is not NULL else 0)

    @property
    def count(self):
        """Number of records."""
        return self.count

    @property
    def is_part(self):
        """True if it was split from another batch."""
        return self.whole is not None

    def outcomes(self):
        """List (records, error or None) of a done batch and the parts it was split into, in the order of its records.
        """
        cdef list leaves = []
        self.looked = True
        _leaves(self, 0, self.count, leaves)
        return [(count, (<ProducerBatch> batch).error) for batch, _, count in leaves]

    cdef void charge(self, size_t size) noexcept:
        """Charge `size` bytes more to the budget."""
        self.charged += size
        self.budget.used += size

    cdef void recharge(self) noexcept:
        """Release what compression saved: a sealed batch may be much smaller than its records."""
        if self.raw_size == 0:
            self.raw_size = self.charged
        if self.wire is not NULL and self.charged > self.wire.size:
            self.budget.release(self.charged - self.wire.size)
            self.charged = self.wire.size

    def payload(self):
        """Return the sealed batch as a shared Buffer.

        Raise `KafkaError` if the batch is open, or done and its bytes freed.
        """
        if self.wire is NULL:
            raise KafkaError("the batch has no bytes: it is still open, or already done")
        kw_buf_ref(self.wire)
        return Buffer.steal(self.wire)

    def succeed(self, int64_t base_offset, int64_t log_append_ms):
        """Complete the batch: the broker appended it at `base_offset` (-1: the response does not say)."""
        if not self.done:
            self.base_offset = base_offset
            self.log_append_ms = log_append_ms
            self.finish()

    def fail(self, error not None):
        """Complete the batch with `error`: it was not delivered, or the outcome is unknown."""
        if not self.done:
            self.error = error
            self.finish()

    cdef int finish(self) except -1:
        """Settle the batch, then call all its callbacks, even if one raises."""
        cdef ProducerBatch batch = self
        cdef ProducerBatch whole
        cdef UserCallbacks user_callbacks
        cdef list callbacks
        problem = None
        self.drop_contents()
        self.pass_charge()
        self.mark_done()
        while batch is not None and batch.done:
            # The user's callbacks first: `flush` waits for the callbacks that were handed over before its own ran.
            user_callbacks, batch.user_callbacks = batch.user_callbacks, None
            if user_callbacks is not None:
                raised = problem_of(user_callbacks.hand_over, "a delivery callback")
                problem = raised if problem is None else problem
            callbacks, batch.callbacks = batch.callbacks, None
            if callbacks is not None:
                for callback in callbacks:
                    raised = problem_of(callback, "a delivery callback")
                    problem = raised if problem is None else problem
            whole, batch.whole = batch.whole, None
            batch = whole
        try:
            self.budget.settle_up()
        except BaseException as error:
            problem = error if problem is None else problem
        return raise_problem(problem)

    cdef void mark_done(self) noexcept:
        """Mark the batch done, and the batch it was split from if this was the last part.

        Wake threads that wait for either.
        """
        cdef ProducerBatch batch = self
        while True:
            batch.done = True
            if batch.direct_wait is not None:
                batch.direct_wait.call_off()
                batch.direct_wait = None
            let_go(batch.locks)
            batch.locks = None
            if batch.whole is None:
                return
            batch = batch.whole
            batch.parts_left -= 1
            if batch.parts_left:
                return

    cdef void drop_bytes(self) noexcept:
        self.drop_contents()
        self.budget.release(self.charged)
        self.charged = 0

    cdef void drop_contents(self) noexcept:
        writer_close(&self.writer)
        kw_buf_unref(self.wire)
        self.wire = NULL

    cdef void pass_charge(self) noexcept:
        """Free the batch's memory once the user's callbacks ran: its own, or those of the batch it was split from."""
        cdef ProducerBatch batch = self
        cdef size_t charged = self.charged
        self.charged = 0
        while batch is not None:
            if batch.user_callbacks is not None:
                batch.charged += charged
                return
            batch = batch.whole
        self.budget.release(charged)

    cdef int divide(self, list parts) except -1:
        """Continue the records in `parts` of (index of the first record, batch): the batch is done when they are."""
        cdef ProducerBatch part
        for _, part in parts:
            part.whole = self
            part.looked = True
        self.parts = parts
        self.parts_left = <int32_t> len(parts)
        self.drop_bytes()
        self.budget.settle_up()
        return 0

    cdef ProducerBatch part_of(self, int32_t *index):
        """Return the batch that holds record `index` now, and set `index` to the record's index there."""
        cdef ProducerBatch batch = self
        cdef const int32_t *place
        while batch.parts is not None:
            if batch.places is not None:
                place = <const int32_t *> PyBytes_AS_STRING(batch.places) + 2 * index[0]
                _, batch = batch.parts[place[0]]
                index[0] = place[1]
                continue
            for first, part in reversed(batch.parts):
                if <int32_t> first <= index[0]:
                    index[0] -= <int32_t> first
                    batch = <ProducerBatch> part
                    break
        return batch

    cdef bint is_observed(self) noexcept:
        """True if the batch's end must notify more than the thread in `direct_wait`: then the engine completes it."""
        return (self.locks is not None or self.callbacks is not None or self.user_callbacks is not None
                or self.budget.waiting > 0)

    def add_done_callback(self, callback):
        """Call `callback()` on the engine once the batch is done; at once if it is."""
        cdef list alone = [callback]  # made first: an allocation may let other threads run
        if self.done:
            callback()
        elif self.callbacks is None:
            self.callbacks = alone
        else:
            self.callbacks.append(callback)

    cdef int add_user_callback(self, function) except -1:
        """Call `function()` on the callback thread, after callbacks that are due.

        Call it at once if the batch is done and no callback is due.
        """
        cdef Budget budget = self.budget
        cdef UserCallbacks alone = UserCallbacks.__new__(UserCallbacks)  # first: an allocation may run any Python code
        alone.batch = self
        alone.functions = [function]
        if self.done:
            if budget.callbacks_due == 0 or budget.callbacks is None or budget.process != process_generation():
                raise_problem(problem_of(function, "a delivery callback"))
            else:
                alone.hand_over()
        elif self.user_callbacks is None:
            self.user_callbacks = alone
        else:
            self.user_callbacks.functions.append(function)
        return 0

    def follow(self, Delivery delivery not None):
        """Complete this batch of one record as `delivery`, the record that was sent in its place, completes."""
        self.places = pack("=ii", 0, delivery.index)
        self.parts = [(0, delivery.batch)]
        self.looked = True
        delivery.batch.add_done_callback(self.end_following)

    def end_following(self):
        """Complete this batch: the batch that it follows is done."""
        if not self.done:
            self.finish()

    cdef wait(self, timeout):
        if not self.done:
            if self.budget.process != process_generation():
                raise KafkaError(
                    f"a record to {self.queue.name} was sent before a fork: only the parent process learns its "
                    "outcome"
                )
            is_callback = self.budget.callbacks is not None and self.budget.callbacks.is_current
            if is_callback or thread_name() == "kafwire-engine":
                raise KafkaError(
                    f"a delivery callback waited for {self.queue.name}, but only the callback's own thread can "
                    "deliver it: wait in another thread"
                )
            if self.budget.waiter.wait(self.await_done, timeout) is None and not self.done:
                raise KafkaTimeoutError(
                    f"no acknowledgement from {self.queue.name} within {timeout:g} s; the record is still on its way"
                )

    def await_done(self, timeout):
        """Block until the batch is done, at most `timeout` seconds (None: no limit): True if it is, else None."""
        cdef double began
        cdef DirectWait direct_wait = self.direct_wait  # keeps it alive: the batch drops its reference when it is done
        left = timeout
        # A direct wait blocks in C: a greenlet leaves the response to the engine.
        if direct_wait is not None and self.budget.closed is None and not is_patched():
            began = self.budget.seconds()
            direct_wait.wait(self, 1e9 if timeout is None else timeout)
            if self.done:
                return True
            left = None if timeout is None else max(0.0, timeout - (self.budget.seconds() - began))
        lock = wait_lock()
        alone = [lock]
        wait_s = -1 if left is None else min(max(left, 0.0), threading.TIMEOUT_MAX)
        if self.done:  # the calls above may have run any Python code
            return True
        if self.locks is None:
            self.locks = alone
        else:
            self.locks.append(lock)
        try:
            return True if lock.acquire(True, wait_s) else None
        finally:
            if self.locks is not None and lock in self.locks:
                self.locks.remove(lock)


cdef _leaves(ProducerBatch batch, int32_t first, int32_t count, list out):
    """Append (batch, first, count) to `out` for `count` records from `first` on, by the batches that hold them now."""
    cdef ProducerBatch part
    cdef const int32_t *places
    cdef int32_t at, run
    if batch.parts is None:
        out.append((batch, first, count))
        return
    if batch.places is not None:
        places = <const int32_t *> PyBytes_AS_STRING(batch.places)
        at = first
        while at < first + count:
            run = 1
            while at + run < first + count and places[2 * (at + run)] == places[2 * at] and (
                    places[2 * (at + run) + 1] == places[2 * at + 1] + run):
                run += 1
            _, part = batch.parts[places[2 * at]]
            _leaves(part, places[2 * at + 1], run, out)
            at += run
        return
    for begin, part in batch.parts:
        low = max(first, <int32_t> begin)
        high = min(first + count, <int32_t> begin + part.count)
        if low < high:
            _leaves(part, low - <int32_t> begin, high - low, out)


# Delivery objects exist by the million, and a garbage collection would visit each. A cycle through one also goes
# through its batch, which drops its callbacks when it is done.
@cython.final
@cython.no_gc
@cython.freelist(4096)
@cython.embedsignature(False)
cdef class Delivery:
    """The handle of one sent record; `Producer.send` makes it. It completes in the background, without polling.

    Example:
        >>> delivery = producer.send(topic, b"EWR-IAH")
        >>> delivery.result(timeout=10).partition
        0
    """

    __reduce_ex__ = refuse_copies("they wait for a response to this process; hand over result(), a RecordMetadata")

    def __init__(self):
        raise TypeError("a Delivery is made by sending a record")

    def done(self):
        """Return whether the outcome is known."""
        return self.batch.done

    def result(self, timeout=None):
        """Wait for the acknowledgement.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The `RecordMetadata`; its `offset` is -1 with acks=0.

        Raises:
            KafkaError: the record's error.
            KafkaTimeoutError: the outcome is not known in time.
        """
        cdef int32_t index = self.index
        cdef ProducerBatch batch
        self.batch.wait(timeout)
        batch = self.batch.part_of(&index)
        self.batch.looked = batch.looked = True
        if batch.error is not None:
            raise batch.error.with_traceback(None)
        return RecordMetadata(
            batch.queue.topic,
            batch.queue.partition,
            batch.base_offset + index if batch.base_offset >= 0 else -1,
            batch.log_append_ms if batch.log_append_ms >= 0 else self.timestamp_ms,
        )

    def exception(self, timeout=None):
        """Wait for the outcome, and return the error that `result` raises.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The error; None for a record that was delivered.

        Raises:
            KafkaTimeoutError: the outcome is not known in time.
        """
        cdef int32_t index = self.index
        cdef ProducerBatch batch
        self.batch.wait(timeout)
        batch = self.batch.part_of(&index)
        self.batch.looked = batch.looked = True
        return batch.error

    def add_done_callback(self, function):
        """Call a function once the outcome is known, in kafwire's callback thread.

        Callbacks run one after the other, those of a partition in the order of its records. The record keeps its part
        of `buffer_memory` until its callbacks have returned. `Producer.send` never blocks within one. Their exceptions
        are logged.

        Args:
            function: it is called with this delivery; at once, in this thread, if the outcome is known and no callback
                is due. It must not wait for kafwire.
        """
        self.batch.add_user_callback(lambda: function(self))

    def __repr__(self):
        cdef int32_t index = self.index
        state = "pending"
        if self.batch.done:
            state = "delivered" if self.batch.part_of(&index).error is None else "failed"
        return f"<Delivery to {self.batch.queue.name}: {state}>"


@cython.final
@cython.embedsignature(False)
cdef class BatchDelivery:
    """The handle of the rows of one call; `Producer.send_batch` makes it. It completes in the background.

    Example:
        >>> delivery = producer.send_batch(topic, pa.table({"value": ["JFK-MIA", "JFK-BQN"]}))
        >>> len(delivery), delivery.exception(timeout=10)
        (2, None)
    """

    __reduce_ex__ = refuse_copies("they wait for responses to this process; hand over result(), a list of ranges")

    def __cinit__(self, list parts):
        self.parts = parts

    def done(self):
        """Return whether the outcome of every row is known."""
        return all((<ProducerBatch> batch).done for batch, _, _ in self.parts)

    def result(self, timeout=None):
        """Wait for all acknowledgements.

        Rows of one partition keep their order. Ranges of a partition that touch are joined.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            A list of (topic, partition, first_offset, count), in the order of sending; first_offset is -1 with acks=0.

        Raises:
            KafkaError: the first failed batch's error.
            KafkaTimeoutError: an outcome is not known in time.
        """
        cdef ProducerBatch batch
        ranges = {}
        out = []
        for batch, first, count in self.pieces(timeout):
            if batch.error is not None:
                raise batch.error.with_traceback(None)
            where = (batch.queue.topic, batch.queue.partition)
            offset = batch.base_offset + first if batch.base_offset >= 0 else -1
            index = ranges.get(where)
            if index is not None and (out[index][2] < 0 or out[index][2] + out[index][3] == offset):
                topic, partition, begin, total = out[index]
                out[index] = (topic, partition, begin, total + count)
            else:
                ranges[where] = len(out)
                out.append((*where, offset, count))
        return out

    def exception(self, timeout=None):
        """Wait for all outcomes, and return the error that `result` raises.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Returns:
            The error; None if all rows were delivered.

        Raises:
            KafkaTimeoutError: an outcome is not known in time.
        """
        cdef ProducerBatch batch
        for batch, _, _ in self.pieces(timeout):
            if batch.error is not None:
                return batch.error
        return None

    def add_done_callback(self, function):
        """Call a function once the outcome of every row is known, in kafwire's callback thread.

        Its exceptions are logged.

        Args:
            function: it is called with this delivery; at once, in this thread, if all outcomes are known and no
                callback is due. It must not wait for kafwire.
        """
        cdef _Countdown countdown = _Countdown.__new__(_Countdown)
        cdef ProducerBatch batch
        countdown.function = function
        countdown.delivery = self
        countdown.left = <int> len(self.parts) + 1
        for batch, _, _ in self.parts:
            batch.add_user_callback(countdown)
        raise_problem(problem_of(countdown, "a delivery callback"))

    cdef list pieces(self, timeout):
        """Wait for all rows; list (batch, first, count) by the batches that hold them, in the order of sending."""
        cdef ProducerBatch batch
        cdef list found = []
        deadline = None
        for batch, first, count in self.parts:
            if timeout is not None and deadline is None:
                deadline = batch.budget.seconds() + timeout
            batch.wait(None if deadline is None else max(0.0, deadline - batch.budget.seconds()))
            batch.looked = True
            _leaves(batch, first, count, found)
        return found

    def __len__(self):
        return sum(count for _, _, count in self.parts)

    def __repr__(self):
        return f"<BatchDelivery of {len(self)} rows: {'done' if self.done() else 'pending'}>"


@cython.final
cdef class _Countdown:
    """Calls a function with a delivery once it was called for every part."""

    cdef object function
    cdef BatchDelivery delivery
    cdef int left

    def __call__(self):
        cdef BatchDelivery delivery
        self.left -= 1
        if self.left == 0:
            delivery, self.delivery = self.delivery, None
            function, self.function = self.function, None
            function(delivery)


seal_types(Budget, ProducerBatch, Delivery, BatchDelivery, UserCallbacks)
add_attributes(Delivery, attributes(DELIVERY))
add_attributes(BatchDelivery, attributes(DELIVERY))
describe_fields(Delivery, {"batch": "The batch that the record is in, for kafwire's own use."})
describe_fields(BatchDelivery, {"parts": "The batches that the rows are in, for kafwire's own use."})
