"""Hooks per partition: when they are called, with which offsets, and that state in a step is right with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.errors import ConfigError, TransactionAbortableError
from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Pipeline, StopRequest, StreamError
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


class Diary:
    """Writes down the hooks' calls and the records between them."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.lines: list[Any] = []
        self._seconds = seconds

    def hook(self, name: str) -> Callable[[TopicPartition, int | None], Any]:
        """A hook that is awaited for a while."""

        async def call(where: TopicPartition, offset: int | None) -> None:
            self.lines.append(f"{name}...")
            await asyncio.sleep(self._seconds)
            self.lines[-1:] = [(name, where.partition, offset)] if self.lines[-1] == f"{name}..." else ["disturbed"]

        return call

    def hooks(self) -> dict[str, Any]:
        """All three."""
        return {name: self.hook(name) for name in ("assigned", "revoked", "aborted")}

    def step(self, record: Record) -> int:
        """A step that writes its records down."""
        self.lines.append(number(record))
        return number(record)


def test_hooks_enclose_the_records_of_a_partition() -> None:
    diary = Diary(1.0)
    source = MemorySource()
    source.committed[ORDERS] = 1
    source.append("orders", numbered(3))
    run_simulated(Pipeline().map(diary.step).on_partitions(**diary.hooks()), source)
    assert diary.lines == [("assigned", 0, 1), 1, 2, ("revoked", 0, 3)]
    assert source.committed == {ORDERS: 3}


def test_nothing_committed_is_none_and_sync_functions_are_called() -> None:
    calls: list[Any] = []
    source = MemorySource({"orders": numbered(1)})
    run_simulated(Pipeline().on_partitions(assigned=lambda *call: calls.append(call)), source)
    assert calls == [(ORDERS, None)]


def test_a_revoked_partition_is_committed_after_its_hook() -> None:
    committed: list[Any] = []
    source = MemorySource({"orders": numbered(3)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        source.revoke("orders")
        await asyncio.sleep(1)
        committed.append(dict(source.committed))
        stop.request()

    pipeline = Pipeline().on_partitions(revoked=lambda *_: committed.append(dict(source.committed)))
    run_simulated(pipeline, source, beside=beside)
    assert committed == [{}, {ORDERS: 3}]


def test_a_lost_partition_has_no_offset() -> None:
    diary = Diary()
    source = MemorySource({"orders": numbered(3)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        source.lose("orders")
        await asyncio.sleep(1)
        assert diary.lines[-1] == ("revoked", 0, None)
        stop.request()

    run_simulated(Pipeline().on_partitions(**diary.hooks()), source, beside=beside)
    assert diary.lines == [("assigned", 0, None), ("revoked", 0, None)]


@pytest.mark.parametrize("options", [{}, {"guarantee": "exactly_once"}], ids=["at least once", "exactly once"])
def test_a_partition_that_comes_back_waits_for_the_end_of_its_hooks(options: dict[str, Any]) -> None:
    diary = Diary(5.0)
    source = MemorySource({"orders": numbered(3)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(20)
        source.revoke("orders")
        await asyncio.sleep(1)
        source.assign("orders")
        source.append("orders", [b"3"])
        await asyncio.sleep(30)
        stop.request()

    pipeline = Pipeline().map(diary.step).on_partitions(**diary.hooks())
    run_simulated(pipeline, source, MemorySink(source), beside=beside, **options)
    expected = [("assigned", 0, None), 0, 1, 2, ("revoked", 0, 3)]
    assert diary.lines[: len(expected)] == expected
    assert "disturbed" not in diary.lines
    assert [line for line in diary.lines if not isinstance(line, int)][2][:2] == ("assigned", 0)


@pytest.mark.parametrize("stops", [False, True])
def test_a_partition_that_was_lost_within_a_transaction_and_comes_back(stops: bool) -> None:
    """The transaction's end waits for all partitions, and the new assignment for that of the old one."""
    diary = Diary(1.0)
    source = MemorySource({"orders": numbered(3)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(5)
        source.lose("orders")
        source.assign("orders")
        await asyncio.sleep(0.5 if stops else 60)
        stop.request()

    pipeline = Pipeline().map(diary.step).commit(within=30).on_partitions(**diary.hooks())
    run_simulated(pipeline, source, MemorySink(source), beside=beside, guarantee="exactly_once")
    assert diary.lines[:5] == [("assigned", 0, None), 0, 1, 2, ("revoked", 0, None)]
    assert diary.lines[5:] == ([] if stops else [("assigned", 0, None), 0, 1, 2, ("revoked", 0, 3)])


class Aborting(MemorySink):
    """Refuses given transactions."""

    def __init__(self, source: MemorySource, *refused: int) -> None:
        super().__init__(source)
        self._refused = refused
        self.commits = 0

    async def commit(self, *arguments: Any) -> None:
        """Refuse it, or commit."""
        self.commits += 1
        if self.commits in self._refused:
            raise TransactionAbortableError("not now")
        await super().commit(*arguments)


def test_an_aborted_transaction_is_reported_before_its_records_come_again() -> None:
    diary = Diary(1.0)
    source = MemorySource({"orders": numbered(4)}, batch_records=2)
    sink = Aborting(source, 2)
    pipeline = Pipeline().map(diary.step).commit(every=2).on_partitions(**diary.hooks())
    run_simulated(pipeline, source, sink, guarantee="exactly_once")
    assert diary.lines == [("assigned", 0, None), 0, 1, 2, 3, ("aborted", 0, 2), 2, 3, ("revoked", 0, 4)]


def test_state_in_a_step_is_right_exactly_once() -> None:
    """A running total, saved with each result: after aborts it is as if each record had come once."""
    totals: dict[TopicPartition, int] = {}
    saved: dict[tuple[TopicPartition, int | None], int] = {}

    def load(where: TopicPartition, offset: int | None) -> None:
        totals[where] = saved.get((where, offset), 0)

    def add(record: Record) -> tuple[int, int]:
        where = TopicPartition("orders", record.partition or 0)
        totals[where] += number(record)
        saved[where, record.offset + 1] = totals[where]
        return record.offset, totals[where]

    for refused in ((), (1,), (3,), (2, 3, 5)):
        totals.clear()
        saved.clear()
        source = MemorySource({"orders": numbered(50)}, batch_records=5)
        sink = Aborting(source, *refused)
        pipeline = Pipeline().map(add).commit(every=10).on_partitions(assigned=load, aborted=load)
        run_simulated(pipeline, source, sink, guarantee="exactly_once")
        assert sink.values == [(offset, sum(range(offset + 1))) for offset in range(50)]


def test_a_stream_that_fails_within_a_transaction_undoes_it_first() -> None:
    diary = Diary()

    def fail(record: Record) -> None:
        diary.step(record)
        if number(record) == 3:
            raise ValueError("no")

    source = MemorySource({"orders": numbered(4)}, batch_records=2)
    pipeline = Pipeline().map(fail).commit(every=2).on_partitions(**diary.hooks())
    with pytest.raises(StreamError):
        run_simulated(pipeline, source, MemorySink(source), guarantee="exactly_once")
    assert diary.lines == [("assigned", 0, None), 0, 1, 2, 3, ("aborted", 0, 2), ("revoked", 0, 2)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "at_most_once"])
def test_a_stopped_stream_revokes_each_partition_once(guarantee: Any) -> None:
    calls: list[Any] = []
    source = MemorySource(ends=False)
    source.append("orders", numbered(3))
    source.append("orders", numbered(3), partition=1)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(10)
        stop.request()

    pipeline = Pipeline().on_partitions(
        assigned=lambda where, offset: calls.append(("assigned", where.partition, offset)),
        revoked=lambda where, offset: calls.append(("revoked", where.partition, offset)),
    )
    run_simulated(pipeline, source, MemorySink(source), beside=beside, guarantee=guarantee)
    ends = (("assigned", None), ("revoked", 3))
    assert sorted(calls) == [(name, part, at) for name, at in ends for part in (0, 1)]


@pytest.mark.parametrize("name", ["assigned", "revoked", "aborted"])
def test_a_hook_that_raises_ends_the_stream(name: str) -> None:
    def fail(where: TopicPartition, offset: int | None) -> None:
        raise LookupError("no state")

    source = MemorySource({"orders": numbered(4)})
    sink = Aborting(source, 1)
    hook: dict[str, Any] = {name: fail}
    with pytest.raises(LookupError, match="no state") as found:
        run_simulated(Pipeline().on_partitions(**hook), source, sink, guarantee="exactly_once")
    assert "on_partitions() raised this for orders-0" in found.value.__notes__[0]
    assert source.closed


def test_a_hook_that_hangs_does_not_hold_up_the_stop_for_ever() -> None:
    async def hang(where: TopicPartition, offset: int | None) -> None:
        await asyncio.get_running_loop().create_future()

    source = MemorySource({"orders": numbered(4)}, ends=False)
    took: list[float] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stop.request()
        began = asyncio.get_running_loop().time()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            took.append(asyncio.get_running_loop().time() - began)

    pipeline = Pipeline().on_partitions(revoked=hang).limits(stop_timeout_s=5)
    with pytest.raises(TimeoutError):
        run_simulated(pipeline, source, beside=beside)
    assert took == [7.0], "until it is cancelled as the stream stops, and HOOKS_S as it ends"
    assert source.closed


@pytest.mark.parametrize("hooks", [{}, {"assigned": 7}], ids=str)
def test_a_wrong_hook_is_refused(hooks: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="on_partitions"):
        Pipeline().on_partitions(**hooks)
