"""Awaitable deliveries: the handles of sent records, and the notification of the user's event loops.

The engine wakes a loop once for all outcomes since the loop last looked: one wake-up for many records. Any number of
tasks, in any loop, may await a handle.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import Any

from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import BatchDelivery, Budget, Delivery, ProducerBatch
from kafwire.runtime.log import producer_log as log
from kafwire.types import RecordMetadata

_NOT_YET = "the outcome is not known yet: await the delivery"


class LoopState:
    """One event loop of the user, and its tasks that wait for batches or for room.

    All methods but `_tell` and `more_room` run in that loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, budget: Budget) -> None:
        self.loop = loop
        self.senders: deque[RoomWaiter] = deque()  # senders that wait for room, in turn
        self.last_sends: dict[str, asyncio.Future[None]] = {}  # by topic, while a serializer waits for a registry
        self._budget = budget
        self._waiting: dict[ProducerBatch, list[Callable[[], object]]] = {}
        self._news: deque[ProducerBatch | None] = deque()  # batches that are done; None: more room
        self._notified = False

    # --- batches

    def when_done(self, batch: ProducerBatch, function: Callable[[], object]) -> None:
        """Call `function()` in this loop once the batch is done."""
        waiting = self._waiting.get(batch)
        if waiting is not None:
            waiting.append(function)
        else:
            self._waiting[batch] = [function]
            batch.add_done_callback(partial(self._tell, batch))

    def until_done(self, batch: ProducerBatch) -> Generator[Any, None, None]:
        """Wait for the batch. A cancelled wait does not affect the batch."""
        waiter = Waiter(self.loop)
        self.when_done(batch, waiter.resolve)
        return iter(waiter)

    def _tell(self, news: ProducerBatch | None) -> None:
        """Queue a batch that is done (None: more room), and wake the loop if needed. Any thread."""
        self._news.append(news)
        if self._notified:
            return
        try:
            self._notified = True
            with contextlib.suppress(RuntimeError):  # the loop was closed without waiting for this
                self.loop.call_soon_threadsafe(self._on_news)
        except BaseException:  # interrupted: the next call wakes the loop
            self._notified = False
            raise

    def _on_news(self) -> None:
        self._notified = False  # before the look: later news wakes the loop again
        while self._news:
            batch = self._news.popleft()
            if batch is None:
                self._wake_first()
                continue
            for function in self._waiting.pop(batch, ()):
                try:
                    function()
                except Exception:
                    log.exception("kafwire: a delivery callback raised")

    # --- room

    def more_room(self) -> None:
        """Wake the first waiting sender, as the budget has more room. Any thread."""
        self._tell(None)

    def _wake_first(self) -> None:
        if self.senders:
            self.senders[0].wake()

    def enter(self) -> RoomWaiter:
        """Return a place at the end of the queue of senders that wait for room; `leave` must follow."""
        place = RoomWaiter(self)
        self.senders.append(place)
        self._budget.listen(self.more_room)
        return place

    def leave(self, place: RoomWaiter) -> None:
        """Leave the queue, and wake the sender that is first now."""
        self.senders.remove(place)
        self._budget.unlisten(self.more_room)
        self._wake_first()


class SendTurn:
    """The turn of one send to a topic: a serializer that waits for a registry must not change the order of sends.

    All methods run in the loop of `state`.
    """

    __slots__ = ("_ahead", "_mine", "_state", "_topic")

    def __init__(self, state: LoopState, topic: str) -> None:
        self._state = state
        self._topic = topic
        self._mine: asyncio.Future[None] | None = None
        self._ahead = state.last_sends.get(topic)
        if self._ahead is not None:
            self._begin()

    def _begin(self) -> None:
        if self._mine is None:
            self._mine = self._state.last_sends[self._topic] = self._state.loop.create_future()

    async def wait(self) -> None:
        """Let later sends wait, and wait until the send ahead has ended."""
        self._begin()
        if self._ahead is not None:
            await asyncio.wait([self._ahead])

    @property
    def is_first(self) -> bool:
        """True if no other send is ahead."""
        return self._ahead is None or self._ahead.done()

    def end(self) -> None:
        """Let the next send go on; after a cancellation, once the send ahead has ended."""
        if self._mine is not None:
            if self.is_first:
                self._pass()
            else:
                assert self._ahead is not None
                self._ahead.add_done_callback(self._pass)

    def _pass(self, _: object = None) -> None:
        assert self._mine is not None
        self._mine.set_result(None)
        if self._state.last_sends.get(self._topic) is self._mine:
            del self._state.last_sends[self._topic]


class Waiter:
    """An awaitable for one task, with the protocol of asyncio's Future.

    A Future runs its task one turn of the loop later. That turn calls the selector and releases the GIL to the engine,
    which has just released it; a single awaited record would wait for that. This class runs the task at once.
    """

    __slots__ = ("_asyncio_future_blocking", "_callback", "_cancelled", "_context", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False
        self._callback: Callable[[Waiter], object] | None = None
        self._context: contextvars.Context | None = None
        self._cancelled: tuple[object, ...] | None = None

    def __iter__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the task's loop, which asyncio compares with its own."""
        return self._loop

    def add_done_callback(
        self, function: Callable[[Waiter], object], *, context: contextvars.Context | None = None
    ) -> None:
        """Store the task's callback."""
        self._callback = function
        self._context = context

    def resolve(self) -> None:
        """Continue the task at once. Call this in the task's loop, outside other tasks."""
        callback, self._callback = self._callback, None
        if callback is not None:
            if self._context is not None:
                self._context.run(callback, self)
            else:
                callback(self)

    def cancel(self, msg: object = None) -> bool:
        """Cancel the wait; the task calls this when it is cancelled."""
        callback, self._callback = self._callback, None
        if callback is None:
            return False
        self._cancelled = () if msg is None else (msg,)
        self._loop.call_soon(callback, self, context=self._context)
        return True

    def result(self) -> None:
        """Return None to the task, or raise `CancelledError`."""
        if self._cancelled is not None:
            raise asyncio.CancelledError(*self._cancelled)


class RoomWaiter:
    """A sender's place in the queue for room. Only the first sender takes room, so a large record gets its turn."""

    def __init__(self, loop_state: LoopState) -> None:
        self._loop_state = loop_state
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_first(self) -> bool:
        """True if it is this sender's turn."""
        return self._loop_state.senders[0] is self

    def wake(self) -> None:
        """Wake the sender to check for room again."""
        if self._waiter is not None:
            _resolve(self._waiter)

    async def wait(self, until: float) -> bool:
        """Wait until there may be room; return False once the loop's time is `until`."""
        left = until - self._loop_state.loop.time()
        if left <= 0:
            return False
        self._waiter = self._loop_state.loop.create_future()
        timer = self._loop_state.loop.call_later(left, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        return True


class LoopRegistry:
    """The event loops that use one producer."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._loops: dict[Hashable, LoopState] = {}

    def here(self) -> LoopState:
        """Return the state of the running loop."""
        loop = asyncio.get_running_loop()
        loop_state = self._loops.get(loop)
        if loop_state is None:
            for other in [other for other in list(self._loops.values()) if other.loop.is_closed()]:
                self._loops.pop(other.loop, None)
            loop_state = self._loops.setdefault(loop, LoopState(loop, self._budget))
        return loop_state


class AsyncDelivery:
    """The handle of one sent record: `metadata = await delivery`.

    It completes by itself, awaited or not. `AsyncProducer.send` makes it.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncProducer(bootstrap) as producer:
        ...         return await (await producer.send(topic, b"EWR-IAH"))
        >>> asyncio.run(main()).offset
        3
    """

    __slots__ = ("_delivery", "_loops")
    __reduce_ex__ = Delivery.__reduce_ex__

    def __init__(self, loops: LoopRegistry, delivery: Delivery) -> None:
        self._loops = loops
        self._delivery = delivery

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait for the acknowledgement, from any task and any event loop.

        A task that is cancelled stops waiting; the record is still sent.

        Returns:
            The `RecordMetadata`; its `offset` is -1 with acks=0.

        Raises:
            KafkaError: the record's error.
        """
        if not self._delivery.done():
            yield from self._loops.here().until_done(self._delivery.batch)
        return self._delivery.result()

    def done(self) -> bool:
        """Return True if the outcome is known."""
        return self._delivery.done()

    def result(self) -> RecordMetadata:
        """Return the result of the delivery, without waiting.

        Returns:
            The `RecordMetadata`.

        Raises:
            KafkaError: the record's error, or the outcome is not known yet.
        """
        if not self._delivery.done():
            raise KafkaError(_NOT_YET)
        return self._delivery.result()

    def exception(self) -> KafkaError | None:
        """Return the error that awaiting the delivery raises, without waiting.

        Returns:
            The error; None for a record that was delivered.

        Raises:
            KafkaError: the outcome is not known yet.
        """
        if not self._delivery.done():
            raise KafkaError(_NOT_YET)
        return self._delivery.exception()

    def add_done_callback(self, function: Callable[[AsyncDelivery], object]) -> None:
        """Call a function once the outcome is known, in the event loop that runs now. Its exceptions are logged.

        Args:
            function: it is called with this delivery, after this call has returned. It is a plain function.
        """
        loop_state = self._loops.here()
        loop_state.when_done(self._delivery.batch, partial(function, self))

    def __repr__(self) -> str:
        return f"<Async{repr(self._delivery)[1:]}"


class AsyncBatchDelivery:
    """The handle of the rows of one call: `ranges = await delivery`.

    It completes by itself, awaited or not. `AsyncProducer.send_batch` makes it.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncProducer(bootstrap) as producer:
        ...         delivery = await producer.send_batch(topic, pa.table({"value": ["JFK-MIA", "JFK-BQN"]}))
        ...         await delivery
        ...         return len(delivery)
        >>> asyncio.run(main())
        2
    """

    __slots__ = ("_delivery", "_loops")
    __reduce_ex__ = BatchDelivery.__reduce_ex__

    def __init__(self, loops: LoopRegistry, delivery: BatchDelivery) -> None:
        self._loops = loops
        self._delivery = delivery

    def __await__(self) -> Generator[Any, None, list[tuple[str, int, int, int]]]:
        """Wait for all acknowledgements, from any task and any event loop.

        Returns:
            A list of (topic, partition, first_offset, count), as `BatchDelivery.result` returns it.

        Raises:
            KafkaError: the first failed batch's error.
        """
        for batch, _, _ in self._delivery.parts:
            if not batch.done:
                yield from self._loops.here().until_done(batch)
        return self._delivery.result()

    def done(self) -> bool:
        """Return True if the outcome of every row is known."""
        return self._delivery.done()

    def result(self) -> list[tuple[str, int, int, int]]:
        """Return the result of the delivery, without waiting.

        Returns:
            A list of (topic, partition, first_offset, count).

        Raises:
            KafkaError: the first failed batch's error, or an outcome is not known yet.
        """
        if not self._delivery.done():
            raise KafkaError(_NOT_YET)
        return self._delivery.result()

    def exception(self) -> KafkaError | None:
        """Return the error that awaiting the delivery raises, without waiting.

        Returns:
            The error; None if all rows were delivered.

        Raises:
            KafkaError: an outcome is not known yet.
        """
        if not self._delivery.done():
            raise KafkaError(_NOT_YET)
        return self._delivery.exception()

    def add_done_callback(self, function: Callable[[AsyncBatchDelivery], object]) -> None:
        """Call a function once the outcome of every row is known, in the event loop that runs now.

        Args:
            function: it is called with this delivery.
        """
        loop_state = self._loops.here()
        left = len(self._delivery.parts) + 1

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                function(self)

        for batch, _, _ in self._delivery.parts:
            loop_state.when_done(batch, one_done)
        one_done()

    def __len__(self) -> int:
        return len(self._delivery)

    def __repr__(self) -> str:
        return f"<Async{repr(self._delivery)[1:]}"


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
