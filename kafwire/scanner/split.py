"""The division of a bounded read into pieces of about the same size, which together cover it exactly."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

# A cut nearer to a partition's end than this part of a piece moves to the end: a sliver costs a whole batch.
SLACK = 8


class Cut(NamedTuple):
    """The offsets [start, end) of range `number`."""

    number: int
    start: int
    end: int


def cut(ranges: Sequence[tuple[int, int]], pieces: int) -> list[list[Cut]]:
    """Divide `ranges` (start, end) into at most `pieces` lists of cuts, none of them empty.

    Only offsets are known, so pieces have about the same number of offsets: a cut lies where it divides them evenly, or
    at the end of a range that is less than an eighth of a piece away. Every offset of every range is in exactly one
    cut; a piece's cuts are neighbours. So there are at most `pieces` - 1 cuts inside ranges.
    """
    ends = list(accumulate(end - start for start, end in ranges))
    total = ends[-1] if ends else 0
    if not total:
        return []
    borders = sorted({0, total, *(_snap(total * k // pieces, ends, total // pieces) for k in range(1, pieces))})
    return [_between(ranges, ends, low, high) for low, high in pairwise(borders)]


def _snap(where: int, ends: Sequence[int], size: int) -> int:
    after = bisect_left(ends, where)
    nearest = min(ends[max(0, after - 1) : after + 1], key=lambda end: abs(end - where))
    return nearest if abs(nearest - where) * SLACK < size else where


def _between(ranges: Sequence[tuple[int, int]], ends: Sequence[int], low: int, high: int) -> list[Cut]:
    """Return the cuts of [low, high), counted through all ranges in a row."""
    cuts = []
    for number in range(bisect_right(ends, low), bisect_left(ends, high) + 1):
        start, end = ranges[number]
        before = ends[number] - (end - start)
        first, last = max(low, before), min(high, ends[number])
        if first < last:
            cuts.append(Cut(number, start + first - before, start + last - before))
    return cuts
