"""The end of a trigger with `maxBytesPerTrigger`: sizes of records are known only from samples of the log.

Pure: the function that takes samples is an argument. The bytes from a partition's beginning to an offset are the sum of
its samples, and between two samples the mean of their rates. A gap between two samples is halved if their rates differ
by much, or if it is longer than an eighth of the range, so that records that grow or shrink in between are noticed. A
shorter run of large records between samples of small ones is not. Each round of samples costs one request per broker.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafwire.spark.trigger_limits import backlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafwire.spark.stream_offsets import Offsets
    from kafwire.types import TopicPartition

    TakeSamples = Callable[[Mapping[TopicPartition, tuple[int, int]]], Mapping[TopicPartition, "Sample"]]

_ROUNDS = 12
# The error that the gaps between samples may cause, as a share of the limit, over all partitions.
_DOUBT = 0.2
# Gaps between samples are at most this share of a range.
_LONGEST_GAP = 1 / 8
# The steps of the search for the common share of all partitions, as a power of two.
_STEPS = 24


@dataclass(frozen=True, slots=True)
class Sample:
    """`size` bytes of decoded keys, values and headers lie in `offsets` offsets, holes included."""

    offsets: int
    size: int


class _Span(NamedTuple):
    """The offsets [start, end), and their bytes per offset on average."""

    start: int
    end: int
    rate: float


class _Curve:
    """The bytes of one partition from `start` on, as far as samples tell."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self._spans: list[_Span] = []

    def add(self, position: int, sample: Sample) -> None:
        """Add a sample at `position`."""
        end = min(self.end, position + max(1, sample.offsets))
        after = [span.start for span in self._spans if span.start > position]
        end = min([end, *after])
        insort(self._spans, _Span(position, end, sample.size / max(1, sample.offsets)))

    def bytes_until(self, offset: int) -> float:
        """The bytes in [start, offset)."""
        total = 0.0
        for span, after in self._gaps(offset):
            total += span.rate * (min(span.end, offset) - span.start)
            total += (span.rate + after.rate) / 2 * max(0, min(after.start, offset) - span.end)
        return total

    def doubtful(self, offset: int, doubt: float) -> list[int]:
        """Return positions before `offset` to sample next, if gaps may be wrong by more than `doubt` bytes."""
        last = self._spans[-1]
        if offset > last.end:  # no sample lies at the end yet
            middle = (last.end + offset) // 2
            return [middle, offset - 1] if middle < offset - 1 else [offset - 1]
        pairs = [
            (span, after) for span, after in pairwise(self._spans) if span.end < after.start and span.start < offset
        ]
        errors = [abs(span.rate - after.rate) * (after.start - span.end) / 2 for span, after in pairs]
        least = doubt / (2 * len(pairs)) if sum(errors) > doubt else float("inf")
        longest = (offset - self.start) * _LONGEST_GAP
        return [
            (span.end + after.start) // 2
            for (span, after), error in zip(pairs, errors, strict=True)
            if error > least or min(after.start, offset) - span.end > longest
        ]

    def _gaps(self, offset: int) -> list[tuple[_Span, _Span]]:
        """Each span before `offset` with the one after it; after the last one, its rate goes on."""
        last = self._spans[-1]
        ends = [*self._spans, _Span(max(offset, last.end), max(offset, last.end), last.rate)]
        return [(span, after) for span, after in pairwise(ends) if span.start < offset]


def within_bytes(
    limit: int,
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    take_samples: TakeSamples,
) -> Offsets:
    """Return `end`, or the same share of each partition's offsets that is about `limit` bytes from `begin`.

    The range has at least one offset of each partition that has any.
    """
    sizes = backlog(begin, end)
    if not sizes:
        return dict(end)
    curves = {place: _Curve(begin[place], end[place]) for place in sizes}
    wanted = [(place, curve.start) for place, curve in curves.items()]
    doubt = _DOUBT * limit / len(curves)
    for _ in range(_ROUNDS):
        _add_samples(curves, wanted, take_samples)
        cut = _share(limit, curves)
        wanted = [(place, at) for place, curve in curves.items() for at in curve.doubtful(cut[place], doubt)]
        if not wanted:
            break
    return {**end, **cut}


def _add_samples(
    curves: Mapping[TopicPartition, _Curve],
    wanted: list[tuple[TopicPartition, int]],
    take_samples: TakeSamples,
) -> None:
    """Sample all of `wanted`; one request has one position of each partition."""
    while wanted:
        asked = {place: (at, curves[place].end) for place, at in reversed(wanted)}
        found = take_samples(asked)
        for place, (at, end) in asked.items():
            # No batch at all: the rest of the partition is a hole.
            curves[place].add(at, found.get(place, Sample(end - at, 0)))
        wanted = [(place, at) for place, at in wanted if asked[place][0] != at]


def _share(limit: int, curves: Mapping[TopicPartition, _Curve]) -> Offsets:
    """Return the largest common share of all partitions that has at most `limit` bytes."""

    def cut(step: int) -> Offsets:
        return {
            place: curve.start + max(1, (curve.end - curve.start) * step >> _STEPS) for place, curve in curves.items()
        }

    def fits(step: int) -> bool:
        return sum(curves[place].bytes_until(offset) for place, offset in cut(step).items()) <= limit

    whole = 1 << _STEPS
    if fits(whole):
        return cut(whole)
    low, high = 0, whole
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return cut(low)
