"""How far one trigger reads: shares in proportion, minimum and delay, limits by topic. No pyspark needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.spark.trigger_limits import Limits, MinimumDelay, backlog, proportional, within
from kafwire.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PLACES = [TopicPartition(topic, number) for topic in "abc" for number in range(3)]
WHOLE = Limits(None, None, 900_000, None, {})
BACKLOGS = st.dictionaries(
    st.sampled_from(PLACES), st.tuples(st.integers(0, 2**40), st.integers(-50, 10_000)), max_size=len(PLACES)
)


def test_without_limits_everything_is_read() -> None:
    assert not WHOLE.are_any
    assert within(WHOLE, {A0: 1}, {A0: 5, A1: 7}) == {A0: 5, A1: 7}


@pytest.mark.parametrize(
    ("limit", "end"),
    [
        (1100, {A0: 1000, A1: 100}),
        (110, {A0: 100, A1: 10}),
        (11, {A0: 10, A1: 1}),
        (5, {A0: 4, A1: 1}),  # in proportion it would be 0.45: no partition starves
        (1, {A0: 1, A1: 1}),
    ],
)
def test_shares_are_in_proportion_and_at_least_one_offset(limit: int, end: dict[TopicPartition, int]) -> None:
    assert proportional(limit, {A0: 0, A1: 0}, {A0: 1000, A1: 100}) == end


def test_shares_are_exact_where_a_double_is_not() -> None:
    assert proportional(2**60, {A0: 0}, {A0: 2**61 + 1}) == {A0: 2**60}


def test_an_end_before_its_beginning_and_one_without_are_left_alone() -> None:
    assert proportional(5, {A0: 10, A1: 0}, {A0: 3, A1: 50, B0: 9}) == {A0: 3, A1: 5, B0: 9}


def test_topics_have_their_own_limits_below_the_common_one() -> None:
    limits = Limits(20, None, 0, None, {"a": 10, "none": 1})
    assert limits.are_any
    begin, end = {A0: 0, A1: 0, B0: 0}, {A0: 500, A1: 500, B0: 10}
    assert within(limits, begin, end) == {A0: 5, A1: 5, B0: 10}
    assert within(Limits(10, None, 0, None, {"a": 10}), begin, end) == {A0: 2, A1: 2, B0: 5}


@given(BACKLOGS, st.integers(1, 5_000), st.dictionaries(st.sampled_from("abc"), st.integers(1, 5_000)))
def test_no_limit_loses_repeats_or_starves(
    drawn: dict[TopicPartition, tuple[int, int]], limit: int, by_topic: dict[str, int]
) -> None:
    begin = {place: start for place, (start, _) in drawn.items()}
    latest = {place: start + size for place, (start, size) in drawn.items()}
    limits = Limits(limit, None, 0, None, by_topic)
    end = within(limits, begin, latest)
    assert end.keys() == latest.keys()
    for place in drawn:
        if latest[place] > begin[place]:
            assert begin[place] < end[place] <= latest[place]
        else:
            assert end[place] == latest[place]
    taken = backlog(begin, end)
    assert sum(taken.values()) <= limit + len(taken)  # one offset for each that has less than one in proportion
    for topic, most in by_topic.items():
        sizes = [size for place, size in taken.items() if place.topic == topic]
        assert sum(sizes) <= most + len(sizes)


@given(BACKLOGS, st.integers(1, 5_000))
def test_triggers_come_to_the_end(drawn: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    begin = {place: start for place, (start, _) in drawn.items()}
    latest = {place: start + max(0, size) for place, (start, size) in drawn.items()}
    limits = Limits(limit, None, 0, None, {})
    left = sum(backlog(begin, latest).values())
    for _ in range(2 + 2 * left // limit + left % limit):
        if begin == latest:
            return
        end = within(limits, begin, latest)
        assert end != begin
        begin = end
    assert begin == latest


@given(
    st.integers(1, 100),
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 400)), max_size=50),
)
def test_no_trigger_waits_longer_than_the_delay(minimum: int, delay_ms: int, steps: list[tuple[int, int]]) -> None:
    wait = MinimumDelay(Limits(None, minimum, delay_ms, None, {}))
    now = last = 0.0
    assert not wait.postpones(0, now)
    for count, passed in steps:
        now += passed
        if wait.postpones(count, now):
            assert count < minimum
            assert now - last < delay_ms
        else:
            assert count >= minimum or now - last >= delay_ms
            last = now
