"""A keyed reduce: folds that end by count and time, offsets that wait for their results, failures, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafwire.errors import ConfigError, TransactionAbortableError
from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Message, NotNow, Pipeline, Reduced, StopRequest
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


def append(numbers: list[int], record: Record) -> list[int]:
    return [*numbers, number(record)]


def folded(sink: MemorySink) -> list[tuple[Any, list[int]]]:
    return [(one.key, one.value) for one in sink.values if isinstance(one, Reduced)]


def test_a_fold_ends_at_its_number_of_values() -> None:
    source, sink = MemorySource({"orders": numbered(10, keys=2)}), MemorySink()
    run_simulated(Pipeline().reduce(append, list, max_values=3), source, sink)
    assert folded(sink) == [
        (b"key 0", [0, 2, 4]),
        (b"key 1", [1, 3, 5]),
        (b"key 0", [6, 8]),
        (b"key 1", [7, 9]),
    ], "at the partition's end all folds go on, the oldest first"
    assert source.committed == {ORDERS: 10}


def test_a_fold_ends_by_time_and_offsets_wait_for_it() -> None:
    source, sink = MemorySource(ends=False), MemorySink()
    committed: list[int] = []

    async def beside(stop: StopRequest) -> None:
        source.append("orders", [(b"a", b"0")])
        await asyncio.sleep(3)
        source.append("orders", [(b"b", b"1"), (b"b", b"2"), (b"a", b"3")])
        await asyncio.sleep(6.5)  # 9.5 s: b had its two values
        committed.append(source.committed.get(ORDERS, 0))
        await asyncio.sleep(1.5)  # 11 s
        committed.append(source.committed.get(ORDERS, 0))
        stop.request()

    pipeline = Pipeline().reduce(append, list, max_values=2, max_seconds=10).commit(every=1)
    run_simulated(pipeline, source, sink, beside=beside)
    assert folded(sink) == [(b"b", [1, 2]), (b"a", [0, 3])]
    assert committed == [4, 4], "a had its second value at once"


def test_offsets_of_a_fold_hold_the_commit_back() -> None:
    source, sink = MemorySource(ends=False), MemorySink()
    seen: list[Any] = []

    async def beside(stop: StopRequest) -> None:
        source.append("orders", [(b"a", b"0"), (b"b", b"1"), (b"b", b"2")])
        for _ in range(3):
            await asyncio.sleep(4)
            seen.append((len(sink.values), source.committed.get(ORDERS, 0)))
        stop.request()

    pipeline = Pipeline().reduce(append, list, max_values=2, max_seconds=10).commit(every=1)
    run_simulated(pipeline, source, sink, beside=beside)
    assert seen == [(1, 0), (1, 0), (2, 3)]


def test_a_key_of_its_own_and_steps_around_it() -> None:
    source, sink = MemorySource({"orders": numbered(10)}), MemorySink()
    pipeline = (
        Pipeline()
        .filter(lambda record: number(record) != 5)
        .map(number)
        .reduce(lambda total, one: total + one, int, by=lambda one: one % 2, max_values=100)
        .filter(lambda fold: fold.key)
        .flat_map(lambda fold: [fold.value, -fold.value])
    )
    run_simulated(pipeline, source, sink)
    assert sink.values == [1 + 3 + 7 + 9, -20]
    assert source.committed == {ORDERS: 10}, "a filtered fold completes its offsets"


def test_workers_take_folds() -> None:
    async def bill(fold: Reduced) -> Message:
        await asyncio.sleep(10 if fold.key == b"key 0" else 1)
        return Message(str(fold.value).encode(), fold.key)

    source, sink = MemorySource({"orders": numbered(9)}, ends=False), MemorySink()
    seen: list[int] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(5)
        seen.append(source.committed.get(ORDERS, 0))
        await asyncio.sleep(6)
        seen.append(source.committed.get(ORDERS, 0))
        stop.request()

    pipeline = Pipeline().reduce(append, list, max_values=3).for_each(bill, workers=3, by=lambda fold: fold.key)
    run_simulated(pipeline.commit(every=1), source, sink, beside=beside)
    assert [message.key for message in sink.values] == [b"key 1", b"key 2", b"key 0"]
    assert seen == [0, 9]


def test_a_result_is_stored_before_its_offsets_are_completed() -> None:
    class Late(MemorySink):
        """Stores after a while."""

        async def write(self, value: Any) -> Awaitable[object] | None:  # type: ignore[override]
            """Take it."""
            return asyncio.ensure_future(self._store(value))

        async def _store(self, value: Any) -> None:
            await asyncio.sleep(5)
            assert not source.committed
            await super().write(value)

    source, sink = MemorySource({"orders": numbered(9)}), Late()
    run_simulated(Pipeline().reduce(append, list, max_values=3).commit(every=1), source, sink)
    assert len(sink.values) == 3
    assert source.committed == {ORDERS: 9}


def test_all_folds_end_where_too_many_offsets_are_held() -> None:
    rare = [(b"rare", b"0"), *((b"often", b"%d" % one) for one in range(1, 1000))]
    source, sink = MemorySource({"orders": rare}, batch_records=10), MemorySink()
    pipeline = Pipeline().reduce(append, list, max_values=100_000).limits(max_uncommitted=50)
    run_simulated(pipeline, source, sink)
    assert sorted(one for _, values in folded(sink) for one in values) == list(range(1000))
    assert len(folded(sink)) >= 20, "each 50 offsets"
    assert folded(sink)[0] == (b"rare", [0]), "the rare key does not hold the commit back for ever"


def test_a_record_that_the_function_refuses_has_failed() -> None:
    def add(total: list[int], record: Record) -> list[int]:
        if number(record) in (3, 4):
            raise ValueError("no")
        return append(total, record)

    def key(record: Record) -> Any:
        return [] if number(record) == 5 else record.key

    source, sink = MemorySource({"orders": numbered(9)}), MemorySink()
    summary = run_simulated(
        Pipeline().reduce(add, list, by=key, max_values=3).retry(2).dead_letters("dead"), source, sink
    )
    assert [letter.value for letter in sink.written("dead")] == [b"3", b"4", b"5"]
    assert {dict(letter.headers)["kafwire.error.step"] for letter in sink.written("dead")} == {b"reduce(add)"}
    assert [one for _, one in folded(sink)] == [[0, 6], [1, 7], [2, 8]]
    assert (summary.dead_letters, source.committed) == (3, {ORDERS: 9})


def test_all_records_of_a_fold_that_fails_are_dead_letters() -> None:
    def fail(fold: Reduced) -> Reduced:
        if fold.key == b"key 1":
            raise ValueError("no")
        return fold

    source, sink = MemorySource({"orders": numbered(9)}), MemorySink()
    run_simulated(Pipeline().reduce(append, list, max_values=3).map(fail).dead_letters("dead"), source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"1", b"4", b"7"]
    assert source.committed == {ORDERS: 9}


def test_a_revoked_partition_ends_its_folds_and_a_lost_one_drops_them() -> None:
    for end, expected in (("revoke", [(b"a", [0])]), ("lose", [])):
        source, sink = MemorySource({"orders": [(b"a", b"0")]}, ends=False), MemorySink()

        async def beside(stop: StopRequest, source: MemorySource = source, end: str = end) -> None:
            await asyncio.sleep(1)
            getattr(source, end)("orders")
            await asyncio.sleep(1)
            stop.request()

        run_simulated(Pipeline().reduce(append, list, max_values=5), source, sink, beside=beside)
        assert folded(sink) == expected
        assert source.committed == ({ORDERS: 1} if end == "revoke" else {})


def test_exactly_once_folds_end_with_their_transaction() -> None:
    class Aborting(MemorySink):
        """Refuses the second transaction."""

        async def commit(self, *arguments: Any) -> None:
            if (self.transactions, self.aborted) == (1, 0):
                raise TransactionAbortableError("not now")
            await super().commit(*arguments)

    source = MemorySource({"orders": numbered(100)}, batch_records=7)
    sink = Aborting(source)
    pipeline = Pipeline().reduce(append, list, max_values=8).commit(every=30)
    run_simulated(pipeline, source, sink, guarantee="exactly_once")
    assert sorted(one for _, values in folded(sink) for one in values) == list(range(100))
    assert sink.aborted == 1
    assert source.committed == {ORDERS: 100}


def test_exactly_once_the_transaction_is_as_long_as_the_folds_time() -> None:
    source = MemorySource(ends=False)
    sink = MemorySink(source)
    seen: list[int] = []

    async def beside(stop: StopRequest) -> None:
        source.append("orders", [(b"a", b"0")])
        await asyncio.sleep(4)
        source.append("orders", [(b"a", b"1")])
        await asyncio.sleep(2)
        seen.append(len(sink.values))
        stop.request()

    run_simulated(Pipeline().reduce(append, list, max_seconds=5), source, sink, beside=beside, guarantee="exactly_once")
    assert (seen, folded(sink)) == ([1], [(b"a", [0, 1])])


@pytest.mark.parametrize("waits", ["before", "after"])
def test_exactly_once_a_stop_leaves_no_result_without_its_offsets(waits: str) -> None:
    """The fold of `a` is in the transaction when the stream stops, and an earlier record only waits."""
    records = [(b"a", b"0"), (b"b", b"1"), (b"a", b"2"), (b"c", b"3")][: 4 if waits == "before" else 3]
    source = MemorySource({"orders": records}, batch_records=1, ends=False)
    sink = MemorySink(source)
    is_ready: list[bool] = []

    def before(record: Record) -> bool:
        if waits == "before" and record.key == b"c" and not is_ready:
            raise NotNow(1000)
        return True

    def after(fold: Reduced) -> Reduced:
        if waits == "after" and fold.key == b"b" and not is_ready:
            raise NotNow(1000)
        return fold

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(20)
        stop.request()

    folding = Pipeline().filter(before).reduce(append, list, max_values=2, max_seconds=10)
    pipeline = folding.map(after).commit(within=500)
    for _ in range(2):
        run_simulated(pipeline, source, sink, beside=beside, guarantee="exactly_once")
        is_ready.append(True)
        source.closed = False
        source.assign("orders")
    assert sorted(one for _, values in folded(sink) for one in values) == list(range(len(records)))
    assert source.committed == {ORDERS: len(records)}


SUM = {"function": append, "initial": list}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"max_values": 0},
        {"max_values": 1.5},
        {"max_seconds": -1},
        {"max_values": 1, "by": 7},
        {"max_values": 1, "initial": 0},
        {"max_values": 1, "initial": None},
        {"max_values": 1, "function": None},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="reduce"):
        Pipeline().reduce(**{**SUM, **arguments})


def test_async_functions_and_wrong_places_are_refused() -> None:
    async def wait(total: Any, one: Any) -> Any:
        return total

    with pytest.raises(ConfigError, match="async"):
        Pipeline().reduce(wait, list, max_values=1)
    folding = Pipeline().reduce(append, list, max_values=1)
    wrongs: tuple[Callable[[], object], ...] = (
        lambda: folding.batch(5),
        lambda: folding.reduce(append, list, max_values=1),
        lambda: Pipeline().batch(5).reduce(append, list, max_values=1),
        lambda: Pipeline().for_each(print).reduce(append, list, max_values=1),
        lambda: Pipeline().map_batches(list).reduce(append, list, max_values=1),
        lambda: folding.for_each(print, by="key"),
    )
    for wrong in wrongs:
        with pytest.raises(ConfigError, match=r"reduce\(\)"):
            wrong()
