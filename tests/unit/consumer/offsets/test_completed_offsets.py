"""`CompletedOffsets` against a set of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from tests.support import seeds

START = 5
RANGES = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))


class NaiveOffsets:
    """The same, as a set of all completed offsets."""

    def __init__(self) -> None:
        self.completed: set[int] = set()
        self.end = START

    def complete(self, first: int, after: int) -> None:
        self.completed |= set(range(first, after))
        self.end = max(self.end, after)

    @property
    def committable(self) -> int:
        offset = START
        while offset in self.completed:
            offset += 1
        return offset

    @property
    def oldest_gap(self) -> tuple[int, int] | None:
        first = self.committable
        if first == self.end:
            return None
        beyond = [offset for offset in self.completed if offset > first]
        return first, min(beyond, default=self.end)


@settings(max_examples=seeds.examples(300), deadline=None)
@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=25))
def test_it_agrees_with_a_set_of_offsets(steps: list[tuple[bool, tuple[int, int]]]) -> None:
    offsets, naive = CompletedOffsets(START), NaiveOffsets()
    for is_completed, (first, after) in steps:
        before = naive.committable
        if is_completed:
            advanced = offsets.complete(first, after)
            naive.complete(first, after)
            assert advanced == (naive.committable > before)
        else:
            offsets.hand_out(after)
            naive.end = max(naive.end, after)
        assert offsets.committable == naive.committable
        assert offsets.oldest_gap == naive.oldest_gap
        assert offsets.uncommitted == naive.end - naive.committable
        beyond = {offset for one in offsets.ranges for offset in range(*one)}
        assert beyond == {offset for offset in naive.completed if offset >= naive.committable}
        edges = [edge for one in offsets.ranges for edge in one]
        assert edges == sorted(set(edges)), "ranges touch, or are out of order"


def test_a_gap_holds_the_commit_back() -> None:
    offsets = CompletedOffsets(0)
    offsets.hand_out(10)
    assert not offsets.complete(1, 10)
    assert (offsets.committable, offsets.uncommitted, offsets.oldest_gap) == (0, 10, (0, 1))
    assert offsets.complete(0, 1)
    assert (offsets.committable, offsets.uncommitted, offsets.oldest_gap) == (10, 0, None)


def test_memory_is_that_of_the_gaps() -> None:
    offsets = CompletedOffsets(0)
    for first in range(1, 100_001):
        offsets.complete(first, first + 1)
    assert offsets.ranges == [(1, 100_001)]


def test_a_range_does_not_end_before_it_begins() -> None:
    with pytest.raises(ValueError, match="offsets 3 to 2"):
        CompletedOffsets(0).complete(3, 2)
