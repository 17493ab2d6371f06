"""`PartitionRun`: one partition on its way through a pipeline, from its source to workers or sink."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire.consumer.completed_offsets import CompletedOffsets
from kafwire.errors import TransactionAbortableError
from kafwire.records._records import Batch, Record
from kafwire.stream.batching import Batcher
from kafwire.stream.cancellation import cancelled_within, is_cancelled
from kafwire.stream.elements import Element, Gathered, Origin, covers, end_of, first_of, records_of
from kafwire.stream.errors import NotNow
from kafwire.stream.failed_record import due_ms
from kafwire.stream.folding import Folding
from kafwire.stream.interfaces import SourcePartition
from kafwire.stream.steps import Map
from kafwire.stream.transforms import Section, SectionRun, section
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.stream.runner import StreamRun

# How many records go through a step before others have a turn.
SLICE_RECORDS = 1024
# And how many elements are made for workers, who would begin late otherwise.
TURN_ELEMENTS = 16
SINK = "sink"


class Abandoned(Exception):
    """The stream stops while a record waits for its next attempt: it is not completed."""


class PartitionRun:
    """Reads a partition, slice by slice, and knows what of it is completed.

    It has a loop of its own (`run`). Everything that it waits for calls `wake`, and the loop looks again: a batch, room
    for more, a list of `batch` that is due, the stream's end, and a transaction's end, at which it parks.
    """

    def __init__(self, stream: StreamRun, partition: SourcePartition) -> None:
        self.where = TopicPartition(partition.topic, partition.partition)
        self.partition = partition
        self.in_flight = 0
        self.is_parked = False
        self.has_ended = False
        self._is_exhausted = False  # the source has ended it
        self.is_torn = False  # an element was abandoned: others behind it may be stored
        self.offsets: CompletedOffsets | None = None  # from the first batch on
        self.committed = 0  # with the last transaction
        self.taken: list[Batch] = []  # of the open transaction
        self.replay: deque[Batch] = deque()
        self._stream = stream
        self._batches: AsyncIterator[Batch] = aiter(partition)
        self._coming: asyncio.Task[Batch | None] | None = None
        self._waker: asyncio.Future[None] | None = None
        self._covered = 0  # up to here elements cover the offsets
        self._seen = 0  # up to here the first steps have been
        self._pauses = 0
        self._waits = 0  # back-offs
        self._section: SectionRun | None = None  # the steps that run, or wait for their next attempt
        self._stamps: deque[tuple[int, int | None]] = deque()  # ends of batches in hand, and their first timestamps
        self._tried = 0  # so many records of the current slice had their first attempt before a step failed
        self._acks: deque[tuple[Awaitable[object], Element, Any]] = deque()
        self._confirming: asyncio.Task[None] | None = None
        self._is_delayed = self.where.topic in stream.retry_topics
        self._batcher = self._new_batcher()
        self._folding = self._new_folding()
        deserializers = getattr(partition, "deserializers", None)
        self._decoding = None if deserializers is None else section((Map(deserializers.deserialized),), "deserializer")

    def _new_batcher(self) -> Batcher | None:
        gather = self._stream.plan.gather
        if gather is None:
            return None
        return Batcher(gather.max_records, gather.max_seconds, by_length=self._stream.plan.is_batchwise)

    def _new_folding(self) -> Folding | None:
        step, stream = self._stream.plan.reduce, self._stream
        if step is None:
            return None
        through = partial(self._through, stream.between)
        return Folding(stream, self, step, through, self._fails_for_now, self._write_in_place)

    @property
    def _due_at(self) -> float | None:
        """When a list of `batch`, or a fold of `reduce`, is due."""
        waits = self._folding if self._batcher is None else self._batcher
        return None if waits is None else waits.due_at

    # --- reading ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the partition ends, or the stream."""
        try:
            while (batch := await self._next()) is not None and await self._take(batch):
                pass
            if not self.partition.is_lost:
                await self._flush()
        except Abandoned:
            if self._folding is not None and self._folding.has_values:
                self.is_torn = True  # folds of later records may be stored
        self.has_ended = True
        self._stream.on_parked()

    async def settle(self) -> None:
        """Wait until nothing of it is in flight; return at once if the partition is lost."""
        while self.in_flight and not self.partition.is_lost:
            await self._sleep(None)

    def wake(self, *_: object) -> None:
        """Something has changed."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _sleep(self, until: float | None) -> None:
        """Until `wake`, or that time of the loop."""
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = None if until is None else loop.call_at(until, self.wake)
        try:
            await self._waker
        finally:
            if timer is not None:
                timer.cancel()

    async def _next(self) -> Batch | None:
        """The next batch; None at the end."""
        while True:
            await self._breathe()
            if self._stream.is_stopping:  # looked at behind all that waits: whoever wakes wakes only once
                return None
            due_at = self._due_at
            if self._is_blocked():
                await self._sleep(due_at)
                continue
            if self.replay:
                return self.replay.popleft()
            self._start_pull()
            assert self._coming is not None
            if self._coming.done():
                coming, self._coming = self._coming, None
                self._is_exhausted = coming.result() is None
                return coming.result()
            await self._sleep(due_at)

    def _start_pull(self) -> None:
        """Have the next batch come, if it does not yet."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._pull())
            self._coming.add_done_callback(self.wake)

    async def _pull(self) -> Batch | None:
        return await anext(self._batches, None)

    async def _breathe(self) -> None:
        """Write lists of `batch` and folds of `reduce` that are due, and park while a transaction ends."""
        now = asyncio.get_running_loop().time()
        if self._folding is not None:
            await self._folding.write_due(now)
        if self._batcher is not None and self._batcher.due_at is not None and self._batcher.due_at <= now:
            await self._flush()
        if self._stream.is_closing_transaction:
            await self._flush()
            self.is_parked = True
            self._stream.on_parked()
            while self._stream.is_closing_transaction:
                await self._sleep(None)
            self.is_parked = False

    def _is_blocked(self) -> bool:
        """Whether enough is in hand. What is in flight ends at some time; a list of `batch` alone blocks nothing."""
        limits = self._stream.limits
        uncommitted = 0 if self.offsets is None else self.offsets.uncommitted
        return self.in_flight >= limits.max_in_flight or (self.in_flight > 0 and uncommitted >= limits.max_uncommitted)

    async def _take(self, batch: Batch) -> bool:
        """Process a batch. Whether all of it: behind what is left out nothing may be processed."""
        stream = self._stream
        if self.offsets is None:
            self.offsets = CompletedOffsets(batch.base_offset)
            self._covered = self._seen = self.committed = batch.base_offset
        if not await stream.on_batch(self, batch):
            return False
        self.offsets.hand_out(batch.next_offset)
        self._stamp(batch)
        if stream.plan.is_batchwise:
            last = max(records_of(batch), key=due_ms, default=None) if self._is_delayed else None
            if last is not None and not await self._wait_for_turn(last):
                return False
            await stream.on_records(len(batch))
            await self._process([batch], [batch], batch.next_offset)
            return True
        records = list(batch) if self._decoding is None else list(records_of(batch))
        if batch.base_offset < self._seen:
            records = [record for record in records if record.offset >= self._seen]
        size = 1 if self._is_delayed else SLICE_RECORDS
        for at in range(0, max(len(records), 1), size):
            part = records[at : at + size]
            delayed = part[0] if self._is_delayed and part else None
            if (at or delayed is not None) and not await self._wait_for_turn(delayed):
                return False
            await stream.on_records(len(part))
            end = records[at + size].offset if at + size < len(records) else batch.next_offset
            await self._process(*await self._decoded(part), end)
        return True

    async def _wait_for_turn(self, delayed: Record | None) -> bool:
        """Let others have theirs, until there is room and the record is due; False if that is not waited for."""
        await asyncio.sleep(0)
        paused = False
        try:
            while True:
                await self._breathe()
                if self._stream.leaves_waiting or self.partition.is_lost:
                    return False
                wait_s = 0.0 if delayed is None else (due_ms(delayed) - self._stream.failures.wall_ms()) / 1000
                if wait_s <= 0 and not self._is_blocked():
                    return True
                if wait_s > 0 and self.has_no_more():
                    return False
                if wait_s > 0 and not paused:
                    paused = True
                    self.pause()
                    self._start_pull()  # nothing comes while it is paused, but for its end
                times = [self._due_at]
                times.append(asyncio.get_running_loop().time() + wait_s if wait_s > 0 else None)
                await self._sleep(min((time for time in times if time is not None), default=None))
        finally:  # also if this is cancelled, as a transaction is aborted
            if paused:
                self.resume()

    def _stamp(self, batch: Batch) -> None:
        """Note the time of a batch in hand."""
        assert self.offsets is not None
        while self._stamps and self._stamps[0][0] <= self.offsets.committable:
            self._stamps.popleft()
        if len(batch):
            self._stamps.append((batch.next_offset, batch[0].timestamp_ms))

    def oldest_timestamp_ms(self) -> int | None:
        """The first timestamp of the oldest batch that is not completed; None: there is none. From any thread."""
        reached = 0 if self.offsets is None else self.offsets.committable
        return next((stamp for end, stamp in tuple(self._stamps) if end > reached), None)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits on purpose: for `NotNow`, a back-off, or until a record of a retry topic is due."""
        return self._pauses > 0 or self._waits > 0

    def place_of(self, offset: int) -> tuple[str, bool]:
        """The step that an offset in hand is in, and whether it only waits there. From any thread."""
        pool = self._stream.pool
        found = None if pool is None else pool.place_of(self, offset)
        if found is not None:
            return found
        if any(element.cover.has(offset) for _, element, _ in tuple(self._acks)):
            return SINK, False
        if self._folding is not None and self._folding.has(offset):
            return self._folding.name, True
        if offset < self._covered:
            return (SINK, self.is_waiting) if pool is None else (f"queue of {pool.name}", True)
        run = self._section
        if run is not None:
            return run.step, self.is_waiting
        return ("batch", True) if offset < self._seen else ("source", True)

    def has_no_more(self) -> bool:
        """Whether the source has ended it, though records of it may be in hand."""
        coming = self._coming
        if self._is_exhausted:
            return True
        if coming is None or not coming.done() or coming.cancelled():
            return False
        return coming.exception() is None and coming.result() is None

    def pause(self) -> None:
        """Have the source fetch nothing of it."""
        self._pauses += 1
        if self._pauses == 1:
            self.partition.pause()

    def resume(self) -> None:
        """The other way round; as often as it was paused."""
        self._pauses -= 1
        if not self._pauses:
            self.partition.resume()

    async def _decoded(self, records: list[Record]) -> tuple[list[Any], list[Any]]:
        """The first step: records with keys and values as deserializers make them, each with the record as it was."""
        return (records, records) if self._decoding is None else await self._through(self._decoding, records, records)

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _process(self, values: list[Any], origins: list[Any], next_offset: int) -> None:
        """All steps up to the handler, for consecutive values that end before `next_offset`."""
        values, origins = await self._through(self._stream.before, values, origins)
        self._seen, self._tried = next_offset, 0
        if self._folding is not None:
            first_offset, self._covered = self._covered, max(self._covered, next_offset)
            await self._folding.add(values, origins, covers(self.complete, first_offset, origins, self._covered))
            return
        if self._batcher is None:
            await self._emit(values, origins, next_offset)
            return
        for made, gathered in self._batcher.add(values, origins, asyncio.get_running_loop().time()):
            await self._emit_list(made, gathered)
        if not self._batcher:
            await self._emit([], [], next_offset)

    async def _flush(self) -> None:
        """What is gathered or folded goes on, and all that was seen is covered."""
        if self._folding is not None:
            await self._folding.flush()
        if self._batcher is None:
            return
        made = self._batcher.flush()
        if made is not None:
            await self._emit_list(*made)
        await self._emit([], [], self._seen)

    async def _emit_list(self, made: list[Any], gathered: Gathered) -> None:
        values, origins = await self._through(self._stream.between, [made], [gathered])
        await self._emit(values, origins, gathered.next_offset)

    async def _through(self, steps: Section, values: list[Any], origins: list[Any]) -> tuple[list[Any], list[Any]]:
        """Values through steps in order. While one waits for its next attempt, the partition waits."""
        if not steps:
            return values, origins
        self._section = run = SectionRun(steps, values, origins)
        attempt, place = 1, (0, 0)
        while not run.run():
            assert run.error is not None
            if run.place[1] > (place[1] if run.place[0] == place[0] else 0):
                self._on_success()  # of the values before it in the step that fails now
            attempt, place = attempt if run.place == place else 1, run.place
            self._tried = max(self._tried, end_of(run.origin) - self._seen)
            if not await self._fails_for_now(run.origin, run.error, attempt, run.step):
                run.drop()
                attempt = 1  # the next value has the same place
            elif not isinstance(run.error, NotNow):
                attempt += 1
        self._section = None
        return run.values, run.origins

    async def _fails_for_now(self, origin: Origin, error: Exception, attempt: int, step: str) -> bool:
        """After the wait, whether the same is to be tried again; if not, the record is done with."""
        if isinstance(error, NotNow):
            self.pause()
            try:
                await self._stream.sleep(error.seconds)
            finally:
                self.resume()
            return True
        after_s = await self._stream.failures.handle(self.where, origin, error, attempt, step, self._tried)
        if after_s is not None:
            self._waits += 1
            try:
                await self._stream.sleep(after_s)
            finally:
                self._waits -= 1
        return after_s is not None

    async def _emit(self, values: Sequence[Any], origins: Sequence[Any], next_offset: int) -> None:
        """Values in order to workers or sink. They cover all offsets from the last call's on."""
        stream = self._stream
        first_offset, self._covered = self._covered, max(self._covered, next_offset)
        if stream.pool is None and stream.sink is None:
            if values:
                self._on_success()
            self.complete(first_offset, self._covered)
            return
        if stream.pool is None:
            await self._write_all(values, origins, first_offset)
            return
        found = covers(self.complete, first_offset, origins, self._covered)
        for number, (value, origin, cover) in enumerate(zip(values, origins, found, strict=True), start=1):
            if self.is_torn:  # what was abandoned is read again, and not overtaken
                return
            self.in_flight += 1
            stream.pool.add(Element(value, origin, cover, self))
            if not number % TURN_ELEMENTS:
                await asyncio.sleep(0)

    async def _write_all(self, values: Sequence[Any], origins: Sequence[Any], first_offset: int) -> None:
        """Values in order to the sink. As long as it stores each at once, nothing has to be known of them."""
        sink, stored, error = self._stream.sink, None, None
        assert sink is not None
        at, splits = 0, getattr(sink, "splits_lists", False)
        for at, value in enumerate(values):  # noqa: B007  # where it ended is what follows
            if splits and isinstance(value, list):
                break
            try:
                stored = None if value is None or self.partition.is_lost else await sink.write(value)
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                error = _sinks_error(problem)
                break
            if stored is not None:
                break
        else:
            if values:
                self._on_success()
            self.complete(first_offset, self._covered)
            return
        start = first_of(origins[at])
        self.complete(first_offset, start)
        found = covers(self.complete, max(first_offset, start), origins[at:], self._covered)
        for value, origin, cover in zip(values[at:], origins[at:], found, strict=True):
            if self.is_torn:
                return
            element = Element(value, origin, cover, self)
            self.in_flight += 1
            element.output = [value]
            if stored is not None:
                element.output = []
                self._await_stored(stored, element, value)
            await self._write_in_place(element, error)
            stored = error = None

    async def _write_in_place(self, element: Element, error: Exception | None) -> None:
        """Write it until the sink takes it, or it is a failure; `error` is what the first attempt has raised."""
        while True:
            if error is None:
                try:
                    await self.write(element)
                    return
                except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a sink's
                    error = _sinks_error(problem)
            try:
                again = await self._fails_for_now(element.origin, error, element.attempt, SINK)
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
        """Write what came of an element. Raises what the sink raises; called again, it goes on where it was."""
        output, sink = element.output, self._stream.sink
        while output and sink is not None and not self.partition.is_lost:
            value = output[0]
            if isinstance(value, list) and getattr(sink, "splits_lists", False):
                output[:1] = value
                continue
            stored = None if value is None else await sink.write(value)
            output.pop(0)
            if stored is not None:
                self._await_stored(stored, element, value)
        element.finish()

    def _await_stored(self, stored: Awaitable[object], element: Element, value: Any) -> None:
        """The sink has taken a value of an element, and will have stored it later."""
        element.pending += 1
        self._acks.append((stored, element, value))
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.ensure_future(self._confirm())
            self._stream.guard(self._confirming)

    async def _confirm(self) -> None:
        """Wait for what is being stored, in order, until there is nothing."""
        try:
            while self._acks:
                stored, element, value = self._acks[0]
                element.is_failed |= not await self._stored(stored, element, value)
                self._acks.popleft()
                element.finish()
        except Abandoned:
            while self._acks:
                self._acks.popleft()[1].abandon()

    async def _stored(self, stored: Awaitable[object] | None, element: Element, value: Any) -> bool:
        """Wait until a value is stored; False: it failed, and its record is done with."""
        attempt, sink = 1, self._stream.sink
        while stored is not None:
            try:
                await stored
                return True
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  # a delivery's
                error = _sinks_error(problem)
                if self._stream.is_exactly_once:
                    raise TransactionAbortableError("a result could not be stored: see the cause") from error
                if not await self._fails_for_now(element.origin, error, attempt, SINK):
                    return False
                attempt += 1
                assert sink is not None
                stored = await sink.write(value)
        return True

    def _on_success(self) -> None:
        """A record was processed without a failure."""
        if self._stream.failures.window is not None:
            self._stream.failures.window.on_success()

    def on_finished(self, *, succeeded: bool) -> None:
        """One element less is in flight."""
        if succeeded:
            self._on_success()
        self.in_flight -= 1
        self.wake()
        if not self.in_flight:
            self._stream.on_parked()

    def complete(self, first_offset: int, next_offset: int) -> None:
        """All that came of these offsets is stored."""
        if self.offsets is None or next_offset <= first_offset:
            return
        before = self.offsets.committable
        self.offsets.complete(first_offset, next_offset)
        self._stream.on_completed(self, first_offset, next_offset, self.offsets.committable - before)

    def reached(self, start: int | None) -> int | None:
        """The offset up to which all is committed or, without transactions, completed; `start` if nothing was read."""
        if self.offsets is None:
            return start
        return self.committed if self._stream.is_exactly_once else self.offsets.committable

    def rewind(self) -> None:
        """The open transaction was aborted: what was taken in it comes again."""
        self.replay = deque([*self.taken, *self.replay])
        self.taken = []
        self.in_flight = 0
        self.is_torn = self.is_parked = self.has_ended = False
        self._acks.clear()
        if self._confirming is not None:
            self._confirming.cancel()
            self._confirming = None
        self._batcher = self._new_batcher()
        self._folding = self._new_folding()
        if self.offsets is not None and self.replay:
            self.offsets = CompletedOffsets(self.committed)
            self._covered = self._seen = self.committed

    async def close(self) -> None:
        """Wait for nothing more, and end the source's iterator."""
        tasks = [task for task in (self._coming, self._confirming) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(self._batches, AsyncGenerator):
            await self._batches.aclose()
        await self.partition.close()


def _sinks_error(problem: Exception | asyncio.CancelledError) -> Exception:
    """What a sink has raised. Raises a cancellation of the task itself."""
    if isinstance(problem, Exception):
        return problem
    if is_cancelled():
        raise problem
    return cancelled_within("the write")
