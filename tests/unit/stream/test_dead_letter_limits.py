"""Limits on dead letters: in a row and as a ratio, in steps, workers and sinks, for each guarantee."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafwire.errors import ConfigError, KafkaConnectionError, TransactionAbortableError
from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Message, Pipeline, StreamError
from kafwire.stream.dead_letter_limits import DeadLetterLimits, DeadLetterWindow
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


def failing_if(is_bad: Callable[[int], object], seconds: float = 0.0) -> tuple[Any, Any]:
    """A step that fails for some records, as a sync function and as an async one."""

    def step(record: Record) -> int:
        if is_bad(number(record)):
            raise ValueError(f"{number(record)} is bad")
        return number(record)

    async def handle(record: Record) -> int:
        await asyncio.sleep(seconds)
        return step(record)

    return step, handle


def pipelines(is_bad: Callable[[int], object], seconds: float = 0.0) -> dict[str, Pipeline]:
    step, handle = failing_if(is_bad, seconds)
    return {
        "map": Pipeline().map(step),
        "second map": Pipeline().filter(lambda record: True).map(step).map(lambda one: one),
        "for_each": Pipeline().for_each(handle),
        "after for_each": Pipeline().for_each(_pass).map(step),
    }


async def _pass(record: Record) -> Record:
    return record


NAMES = ("map", "second map", "for_each", "after for_each")


def offsets_of(letters: list[Message]) -> list[int]:
    return [int(dict(letter.headers)["kafwire.origin.offset"] or b"") for letter in letters]


@pytest.mark.parametrize("name", NAMES)
def test_letters_in_a_row_stop_the_stream(name: str) -> None:
    pipeline = pipelines(lambda one: one >= 50)[name].dead_letters("dead", max_in_a_row=20)
    source, sink = MemorySource({"orders": numbered(1000)}, batch_records=100), MemorySink()
    expected = r"at offset 70 of orders-0.*21 in a row.*max_in_a_row=20.*70 is bad"
    with pytest.raises(StreamError, match=expected) as found:
        run_simulated(pipeline, source, sink)
    assert (found.value.topic, found.value.partition, found.value.offset) == ("orders", 0, 70)
    assert offsets_of(sink.written("dead")) == list(range(50, 70)), "the record that reaches the limit is not written"
    assert source.committed.get(ORDERS, 0) <= 70, "and not completed"


def test_a_worker_completes_the_records_before_the_limit() -> None:
    pipeline = pipelines(lambda one: one >= 50)["for_each"].dead_letters("dead", max_in_a_row=20)
    source, sink = MemorySource({"orders": numbered(1000)}), MemorySink()
    with pytest.raises(StreamError, match="the next run reads it"):
        run_simulated(pipeline, source, sink)
    assert source.committed == {ORDERS: 70}


@pytest.mark.parametrize("name", NAMES)
def test_a_successful_record_ends_the_row(name: str) -> None:
    pipeline = pipelines(lambda one: one % 10)[name].dead_letters("dead", max_in_a_row=9)
    source, sink = MemorySource({"orders": numbered(1000)}, batch_records=100), MemorySink()
    summary = run_simulated(pipeline, source, sink)
    assert summary.dead_letters == 900
    assert source.committed == {ORDERS: 1000}


@pytest.mark.parametrize("name", ["map", "for_each"])
def test_a_filtered_record_does_not_end_the_row(name: str) -> None:
    step, handle = failing_if(lambda one: True)
    pipeline = Pipeline().filter(lambda record: number(record) % 2)
    pipeline = (pipeline.map(step) if name == "map" else pipeline.for_each(handle)).dead_letters("dead", max_in_a_row=9)
    source, sink = MemorySource({"orders": numbered(1000)}), MemorySink()
    with pytest.raises(StreamError, match="10 in a row"):
        run_simulated(pipeline, source, sink)
    assert len(sink.written("dead")) == 9


@pytest.mark.parametrize("name", NAMES)
def test_a_ratio_stops_the_stream(name: str) -> None:
    pipeline = pipelines(lambda one: one >= 1000 and one % 2)[name].dead_letters("dead", max_ratio=0.1)
    source, sink = MemorySource({"orders": numbered(5000)}, batch_records=500), MemorySink()
    with pytest.raises(StreamError, match=r"(\d+) of (\d+) records are more than max_ratio=0.1") as found:
        run_simulated(pipeline, source, sink)
    # With k letters there were 1000 + 2k records: the limit is at 125 of them.
    assert 124 <= len(sink.written("dead")) <= 126
    assert 1248 <= found.value.offset <= 1252


@pytest.mark.parametrize("name", NAMES)
def test_a_ratio_below_the_limit_goes_on(name: str) -> None:
    pipeline = pipelines(lambda one: one % 10 == 0)[name].dead_letters("dead", max_ratio=0.12, min_records=50)
    source, sink = MemorySource({"orders": numbered(3000)}, batch_records=500), MemorySink()
    assert run_simulated(pipeline, source, sink).dead_letters == 300


def test_a_ratio_counts_from_its_least_number_of_records_on() -> None:
    pipeline = pipelines(lambda one: one < 30)["for_each"].dead_letters("dead", max_ratio=0.5, min_records=60)
    source, sink = MemorySource({"orders": numbered(100)}), MemorySink()
    assert run_simulated(pipeline, source, sink).dead_letters == 30


def test_letters_leave_the_window() -> None:
    pipeline = pipelines(lambda one: True, seconds=10.0)["for_each"].dead_letters("dead", max_in_a_row=7, window_s=60.0)
    source, sink = MemorySource({"orders": numbered(100)}), MemorySink()
    assert run_simulated(pipeline, source, sink).dead_letters == 100, "six in a minute"
    pipeline = pipelines(lambda one: True, seconds=5.0)["for_each"].dead_letters("dead", max_in_a_row=7, window_s=60.0)
    with pytest.raises(StreamError, match="8 in a row"):
        run_simulated(pipeline, MemorySource({"orders": numbered(100)}), MemorySink())


class Refusing(MemorySink):
    """Stores letters, and later says of all else that it could not be stored."""

    async def write(self, value: Any) -> Awaitable[object] | None:  # type: ignore[override]
        """Refuse it later, or keep it."""
        if isinstance(value, Message) and value.topic == "dead":
            await super().write(value)
            return None
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(KafkaConnectionError("gone"))
        refused.exception()  # the stream may end before it looks
        return refused


@pytest.mark.parametrize("name", ["map", "for_each"])
def test_refused_results_are_counted(name: str) -> None:
    pipeline = pipelines(lambda one: False)[name].dead_letters("dead", max_in_a_row=5)
    source, sink = MemorySource({"orders": numbered(100)}), Refusing()
    with pytest.raises(StreamError, match="6 in a row"):
        run_simulated(pipeline, source, sink)
    assert offsets_of(sink.written("dead")) == list(range(5))
    assert dict(sink.written("dead")[0].headers)["kafwire.error.step"] == b"sink"


def test_at_most_once_the_record_that_reaches_the_limit_is_written() -> None:
    pipeline = pipelines(lambda one: True)["for_each"].dead_letters("dead", max_in_a_row=5)
    source, sink = MemorySource({"orders": numbered(100)}, batch_records=6), MemorySink()
    with pytest.raises(StreamError, match="still written to it"):
        run_simulated(pipeline, source, sink, guarantee="at_most_once")
    assert offsets_of(sink.written("dead")) == list(range(6)), "its offset is committed: without its letter it is lost"
    assert source.committed[ORDERS] >= 6


def test_exactly_once_the_open_transaction_is_aborted() -> None:
    pipeline = pipelines(lambda one: one >= 50)["for_each"].dead_letters("dead", max_in_a_row=5).commit(every=10)
    source = MemorySource({"orders": numbered(100)}, batch_records=10)
    sink = MemorySink(source)
    with pytest.raises(StreamError, match="6 in a row"):
        run_simulated(pipeline, source, sink, guarantee="exactly_once")
    letters, committed = offsets_of(sink.written("dead")), source.committed[ORDERS]
    assert letters == list(range(50, committed)), "letters and offsets go together"


def test_letters_of_an_aborted_transaction_are_not_counted_twice() -> None:
    class Aborting(MemorySink):
        """Refuses the first three transactions."""

        async def commit(self, *arguments: Any) -> None:
            if self.aborted < 3:
                raise TransactionAbortableError("not yet")
            await super().commit(*arguments)

    pipeline = pipelines(lambda one: one in (1, 2))["for_each"].dead_letters("dead", max_in_a_row=3)
    source = MemorySource({"orders": numbered(3)})
    sink = Aborting(source)
    summary = run_simulated(pipeline, source, sink, guarantee="exactly_once")
    assert (summary.aborts, offsets_of(sink.written("dead"))) == (3, [1, 2])


def test_a_list_counts_as_its_records() -> None:
    def fail(values: list[Record]) -> None:
        raise ValueError("no list")

    pipeline = Pipeline().batch(10).map(fail).dead_letters("dead", max_in_a_row=25)
    source, sink = MemorySource({"orders": numbered(100)}), MemorySink()
    with pytest.raises(StreamError, match="30 in a row"):
        run_simulated(pipeline, source, sink)
    assert len(sink.written("dead")) == 20


def test_each_failing_record_of_a_slice_has_all_its_attempts() -> None:
    calls: list[int] = []

    def fail(record: Record) -> None:
        calls.append(number(record))
        raise ValueError("no")

    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    run_simulated(Pipeline().map(fail).retry(3).dead_letters("dead"), source, sink)
    assert calls == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [dict(letter.headers)["kafwire.attempts"] for letter in sink.written("dead")] == [b"3"] * 3


def test_the_letter_names_the_step() -> None:
    def parse(record: Record) -> Record:
        if number(record) == 0:
            raise ValueError("no")
        return record

    async def bill(record: Record) -> Record:
        if number(record) == 1:
            raise ValueError("no")
        return record

    def shorten(record: Record) -> bytes:
        if number(record) == 2:
            raise ValueError("no")
        return b""

    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    run_simulated(Pipeline().map(parse).for_each(bill).map(shorten).dead_letters("dead"), source, sink)
    steps = [dict(letter.headers)["kafwire.error.step"] for letter in sink.written("dead")]
    assert steps == [b"map(parse)", b"for_each(bill)", b"map(shorten)"]


@pytest.mark.parametrize(
    "limits",
    [
        {"max_in_a_row": 0},
        {"max_in_a_row": 1.5},
        {"max_ratio": 0},
        {"max_ratio": 1.1},
        {"max_ratio": float("nan")},
        {"max_ratio": True},
        {"max_ratio": 0.5, "min_records": 0},
        {"max_ratio": 0.5, "window_s": 0},
        {"max_ratio": 0.5, "window_s": float("inf")},
    ],
    ids=str,
)
def test_a_wrong_limit_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="dead_letters"):
        Pipeline().dead_letters("dead", **limits)


def test_the_window_keeps_no_more_than_its_parts() -> None:
    window = DeadLetterWindow(DeadLetterLimits(max_ratio=0.5, window_s=60.0))
    for at in range(10_000):
        window.on_processed(1, at * 0.1)
        if at % 4 == 0:
            assert window.admit(1, 1, at * 0.1) is None
    assert len(window._parts) <= 61
