"""`Batcher`: gathers values of one partition by count and by time (`Pipeline.batch`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafwire.stream.elements import Gathered, Origin, end_of, first_of

Made = tuple[list[Any], Gathered]


class Batcher:
    """Gathers values until there are `max_records`, or until `max_seconds` after the first of them.

    With `by_length` a value counts as many records as its length, and a list is full when it reaches `max_records`:
    Arrow batches are not split.
    """

    __slots__ = ("_count", "_origins", "_values", "by_length", "due_at", "max_records", "max_seconds")

    def __init__(self, max_records: int, max_seconds: float | None, *, by_length: bool = False) -> None:
        self.max_records = max_records
        self.max_seconds = max_seconds
        self.by_length = by_length
        self.due_at: float | None = None
        """When the gathered values must be passed on, on the clock of `now`."""
        self._values: list[Any] = []
        self._origins: list[Any] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, values: Sequence[Any], origins: Sequence[Origin], now: float) -> list[Made]:
        """Add values in order; return the lists that are full now."""
        made = []
        at = 0
        while at < len(values):
            stop = self._room(values, at)
            self._values += values[at:stop]
            self._origins += origins[at:stop]
            at = stop
            if self._count >= self.max_records:
                made.append(self._take(origins[at] if at < len(values) else None))
        if self._values and self.due_at is None and self.max_seconds is not None:
            self.due_at = now + self.max_seconds
        return made

    def _room(self, values: Sequence[Any], at: int) -> int:
        """Return the index up to which values are added, after counting them."""
        if not self.by_length:
            stop = min(len(values), at + self.max_records - self._count)
            self._count += stop - at
            return stop
        while at < len(values) and self._count < self.max_records:
            self._count += len(values[at])
            at += 1
        return at

    def flush(self) -> Made | None:
        """Return the gathered values, however few; None if there are none."""
        return self._take(None) if self._values else None

    def _take(self, follower: Origin | None) -> Made:
        values, origins = self._values, self._origins
        self._values, self._origins, self._count, self.due_at = [], [], 0, None
        last: Origin = origins[-1]
        # More values of the same record follow: this list does not complete it.
        next_offset = first_of(last) if follower is last else end_of(last)
        return values, Gathered(origins, next_offset)
