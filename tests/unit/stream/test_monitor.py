"""A running stream that is looked at: status, metrics, liveness, in simulated time and from other threads."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.records import Record
from kafwire.stream import (
    MemorySink,
    MemorySource,
    Message,
    NotNow,
    Pipeline,
    StopRequest,
    StreamError,
    StreamMonitor,
    StreamStatus,
)
from tests.support.deadlines import PATIENCE_S
from tests.support.stream.streams import number, numbered, run_simulated


def looked_at(
    pipeline: Pipeline, *moments: float, count: int = 5, stuck_after_s: float = 60.0, **options: Any
) -> list[StreamStatus]:
    """The status of a stream after so many seconds each; then it stops."""
    found: list[StreamStatus] = []
    monitor = StreamMonitor(stuck_after_s=stuck_after_s)

    async def beside(stop: StopRequest) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for moment in moments:
            await asyncio.sleep(began + moment - loop.time())
            found.append(monitor.status())
        stop.request()

    source = MemorySource({"orders": numbered(count)}, ends=False)
    sink = MemorySink(source)
    run_simulated(pipeline.limits(stop_timeout_s=1), source, sink, beside=beside, monitor=monitor, **options)
    return found


def hanging_at(offset: int) -> Any:
    async def bill(record: Record) -> int:
        if number(record) == offset:
            await asyncio.get_running_loop().create_future()
        return number(record)

    return bill


def test_the_oldest_record_is_named_with_its_step_and_age() -> None:
    (status,) = looked_at(Pipeline().for_each(hanging_at(2), workers=2, by="key"), 100.5)
    oldest = status.oldest
    assert oldest is not None
    assert (oldest.topic, oldest.partition, oldest.offset, oldest.step) == ("orders", 0, 2, "for_each(bill)")
    assert 99 <= oldest.age_s <= 101
    assert (status.in_flight, status.partitions[0].completed, status.partitions[0].uncommitted) == (1, 2, 3)
    place = "the record at offset 2 of orders-0 is in for_each(bill)"
    assert status.problem == f"the stream is stuck: {place}, for {oldest.step_s:.0f} s so far"


def test_a_hung_handler_is_stuck_from_its_time_on_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    before, after, later = looked_at(Pipeline().for_each(hanging_at(0)), 58.0, 62.0, 1000.0)
    assert before.problem is None
    assert after.problem is not None
    assert later.problem is not None
    assert [record.getMessage() for record in caplog.records if "is stuck" in record.getMessage()] == [
        "kafwire: a stream is stuck: the record at offset 0 of orders-0 is in for_each(bill), for 60 s so far"
    ]


def test_a_call_that_hangs_behind_a_gap_that_only_waits_is_stuck() -> None:
    async def bill(record: Record) -> None:
        if number(record) == 0:
            raise ValueError("later")
        await asyncio.get_running_loop().create_future()

    pipeline = Pipeline().for_each(bill, workers=2, by=None).retry(9, backoff_s=900, max_backoff_s=900)
    (status,) = looked_at(pipeline, 100.0, count=2)
    assert status.oldest is not None
    assert status.oldest.is_waiting
    assert status.oldest.offset == 0
    assert status.problem is not None
    assert "for_each(bill) of the record at offset 1 of orders-0" in status.problem


def test_a_call_that_hangs_behind_a_gap_is_stuck_while_another_partition_goes_on() -> None:
    async def bill(record: Record) -> None:
        if record.topic == "others":
            await asyncio.sleep(1)
        elif number(record) == 0:
            raise ValueError("later")
        else:
            await asyncio.get_running_loop().create_future()

    pipeline = Pipeline().for_each(bill, workers=2, by=None).retry(9, backoff_s=900, max_backoff_s=900)
    found: list[StreamStatus] = []
    monitor = StreamMonitor(stuck_after_s=60)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(100)
        found.append(monitor.status())
        stop.request()

    source = MemorySource({"orders": numbered(2), "others": numbered(200)}, ends=False)
    run_simulated(pipeline.limits(stop_timeout_s=1), source, MemorySink(source), beside=beside, monitor=monitor)
    assert [each.oldest is not None and each.oldest.is_waiting for each in found[0].partitions] == [True, False]
    assert found[0].problem is not None
    assert "for_each(bill) of the record at offset 1 of orders-0" in found[0].problem


def test_a_stream_that_goes_on_is_alive_again(caplog: pytest.LogCaptureFixture) -> None:
    async def bill(record: Record) -> None:
        await asyncio.sleep(100 if number(record) == 1 else 1)

    caplog.set_level(logging.INFO, "kafwire")
    during, after = looked_at(Pipeline().for_each(bill), 90.0, 102.5)
    assert during.problem is not None
    assert after.problem is None
    assert [record.levelname for record in caplog.records if "stuck" in record.getMessage()] == ["WARNING", "INFO"]


WAITS = {
    "retry": Pipeline().for_each(hanging_at(-1)).map(lambda one: 1 // one).retry(9, backoff_s=900, max_backoff_s=900),
    "map": Pipeline().map(lambda record: 1 // number(record)).retry(9, backoff_s=900, max_backoff_s=900),
    "batch": Pipeline().batch(100),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_on_purpose_is_not_stuck(name: str, caplog: pytest.LogCaptureFixture) -> None:
    (status,) = looked_at(WAITS[name], 500.0)
    assert status.problem is None
    assert status.oldest is not None
    assert status.oldest.is_waiting
    assert status.oldest.age_s > 490
    assert status.retrying == (name == "retry")
    assert not [record for record in caplog.records if "stuck" in record.getMessage()]


def test_partitions_that_wait_are_counted() -> None:
    def store(record: Record) -> None:
        raise NotNow(1000)

    (status,) = looked_at(Pipeline().map(store), 500.0)
    assert (status.waiting_partitions, status.problem) == (1, None)
    assert status.oldest is not None
    assert status.oldest.step == "map(store)"


def test_a_sink_that_hangs_is_named() -> None:
    class Hanging(MemorySink):
        """Takes the first values only."""

        async def write(self, value: Any) -> None:
            if value == 3:
                await asyncio.get_running_loop().create_future()
            await super().write(value)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(100)
        found.append(monitor.status())
        stop.request()

    found: list[StreamStatus] = []
    for pipeline in (Pipeline().map(number), Pipeline().for_each(hanging_at(-1))):
        monitor = StreamMonitor(stuck_after_s=60)
        source = MemorySource({"orders": numbered(5)}, ends=False)
        run_simulated(pipeline.limits(stop_timeout_s=1), source, Hanging(), beside=beside, monitor=monitor)
    for status in found:
        assert status.oldest is not None
        assert status.oldest.step == "sink"
        assert status.problem is not None
        assert "sink" in status.problem
    assert found[1].oldest is not None
    assert found[1].oldest.offset == 3


def test_a_transaction_is_shown_and_may_be_stuck() -> None:
    early, late = looked_at(Pipeline().for_each(hanging_at(3)), 10.0, 70.0, guarantee="exactly_once")
    assert early.transaction_s == pytest.approx(10.0)
    assert early.problem is None
    assert late.problem is not None
    (quiet,) = looked_at(Pipeline().map(number), 70.0, guarantee="exactly_once")
    assert quiet.transaction_s is None
    assert (quiet.counts.commits, quiet.problem) == (1, None)


def test_the_lag_is_the_age_of_the_oldest_records() -> None:
    wall_ms = 1_700_000_000_000  # of the simulated clock
    monitor = StreamMonitor()
    found: list[Any] = []

    async def beside(stop: StopRequest) -> None:
        source.append("orders", [Message(b"0", timestamp_ms=wall_ms - 5000)])
        await asyncio.sleep(10)
        found.append(monitor.status().lag_s)
        await asyncio.sleep(20)
        found.append(monitor.status().lag_s)
        stop.request()

    async def bill(record: Record) -> None:
        await asyncio.sleep(25)

    source = MemorySource(ends=False)
    run_simulated(Pipeline().for_each(bill), source, beside=beside, monitor=monitor)
    # The simulated clock begins a multiple of 1000 s after `wall_ms`.
    assert found[0] is not None
    assert found[0] % 1000 == pytest.approx(15.0, abs=0.1)
    assert found[1] == 0.0, "all that was read is completed"


def test_the_lag_is_that_of_a_record_behind_which_others_came() -> None:
    wall_ms = 1_700_000_000_000
    monitor = StreamMonitor()
    found: list[Any] = []

    async def beside(stop: StopRequest) -> None:
        for offset, age_ms in enumerate((9000, 5000, 1000)):
            source.append("orders", [Message(b"%d" % offset, key=b"%d" % offset, timestamp_ms=wall_ms - age_ms)])
            await asyncio.sleep(2)  # the first record is completed after the second has come
        await asyncio.sleep(4)
        found.append(monitor.status().lag_s)
        stop.request()

    async def bill(record: Record) -> None:
        await asyncio.sleep((3, 3600, 0)[number(record)])

    source = MemorySource(ends=False)
    pipeline = Pipeline().for_each(bill, workers=3, by="key").limits(stop_timeout_s=1)
    run_simulated(pipeline, source, beside=beside, monitor=monitor)
    assert found[0] is not None
    assert found[0] % 1000 == pytest.approx(15.0, abs=0.1)


def test_the_end_is_shown() -> None:
    monitor = StreamMonitor()
    assert (monitor.status().state, monitor.is_alive) == ("new", True)
    run_simulated(Pipeline(), MemorySource({"orders": numbered(3)}), monitor=monitor)
    assert (monitor.status().state, monitor.problem()) == ("ended", "the stream has ended")
    assert monitor.metrics()["records"] == 3

    def fail(record: Record) -> None:
        raise ValueError("bad")

    with pytest.raises(StreamError):
        run_simulated(Pipeline().map(fail), MemorySource({"orders": numbered(3)}), monitor=monitor)
    problem = monitor.problem()
    assert problem is not None
    assert problem.startswith("the stream has failed: StreamError: the record at offset 0")
    assert monitor.metrics()["is_alive"] == 0


def test_metrics_are_numbers_and_a_status_is_json() -> None:
    (status,) = looked_at(Pipeline().for_each(hanging_at(2), workers=2, by="key"), 10.0)
    shown = json.loads(json.dumps(status.to_dict()))
    assert (shown["state"], shown["oldest"]["offset"], shown["counts"]["records"]) == ("running", 2, 5)
    monitor = StreamMonitor()
    run_simulated(Pipeline(), MemorySource({"orders": numbered(3)}), monitor=monitor)
    assert all(isinstance(value, int | float) for value in monitor.metrics().values())


def test_a_step_that_blocks_the_loop_is_seen_from_another_thread() -> None:
    entered, leave = threading.Event(), threading.Event()

    def block(record: Record) -> None:
        entered.set()
        assert leave.wait(PATIENCE_S)

    monitor = StreamMonitor(stuck_after_s=0.05)
    source = MemorySource({"orders": [b"0"]})
    running = threading.Thread(target=lambda: Pipeline().map(block).run(source, monitor=monitor), daemon=True)
    running.start()
    try:
        assert entered.wait(PATIENCE_S)
        while (problem := monitor.problem()) is None:
            assert not leave.wait(0.01)
        assert problem == (
            "the stream is stuck: its event loop has been blocked for 0 s; the longest call is map(block) of the "
            "record at offset 0 of orders-0"
        )
    finally:
        leave.set()
        running.join(PATIENCE_S)
    assert monitor.problem() == "the stream has ended"


def test_a_monitor_watches_one_run_at_a_time() -> None:
    monitor = StreamMonitor()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        with pytest.raises(ConfigError, match="its own monitor"):
            await Pipeline().run_async(MemorySource(), monitor=monitor)
        stop.request()

    run_simulated(Pipeline(), MemorySource(ends=False), beside=beside, monitor=monitor)


@pytest.mark.parametrize("seconds", [0, -1, "1", True])
def test_a_wrong_time_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="stuck_after_s"):
        StreamMonitor(stuck_after_s=seconds)
