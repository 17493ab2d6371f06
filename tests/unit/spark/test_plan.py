"""Ranges of a batch read: which offsets, cut into how many tasks. No pyspark needed."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ConfigError
from kafwire.spark.data_loss import DataLossError
from kafwire.spark.options import ReadOptions, read_options
from kafwire.spark.plan import OffsetRange, Situation, check_named, choose_partitions, plan, split
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
PLACES = (A0, A1)


def read(**options: str) -> ReadOptions:
    chosen = {} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": "a"}
    return read_options({"kafka.bootstrap.servers": "h:1", **chosen, **options})


def situation(
    *,
    earliest: Mapping[TopicPartition, int] | None = None,
    latest: Mapping[TopicPartition, int] | None = None,
    start: Mapping[TopicPartition, int] | None = None,
    end: Mapping[TopicPartition, int] | None = None,
) -> Situation:
    return Situation(earliest or {A0: 10, A1: 0}, latest or {A0: 30, A1: 5}, start or {}, end or {})


def spans(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(piece.partition, piece.start, piece.end) for piece in ranges]


def test_partitions_come_from_names_patterns_and_lists() -> None:
    counts = {"b": 1, "a": 2, "__state": 3, "xa": 1}
    assert choose_partitions(read(), counts) == PLACES
    everything = choose_partitions(read(subscribePattern="a"), counts, internal=["__state"])
    assert everything == (A0, A1, TopicPartition("xa", 0))
    assert choose_partitions(read(assign='{"a":[1]}'), counts) == (A1,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "a,nope,none"}, "no such topic: nope, none"),
        ({"assign": '{"nope":[0]}'}, "no such topic: nope"),
        ({"assign": '{"a":[1,2,3]}'}, "option assign names a-2, a-3, but a has 2 partitions"),
        ({"subscribePattern": "^z"}, "option subscribePattern='^z' matches none of 1 topics"),
    ],
)
def test_a_missing_partition_or_topic_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        choose_partitions(read(**options), {"a": 2})


def test_named_offsets_cover_exactly_the_partitions_that_are_read() -> None:
    check_named(read(startingOffsets='{"a":{"0":1,"1":-2}}').start, PLACES)
    with pytest.raises(ConfigError, match="must name every partition that is read: a-1 missing; -2 stands for"):
        check_named(read(startingOffsets='{"a":{"0":1}}').start, PLACES)
    with pytest.raises(ConfigError, match="endingOffsets names a-7, which the query does not read"):
        check_named(read(endingOffsets='{"a":{"0":1,"1":-1,"7":3}}').end, PLACES)


def test_everything_is_read_by_default() -> None:
    assert plan(read(), PLACES, situation()) == ([OffsetRange("a", 0, 10, 30), OffsetRange("a", 1, 0, 5)], [])


def test_empty_partitions_drop_out() -> None:
    assert plan(read(), PLACES, situation(earliest={A0: 30, A1: 0}))[0] == [OffsetRange("a", 1, 0, 5)]


def test_named_offsets_and_their_marks() -> None:
    options = read(startingOffsets='{"a":{"0":12,"1":-2}}', endingOffsets='{"a":{"0":20,"1":-1}}')
    assert spans(plan(options, PLACES, situation())[0]) == [(0, 12, 20), (1, 0, 5)]


def test_timestamps_find_the_first_record_not_before_them() -> None:
    options = read(startingTimestamp="1000", endingTimestamp="2000")
    found = situation(start={A0: 15, A1: 2}, end={A0: 25})
    assert spans(plan(options, PLACES, found)[0]) == [(0, 15, 25), (1, 2, 5)]


def test_a_start_after_the_last_record_is_an_error_or_an_empty_range() -> None:
    found = situation(start={A0: 15})
    with pytest.raises(ConfigError, match="startingTimestamp: a-1 has no record at or after 1000 ms"):
        plan(read(startingTimestamp="1000"), PLACES, found)
    options = read(startingTimestamp="1000", startingOffsetsByTimestampStrategy="latest")
    assert plan(options, PLACES, found) == ([OffsetRange("a", 0, 15, 30)], [])


@pytest.mark.parametrize(
    ("start", "end", "there"),
    [
        (5, 20, [(0, 10, 20)]),
        (12, 31, [(0, 12, 30)]),
        (2, 8, []),
        (31, 40, []),
    ],
)
def test_lost_records_fail_the_read_or_shrink_it(start: int, end: int, there: list[tuple[int, int, int]]) -> None:
    named = {"startingOffsets": f'{{"a":{{"0":{start}}}}}', "endingOffsets": f'{{"a":{{"0":{end}}}}}'}
    said = f"a-0 [{start}, {end}) was asked for, but the topic holds [10, 30)"
    with pytest.raises(DataLossError, match=re.escape(said) + ".*failOnDataLoss"):
        plan(read(**named), [A0], situation())
    ranges, losses = plan(read(**named, failOnDataLoss="false"), [A0], situation())
    assert spans(ranges) == there
    assert losses == [said]


def test_an_end_that_retention_passed_is_a_loss_too() -> None:
    options = read(endingOffsets='{"a":{"0":4}}')
    with pytest.raises(DataLossError, match=r"a-0 \[10, 4\) was asked for"):
        plan(options, [A0], situation())


def test_a_start_after_the_end_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="a-1: startingTimestamp leads to offset 4, after the 2 of endingOffsets"):
        plan(read(startingTimestamp="1", endingOffsets='{"a":{"1":2}}'), [A1], situation(start={A1: 4}))


# Worked out by hand from the rule of Spark's own source: shares are rounded, small ranges stay whole and leave the sum.
@pytest.mark.parametrize(
    ("sizes", "minimum", "expected"),
    [
        ([100], None, [100]),
        ([100, 200], 1, [100, 200]),
        ([100, 200], 2, [100, 200]),
        ([0, 100], 2, [50, 50]),
        ([100], 3, [33, 33, 34]),
        ([100, 200], 3, [100, 100, 100]),
        ([4, 1, 1], 4, [2, 2, 1, 1]),
        ([100, 10, 10], 5, [33, 33, 34, 10, 10]),
        ([5], 8, [1, 1, 1, 1, 1]),
        ([1000, 1], 4, [333, 333, 334, 1]),
        ([3, 5], 4, [1, 2, 1, 2, 2]),
    ],
)
def test_min_partitions_cuts_in_proportion(sizes: list[int], minimum: int | None, expected: list[int]) -> None:
    ranges = [OffsetRange("a", number, 7, 7 + size) for number, size in enumerate(sizes)]
    assert [piece.size for piece in split(ranges, minimum, None)] == expected


@pytest.mark.parametrize(
    ("sizes", "minimum", "most", "expected"),
    [
        ([100], None, 100, [100]),
        ([101], None, 100, [50, 51]),
        ([250, 50], None, 100, [83, 83, 84, 50]),
        ([250, 50], 3, 100, [83, 83, 84, 50]),
        ([100, 100], 8, 60, [25] * 8),
    ],
)
def test_max_records_cuts_first(sizes: list[int], minimum: int | None, most: int, expected: list[int]) -> None:
    ranges = [OffsetRange("a", number, 0, size) for number, size in enumerate(sizes)]
    assert [piece.size for piece in split(ranges, minimum, most)] == expected


@given(
    st.lists(st.integers(-3, 10**12), max_size=12),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(10**10, 2**62),
)
def test_pieces_cover_each_range_without_gap_or_overlap(
    sizes: list[int], minimum: int | None, most: int | None
) -> None:
    ranges = [OffsetRange("a", number, 11, 11 + size) for number, size in enumerate(sizes)]
    pieces = split(ranges, minimum, most)
    assert all(0 < piece.size <= (most or 2**62) for piece in pieces)
    for whole in ranges:
        parts = [piece for piece in pieces if piece.partition == whole.partition]
        edges = [whole.start, *[piece.end for piece in parts]]
        assert [(piece.start, piece.end) for piece in parts] == list(itertools.pairwise(edges))
        assert edges[-1] == max(whole.start, whole.end)
