"""`WaitingRanges`: acquired ranges that the user has not seen yet, and when their locks are renewed. Pure.

A lock that runs out spends one of the few deliveries of a record (`group.share.delivery.count.limit`), and so does each
way to give a record back. So the locks of waiting records are renewed (KIP-1222) when a quarter is over: what is
handed out later still has most of its lock. A group may forbid renewal, so the first one is tried early.
"""

from __future__ import annotations

import math

from kafwire.consumer.share.acquired import AcquiredRange

EARLY_MS = 100.0  # how long a range waits for its first renewal, until renewal is known to work


class WaitingRanges:
    """Of one share consumer."""

    def __init__(self) -> None:
        self.is_proven = False  # whether a lock was renewed before
        self._due_ms: dict[AcquiredRange, float] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def add(self, acquired: AcquiredRange, now_ms: float) -> None:
        """A range waits from now on, or its lock was renewed."""
        pause_ms = acquired.lock_ms / 4
        self._due_ms[acquired] = now_ms + (pause_ms if self.is_proven else min(pause_ms, EARLY_MS))

    def prune(self, now_ms: float) -> None:
        """Forget what the user has seen, and locks that are over."""
        for acquired in [each for each in self._due_ms if not each.waits or each.until_ms <= now_ms]:
            del self._due_ms[acquired]

    def forget(self, node: int) -> None:
        """The locks at a broker are lost."""
        for acquired in [each for each in self._due_ms if each.node == node]:
            del self._due_ms[acquired]

    def take_due(self, now_ms: float) -> list[AcquiredRange]:
        """The ranges whose locks are to be renewed now; they are due again after a quarter of their locks."""
        self.prune(now_ms)
        found = [each for each, due_ms in self._due_ms.items() if due_ms <= now_ms]
        for acquired in found:
            self._due_ms[acquired] = now_ms + acquired.lock_ms / 4
        return found

    @property
    def next_ms(self) -> float:
        """When the next lock is to be renewed; infinite without any."""
        return min(self._due_ms.values(), default=math.inf)
