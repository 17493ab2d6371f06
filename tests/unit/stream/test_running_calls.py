"""Which call of a stream runs for the longest time: each call by itself, and many short ones by their progress."""

from __future__ import annotations

import weakref

import pytest

from kafwire.records import Record
from kafwire.runtime._interfaces import Clock
from kafwire.stream.elements import Origin
from kafwire.stream.running_calls import RunningCalls, SerialCalls
from kafwire.stream.steps import Map
from kafwire.stream.transforms import SectionRun, section
from kafwire.types import TopicPartition
from tests.support.stream.streams import number

ORDERS = TopicPartition("orders", 0)


class Standing(Clock):
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def time_ns(self) -> int:
        """The same, in another unit."""
        return int(self.now * 1e9)


def record(offset: int) -> Origin:
    return Record(value=b"%d" % offset, offset=offset, topic="orders", partition=0)


def test_the_oldest_call_is_the_one_that_runs_for_the_longest_time() -> None:
    clock = Standing()
    calls = RunningCalls(clock)
    assert calls.oldest() is None
    with calls.call(ORDERS, lambda: "for_each(bill)", lambda: record(7)):
        clock.now += 2.0
        with calls.call(ORDERS, lambda: "sink", lambda: record(3)):
            clock.now += 1.0
            assert calls.oldest() == (3000.0, "for_each(bill) of the record at offset 7 of orders-0")
    assert calls.oldest() is None


def test_a_call_that_raises_has_ended() -> None:
    calls = RunningCalls(Standing())
    with pytest.raises(ValueError, match="no"), calls.call(ORDERS, lambda: "sink", lambda: record(3)):
        raise ValueError("no")
    assert calls.oldest() is None


def test_many_short_calls_count_from_the_last_progress_that_was_seen() -> None:
    clock, ages = Standing(), list[tuple[float, str]]()
    calls = RunningCalls(clock)

    def slow(one: Record) -> int:
        clock.now += 20.0 if number(one) < 3 else 100.0
        found = calls.oldest()
        assert found is not None
        ages.append(found)
        return number(one)

    records = [record(offset) for offset in range(5)]
    run = SectionRun(section((Map(slow),)), list(records), list(records))
    with calls.call(ORDERS, lambda: run.step, lambda: run.origin, lambda: run.place):
        assert run.run()
    assert [age for age, _ in ages] == [0.0] * 5, "each look sees progress"
    assert ages[3][1] == "map(slow) of the record at offset 3 of orders-0"


def test_a_step_that_has_just_ended_has_no_record() -> None:
    calls, ended = RunningCalls(Standing()), list[Origin]()
    with calls.call(ORDERS, lambda: "map(parse)", lambda: ended[0]):
        assert calls.oldest() == (0.0, "a step")


def test_a_short_call_that_does_not_return_is_seen() -> None:
    clock, place = Standing(), [0]
    calls = RunningCalls(clock)
    with calls.call(ORDERS, lambda: "map(parse)", lambda: record(place[0]), lambda: place[0]):
        clock.now += 50.0
        assert calls.oldest() == (0.0, "map(parse) of the record at offset 0 of orders-0")
        clock.now += 50.0
        assert calls.oldest() == (50_000.0, "map(parse) of the record at offset 0 of orders-0")
        place[0] = 1
        assert calls.oldest() == (0.0, "map(parse) of the record at offset 1 of orders-0")


def test_calls_for_consecutive_values_count_from_when_one_before_was_seen() -> None:
    clock, records = Standing(), [record(offset) for offset in range(3)]
    calls, sink = RunningCalls(clock), SerialCalls(ORDERS, "sink")
    left = sink.over(records, records)
    calls.begin(sink)
    for offset in range(3):
        assert next(left) is records[offset]
        clock.now += 50.0
        waits_ms = 0.0 if offset else 50_000.0  # the first call began when all did
        assert calls.oldest() == (waits_ms, f"sink of the record at offset {offset} of orders-0")
        clock.now += 10.0
        assert calls.oldest() == (waits_ms + 10_000.0, f"sink of the record at offset {offset} of orders-0")
    calls.end(sink)
    assert calls.oldest() is None


def test_calls_that_have_ended_keep_no_record_alive() -> None:
    class Origins(list[Origin]):
        """A list that can be referred to weakly."""

    sink, origins = SerialCalls(ORDERS, "sink"), Origins([record(0), record(1)])
    kept = weakref.ref(origins)
    next(sink.over(origins, origins))
    del origins
    assert kept() is not None
    sink.clear()
    assert kept() is None
