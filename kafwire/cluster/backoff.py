"""Exponential backoff with jitter (KIP-580)."""

from __future__ import annotations

from kafwire.lazy_dataclass import dataclass


def delay_ms(failures: int, base_ms: float, max_ms: float, randomness: float) -> float:
    """The wait before the next try after `failures` >= 1 failures; `randomness` in [0, 1) spreads it by +-20 %."""
    wait = min(base_ms * 2.0 ** min(failures - 1, 30), max_ms)
    return wait * (0.8 + 0.4 * randomness)


@dataclass(slots=True)
class Backoff:
    """The waits of one who tries again: each longer than the one before, until something succeeds."""

    base_ms: float
    max_ms: float
    failures: int = 0  # in a row

    def failed(self, randomness: float) -> float:
        """One more failure: the milliseconds to wait before the next try."""
        self.failures += 1
        return delay_ms(self.failures, self.base_ms, self.max_ms, randomness)

    def succeeded(self) -> None:
        """The next failure is a first one again."""
        self.failures = 0
