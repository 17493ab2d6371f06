"""Acquisition of a share partition's records by a member, after they were read from the log.

Batches of the log are acquired whole where possible, so that one state is enough for all their records. Batches that
fail often are delivered in smaller and smaller parts, and at last record by record: otherwise one bad record would
cause all others to be archived. The rules are those of Kafka's `SharePartition`. See KIP-932, KIP-1206 (modes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafwire.broker.share.in_flight import Delivery, InFlightBatch, RecordState
from kafwire.broker.share.share_partition import SharePartition

FEW = 2  # deliveries that always use whole batches


class Span(NamedTuple):
    """The first and last offsets of a batch of the log."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Records that a member acquired, both ends included, and their deliveries so far."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The limits of a member's request.

    `most`: records; whole batches may exceed it unless `is_strict`. `batch_size`: records of one acquired run.
    """

    member_id: str
    most: int
    batch_size: int
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a group: deliveries of a record, records in flight, and the end of a lock that begins now."""

    deliveries: int
    locks: int
    lock_ends_ms: float

    @property
    def throttled_from(self) -> int:
        """The number of deliveries from which on records come in smaller parts."""
        return max(FEW, math.ceil(self.deliveries / 2))


def acquire(
    partition: SharePartition, asked: Asked, limits: Limits, offset: int, spans: Sequence[Span]
) -> list[Acquired]:
    """Acquire available records of the batches that were read from `offset` on."""
    if asked.most <= 0 or not spans or spans[-1].last < partition.start:
        return []
    return _Acquisition(partition, asked, limits, offset, spans).run()


class _Acquisition:
    def __init__(
        self, partition: SharePartition, asked: Asked, limits: Limits, offset: int, spans: Sequence[Span]
    ) -> None:
        self._partition = partition
        self._asked = replace(asked, batch_size=max(1, asked.batch_size))
        self._limits = limits
        self._offset = offset
        self._spans = spans
        self._left = asked.most  # records that it may still acquire
        self._last = spans[-1].last
        self._found: list[Acquired] = []

    def run(self) -> list[Acquired]:
        self._limit_to_room()
        if self._left <= 0:
            return []
        partition, base = self._partition, self._spans[0].first
        if partition.batches and self._offset < base:
            partition.archive_skipped(self._offset, base)
        first = self._first_wanted(base)
        known = partition.between(min(base, first), self._last)
        if not known:
            self._take_new(first, self._last)
            return self._found
        self._take_known(known, first)
        if self._left > 0 and known[-1].last < self._last:
            self._take_new(known[-1].last + 1, self._last)
        if self._found:
            partition.move_gap(self._found[-1].last + 1)
        return self._found

    def _limit_to_room(self) -> None:
        """Limit new records to the room in flight; records in flight may always be delivered again."""
        partition = self._partition
        room = min(self._left, self._limits.locks - partition.in_flight)
        if room <= 0 and self._offset <= partition.end:
            room = min(self._left, partition.end - self._offset + 1)
            self._last = min(self._last, partition.end)
        self._left = room

    def _first_wanted(self, base: int) -> int:
        """Return the first offset to acquire: the log's batch may begin before the start, or within a batch in flight.

        A start within the log's batch comes from a leader that loaded a state: members had acknowledged a part of the
        batch.
        """
        partition = self._partition
        at = partition.floor(base)
        if at < 0:
            return max(base, partition.start)
        floor = partition.batches[at]
        return floor.first if floor.last >= base else base

    # --- records that were in flight before

    def _take_known(self, known: Sequence[InFlightBatch], gap: int) -> None:
        partition = self._partition
        for batch in known:
            if self._left <= 0:
                return
            if partition.gap_counts:
                if gap < batch.first:
                    self._take_new(gap, batch.first - 1)
                gap = batch.last + 1
                if self._left <= 0:
                    return
            if not self._take_again(batch):
                self._left = 0
                return

    def _take_again(self, batch: InFlightBatch) -> bool:
        """Acquire available records of a batch. Return True if more may be delivered together with it."""
        is_throttled = self._is_throttled(batch)
        if is_throttled and self._found:
            return False
        whole = batch.whole
        if whole is not None and whole.state is not RecordState.AVAILABLE:
            return True
        is_too_long = self._asked.is_strict and len(batch) > self._left
        if whole is None or is_throttled or is_too_long or not batch.is_within(self._spans[0].first, self._last):
            taken = self._take_some(batch)
            return not (is_throttled and taken)
        whole.acquire(self._asked.member_id, self._limits.lock_ends_ms)
        self._found.append(Acquired(batch.first, batch.last, whole.count))
        self._left -= len(batch)
        return True

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        if batch.whole is not None:
            is_available = batch.whole.state is RecordState.AVAILABLE
            return is_available and batch.whole.count >= self._limits.throttled_from
        counts = [each.count for _, each in self._available(batch)]
        return max(counts, default=0) >= self._limits.throttled_from

    def _available(self, batch: InFlightBatch) -> list[tuple[int, Delivery]]:
        return [
            (offset, each)
            for offset, each in batch.split().items()
            if self._spans[0].first <= offset <= self._last and each.state is RecordState.AVAILABLE
        ]

    def _take_some(self, batch: InFlightBatch) -> int:
        """Acquire available records of a batch one by one. Return their number."""
        limits, most_failed = self._limits, None
        taken: list[Acquired] = []
        for offset, each in self._available(batch):
            is_last_try = limits.deliveries > FEW and each.count == limits.deliveries - 1
            if is_last_try and taken:
                break  # the next response delivers this record alone
            if most_failed is None and each.count >= limits.throttled_from:
                most_failed = max(1, len(batch) >> (each.count - limits.throttled_from + 1))
            each.acquire(self._asked.member_id, limits.lock_ends_ms)
            taken.append(Acquired(offset, offset, each.count))
            if is_last_try or len(taken) == most_failed:
                break
            if self._asked.is_strict and len(taken) == self._left:
                break
        self._found += _joined(taken)
        self._left -= len(taken)
        return len(taken)

    # --- new records

    def _take_new(self, first: int, last: int) -> None:
        """Acquire records for the first time."""
        partition = self._partition
        if not partition.batches and partition.end > first:
            first = partition.end
        if self._left < last - first + 1:
            last, known_last = self._end_of_batch(first + self._left - 1), last
            if partition.gap_counts and last > known_last:
                last = known_last
        if self._asked.is_strict and last - first + 1 > self._left:
            taken = [self._take_part(first, last)]
        else:
            taken = [Acquired(*span, 1) for span in self._divided(first, last)]
            for each in taken:
                partition.add(InFlightBatch(each.first, each.last, self._new_delivery()))
        if partition.batches[0].first == first:
            partition.start = first
        partition.end = max(partition.end, last)
        self._found += taken
        self._left -= taken[-1].last - first + 1
        partition.move_gap(taken[-1].last + 1)

    def _new_delivery(self) -> Delivery:
        return Delivery(RecordState.ACQUIRED, 1, self._asked.member_id, self._limits.lock_ends_ms)

    def _end_of_batch(self, offset: int) -> int:
        """Return the end of the batch with an offset; the offset itself if there is none."""
        return next((span.last for span in self._spans if span.first <= offset <= span.last), offset)

    def _divided(self, first: int, last: int) -> list[Span]:
        """Return runs of about the requested size, each of whole batches."""
        if self._asked.is_strict or last - first + 1 <= self._asked.batch_size:
            return [Span(first, last)]
        parts = []
        for span in self._spans:
            if span.first > last:
                break
            if span.first - first >= self._asked.batch_size:
                parts.append(Span(first, span.first - 1))
                first = span.first
        return [*parts, Span(first, last)]

    def _take_part(self, first: int, last: int) -> Acquired:
        """Acquire the first records of a batch; the others are available from now on."""
        batch = InFlightBatch(first, last, self._new_delivery())
        end = first + self._left - 1
        for offset, each in batch.split().items():
            if offset > end:
                batch.each[offset] = Delivery(RecordState.AVAILABLE, each.count - 1)
        self._partition.add(batch)
        return Acquired(first, end, 1)


def _joined(acquired: Sequence[Acquired]) -> list[Acquired]:
    """Return runs with neighbours of equal delivery counts joined."""
    found: list[Acquired] = []
    for each in acquired:
        if found and found[-1].last + 1 == each.first and found[-1].deliveries == each.deliveries:
            found[-1] = found[-1]._replace(last=each.last)
        else:
            found.append(each)
    return found


# --- aborted transactions


def without_aborted(partition: SharePartition, acquired: Sequence[Acquired], aborted: Sequence[Span]) -> list[Acquired]:
    """Archive batches of aborted transactions among acquired records. Return the runs that are left to deliver."""
    left = list(acquired)
    for span in aborted:
        at = max(partition.floor(span.first), 0)
        first = partition.batches[at].first if partition.batches else span.first
        partition.archive(span.first, span.last, RecordState.ACQUIRED, partition.between(first, span.last))
        left = [part for each in left for part in _cut(each, span)]
    return left


def _cut(acquired: Acquired, span: Span) -> list[Acquired]:
    """Return the parts of an acquired run outside a span."""
    if acquired.last < span.first or acquired.first > span.last:
        return [acquired]
    parts = [
        acquired._replace(last=span.first - 1),
        acquired._replace(first=span.last + 1),
    ]
    return [each for each in parts if each.first <= each.last]
