"""Records in delivery to a share group: a batch has one state for all its records, or one for each.

It knows no clock: the caller supplies the end of a lock. The rules are those of Kafka's `InFlightBatch`. See KIP-932.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

NOBODY = ""  # the member id of records that are not acquired


class RecordState(IntEnum):
    """The state of a record, by Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """True if the record is never delivered again."""
        return self >= RecordState.ACKNOWLEDGED


@dataclass(slots=True)
class Delivery:
    """The state of a record, or of all records of a batch. `lock_ends_ms`: the end of its member's lock."""

    state: RecordState
    count: int
    member_id: str = NOBODY
    lock_ends_ms: float | None = None

    def acquire(self, member_id: str, lock_ends_ms: float) -> None:
        """Lock the records for a member. They must be available."""
        self.state = RecordState.ACQUIRED
        self.count += 1
        self.member_id = member_id
        self.lock_ends_ms = lock_ends_ms

    def end(self, state: RecordState, limit: int) -> None:
        """End the lock. After `limit` deliveries, a record is archived instead of available again."""
        is_over = state is RecordState.AVAILABLE and self.count >= limit
        self.state = RecordState.ARCHIVED if is_over else state
        self.member_id = NOBODY
        self.lock_ends_ms = None

    def archive(self) -> None:
        """Archive the records: they are never delivered again."""
        self.state = RecordState.ARCHIVED
        self.member_id = NOBODY
        self.lock_ends_ms = None


class InFlightBatch:
    """Records from `first` to `last`. `whole` is the state of all; if None, `each` has that of each offset."""

    __slots__ = ("each", "first", "last", "whole")

    def __init__(self, first: int, last: int, whole: Delivery) -> None:
        self.first = first
        self.last = last
        self.whole: Delivery | None = whole
        self.each: dict[int, Delivery] = {}

    def __len__(self) -> int:
        return self.last - self.first + 1

    def split(self) -> dict[int, Delivery]:
        """Keep a state for each offset from now on; locks end at the same time. Return the states."""
        if self.whole is not None:
            self.each = {offset: replace(self.whole) for offset in range(self.first, self.last + 1)}
            self.whole = None
        return self.each

    def at(self, offset: int) -> Delivery | None:
        """Return the state of a record."""
        return self.each.get(offset) if self.whole is None else self.whole

    def runs(self) -> Iterator[tuple[int, int, Delivery]]:
        """Yield the first and last offsets of each stored state."""
        if self.whole is not None:
            yield self.first, self.last, self.whole
        else:
            for offset, delivery in self.each.items():
                yield offset, offset, delivery

    def is_within(self, first: int, last: int) -> bool:
        """True if the batch has only records from `first` to `last`."""
        return first <= self.first and self.last <= last
