"""`maxBytesPerTrigger`: ends that are estimated from samples stay near the limit. No pyspark needed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.spark.byte_limit import Sample, within_bytes
from kafwire.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Log:
    """Partitions whose records have the sizes of `stages`: so many records of so many bytes, one after the other."""

    def __init__(self, stages: Mapping[TopicPartition, list[tuple[int, int]]], sample_offsets: int = 50) -> None:
        self.sums = {
            place: [0, *accumulate(size for count, size in stages[place] for _ in range(count))] for place in stages
        }
        self.sample_offsets = sample_offsets
        self.samples = 0

    @property
    def ends(self) -> dict[TopicPartition, int]:
        return {place: len(sums) - 1 for place, sums in self.sums.items()}

    def size(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
        return sum(self.sums[place][end[place]] - self.sums[place][start[place]] for place in end)

    def take(self, at: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Sample]:
        self.samples += len(at)
        found = {}
        for place, (start, end) in at.items():
            assert start < end <= self.ends[place]
            last = min(end, start + self.sample_offsets)
            found[place] = Sample(last - start, self.sums[place][last] - self.sums[place][start])
        return found


@pytest.mark.parametrize(
    "stages",
    [
        [(200_000, 100)],
        [(100, 100), (200_000, 10_000)],
        [(50_000, 100), (20_000, 10_000)],
        [(1_000, 10_000), (200_000, 10)],
        [(100_000, 100), (1, 5_000_000), (100_000, 100)],
        [(10, 2_000_000)],
    ],
)
def test_the_first_batch_is_within_twice_the_limit(stages: list[tuple[int, int]]) -> None:
    log = Log({A0: stages, A1: [(40_000, 200)]})
    limit = 8_000_000
    begin = {A0: 0, A1: 0}
    end = within_bytes(limit, begin, log.ends, log.take)
    assert limit / 2 <= log.size(begin, end) <= 2 * limit
    assert log.samples < 100


def test_a_short_backlog_is_sampled_once_and_whole() -> None:
    log = Log({A0: [(40, 100)]})
    assert within_bytes(1_000, {A0: 0}, log.ends, log.take) == {A0: 10}
    assert within_bytes(1_000, {A0: 39}, log.ends, log.take) == {A0: 40}
    assert log.samples == 2
    assert within_bytes(1_000, {A0: 40}, log.ends, log.take) == {A0: 40}
    assert log.samples == 2


def test_a_record_above_the_limit_is_read_alone() -> None:
    log = Log({A0: [(5, 1_000_000)]})
    assert within_bytes(10, {A0: 0}, log.ends, log.take) == {A0: 1}


def test_holes_weigh_nothing() -> None:
    assert within_bytes(1_000, {A0: 0}, {A0: 10**9}, lambda _: {}) == {A0: 10**9}


def test_a_run_of_large_records_between_small_ones_is_noticed() -> None:
    log = Log({A0: [(4_000, 100), (1_000, 5_000), (2_500, 100)]})
    limit = 1_000_000
    end = within_bytes(limit, {A0: 0}, log.ends, log.take)
    assert limit / 2 <= log.size({A0: 0}, end) <= 2 * limit
    assert log.samples < 40


# Each stage has more than an eighth of the records: shorter runs may lie between two samples.
@given(
    st.lists(st.tuples(st.integers(3_000, 9_000), st.integers(20, 5_000)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(3_000, 9_000), st.integers(20, 5_000)), min_size=1, max_size=3),
    st.integers(200_000, 20_000_000),
)
def test_batches_stay_near_the_limit_and_come_to_the_end(
    first: list[tuple[int, int]], second: list[tuple[int, int]], limit: int
) -> None:
    log = Log({A0: first, A1: second})
    begin = {A0: 0, A1: 0}
    ends = log.ends
    for _ in range(10 + 4 * log.size(begin, ends) // limit):
        if begin == ends:
            return
        end = within_bytes(limit, begin, ends, log.take)
        assert all(begin[place] < end[place] <= ends[place] or begin[place] == ends[place] for place in ends)
        size = log.size(begin, end)
        assert size <= 2 * limit
        assert size >= limit / 2 or end == ends
        begin = end
    assert begin == ends
