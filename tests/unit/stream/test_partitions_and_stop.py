"""Partitions that come and go, and streams that stop, in simulated time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import Any

import pytest

from kafwire.errors import CommitFailedError, KafkaError
from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Message, Pipeline, RetryTopic, StopRequest, StreamError
from kafwire.testing import run_in_simulated_time
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


async def second(record: Record) -> int:
    """Takes a second."""
    await asyncio.sleep(1.0)
    return number(record)


def test_a_stop_finishes_records_in_flight_commits_and_leaves() -> None:
    source, sink = MemorySource({"orders": numbered(10)}, batch_records=4, ends=False), MemorySink()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.5)
        stop.request()
        stop.request()
        source.append("orders", [b"10"])

    run_simulated(Pipeline().for_each(second, workers=4, by="key"), source, sink, beside=beside)
    assert sorted(sink.values) == list(range(10))
    assert source.committed == {ORDERS: 10}
    assert source.closed


def test_a_stop_before_the_start_reads_nothing() -> None:
    stop = StopRequest()
    stop.request()
    source, sink = MemorySource({"orders": numbered(10)}, ends=False), MemorySink()
    with asyncio.Runner() as runner:
        runner.run(Pipeline().map(number).run_async(source, sink, stop=stop))
    assert stop.is_requested
    assert (sink.values, source.committed, source.closed) == ([], {}, True)


def test_a_stop_flushes_a_batch_that_is_not_full() -> None:
    source, sink = MemorySource({"orders": numbered(10)}, ends=False), MemorySink()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.5)
        stop.request()

    run_simulated(Pipeline().map(number).batch(100), source, sink, beside=beside)
    assert sink.values == [list(range(10))]
    assert source.committed == {ORDERS: 10}


@pytest.mark.parametrize("by", ["key", "partition", None])
def test_a_stop_leaves_records_that_wait_for_their_next_attempt(by: Any) -> None:
    source = MemorySource({"orders": numbered(20, keys=2)}, ends=False)
    handled: list[int] = []
    refused: list[int] = []

    async def handle(record: Record) -> None:
        await asyncio.sleep(0.1)
        if number(record) == 3:
            refused.append(3)
            raise ValueError("no")
        handled.append(number(record))

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.45)
        stop.request()

    pipeline = Pipeline().for_each(handle, workers=2, by=by).retry(99, backoff_s=60.0)
    run_simulated(pipeline, source, beside=beside)
    assert source.committed == {ORDERS: 3}
    assert refused == [3], "its next attempt is not waited for"
    if by == "key":
        assert not {5, 7, 9} & set(handled), "the next record of its key does not overtake it"
    if by == "partition":
        assert handled == [0, 1, 2]


@pytest.mark.parametrize("by", ["key", "partition", None])
def test_a_failure_after_the_stop_is_not_tried_again(by: Any) -> None:
    source = MemorySource({"orders": numbered(8, keys=2)}, ends=False)
    calls: list[int] = []
    times: list[float] = []

    async def handle(record: Record) -> None:
        calls.append(number(record))
        await asyncio.sleep(1.0)
        if number(record) == 0:
            raise ValueError("no")

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.5)
        times.append(asyncio.get_running_loop().time())
        stop.request()

    async def main(clock: Any) -> None:
        stop = StopRequest()
        other = asyncio.ensure_future(beside(stop))
        pipeline = Pipeline().for_each(handle, workers=1, by=by).retry(9, backoff_s=60.0)
        await pipeline.run_async(source, stop=stop, clock=clock)
        await other
        times.append(asyncio.get_running_loop().time())

    run_in_simulated_time(main)
    assert source.committed == {}
    assert calls.count(0) == 1
    assert times[1] - times[0] < 10, "it does not wait until it is forced"
    assert calls == {"key": [0, 1, 3, 5, 7], "partition": [0], None: list(range(8))}[by]


def test_a_list_that_a_stop_flushes_does_not_overtake() -> None:
    source = MemorySource({"orders": numbered(5)}, ends=False)
    handled: list[list[int]] = []

    async def handle(values: list[int]) -> None:
        if values[0] == 0:
            raise ValueError("no")
        handled.append(values)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stop.request()

    pipeline = Pipeline().map(number).batch(3).for_each(handle, by="partition").retry(9, backoff_s=60.0)
    run_simulated(pipeline, source, beside=beside)
    assert handled == []
    assert source.committed == {}


def test_a_stop_leaves_a_step_that_waits_for_its_next_attempt() -> None:
    def refuse(record: Record) -> int:
        if number(record) == 3:
            raise ValueError("no")
        return number(record)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(5)
        stop.request()

    source, sink = MemorySource({"orders": numbered(10)}, batch_records=1, ends=False), MemorySink()
    run_simulated(Pipeline().map(refuse).retry(99, backoff_s=60.0), source, sink, beside=beside)
    assert sink.values == [0, 1, 2]
    assert source.committed == {ORDERS: 3}


def test_a_stop_leaves_a_value_that_waits_to_be_written_again() -> None:
    class Refusing(MemorySink):
        """Takes nothing."""

        async def write(self, value: Any) -> Any:
            """Refuse now, or later."""
            if value % 2:
                raise ConnectionError("no")
            return asyncio.ensure_future(asyncio.wait_for(asyncio.sleep(3600), 1.0))

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(5)
        stop.request()

    for first in (0, 1):
        source = MemorySource({"orders": [b"%d" % one for one in range(first, 5)]}, ends=False)
        run_simulated(Pipeline().map(number).retry(99, backoff_s=60.0), source, Refusing(), beside=beside)
        assert source.committed == {}
        assert source.closed


def test_a_stop_does_not_wait_for_ever() -> None:
    source = MemorySource({"orders": numbered(10)}, ends=False)
    cancelled: list[int] = []
    times: list[float] = []

    async def handle(record: Record) -> None:
        try:
            await asyncio.sleep(3600 if number(record) == 2 else 0)
        except asyncio.CancelledError:
            cancelled.append(number(record))
            times.append(asyncio.get_running_loop().time())
            raise

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        times.append(asyncio.get_running_loop().time())
        stop.request()

    pipeline = Pipeline().for_each(handle, workers=2, by="key").limits(stop_timeout_s=5.0)
    run_simulated(pipeline, source, beside=beside)
    assert cancelled == [2]
    assert times[1] - times[0] == pytest.approx(5.0, abs=0.01)
    assert source.committed == {ORDERS: 2}


def test_a_handler_that_does_not_let_itself_be_cancelled_does_not_hold_the_stream() -> None:
    source, sink = MemorySource({"orders": numbered(3)}, ends=False), MemorySink()

    async def handle(record: Record) -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(100_000)
        return number(record)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stop.request()

    run_simulated(Pipeline().for_each(handle).limits(stop_timeout_s=5.0), source, sink, beside=beside)
    assert sink.values == [0], "no other call is made"
    assert source.committed == {ORDERS: 1}


def test_a_revoked_partition_is_finished_and_committed() -> None:
    source, sink = MemorySource({"orders": numbered(6)}, ends=False), MemorySink()
    seen: list[Any] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.5)
        source.revoke("orders")
        await asyncio.sleep(5)
        seen.append((dict(source.committed), sorted(sink.values)))
        source.append("orders", [b"6"])
        await asyncio.sleep(5)
        stop.request()

    run_simulated(Pipeline().for_each(second, workers=3, by="key"), source, sink, beside=beside)
    assert seen == [({ORDERS: 6}, list(range(6)))]
    assert sorted(sink.values) == list(range(7))
    assert source.committed == {ORDERS: 7}


@pytest.mark.parametrize("stops_first", [False, True])
def test_a_revoked_partition_is_committed_by_a_stream_that_stops(stops_first: bool) -> None:
    source = MemorySource({"orders": numbered(6)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.5)
        if stops_first:
            stop.request()
        source.revoke("orders")
        await asyncio.sleep(0.1)
        stop.request()

    run_simulated(Pipeline().for_each(second, workers=3, by="key"), source, beside=beside)
    assert source.committed == {ORDERS: 6}


def test_a_revoked_partition_whose_commit_is_refused_does_not_end_the_stream() -> None:
    source, sink = MemorySource({"orders": numbered(3), "bills": numbered(3)}, ends=False), MemorySink()
    stream = source._streams[ORDERS]

    async def refuse() -> None:
        raise CommitFailedError("the group has moved on")

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stream.commit = refuse  # type: ignore[method-assign]
        source.revoke("orders")
        await asyncio.sleep(1)
        source.append("bills", [b"3"])
        await asyncio.sleep(1)
        stop.request()

    run_simulated(Pipeline().map(number), source, sink, beside=beside)
    assert sorted(sink.values) == [0, 0, 1, 1, 2, 2, 3]
    assert source.committed == {TopicPartition("bills", 0): 4}


@pytest.mark.parametrize("error", [CommitFailedError("another member has orders-0"), KafkaError("no coordinator")])
def test_partitions_lost_before_the_last_commit_are_no_error(
    error: KafkaError, caplog: pytest.LogCaptureFixture
) -> None:
    source = MemorySource({"orders": numbered(3)}, ends=False)

    async def refuse() -> None:
        raise error

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        source.commit = refuse  # type: ignore[method-assign]
        stop.request()

    outcome = pytest.raises(KafkaError, match="no coordinator")
    with contextlib.nullcontext() if isinstance(error, CommitFailedError) else outcome:
        run_simulated(Pipeline().map(number).commit(within=60), source, MemorySink(), beside=beside)
    lost = [line for line in caplog.messages if "another member has orders-0" in line]
    assert len(lost) == isinstance(error, CommitFailedError)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("take", ["revoke", "lose"])
def test_a_partition_that_is_taken_does_not_wait_until_its_record_is_due(take: str, guarantee: Any) -> None:
    began = 1_700_000_000_000 + 1_000_000  # of simulated time
    due = [Message(b"%d" % one, headers=[("kafwire.due_ms", b"%d" % at)]) for one, at in enumerate([0, began + 10**7])]
    source = MemorySource({"retry": due}, ends=False)
    sink = MemorySink(source)
    seen: list[bool] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        stream = source._streams[TopicPartition("retry", 0)]
        seen.append(stream.is_paused)
        getattr(source, take)("retry")
        await asyncio.sleep(1)
        seen.append(stream.is_paused)
        stop.request()

    pipeline = Pipeline().map(number).retry_topics(RetryTopic("retry", 60)).commit(within=0.5)
    run_simulated(pipeline, source, sink, beside=beside, guarantee=guarantee)
    assert seen == [True, False], "it is given back as it was"
    assert sink.values == [0]
    assert source.committed == {TopicPartition("retry", 0): 1}


def test_a_lost_partition_is_dropped() -> None:
    source, sink = MemorySource({"orders": numbered(6), "bills": numbered(6)}, ends=False), MemorySink()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1.5)
        source.lose("orders")
        await asyncio.sleep(30)
        stop.request()

    pipeline = Pipeline().for_each(second, workers=2, by="partition").commit(within=0.1)
    run_simulated(pipeline, source, sink, beside=beside)
    assert source.committed == {ORDERS: 1, TopicPartition("bills", 0): 6}
    assert sorted(sink.values) == sorted([0, *range(6)]), "a result of a lost partition is written"


@pytest.mark.parametrize("by", ["key", "partition"])
def test_a_lost_partition_that_comes_again_is_processed(by: Any) -> None:
    source, sink = MemorySource({"orders": numbered(6, keys=1)}, ends=False), MemorySink()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1.5)
        source.lose("orders")
        source.assign("orders")
        await asyncio.sleep(30)
        stop.request()

    run_simulated(Pipeline().for_each(second, by=by).commit(within=0.1), source, sink, beside=beside)
    assert set(sink.values) == set(range(6))
    assert source.committed == {ORDERS: 6}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_partitions_that_went_are_forgotten(guarantee: Any) -> None:
    source = MemorySource({"orders": numbered(200)}, batch_records=10, ends=False)
    sink = MemorySink(source)
    gone: list[weakref.ref[Any]] = []

    async def beside(stop: StopRequest) -> None:
        for _ in range(20):
            await asyncio.sleep(5)
            gone.append(weakref.ref(source.revoke("orders")))
            await asyncio.sleep(5)
            source.assign("orders")
        gc.collect()
        assert len([one for one in gone if one() is not None]) <= 1
        stop.request()

    pipeline = Pipeline().for_each(second, workers=20, by=None).limits(max_in_flight=1).commit(within=1.0)
    run_simulated(pipeline, source, sink, beside=beside, guarantee=guarantee)
    assert len(gone) == 20
    assert sorted(sink.values) == list(range(200))


def test_a_partition_that_comes_later_is_read() -> None:
    source, sink = MemorySource(ends=False), MemorySink()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        source.append("orders", numbered(3))
        await asyncio.sleep(1)
        source.append("orders", [b"3"])
        await asyncio.sleep(1)
        stop.request()

    run_simulated(Pipeline().map(number), source, sink, beside=beside)
    assert sink.values == [0, 1, 2, 3]


def test_a_source_that_fails_ends_the_stream() -> None:
    class Failing(MemorySource):
        """Its partitions cannot be listed."""

        async def partitions(self) -> Any:
            """Fail after the first."""
            async for partition in super().partitions():
                yield partition
                await asyncio.sleep(1)
                raise KafkaError("the group is gone")

    source, sink = Failing({"orders": numbered(3)}, ends=False), MemorySink()
    with pytest.raises(KafkaError, match="the group is gone"):
        run_simulated(Pipeline().map(number), source, sink)
    assert source.committed == {ORDERS: 3}
    assert source.closed


def test_a_function_that_chooses_the_order_may_fail() -> None:
    source = MemorySource({"orders": numbered(3)})
    with pytest.raises((StreamError, ZeroDivisionError)):
        run_simulated(Pipeline().for_each(second, by=lambda record: 1 // number(record)), source)
    assert source.closed
