"""`LockRenewal`: renewal of the locks of records that wait for the user, on the engine's clock.

It goes on as long as the user makes a call every five minutes: a process that hangs must not keep records from other
members for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from kafwire.consumer.share.acquired import AckBatch, AcquiredRange, Place
from kafwire.consumer.share.waiting_ranges import WaitingRanges
from kafwire.runtime.interfaces import Engine

SILENCE_MS = 300_000.0  # without a call for this time, the user counts as hung, as by Java's max.poll.interval.ms


class LockRenewal:
    """The lock renewal of one share consumer. Lives on the engine. `send` renews the locks of some ranges."""

    def __init__(self, engine: Engine, send: Callable[[list[AcquiredRange]], object]) -> None:
        self.called_ms = -SILENCE_MS  # time of the user's last call
        self._engine = engine
        self._send = send
        self._waiting = WaitingRanges()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    @property
    def is_proven(self) -> bool:
        """True if a broker has renewed a lock before."""
        return self._waiting.is_proven

    def called(self) -> None:
        """Note a call of the user."""
        self.called_ms = self._engine.now_ms()

    def watch(self, acquired: AcquiredRange) -> None:
        """Renew the locks of a range that waits for the user from now on."""
        self._waiting.add(acquired, self._engine.now_ms())
        self._arm()

    def prune(self) -> None:
        """Forget ranges that were delivered."""
        self._waiting.prune(self._engine.now_ms())

    def forget(self, node: int) -> None:
        """Forget the locks at a broker: the session with it is lost."""
        self._waiting.forget(node)

    def renewed(self, ranges: Iterable[AcquiredRange], lock_ms: float) -> None:
        """Restart the lock time of these ranges now."""
        now = self._engine.now_ms()
        for acquired in ranges:
            acquired.until_ms, acquired.lock_ms = now + lock_ms, lock_ms
            self._waiting.is_proven = True
            if acquired.waits:
                self._waiting.add(acquired, now)

    def stop(self) -> None:
        """Stop all renewals."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is None and not self._is_over and len(self._waiting):
            pause_ms = max(self._waiting.next_ms - self._engine.now_ms(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(pause_ms / 1000, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        now = self._engine.now_ms()
        due = self._waiting.take_due(now)
        if due and now - self.called_ms < SILENCE_MS:
            self._send(due)
        self._arm()


def renewals(ranges: Iterable[AcquiredRange]) -> Mapping[Place, list[AckBatch]]:
    """Return acknowledgements that renew the locks of undelivered records."""
    found: dict[Place, list[AckBatch]] = {}
    for acquired in ranges:
        if acquired.waits:
            found.setdefault(acquired.place, []).extend(acquired.held())
    for batches in found.values():
        batches.sort()
    return found
