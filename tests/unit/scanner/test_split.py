"""`scanner.split`: pieces of a read that together cover it exactly, of about one size, and cut where it costs least."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.scanner.split import SLACK, Cut, cut
from tests.support import seeds

RANGES = st.lists(
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 50) | st.integers(0, 1 << 30)).map(lambda r: (r[0], r[0] + r[1])),
    max_size=12,
)


@given(RANGES, st.integers(1, 40))
def test_pieces_cover_everything_once_and_are_none_of_them_empty(ranges: list[tuple[int, int]], pieces: int) -> None:
    found = cut(ranges, pieces)
    assert len(found) <= pieces
    assert all(piece for piece in found)
    joined: list[list[int]] = []
    for number, start, end in (entry for piece in found for entry in piece):
        assert start < end
        if joined and joined[-1][0] == number:
            assert joined[-1][2] == start
            joined[-1][2] = end
        else:
            joined.append([number, start, end])
    assert joined == [[n, start, end] for n, (start, end) in enumerate(ranges) if start < end]


@given(RANGES, st.integers(1, 40))
def test_pieces_are_of_about_one_size(ranges: list[tuple[int, int]], pieces: int) -> None:
    total = sum(end - start for start, end in ranges)
    for piece in cut(ranges, pieces):
        size = sum(end - start for _, start, end in piece)
        assert size <= total / pieces * (1 + 2 / SLACK) + 1


def test_a_cut_near_to_the_end_of_a_range_is_made_there() -> None:
    assert cut([(0, 1010), (5, 995)], 2) == [[Cut(0, 0, 1010)], [Cut(1, 5, 995)]]
    assert cut([(0, 990), (5, 1015)], 2) == [[Cut(0, 0, 990)], [Cut(1, 5, 1015)]]
    assert cut([(0, 1300), (0, 700)], 2) == [[Cut(0, 0, 1000)], [Cut(0, 1000, 1300), Cut(1, 0, 700)]]


def test_partitions_of_nearly_one_size_are_not_cut() -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    for count in (2, 8, 30):
        ranges = [(0, 100_000 + chance.randint(-400, 400)) for _ in range(count)]
        assert cut(ranges, count) == [[Cut(number, 0, end)] for number, (_, end) in enumerate(ranges)]
        halves = cut(ranges, 2 * count)
        assert len(halves) == 2 * count
        assert all(len(piece) == 1 for piece in halves)


@pytest.mark.parametrize("ranges", [[], [(3, 3)], [(0, 0), (9, 9)]])
def test_empty_ranges_make_no_piece(ranges: list[tuple[int, int]]) -> None:
    assert cut(ranges, 4) == []


def test_there_are_no_more_pieces_than_offsets() -> None:
    assert cut([(10, 13)], 5) == [[Cut(0, 10, 11)], [Cut(0, 11, 12)], [Cut(0, 12, 13)]]


def test_very_many_partitions_and_pieces() -> None:
    ranges = [(0, 100)] * 20_000
    assert cut(ranges, 20_000) == [[Cut(number, 0, 100)] for number in range(20_000)]
