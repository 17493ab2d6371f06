"""Consecutive failures of a relay: how long the relay waits, and which failures it reports. Pure."""

from __future__ import annotations

from kafwire.cluster.backoff import Backoff

# A persistent cause is reported again after so many seconds.
AGAIN_S = 60.0


class Outage:
    """Counts failures until a whole round succeeds, and selects those for a WARNING.

    Args:
        base_ms: the wait after the first failure.
        max_ms: the longest wait.
    """

    def __init__(self, base_ms: float, max_ms: float) -> None:
        self._backoff = Backoff(base_ms, max(base_ms, max_ms))
        self._reported: dict[str, float] = {}  # cause: when it was reported

    @property
    def failures(self) -> int:
        """The number of failures in a row."""
        return self._backoff.failures

    def failed(self, cause: str, now: float, randomness: float) -> tuple[float, bool]:
        """Count a failure.

        Args:
            cause: the text of the error.
            now: seconds of a monotonic clock.
            randomness: from 0 to 1, spreads the wait.

        Returns:
            The seconds to wait, and whether to report the failure: the first one of each cause, and one each minute.
        """
        wait_s = self._backoff.failed(randomness) / 1000
        reported = self._reported.get(cause)
        is_due = reported is None or now - reported >= AGAIN_S
        if is_due:
            self._reported = {known: since for known, since in self._reported.items() if now - since < AGAIN_S}
            self._reported[cause] = now
        return wait_s, is_due

    def succeeded(self) -> None:
        """Forget all failures: a round of the relay succeeded."""
        self._backoff.succeeded()
        self._reported.clear()
