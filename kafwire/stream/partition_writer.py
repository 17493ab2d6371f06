"""`PartitionWriter`: writes the results of a partition's records to the sink, until they are stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.errors import TransactionAbortableError
from kafwire.records._records import Record
from kafwire.stream.cancellation import cancelled_within, is_cancelled
from kafwire.stream.elements import Abandoned, Element, Origin, covers, first_of
from kafwire.stream.errors import NotNow
from kafwire.stream.interfaces import AnySink
from kafwire.stream.message import Message
from kafwire.stream.running_calls import SerialCalls

if TYPE_CHECKING:
    from kafwire.stream.interfaces import SourcePartition
    from kafwire.stream.key_order import KeyOrder
    from kafwire.stream.running_calls import RunningCalls
    from kafwire.types import TopicPartition

SINK = "sink"


class WrittenStream(Protocol):
    """The stream of a writer. `writes` has the order of writes within each lane, if `orders_writes`."""

    sink: AnySink | None
    calls: RunningCalls
    orders_writes: bool
    writes: KeyOrder[Element]

    @property
    def is_exactly_once(self) -> bool:
        """True if results and offsets are committed in transactions."""
        ...

    def write_lane_of(self, element: Element) -> Hashable | None:
        """Return the lane that orders an element's writes; None: no order."""
        ...

    def guard(self, task: asyncio.Task[None]) -> None:
        """Fail the stream if the task fails."""
        ...


class WrittenPartition(Protocol):
    """The partition of a writer. `covered`: elements cover the offsets up to here."""

    where: TopicPartition
    partition: SourcePartition
    covered: int
    in_flight: int
    is_torn: bool

    def check(self) -> None:
        """Raise `Abandoned` if the partition is another member's."""
        ...

    def on_success(self) -> None:
        """Note that a record was processed without a failure."""
        ...

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Complete offsets: all their results are stored."""
        ...

    async def fails_for_now(self, origin: Origin, error: Exception, attempt: int, step: str) -> bool:
        """Wait after a failure; True: try again, False: the record is finished."""
        ...


class PartitionWriter:
    """Writes the values of one partition.

    A sink may store a value at once, or return an awaitable that completes when it is stored. If a value may be written
    again (`Pipeline.retry`), the values of a key are written one after the other, each once the one before is stored,
    while those of other keys continue; otherwise deliveries overlap.
    """

    def __init__(self, stream: WrittenStream, run: WrittenPartition) -> None:
        self._stream = stream
        self._run = run
        self._calls = SerialCalls(run.where, SINK)
        self._acks: deque[tuple[Awaitable[object], Element, Any]] = deque()
        self._confirming: asyncio.Task[None] | None = None
        self._writing: dict[asyncio.Task[None], Element] = {}  # in the order of their lanes

    def has(self, offset: int) -> bool:
        """True if the sink is storing a value of an offset. From any thread."""
        stored = [*(element for _, element, _ in tuple(self._acks)), *tuple(self._writing.values())]
        return any(element.cover.has(offset) for element in stored)

    def forget(self) -> None:
        """Drop pending deliveries: the open transaction was aborted."""
        self._acks.clear()
        if self._confirming is not None:
            self._confirming.cancel()
            self._confirming = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The running tasks."""
        return [task for task in (self._confirming, *self._writing) if task is not None]

    async def write_all(self, values: Sequence[Any], origins: Sequence[Origin], first_offset: int) -> None:
        """Write values in order to the sink. While it stores each value at once, no value needs an element."""
        stream, run = self._stream, self._run
        sink, stored, error = stream.sink, None, None
        assert sink is not None
        partition, splits = run.partition, getattr(sink, "splits_lists", False)
        if values and stream.writes:  # a value of a lane may have to wait
            await self._write_rest(values, origins, first_offset, None, None)
            return
        left = self._calls.over(values, origins)
        stream.calls.begin(self._calls)
        try:
            for value in left:
                if splits and isinstance(value, list):
                    break
                if partition.is_lost:
                    raise Abandoned
                try:
                    stored = None if value is None else await sink.write(value)
                except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                    error = _sinks_error(problem)
                    break
                if stored is not None:
                    break
            else:
                run.check()
                if values:
                    run.on_success()
                run.complete(first_offset, run.covered)
                return
        finally:
            stream.calls.end(self._calls)
            at = self._calls.index
            self._calls.clear()
        await self._write_rest(values[at:], origins[at:], first_offset, stored, error)

    async def _write_rest(
        self,
        values: Sequence[Any],
        origins: Sequence[Origin],
        first_offset: int,
        stored: Awaitable[object] | None,
        error: Exception | None,
    ) -> None:
        """Write values as elements; the first one is written already, or has failed, or is a list."""
        stream, run = self._stream, self._run
        sink, splits = stream.sink, getattr(stream.sink, "splits_lists", False)
        assert sink is not None
        start = first_of(origins[0])
        run.complete(first_offset, start)
        found = covers(run.complete, max(first_offset, start), origins, run.covered)
        in_lanes, partition = stream.orders_writes, run.partition
        stream.calls.begin(self._calls)
        try:
            for value, origin, cover in zip(self._calls.over(values, origins), origins, found, strict=True):
                if run.is_torn:
                    return
                element = Element(value, origin, cover, run)
                run.in_flight += 1
                in_place = error is not None or in_lanes or (splits and isinstance(value, list))
                if stored is None and not in_place and value is not None:
                    if partition.is_lost:
                        element.abandon()
                        raise Abandoned
                    try:
                        stored = await sink.write(value)
                    except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                        error = _sinks_error(problem)
                        in_place = True
                if stored is not None and not in_lanes:
                    self._confirm_later(stored, element, value)
                elif stored is None and not in_place:
                    element.finish()
                else:
                    element.output = [] if stored is not None else [value]
                    if stored is not None:
                        self._take_turn(element)
                        self._await_stored(stored, element, value)
                    stream.calls.end(self._calls)  # a wait for the next attempt is no call
                    await self.write_in_place(element, error)
                    stream.calls.begin(self._calls)
                stored = error = None
        finally:
            stream.calls.end(self._calls)
            self._calls.clear()

    async def write_in_place(self, element: Element, error: Exception | None) -> None:
        """Write a value until the sink accepts it, or it finally fails; `error` is the first attempt's error."""
        while True:
            if error is None:
                try:
                    await self.write(element)
                    return
                except Abandoned:
                    element.abandon()
                    raise
                except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                    error = _sinks_error(problem)
            try:
                again = await self._run.fails_for_now(element.origin, error, element.attempt, SINK)
            except BaseException:
                element.abandon()
                raise
            if not again:
                element.is_failed = True
                element.finish()
                return
            element.attempt += not isinstance(error, NotNow)
            error = None

    # --- storing ----------------------------------------------------------------------------------------------------

    async def write(self, element: Element) -> None:
        """Write an element's values. Raises the sink's error; called again, it continues where it stopped.

        An element whose lane has values that are not stored yet is written afterwards.
        """
        stream = self._stream
        if stream.orders_writes and not self._take_turn(element):
            return
        output, sink, calls = element.output, stream.sink, stream.calls
        is_workers, partition, stored = element in calls.running, self._run.partition, None
        while output and sink is not None:
            if partition.is_lost:
                raise Abandoned
            value = output[0]
            if isinstance(value, list) and getattr(sink, "splits_lists", False):
                output[:1] = value
                continue
            stored = None
            if value is not None and is_workers:
                element.since = calls.clock.monotonic()
                stored = await sink.write(value)
            elif value is not None:
                stored = await self.write_to(sink, value, element.origin)
            output.pop(0)
            if stored is not None:
                self._await_stored(stored, element, value)
                if element.write_lane is not None:
                    break  # the others follow when it is stored
        if stored is None and partition.is_lost:  # after a handler or a write that has just returned
            raise Abandoned
        element.finish()

    async def write_to(self, sink: AnySink, value: Any, origin: Origin) -> Awaitable[object] | None:
        """Call a sink, if the partition is still this member's."""
        self._run.check()
        with self._stream.calls.call(self._run.where, lambda: SINK, lambda: origin):
            return await sink.write(value)

    def _await_stored(self, stored: Awaitable[object], element: Element, value: Any) -> None:
        """Wait in the background until the sink has stored an element's value."""
        element.pending += 1
        if element.write_lane is not None:
            self._begin(partial(self._deliver, element, value, stored), element)
            return
        self._confirm_later(stored, element, value)

    def _confirm_later(self, stored: Awaitable[object], element: Element, value: Any) -> None:
        self._acks.append((stored, element, value))
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.ensure_future(self._confirm())
            self._stream.guard(self._confirming)

    async def _confirm(self) -> None:
        """Wait for pending deliveries, in order, until there are none."""
        while self._acks:
            stored, element, value = self._acks[0]
            try:
                await stored
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a delivery's
                try:
                    element.is_failed |= not await self._store(element, value, error=self._refused(problem))
                except Abandoned:
                    element.abandon()
            self._acks.popleft()
            element.finish()

    def _refused(self, problem: Exception | asyncio.CancelledError) -> Exception:
        """Return a failed delivery's error. With exactly-once it aborts the transaction."""
        error = _sinks_error(problem)
        if self._stream.is_exactly_once:
            raise TransactionAbortableError("a result could not be stored: see the cause") from error
        return error

    async def _store(
        self, element: Element, value: Any, stored: Awaitable[object] | None = None, error: Exception | None = None
    ) -> bool:
        """Write a value until it is stored; False: it finally failed, and its record is finished.

        `stored` or `error` is the result of the first write.
        """
        attempt, sink = 1, self._stream.sink
        assert sink is not None
        while True:
            if error is not None:
                if not await self._run.fails_for_now(element.origin, error, attempt, SINK):
                    return False
                attempt += not isinstance(error, NotNow)
            try:
                if stored is None:
                    stored = await self.write_to(sink, value, element.origin)
                if stored is not None:
                    await stored
                return True
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a delivery's
                error, stored = self._refused(problem), None

    # --- in order within a lane -------------------------------------------------------------------------------------

    def _take_turn(self, element: Element) -> bool:
        """True if the element may be written now; if not, it is written after the earlier elements of its lane."""
        if element.write_lane is not None:
            return True
        element.write_lane = self._stream.write_lane_of(element)
        return element.write_lane is None or self._stream.writes.add(element.write_lane, element)

    async def _deliver(self, element: Element, value: Any, stored: Awaitable[object]) -> None:
        """Wait until a value is stored, and write its element's other values, each key's next one when that is stored.

        All values of one record have the same key. Values of a list have the keys of their messages, or none.
        """
        sink, output = self._stream.sink, element.output
        assert sink is not None
        assert output is not None
        unsettled: dict[object, tuple[Any, Awaitable[object]]] = {_key_of(element, value): (value, stored)}
        while output and not element.is_failed:
            value = output.pop(0)
            if isinstance(value, list) and getattr(sink, "splits_lists", False):
                output[:0] = value
                continue
            key, error, taken = _key_of(element, value), None, None
            if key in unsettled and not await self._store(element, *unsettled.pop(key)):
                element.is_failed = True
                break
            try:
                taken = None if value is None else await self.write_to(sink, value, element.origin)
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                error = _sinks_error(problem)
            if taken is not None:
                unsettled[key] = value, taken
            elif error is not None and not await self._store(element, value, error=error):
                element.is_failed = True
        for left in unsettled.values():
            element.is_failed |= not await self._store(element, *left)
        element.finish()

    def write_next(self, lane: Hashable, *, leaves: bool) -> None:
        """End the write of a lane's element; `leaves`: the next reader processes the lane's waiting ones."""
        if leaves:
            for one in self._stream.writes.close(lane):
                one.write_lane = None
                one.abandon()
            return
        following = self._stream.writes.finish(lane)
        if following is not None:
            following.owner.writer.write_later(following)

    def write_later(self, element: Element) -> None:
        """Write an element when its lane is free."""
        self._begin(partial(self.write_in_place, element, None), element)

    def _begin(self, write: Callable[[], Coroutine[Any, Any, None]], element: Element) -> None:
        async def run() -> None:
            with contextlib.suppress(Abandoned):
                await write()
                return
            element.abandon()

        def on_done(task: asyncio.Task[None]) -> None:
            del self._writing[task]
            if task.cancelled() or task.exception() is not None:  # perhaps before it began: the lane must not stay busy
                element.abandon()

        task = asyncio.ensure_future(run())
        self._writing[task] = element
        task.add_done_callback(on_done)
        self._stream.guard(task)


def _sinks_error(problem: Exception | asyncio.CancelledError) -> Exception:
    """Return a sink's error. Raises a cancellation of the task itself, and `Abandoned`."""
    if isinstance(problem, Abandoned):
        raise problem
    if isinstance(problem, Exception):
        return problem
    if is_cancelled():
        raise problem
    return cancelled_within("the write")


def _key_of(element: Element, value: Any) -> object:
    """Return the key that orders a value among its element's others."""
    if isinstance(element.origin, Record):
        return None
    key = value.key if isinstance(value, Message | Record) else None
    return object() if key is None else key
