"""Records through steps and workers to their commits, in simulated time."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import CommitFailedError, KafkaError
from kafwire.records import Batch, Record
from kafwire.stream import MemorySink, MemorySource, Message, NotNow, Pipeline, StopRequest
from kafwire.stream.commit_schedule import COMMIT_AGAIN_S
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


class Handler:
    """Sleeps a given time for each record, and knows what ran when."""

    def __init__(self, seconds: dict[int, float] | None = None) -> None:
        self.seconds = seconds or {}
        self.running: set[Any] = set()
        self.most = 0
        self.ended: list[int] = []
        self.by_key: dict[Any, list[int]] = defaultdict(list)

    async def __call__(self, record: Record) -> Message:
        """Handle."""
        lane = record.partition, record.key, number(record)
        self.running.add(lane)
        self.most = max(self.most, len(self.running))
        self.by_key[record.key].append(number(record))
        await asyncio.sleep(self.seconds.get(number(record), 1.0))
        self.running.remove(lane)
        self.ended.append(number(record))
        return Message(record.value, record.key)


def test_steps_in_order_and_the_end_committed() -> None:
    source, sink = MemorySource({"orders": numbered(1000)}, batch_records=70), MemorySink()
    pipeline = Pipeline().filter(lambda one: number(one) % 2).map(number).flat_map(lambda one: [one, -one])
    summary = run_simulated(pipeline, source, sink)
    assert sink.values == [each for one in range(1, 1000, 2) for each in (one, -one)]
    assert source.committed == {ORDERS: 1000}
    assert (summary.records, summary.commits) == (1000, 1)
    assert source.closed


def test_a_pipeline_without_steps_completes_all() -> None:
    source = MemorySource({"orders": numbered(3000), "bills": numbered(5)})
    assert run_simulated(Pipeline(), source).records == 3005
    assert source.committed == {ORDERS: 3000, TopicPartition("bills", 0): 5}


def test_none_is_not_written() -> None:
    source, sink = MemorySource({"orders": numbered(4)}), MemorySink()
    run_simulated(Pipeline().map(lambda one: number(one) or None), source, sink)
    assert sink.values == [1, 2, 3]
    assert source.committed == {ORDERS: 4}


def test_keys_run_in_parallel_each_in_order() -> None:
    handler = Handler({0: 5.0, 4: 3.0})
    source, sink = MemorySource({"orders": numbered(30, keys=3)}), MemorySink()
    run_simulated(Pipeline().for_each(handler, workers=8, by="key"), source, sink)
    assert handler.most == 3, "as many as there are keys"
    for numbers in handler.by_key.values():
        assert numbers == sorted(numbers)
    assert handler.ended != sorted(handler.ended), "keys wait for each other"
    assert sorted(handler.ended) == list(range(30))
    written = [int(message.value) for message in sink.values if message.key == b"key 1"]
    assert written == sorted(written), "a handler's result is written in its key's order"
    assert source.committed == {ORDERS: 30}


def test_partitions_run_in_parallel_each_in_order() -> None:
    source = MemorySource()
    for partition in range(2):
        source.append("orders", numbered(5), partition=partition)
    handler = Handler()
    run_simulated(Pipeline().for_each(handler, workers=8, by="partition"), source)
    assert handler.most == 2
    assert handler.ended == [each for one in range(5) for each in (one, one)]


def test_records_without_a_key_are_in_no_order() -> None:
    handler = Handler()
    source = MemorySource({"orders": [(None, value) for _, value in numbered(6)]})
    run_simulated(Pipeline().for_each(handler, workers=4, by="key"), source)
    assert handler.most == 4


def test_a_value_of_a_function_is_no_partition() -> None:
    handler = Handler()
    source = MemorySource({"orders": numbered(4, keys=4)})
    run_simulated(Pipeline().for_each(handler, workers=4, by=lambda record: None), source)
    assert handler.most == 1, "None is a lane of its own here"


def test_filtered_records_are_committed_though_no_list_is_full() -> None:
    source = MemorySource({"orders": numbered(50)}, ends=False)
    seen: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(2)
        seen.append(dict(source.committed))
        stop.request()

    pipeline = Pipeline().filter(lambda record: False).batch(5).commit(within=1.0)
    run_simulated(pipeline, source, MemorySink(), beside=beside)
    assert seen == [{ORDERS: 50}]


def test_the_same_key_of_two_partitions_is_two() -> None:
    source = MemorySource()
    for partition in range(2):
        source.append("orders", numbered(1), partition=partition)
    starts: list[float] = []

    async def handle(record: Record) -> None:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)

    run_simulated(Pipeline().for_each(handle, workers=8, by="key"), source)
    assert starts[0] == starts[1]


def test_a_function_chooses_the_records_that_are_in_order() -> None:
    handler = Handler()
    pipeline = Pipeline().for_each(handler, workers=8, by=lambda record: number(record) % 5)
    run_simulated(pipeline, MemorySource({"orders": numbered(25, keys=25)}))
    assert handler.most == 5


def test_without_an_order_all_workers_run() -> None:
    handler = Handler()
    run_simulated(Pipeline().for_each(handler, workers=8, by=None), MemorySource({"orders": numbered(25, keys=1)}))
    assert handler.most == 8


def test_a_gap_holds_the_commit_back() -> None:
    handler = Handler({3: 60.0})
    source = MemorySource({"orders": numbered(40, keys=40)}, ends=False)
    seen: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(30)
        seen.append(dict(source.committed))
        await asyncio.sleep(40)
        seen.append(dict(source.committed))
        stop.request()

    pipeline = Pipeline().for_each(handler, workers=4, by="key").commit(within=1.0)
    run_simulated(pipeline, source, beside=beside)
    assert seen == [{ORDERS: 3}, {ORDERS: 40}]


def test_offsets_behind_a_gap_are_committed_once_it_is_filled() -> None:
    handler = Handler({0: 10.0})
    source = MemorySource({"orders": numbered(6, keys=6)}, ends=False)
    seen: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        for _ in range(2):
            await asyncio.sleep(8)
            seen.append(dict(source.committed))
        stop.request()

    run_simulated(Pipeline().for_each(handler, workers=6, by="key").commit(every=3), source, beside=beside)
    assert seen == [{}, {ORDERS: 6}]


def test_commits_by_number() -> None:
    source = MemorySource({"orders": numbered(10, keys=1)})
    pipeline = Pipeline().for_each(Handler(), by="partition").commit(every=4)
    assert run_simulated(pipeline, source).commits == 3
    assert [commit[ORDERS] for commit in source.commits] == [4, 8, 10]


class SlowCommits(MemorySource):
    """Its first commit takes an hour, and what would end the wait before cancels it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.waits: list[float] = [3600.0]

    async def commit(self) -> None:
        """Commit."""
        if self.waits:
            await asyncio.sleep(self.waits.pop())
        await super().commit()


def test_a_commit_under_way_at_the_end_is_made_again() -> None:
    source = SlowCommits({"orders": numbered(10)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(30)
        assert source.waits == []
        stop.request()

    summary = run_simulated(Pipeline().map(number).commit(every=10), source, beside=beside)
    assert source.committed == {ORDERS: 10}
    assert summary.commits == 1


class RefusedCommits(MemorySource):
    """Its first commits are refused."""

    def __init__(self, refusals: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.refusals = refusals
        self.error: type[BaseException] = KafkaError
        self.refused_at: list[float] = []

    async def commit(self) -> None:
        """Commit."""
        if len(self.refused_at) < self.refusals:
            self.refused_at.append(asyncio.get_running_loop().time())
            raise self.error("not now")
        await super().commit()


@pytest.mark.parametrize("error", [KafkaError, asyncio.CancelledError])
def test_offsets_of_a_refused_commit_are_in_the_next(error: type[BaseException]) -> None:
    source = RefusedCommits(3, {"orders": numbered(10)}, ends=False)
    source.error = error
    committed: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(60)
        committed.append(dict(source.committed))
        stop.request()

    run_simulated(Pipeline().map(number).commit(every=10), source, beside=beside)
    assert committed == [{ORDERS: 10}]
    first, second, third = source.refused_at
    assert third - second == second - first == COMMIT_AGAIN_S


def test_batches_by_number_and_time() -> None:
    source, sink = MemorySource({"orders": numbered(10)}, ends=False), MemorySink()
    lengths: list[int] = []

    async def beside(stop: StopRequest) -> None:
        for seconds in (1.9, 0.2, 6.0):
            await asyncio.sleep(seconds)
            lengths.append(len(sink.values))
        assert source.committed == {ORDERS: 10}
        source.append("orders", [b"10"])
        await asyncio.sleep(0)
        stop.request()

    run_simulated(Pipeline().map(number).batch(4, max_seconds=2.0), source, sink, beside=beside)
    assert sink.values[:3] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert lengths == [2, 3, 3], "the last list comes after two seconds"
    assert sum(len(values) for values in sink.values) == source.committed[ORDERS]


def test_a_rare_value_does_not_stop_its_own_batch() -> None:
    source, sink = MemorySource({"orders": numbered(5000)}), MemorySink()
    pipeline = Pipeline().filter(lambda one: number(one) % 500 == 0).map(number).batch(4)
    run_simulated(pipeline.limits(max_in_flight=1, max_uncommitted=10), source, sink)
    assert sink.values == [[0, 500, 1000, 1500], [2000, 2500, 3000, 3500], [4000, 4500]]
    assert source.committed == {ORDERS: 5000}


def test_whole_batches_as_arrow() -> None:
    source, sink = MemorySource({"orders": numbered(100)}, batch_records=10), MemorySink()
    pipeline = Pipeline().map_batches(pa.record_batch).map(lambda rows: rows.select(["value"])).batch(25)
    summary = run_simulated(pipeline.map(pa.Table.from_batches), source, sink)
    assert [table.num_rows for table in sink.values] == [30, 30, 30, 10]
    assert pa.concat_tables(sink.values)["value"].to_pylist() == [value for _, value in numbered(100)]
    assert source.committed == {ORDERS: 100}
    assert summary.records == 100


def test_whole_batches_by_workers() -> None:
    running: list[int] = []

    async def handle(batch: Batch) -> int:
        running.append(1)
        await asyncio.sleep(1)
        running.pop()
        return len(batch)

    source, sink = MemorySource({"orders": numbered(100)}, batch_records=10), MemorySink()
    run_simulated(Pipeline().map_batches(lambda batch: batch).for_each(handle, workers=4, by=None), source, sink)
    assert sink.values == [10] * 10


def test_steps_after_the_handler() -> None:
    source, sink = MemorySource({"orders": numbered(6)}), MemorySink()
    pipeline = Pipeline().for_each(number, run_in="tasks").filter(lambda one: one % 2).flat_map(lambda one: [one] * 2)
    run_simulated(pipeline, source, sink)
    assert sink.values == [1, 1, 3, 3, 5, 5]
    assert source.committed == {ORDERS: 6}


@pytest.mark.parametrize("by", ["key", "partition", None])
def test_the_number_of_records_in_hand_is_bounded(by: Any) -> None:
    source = MemorySource({"orders": numbered(20_000, keys=7)}, batch_records=100)
    most = 0

    async def handle(record: Record) -> None:
        nonlocal most
        most = max(most, source_stream.completed.uncommitted)
        await asyncio.sleep(0.001)

    source_stream = source._streams[ORDERS]
    run_simulated(Pipeline().for_each(handle, workers=3, by=by).limits(max_in_flight=200), source)
    assert most <= 200 + 2 * 100
    assert source.committed == {ORDERS: 20_000}


def test_a_gap_stops_reading_when_much_is_uncommitted() -> None:
    source = MemorySource({"orders": numbered(20_000, keys=20_000)}, batch_records=100)
    stream = source._streams[ORDERS]
    most = 0

    async def handle(record: Record) -> None:
        nonlocal most
        most = max(most, stream.completed.uncommitted)
        if number(record) == 0:
            await asyncio.sleep(3600)

    run_simulated(Pipeline().for_each(handle, workers=3, by="key").limits(max_uncommitted=500), source)
    assert most <= 500 + 2 * 100
    assert source.committed == {ORDERS: 20_000}


def test_at_most_once_commits_before_it_processes() -> None:
    source = MemorySource({"orders": numbered(30)}, batch_records=10)
    committed: list[int] = []

    def handle(record: Record) -> None:
        committed.append(source.committed[ORDERS])
        assert source.committed[ORDERS] > number(record)

    summary = run_simulated(Pipeline().map(handle), source, guarantee="at_most_once")
    assert sorted(set(committed)) == [10, 20, 30]
    assert summary.commits == 3


def test_at_most_once_a_stop_finishes_committed_records() -> None:
    source, sink = MemorySource({"orders": numbered(5000)}, batch_records=5000, ends=False), MemorySink()
    handled: list[int] = []
    refusals = [NotNow(3.0)]

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stop.request()

    def handle(record: Record) -> int:
        if number(record) == 500 and refusals:
            raise refusals.pop()
        handled.append(number(record))
        return number(record)

    for pipeline in (Pipeline().map(handle), Pipeline().for_each(handle, run_in="tasks")):
        source, sink = MemorySource({"orders": numbered(5000)}, batch_records=5000, ends=False), MemorySink()
        refusals, handled = [NotNow(3.0)], []
        run_simulated(pipeline, source, sink, beside=beside, guarantee="at_most_once")
        assert source.committed == {ORDERS: 5000}
        assert handled == sink.values == list(range(5000))


@pytest.mark.parametrize("refuses", [False, True])
def test_at_most_once_nothing_is_processed_of_a_partition_that_was_lost_before_its_commit(refuses: bool) -> None:
    source, sink = MemorySource({"orders": numbered(10)}, batch_records=5, ends=False), MemorySink()
    stream = source._streams[ORDERS]
    commit, commits = stream.commit, itertools.count()

    async def lose() -> None:
        if next(commits) == 1:
            source.lose("orders")
            if refuses:
                raise CommitFailedError("it belongs to another member")
        await commit()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stop.request()

    stream.commit = lose  # type: ignore[method-assign]
    summary = run_simulated(Pipeline().map(number), source, sink, beside=beside, guarantee="at_most_once")
    assert (sink.values, source.committed, summary.commits) == (list(range(5)), {ORDERS: 5}, 1)
