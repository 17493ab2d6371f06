"""Streams under all faults at once: handlers that fail and hang, partitions that come and go, stops, lost commits.

A seed chooses everything. Streams run until everything is committed, one after the other, as restarted programs do.
Then each record was processed; with exactly once, its result is there exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from kafwire.errors import KafkaError, TransactionAbortableError
from kafwire.records import Batch, Record
from kafwire.stream import MemorySink, MemorySource, NotNow, Pipeline, Reduced, StopRequest
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support import seeds
from tests.support.stream.streams import run_simulated

COUNT = 60
PARTITIONS = 3
PATIENT_S = 2000.0  # longer than all that may be in flight takes


class Observed(MemorySource):
    """Knows what was processed when something is committed."""

    def __init__(self, processed: set[tuple[int, int]]) -> None:
        super().__init__(batch_records=7, ends=False)
        self.processed = processed
        self.problems: list[str] = []
        self.stopped_in_s: list[float] = []
        for partition in range(PARTITIONS):
            self.append("orders", [(b"%d" % (one % 4), b"%d" % one) for one in range(COUNT)], partition=partition)

    def _note_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Nothing is committed before it is processed, and nothing goes back."""
        for (_, partition), offset in offsets.items():
            missing = {(partition, one) for one in range(offset)} - self.processed
            if missing:
                self.problems.append(f"committed before it was processed: {sorted(missing)[:3]}")
        back = [(where, offset) for where, offset in offsets.items() if offset < self.committed.get(where, 0)]
        if back:
            self.problems.append(f"went back: {back}")
        super()._note_commit(offsets)

    def begin_again(self) -> None:
        """A new member."""
        self.closed = False
        self._streams.clear()
        self._arrived.clear()
        for partition in range(PARTITIONS):
            self.assign("orders", partition)

    @property
    def is_done(self) -> bool:
        """True if everything is committed."""
        return sum(self.committed.values()) == COUNT * PARTITIONS


class Results(MemorySink):
    """Loses a commit now and then."""

    def __init__(self, source: Observed, rng: random.Random, *, is_transactional: bool) -> None:
        super().__init__(source)
        self.source = source
        self.rng = rng
        self.is_transactional = is_transactional

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """Commit, or not."""
        await asyncio.sleep(0.01)
        if self.rng.random() < 0.1:
            raise TransactionAbortableError("lost")
        await super().commit(offsets, group)

    async def write(self, value: Any) -> Any:
        """Keep it, now or a little later; or not now."""
        if self.is_transactional and self._open is None:
            self.source.problems.append("written outside of a transaction")
        if self.rng.random() < 0.02:
            raise NotNow(0.1)
        if self._open is not None and self.rng.random() < 0.01:
            raise TransactionAbortableError("lost")
        if self._open is None and self.rng.random() < 0.5:
            return asyncio.ensure_future(self._later(value))
        return await super().write(value)

    async def _later(self, value: Any) -> None:
        await asyncio.sleep(0.1 * self.rng.random())
        self.values.append(value)


class Handler:
    """Fails, hangs, is cancelled or is not ready, now and then. Calls of a key never overlap, and keep its order."""

    def __init__(self, rng: random.Random, processed: set[tuple[int, int]], *, ordered_by: str | None) -> None:
        self.rng = rng
        self.processed = processed
        self.ordered_by = ordered_by
        self.running: set[Any] = set()
        self.last: dict[Any, int] = {}
        self.problems: list[str] = []

    async def __call__(self, record: Record) -> tuple[int, int]:
        """Handle."""
        lane = {"key": (record.partition, record.key), "partition": record.partition, None: object()}[self.ordered_by]
        if lane in self.running:
            self.problems.append(f"two calls at once in {lane}")
        if record.offset < self.last.get(lane, -1):
            self.problems.append(f"{record.offset} after {self.last[lane]} in {lane}")
        self.running.add(lane)
        try:
            return await self._handle(record)
        finally:
            self.running.discard(lane)
            self.last[lane] = record.offset

    async def _handle(self, record: Record) -> tuple[int, int]:
        drawn = self.rng.random()
        await asyncio.sleep(3600 if drawn < 0.02 else self.rng.random())
        if drawn < 0.06:
            raise ValueError("no")
        if drawn < 0.08:
            raise asyncio.CancelledError
        if drawn < 0.12:
            raise NotNow(self.rng.random() * 3)
        return self.seen(record)

    def seen(self, record: Record) -> tuple[int, int]:
        """Note the record as processed, and return its partition and number."""
        one = record.partition or 0, int(record.value)
        self.processed.add(one)
        return one

    def flaky(self, record: Record) -> tuple[int, int]:
        """The same as a step."""
        if self.rng.random() < 0.05:
            raise ValueError("no") if self.rng.random() < 0.5 else NotNow(0.3)
        return self.seen(record)

    def passes(self, record: Record) -> bool:
        """A step that fails before records are folded."""
        if self.rng.random() < 0.02:
            raise ValueError("no") if self.rng.random() < 0.5 else NotNow(0.3)
        return True

    def folded(self, records: list[Record], record: Record) -> list[Record]:
        """Records of a key, in order."""
        if self.rng.random() < 0.02:
            raise ValueError("no") if self.rng.random() < 0.5 else NotNow(0.3)
        return [*records, record]

    def unfolded(self, fold: Reduced) -> list[tuple[int, int]]:
        """The folded records are processed."""
        if {record.key for record in fold.value} != {fold.key} or len(fold.value) != fold.count:
            self.problems.append(f"{fold} has other keys")
        return [self.flaky(record) for record in fold.value]

    async def unfold(self, fold: Reduced) -> list[tuple[int, int]]:
        """The same, and it fails, hangs or is not ready now and then."""
        drawn = self.rng.random()
        await asyncio.sleep(3600 if drawn < 0.02 else self.rng.random())
        if drawn < 0.06:
            raise ValueError("no")
        if drawn < 0.1:
            raise NotNow(self.rng.random() * 3)
        return [self.seen(record) for record in fold.value]

    def batch(self, batch: Batch) -> list[tuple[int, int]]:
        """The same for a whole batch."""
        return [self.flaky(record) for record in batch]


class Hooks:
    """Hooks that check their order for each partition: assigned, then any aborted, then revoked once."""

    def __init__(self, source: Observed, rng: random.Random) -> None:
        self.source = source
        self.rng = rng
        self.held: dict[TopicPartition, str] = {}

    async def assigned(self, where: TopicPartition, offset: int | None) -> None:
        """The partition comes, from where it is committed."""
        before = self.held.get(where)
        self.held[where] = "assigned"
        if before is not None:
            self.source.problems.append(f"{where} is assigned while it is {before}")
        if offset != self.source.committed.get(where):
            self.source.problems.append(f"{where} is assigned with {offset}")
        await asyncio.sleep(self.rng.random() * 0.2)

    async def aborted(self, where: TopicPartition, offset: int | None) -> None:
        """Check that the replayed partition is assigned."""
        if self.held.get(where) != "assigned" or offset is None:
            self.source.problems.append(f"{where} is replayed from {offset} while it is {self.held.get(where)}")
        await asyncio.sleep(self.rng.random() * 0.2)

    async def revoked(self, where: TopicPartition, offset: int | None) -> None:
        """Check that the revoked partition is assigned, and remove it after a while."""
        if self.held.get(where) != "assigned":
            self.source.problems.append(f"{where} is revoked while it is {self.held.get(where)}")
        self.held[where] = "going"
        await asyncio.sleep(self.rng.random() * 0.2)
        del self.held[where]


def pipeline_of(rng: random.Random, handler: Handler) -> Pipeline:
    shape = rng.choice(["steps", "batch", "handler", "handler", "handler", "batches", "reduce", "reduce, handler"])
    pipeline = Pipeline()
    if shape == "steps":
        pipeline = pipeline.map(handler.flaky).flat_map(lambda one: [one])
    elif shape == "batch":
        size, seconds = rng.randrange(1, 20), rng.choice([None, 0.5])
        pipeline = pipeline.map(handler.flaky).batch(size, seconds).flat_map(lambda values: values)
    elif shape.startswith("reduce"):
        pipeline = pipeline.filter(handler.passes).reduce(
            handler.folded, list, max_values=rng.randrange(1, 12), max_seconds=rng.choice([None, 0.5, 5.0])
        )
        if shape == "reduce":
            pipeline = pipeline.flat_map(handler.unfolded)
        else:
            by: Any = rng.choice([None, "partition"])
            pipeline = pipeline.for_each(handler.unfold, workers=rng.randrange(1, 9), by=by, timeout_s=20.0)
            pipeline = pipeline.flat_map(lambda values: values)
    elif shape == "batches":
        pipeline = pipeline.map_batches(handler.batch).flat_map(lambda values: values)
    else:
        by = handler.ordered_by
        pipeline = pipeline.for_each(handler, workers=rng.randrange(1, 9), by=by, timeout_s=20.0)
    pipeline = pipeline.retry(8, backoff_s=0.2, max_backoff_s=2.0).commit(every=rng.randrange(1, 40), within=2.0)
    return pipeline.limits(
        max_in_flight=rng.randrange(1, 60),
        max_uncommitted=rng.randrange(1, 90),
        stop_timeout_s=rng.choice([5.0, PATIENT_S]),
    )


async def trouble(rng: random.Random, source: Observed, stop: StopRequest) -> None:
    """Take partitions and give them back, and stop."""
    until = asyncio.get_running_loop().time() + rng.choice([2.0, 10.0, 60.0])
    while asyncio.get_running_loop().time() < until and not source.is_done:
        await asyncio.sleep(rng.random() * 5)
        partition = rng.randrange(PARTITIONS)
        if TopicPartition("orders", partition) in source._streams and rng.random() < 0.5:
            (source.lose if rng.random() < 0.4 else source.revoke)("orders", partition)
            await asyncio.sleep(30 if rng.random() < 0.5 else 0)
            if rng.random() < 0.7:
                source.assign("orders", partition)
    stop.request()
    began = asyncio.get_running_loop().time()
    try:
        await asyncio.sleep(PATIENT_S)
    finally:
        source.stopped_in_s.append(asyncio.get_running_loop().time() - began)


@seeds.several(40)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_nothing_is_lost_and_nothing_overtakes(seed: int, guarantee: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("kafwire.stream.partition_run.SLICE_RECORDS", rng.choice([1, 3, 1024]))
    processed: set[tuple[int, int]] = set()
    source = Observed(processed)
    sink = Results(source, rng, is_transactional=guarantee == "exactly_once")
    for _ in range(200):
        handler = Handler(rng, processed, ordered_by=rng.choice(["key", "partition", None]))
        pipeline = pipeline_of(rng, handler)
        hooks = Hooks(source, rng)
        if rng.random() < 0.5:
            pipeline = pipeline.on_partitions(assigned=hooks.assigned, aborted=hooks.aborted, revoked=hooks.revoked)
        with contextlib.suppress(KafkaError):
            run_simulated(
                pipeline, source, sink, guarantee=guarantee, beside=lambda stop: trouble(rng, source, stop), seed=seed
            )
        assert not source.problems, source.problems
        # A replay, and a partition that comes back, begin before what was handled last.
        assert not [problem for problem in handler.problems if " after " not in problem], handler.problems
        assert not hooks.held, "each partition is revoked at the end"
        assert max(source.stopped_in_s, default=0) < PATIENT_S / 2, "a stop was missed"
        if source.is_done:
            break
        source.begin_again()
    assert source.is_done, source.committed
    counts = Counter(sink.values)
    assert set(counts) == {(partition, one) for partition in range(PARTITIONS) for one in range(COUNT)}
    if guarantee == "exactly_once":
        assert set(counts.values()) == {1}, [one for one in counts.items() if one[1] > 1][:5]


def test_a_list_whose_partition_was_left_is_not_completed_by_a_later_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed found it: the revoked partition's list was dropped, and its offsets were committed without results."""
    test_nothing_is_lost_and_nothing_overtakes(105941747, "exactly_once", monkeypatch)
