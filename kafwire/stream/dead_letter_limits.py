"""`DeadLetterWindow`: how many dead letters a stream may write before it stops (`Pipeline.dead_letters`).

A faulty deployment fails for every record. Without a limit it moves the whole topic to the dead letter topic.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# The window advances in this many steps.
PARTS = 60


@dataclass(frozen=True, slots=True)
class DeadLetterLimits:
    """Limits within `window_s` seconds; None: no such limit."""

    max_in_a_row: int | None = None
    max_ratio: float | None = None
    min_records: int = 100
    window_s: float = 60.0


class DeadLetterWindow:
    """Counts the processed records and the dead letters of the last `window_s` seconds.

    A row is a number of dead letters without a successful record between them.
    """

    __slots__ = ("_limits", "_parts", "_row")

    def __init__(self, limits: DeadLetterLimits) -> None:
        self._limits = limits
        self._parts: deque[list[float]] = deque()  # each its end, processed records and dead letters
        self._row: deque[tuple[float, int]] = deque()  # time of each dead letter, and its records

    def on_processed(self, records: int, now: float) -> None:
        """Count finished records: successful, filtered and failed ones."""
        self._part(now)[1] += records

    def on_success(self) -> None:
        """End the row: a record succeeded."""
        self._row.clear()

    def forget(self) -> None:
        """Count from zero: the transaction that held the dead letters was aborted."""
        self._row.clear()
        self._parts.clear()

    def admit(self, records: int, tried: int, now: float) -> str | None:
        """Count a dead letter of so many records, or return the limit that it would exceed.

        `tried` records, including these, had their first attempt and do not count as processed yet.
        """
        limits, part = self._limits, self._part(now)
        while self._row and self._row[0][0] <= now - limits.window_s:
            self._row.popleft()
        in_a_row = sum(count for _, count in self._row) + records
        if limits.max_in_a_row is not None and in_a_row > limits.max_in_a_row:
            return f"{in_a_row} in a row are more than max_in_a_row={limits.max_in_a_row}"
        letters = int(sum(one[2] for one in self._parts)) + records
        total = max(int(sum(one[1] for one in self._parts)) + tried, letters)
        if limits.max_ratio is not None and total >= limits.min_records and letters > limits.max_ratio * total:
            return f"{letters} of {total} records are more than max_ratio={limits.max_ratio:g}"
        part[2] += records
        self._row.append((now, records))
        return None

    def _part(self, now: float) -> list[float]:
        """Return the current counts, after dropping the outdated ones."""
        width = self._limits.window_s / PARTS
        while self._parts and self._parts[0][0] <= now - self._limits.window_s:
            self._parts.popleft()
        if not self._parts or self._parts[-1][0] <= now:
            self._parts.append([now + width, 0, 0])
        return self._parts[-1]
