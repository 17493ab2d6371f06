"""`WaitingRanges`: acquired ranges that were not delivered yet, and the times to renew their locks. Pure.

An expired lock uses up one of the few deliveries of a record (`group.share.delivery.count.limit`), and so does each way
to return a record. So the locks of waiting records are renewed (KIP-1222) after a quarter of their time: a record that
is delivered later still has most of its lock time. A group may forbid renewal, so the first one is tried early.
"""

from __future__ import annotations

import math

from kafwire.consumer.share.acquired import AcquiredRange

EARLY_MS = 100.0  # how long a range waits for its first renewal, until renewal is known to work


class WaitingRanges:
    """The waiting ranges of one share consumer."""

    def __init__(self) -> None:
        self.is_proven = False  # a broker has renewed a lock before
        self._due_ms: dict[AcquiredRange, float] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def add(self, acquired: AcquiredRange, now_ms: float) -> None:
        """Add a range that waits from now on, or whose lock was renewed."""
        pause_ms = acquired.lock_ms / 4
        self._due_ms[acquired] = now_ms + (pause_ms if self.is_proven else min(pause_ms, EARLY_MS))

    def prune(self, now_ms: float) -> None:
        """Forget delivered ranges, and expired locks."""
        for acquired in [each for each in self._due_ms if not each.waits or each.until_ms <= now_ms]:
            del self._due_ms[acquired]

    def forget(self, node: int) -> None:
        """Forget the locks at a broker, which are lost."""
        for acquired in [each for each in self._due_ms if each.node == node]:
            del self._due_ms[acquired]

    def take_due(self, now_ms: float) -> list[AcquiredRange]:
        """Return the ranges whose locks must be renewed now; they are due again after a quarter of their lock time."""
        self.prune(now_ms)
        found = [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for acquired in found:
            self._due_ms[acquired] = now_ms + acquired.lock_ms / 4
        return found

    @property
    def next_ms(self) -> float:
        """The time of the next renewal; infinite without any."""
        return min(self._due_ms.values(), default=math.inf)
