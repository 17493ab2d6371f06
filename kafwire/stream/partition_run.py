"""`PartitionRun`: one partition in a pipeline, from its source to workers or sink."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from kafwire.records._records import Batch, Record
from kafwire.serializer_calls import Deserializers
from kafwire.stream.batching import Batcher
from kafwire.stream.elements import Abandoned, Element, Gathered, Origin, covers, end_of, records_of
from kafwire.stream.errors import NotNow
from kafwire.stream.failed_record import due_ms
from kafwire.stream.folding import FoldedStream, Folding
from kafwire.stream.interfaces import SourcePartition
from kafwire.stream.partition_writer import SINK, PartitionWriter, WrittenStream
from kafwire.stream.steps import Map
from kafwire.stream.transforms import Section, SectionRun, section
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.stream.failures import Failures
    from kafwire.stream.steps import Plan

# How many records go through a step before other partitions get their turn.
SLICE_RECORDS = 1024
# How many elements are made for workers at a time; with more, the workers would begin late.
TURN_ELEMENTS = 16


class PartitionStream(WrittenStream, FoldedStream, Protocol):
    """The stream of a partition: its steps and limits, and the events of which the partition informs it."""

    plan: Plan
    before: Section
    between: Section
    failures: Failures
    retry_topics: set[str]
    is_stopping: bool

    @property
    def may_leave(self) -> bool:
        """True if waiting records may be left to the next reader."""
        ...

    @property
    def leaves_waiting(self) -> bool:
        """True if the stream stops, and leaves waiting records to the next run."""
        ...

    @property
    def is_closing_transaction(self) -> bool:
        """True if partitions must park."""
        ...

    async def on_batch(self, run: PartitionRun, batch: Batch) -> bool:
        """Prepare a batch of a partition; False: it must not be processed."""
        ...

    async def on_records(self, count: int) -> None:
        """Count records of a batch that are about to be processed."""
        ...

    def on_completed(self, run: PartitionRun, first_offset: int, next_offset: int, committable: int) -> None:
        """Note completed offsets of a partition, and how many more are committable."""
        ...

    def on_parked(self) -> None:
        """Wake the transaction: a partition has nothing in flight, has parked, or has ended."""
        ...


class PartitionRun:
    """Reads a partition, slice by slice, and tracks its completed offsets.

    It has a loop of its own (`run`). Every event that it waits for calls `wake`, and the loop checks again: a batch,
    room for more, a `batch` list that is due, the stream's end, and a transaction's end, at which it parks.
    """

    def __init__(self, stream: PartitionStream, partition: SourcePartition) -> None:
        self.where = TopicPartition(partition.topic, partition.partition)
        self.partition = partition
        self.in_flight = 0
        self.is_parked = False
        self.has_ended = False
        self._is_exhausted = False  # the source has ended it
        self.is_torn = False  # an element was abandoned: later ones may be stored
        self.is_abandoned = False  # records were left to the next owner: no later record may be processed
        self.offsets: CompletedOffsets | None = None  # from the first batch on
        self.committed = 0  # with the last transaction
        self.taken: list[Batch] = []  # batches of the open transaction
        self.replay: deque[Batch] = deque()
        self._stream = stream
        self._batches: AsyncIterator[Batch] = aiter(partition)
        self._coming: asyncio.Task[Batch | None] | None = None
        self._waker: asyncio.Future[None] | None = None
        self._left = asyncio.Event()  # set permanently once `leaves_waiting`
        self.covered = 0  # elements cover the offsets up to here
        self._seen = 0  # the first steps have processed the records up to here
        self._pauses = 0
        self._waits = 0  # running back-offs
        self._postponed = 0  # values of workers that wait for their next attempt
        self._section: SectionRun | None = None  # the steps that run, or wait for their next attempt
        self._stamps: deque[tuple[int, int | None]] = deque()  # ends of uncompleted batches, and their first timestamps
        self._tried = 0  # records of the current slice with a first attempt, before a step failed
        self.writer = PartitionWriter(stream, self)
        self._is_delayed = self.where.topic in stream.retry_topics
        self._batcher = self._new_batcher()
        self._folding = self._new_folding()
        self._deserializers: Deserializers | None = getattr(partition, "deserializers", None)
        self._decoding: Section | None = None
        if self._deserializers is not None:
            self._decoding = section((Map(self._deserializers.deserialized),), "deserializer")
        on_change = getattr(partition, "on_change", None)
        if on_change is not None:
            on_change(self.look)

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
        return Folding(stream, self, step, through, self.fails_for_now, self.writer.write_in_place)

    @property
    def _due_at(self) -> float | None:
        """When a `batch` list, or a fold of `reduce`, is due."""
        waits = self._folding if self._batcher is None else self._batcher
        return None if waits is None else waits.due_at

    # --- reading ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the partition or the stream ends."""
        try:
            while not self.is_abandoned and (batch := await self._next()) is not None:
                self.is_abandoned = not await self._take(batch)
            if not self.partition.is_lost:
                await self._flush()
        except Abandoned:
            self.is_abandoned = True
            if self._folding is not None and self._folding.has_values:
                self.is_torn = True  # folds of later records may be stored
        self.has_ended = True
        self._stream.on_parked()

    async def settle(self) -> None:
        """Wait until no element of the partition is in flight; return at once if the partition is lost."""
        while self.in_flight and not self.partition.is_lost:
            await self._sleep(None)

    @property
    def handler_name(self) -> str:
        """The step that workers call."""
        return "" if self._stream.pool is None else self._stream.pool.name

    # --- ownership --------------------------------------------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        """True if a revocation waits for this partition."""
        return bool(getattr(self.partition, "is_ending", False))

    @property
    def leaves_waiting(self) -> bool:
        """True if waiting records are left to the next reader.

        False with at-most-once, as their offsets are committed. A lost partition leaves them in any case.
        """
        return self.partition.is_lost or (self._stream.leaves_waiting or (self.is_ending and self._stream.may_leave))

    def check(self) -> None:
        """Raise `Abandoned` if the partition is another member's. Called after every `await`, before each action."""
        if self.partition.is_lost:
            raise Abandoned

    def look(self) -> None:
        """React to a stop, or a revoked or lost partition: abandon waiting records if allowed."""
        if self.leaves_waiting:
            self._left.set()
            if self._stream.pool is not None:
                self._stream.pool.abandon_postponed(self)
        self.wake()
        self._stream.on_parked()

    async def sleep(self, seconds: float) -> None:
        """Wait; raise `Abandoned` if waiting records are left to the next reader."""
        if not self.leaves_waiting:
            self._waits += 1
            self._stream.on_parked()
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._left.wait()
            finally:
                self._waits -= 1
        if self.leaves_waiting:
            raise Abandoned

    def begin_wait(self) -> None:
        """Count a value of a worker that waits for its next attempt."""
        self._postponed += 1
        self._stream.on_parked()

    def end_wait(self) -> None:
        """Stop counting a value that waits for its next attempt."""
        self._postponed -= 1

    @property
    def has_waiting(self) -> bool:
        """True if a record in flight waits for its next attempt."""
        return self._waits + self._postponed > 0

    # --- waking -----------------------------------------------------------------------------------------------------

    def wake(self, *_: object) -> None:
        """Make the loop check again."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _sleep(self, until: float | None) -> None:
        """Sleep until `wake`, or that time of the loop."""
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = None if until is None else loop.call_at(until, self.wake)
        try:
            await self._waker
        finally:
            if timer is not None:
                timer.cancel()

    async def _next(self) -> Batch | None:
        """Return the next batch; None at the end."""
        while True:
            await self._breathe()
            if self._stream.is_stopping or self.partition.is_lost:  # checked after all waits: each waits for one event
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
        """Start to fetch the next batch, unless that is running."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._pull())
            self._coming.add_done_callback(self.wake)

    async def _pull(self) -> Batch | None:
        return await anext(self._batches, None)

    async def _breathe(self) -> None:
        """Write `batch` lists and `reduce` folds that are due, and park while a transaction ends."""
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
                if self.is_ending and not self.taken:  # the transaction has no record of it
                    raise Abandoned
                await self._sleep(None)
            self.is_parked = False

    def _is_blocked(self) -> bool:
        """True if enough is uncommitted or in flight. Elements in flight end; a `batch` list alone blocks nothing."""
        limits = self._stream.limits
        uncommitted = 0 if self.offsets is None else self.offsets.uncommitted
        return self.in_flight >= limits.max_in_flight or (self.in_flight > 0 and uncommitted >= limits.max_uncommitted)

    async def _take(self, batch: Batch) -> bool:
        """Process a batch. False: not all of it; later records must not be processed."""
        stream = self._stream
        if self.offsets is None:
            self.offsets = CompletedOffsets(batch.base_offset)
            self.covered = self._seen = self.committed = batch.base_offset
        if not await stream.on_batch(self, batch):
            return False
        self.check()
        self.offsets.hand_out(batch.next_offset)
        self._stamp(batch)
        if stream.plan.is_batchwise:
            last = max(records_of(batch), key=due_ms, default=None) if self._is_delayed else None
            if last is not None and not await self._wait_for_turn(last):
                return False
            await stream.on_records(len(batch))
            self.check()
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
            self.check()
            end = records[at + size].offset if at + size < len(records) else batch.next_offset
            await self._process(*await self._decoded(part), end)
        return True

    async def _wait_for_turn(self, delayed: Record | None) -> bool:
        """Let other partitions run, until there is room and the record is due; False to stop waiting."""
        await asyncio.sleep(0)
        paused = False
        try:
            while True:
                await self._breathe()
                wait_s = 0.0 if delayed is None else (due_ms(delayed) - self._stream.failures.wall_ms()) / 1000
                if self._stream.leaves_waiting or self.partition.is_lost:
                    return False
                if wait_s > 0 and (self.leaves_waiting or self.has_no_more()):
                    return False
                if wait_s <= 0 and not self._is_blocked():
                    return True
                if wait_s > 0 and not paused:
                    paused = True
                    self.pause()
                    self._start_pull()  # while paused, only its end can come
                times = [self._due_at]
                times.append(asyncio.get_running_loop().time() + wait_s if wait_s > 0 else None)
                await self._sleep(min((time for time in times if time is not None), default=None))
        finally:  # also if this is cancelled, when a transaction is aborted
            if paused:
                self.resume()

    def _stamp(self, batch: Batch) -> None:
        """Note the first timestamp of an uncompleted batch."""
        assert self.offsets is not None
        while self._stamps and self._stamps[0][0] <= self.offsets.committable:
            self._stamps.popleft()
        if len(batch):
            first = next(records_of(batch))  # without deserializers, which may raise
            self._stamps.append((batch.next_offset, first.timestamp_ms))

    def oldest_timestamp_ms(self) -> int | None:
        """Return the first timestamp of the oldest uncompleted batch; None: there is none. From any thread."""
        reached = 0 if self.offsets is None else self.offsets.committable
        return next((stamp for end, stamp in tuple(self._stamps) if end > reached), None)

    @property
    def is_waiting(self) -> bool:
        """True if the partition waits deliberately: for `NotNow`, a back-off, or a retry topic's record to be due."""
        return self._pauses > 0 or self._waits > 0

    def place_of(self, offset: int) -> tuple[str, bool]:
        """Return the step of an uncompleted offset, and whether it only waits there. From any thread."""
        pool = self._stream.pool
        found = None if pool is None else pool.place_of(self, offset)
        if found is not None:
            return found
        if self.writer.has(offset):
            return SINK, False
        if self._folding is not None and self._folding.has(offset):
            return self._folding.name, True
        if offset < self.covered:
            return (SINK, self.is_waiting) if pool is None else (f"queue of {pool.name}", True)
        run = self._section
        if run is not None:
            return run.step, self.is_waiting
        return ("batch", True) if offset < self._seen else ("source", True)

    def has_no_more(self) -> bool:
        """True if the source has ended the partition, even if some of its records are uncompleted."""
        coming = self._coming
        if self._is_exhausted:
            return True
        if coming is None or not coming.done() or coming.cancelled():
            return False
        return coming.exception() is None and coming.result() is None

    def pause(self) -> None:
        """Stop the source from fetching it."""
        self._pauses += 1
        if self._pauses == 1:
            self.partition.pause()

    def resume(self) -> None:
        """Undo one `pause`."""
        self._pauses -= 1
        if not self._pauses:
            self.partition.resume()

    async def _decoded(self, records: list[Record]) -> tuple[list[Any], list[Any]]:
        """Deserialize records, the first step; return each with the record as it was."""
        return (records, records) if self._decoding is None else await self._through(self._decoding, records, records)

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _process(self, values: list[Any], origins: list[Any], next_offset: int) -> None:
        """Run all steps up to the handler, for consecutive values that end before `next_offset`."""
        values, origins = await self._through(self._stream.before, values, origins)
        self._seen, self._tried = next_offset, 0
        if self._folding is not None:
            first_offset, self.covered = self.covered, max(self.covered, next_offset)
            await self._folding.add(values, origins, covers(self.complete, first_offset, origins, self.covered))
            return
        if self._batcher is None:
            await self._emit(values, origins, next_offset)
            return
        for made, gathered in self._batcher.add(values, origins, asyncio.get_running_loop().time()):
            await self._emit_list(made, gathered)
        if not self._batcher:
            await self._emit([], [], next_offset)

    async def _flush(self) -> None:
        """Pass on gathered or folded values, and cover all offsets processed so far."""
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
        """Pass values through steps in order. The partition waits while a value waits for its next attempt."""
        if not steps:
            return values, origins
        self._section = run = SectionRun(steps, values, origins)
        attempt, place = 1, (0, 0)
        calls = self._stream.calls
        while True:
            with calls.call(self.where, lambda: run.step, lambda: run.origin, lambda: run.place):
                is_over = run.run()
            if is_over:
                break
            assert run.error is not None
            if run.place[1] > (place[1] if run.place[0] == place[0] else 0):
                self.on_success()  # for the values before it in the step that fails now
            attempt, place = attempt if run.place == place else 1, run.place
            self._tried = max(self._tried, end_of(run.origin) - self._seen)
            if not await self.fails_for_now(run.origin, run.error, attempt, run.step):
                run.drop()
                attempt = 1  # the next value is at the same place
            elif not isinstance(run.error, NotNow):
                attempt += 1
                if steps is self._decoding and self._deserializers is not None and isinstance(run.origin, Record):
                    await self._deserializers.resolve_again(run.origin)
        self._section = None
        return run.values, run.origins

    async def fails_for_now(self, origin: Origin, error: Exception, attempt: int, step: str) -> bool:
        """Wait after a failure; True: try again, False: the record is finished."""
        self.check()
        if isinstance(error, NotNow):
            self.pause()
            try:
                await self.sleep(error.seconds)
            finally:
                self.resume()
            return True
        after_s = await self._stream.failures.handle(self, origin, error, attempt, step, self._tried)
        if after_s is not None:
            await self.sleep(after_s)
        return after_s is not None

    async def _emit(self, values: Sequence[Any], origins: Sequence[Any], next_offset: int) -> None:
        """Pass values in order to workers or sink. They cover all offsets since the last call."""
        stream = self._stream
        first_offset, self.covered = self.covered, max(self.covered, next_offset)
        if stream.pool is None and stream.sink is None:
            if values:
                self.on_success()
            self.complete(first_offset, self.covered)
            return
        if stream.pool is None:
            await self.writer.write_all(values, origins, first_offset)
            return
        found = covers(self.complete, first_offset, origins, self.covered)
        for number, (value, origin, cover) in enumerate(zip(values, origins, found, strict=True), start=1):
            if self.is_torn or self.partition.is_lost:  # abandoned records are read again, and must not be overtaken
                return
            self.in_flight += 1
            stream.pool.add(Element(value, origin, cover, self))
            if not number % TURN_ELEMENTS:
                await asyncio.sleep(0)

    def on_success(self) -> None:
        """Note that a record was processed without a failure."""
        if self._stream.failures.window is not None:
            self._stream.failures.window.on_success()

    def on_finished(self, element: Element, *, succeeded: bool) -> None:
        """Note that an element in flight ended."""
        lane, element.write_lane = element.write_lane, None
        if lane is not None:
            self.writer.write_next(lane, leaves=element.pending < 0 and not self.partition.is_lost)
        window = self._stream.failures.window
        if succeeded and window is not None:
            window.on_success()
        self.in_flight -= 1
        self.wake()
        if not self.in_flight:
            self._stream.on_parked()

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Complete offsets: all their results are stored."""
        if self.offsets is None or next_offset <= first_offset:
            return
        before = self.offsets.committable
        self.offsets.complete(first_offset, next_offset)
        self._stream.on_completed(self, first_offset, next_offset, self.offsets.committable - before)

    def reached(self, start: int | None) -> int | None:
        """Return the offset up to which all is committed or, without transactions, completed.

        `start` if nothing was read.
        """
        if self.offsets is None:
            return start
        return self.committed if self._stream.is_exactly_once else self.offsets.committable

    def rewind(self) -> None:
        """Prepare the replay of batches of the aborted transaction."""
        self.replay = deque([*self.taken, *self.replay])
        self.taken = []
        self.in_flight = 0
        self.is_torn = self.is_parked = self.has_ended = False
        self.is_abandoned = self.is_abandoned and not self.replay
        self.writer.forget()
        self._batcher = self._new_batcher()
        self._folding = self._new_folding()
        if self.offsets is not None:
            self.offsets = CompletedOffsets(self.committed)
            self.covered = self._seen = self.committed

    async def close(self) -> None:
        """Cancel all waits, and end the source's iterator."""
        tasks = [*self.writer.tasks, *([] if self._coming is None else [self._coming])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(self._batches, AsyncGenerator):
            await self._batches.aclose()
        await self.partition.close()
