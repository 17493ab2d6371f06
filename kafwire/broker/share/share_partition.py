"""A partition in one share group: its records are available, acquired, acknowledged or archived.

Records from `start` on are in flight; `end` is the last of them that was ever acquired. A record goes from available to
acquired, and back or to a final state. When all records before one are final, `start` moves to it. This module knows no
clock and no log: the caller supplies the time and the read batches. `acquisition.py` acquires records, and
`acknowledgement.py` acknowledges them. The rules are those of Kafka's `SharePartition`. See KIP-932.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass

from kafwire.broker.share.in_flight import Delivery, InFlightBatch, RecordState
from kafwire.broker.share.share_states import Run, ShareState


@dataclass(slots=True)
class Gap:
    """A range that may have records between those with a loaded state at a new leader. They are read from `start` on.

    It counts as long as the share partition ends at `end`.
    """

    start: int
    end: int


class SharePartition:
    """One partition's records in flight. `stored` has its persistent state; `start` is its first offset."""

    def __init__(self, stored: ShareState, start: int) -> None:
        self.stored = stored
        self.start = start
        self.end = start
        self.batches: list[InFlightBatch] = []  # in order
        self.gap: Gap | None = None
        self._load()

    def _load(self) -> None:
        """Load the persistent state."""
        first_gap = None
        expected = self.start
        for run in self.stored.runs:
            if first_gap is None and run.first > expected:
                first_gap = expected
            expected = run.last + 1
            self.batches.append(InFlightBatch(run.first, run.last, Delivery(run.state, run.deliveries)))
        if not self.batches:
            return
        self.end = self.batches[-1].last
        if first_gap is not None:
            self.gap = Gap(first_gap, self.end)
        self.advance()

    # --- available records

    @property
    def in_flight(self) -> int:
        """The number of records that are locked or may be delivered again, those between included."""
        return self.end - self.start + 1 if self.batches else 0

    @property
    def next_offset(self) -> int:
        """The offset from which the next records are read: an available one, or the one after all records."""
        if not self.batches or self.start > self.batches[-1].last:
            return self.end
        gap = self.gap.start if self.gap_counts and self.gap else None
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for first, _, delivery in batch.runs():
                if delivery.state is RecordState.AVAILABLE:
                    return first
        return self.end + 1

    def has_room(self, locks: int) -> bool:
        """True if more records may be acquired, with at most `locks` records in flight."""
        return self.next_offset != self.end + 1 or self.in_flight < locks

    @property
    def gap_counts(self) -> bool:
        """True if the gap counts: records outside the loaded batches may exist."""
        return self.gap is not None and self.gap.end == self.end

    @property
    def next_lock_end_ms(self) -> float | None:
        """The end of the earliest lock; None: no record is acquired."""
        ends = (each.lock_ends_ms for batch in self.batches for _, _, each in batch.runs())
        return min((each for each in ends if each is not None), default=None)

    def floor(self, offset: int) -> int:
        """Return the index of the last batch that begins at an offset or before it; -1: there is none."""
        return bisect_right(self.batches, offset, key=_first) - 1

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin from `first` to `last`."""
        return self.batches[bisect_left(self.batches, first, key=_first) : bisect_right(self.batches, last, key=_first)]

    def add(self, batch: InFlightBatch) -> None:
        """Add records that were acquired for the first time."""
        insort(self.batches, batch, key=_first)

    # --- ends of states

    def write(self, runs: Iterable[Run]) -> None:
        """Store new states, and move the start if they allow it."""
        self.stored.write(self.start, self._complete(), runs)
        self.advance()

    def _complete(self) -> int:
        """Return the number of final records from the start on."""
        return sum(
            last - max(first, self.start) + 1
            for batch in self.batches
            for first, last, delivery in batch.runs()
            if delivery.state.is_final and last >= self.start
        )

    def release(self, member_id: str, limit: int) -> None:
        """Release a member's records after its session; after `limit` deliveries they are archived."""
        runs = []
        for batch in self.batches:
            whole = batch.whole
            if whole is not None and self._is_cut(batch) and _is_held(whole) and whole.member_id == member_id:
                batch.split()
            for first, last, delivery in batch.runs():
                if _is_held(delivery) and delivery.member_id == member_id:
                    runs.append(self._give_back(first, last, delivery, limit))
        if runs:
            self.write(runs)

    def expire(self, now_ms: float, limit: int) -> bool:
        """End expired locks: their records are available again, or archived after `limit` deliveries.

        Return True if there were any.
        """
        runs = []
        for batch in self.batches:
            whole = batch.whole
            if whole is not None and self._is_cut(batch) and _has_ended(whole, now_ms):
                batch.split()
            for first, last, delivery in batch.runs():
                if _has_ended(delivery, now_ms):
                    runs.append(self._give_back(first, last, delivery, limit))
        if runs:
            self.write(runs)
        return bool(runs)

    def _give_back(self, first: int, last: int, delivery: Delivery, limit: int) -> Run:
        """End the lock of records. Records before the start are archived."""
        delivery.end(RecordState.ARCHIVED if last < self.start else RecordState.AVAILABLE, limit)
        return Run(first, last, delivery.state, delivery.count)

    def _is_cut(self, batch: InFlightBatch) -> bool:
        """True if the start lies inside a batch."""
        return batch.first < self.start <= batch.last

    # --- the start

    def advance(self) -> None:
        """Move the start to the first record that is not final, and forget those before it."""
        last_done = self._last_done() if self._may_advance() else None
        if last_done is None:
            return
        if last_done == self.batches[-1].last:
            self.start = self.end = last_done + 1
            self.batches.clear()
            return
        at = self.floor(last_done)
        if last_done == self.batches[at].last:
            self.start = max(self.start, self.batches[at + 1].first)
            if self.gap is not None and self.gap_counts:
                self.start = min(self.start, self.gap.start)
            del self.batches[: at + 1]
        else:
            self.start = max(self.start, last_done + 1)
            del self.batches[:at]

    def _may_advance(self) -> bool:
        at = self.floor(self.start)
        found = self.batches[at].at(self.start) if at >= 0 else None
        return found is not None and found.state.is_final

    def _last_done(self) -> int | None:
        """Return the last record before one that is not final."""
        if self.gap_counts and self.next_offset > self.end and self._complete() == self.in_flight:
            return self.end  # Kafka 4.3.1 keeps the start in a gap that was read until the next record arrives
        found = None
        gap = self.gap.start if self.gap_counts and self.gap else None
        for batch in self.batches:
            if gap is not None and batch.last >= gap:
                return found
            for _, last, delivery in batch.runs():
                if not delivery.state.is_final:
                    return found
                found = last
        return found

    def move_start(self, log_start: int) -> None:
        """Move the start to the log's new start. Available records before it are archived; locks keep their ends."""
        if log_start <= self.start:
            return
        if self.batches:
            self.archive(self.start, log_start - 1, RecordState.AVAILABLE)
        self.start = log_start
        self.end = max(self.end, log_start) if self.batches else log_start

    def archive(
        self, first: int, last: int, state: RecordState, batches: Iterable[InFlightBatch] | None = None
    ) -> None:
        """Archive records of this state from `first` to `last`: they were deleted or aborted."""
        for batch in self.batches if batches is None else batches:
            if batch.first > last:
                return
            if batch.whole is not None and batch.whole.state is not state:
                continue
            if not batch.is_within(first, last):
                batch.split()
            for its_first, its_last, delivery in batch.runs():
                is_meant = first <= its_first and its_last <= last
                if is_meant and delivery.state is state:
                    delivery.archive()

    def archive_skipped(self, asked: int, found: int) -> None:
        """Archive offsets that the log has skipped, from the requested one to `found`: it was compacted."""
        at = self.floor(asked)
        first = self.batches[at].first if at >= 0 and self.batches[at].last >= asked else asked
        self.archive(asked, found - 1, RecordState.AVAILABLE, self.between(first, found - 1))

    def move_gap(self, offset: int) -> None:
        """Note that the range before an offset has been read."""
        if self.gap is None:
            return
        if self.gap_counts and offset <= self.gap.end:
            self.gap.start = offset
        else:
            self.gap = None


def _first(batch: InFlightBatch) -> int:
    return batch.first


def _is_held(delivery: Delivery) -> bool:
    return delivery.state is RecordState.ACQUIRED


def _has_ended(delivery: Delivery, now_ms: float) -> bool:
    return _is_held(delivery) and delivery.lock_ends_ms is not None and delivery.lock_ends_ms <= now_ms
