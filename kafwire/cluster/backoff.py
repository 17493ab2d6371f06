"""Exponential backoff with jitter (KIP-580)."""

from __future__ import annotations

from kafwire.lazy_dataclass import dataclass


def delay_ms(failures: int, base_ms: float, max_ms: float, randomness: float) -> float:
    """Return the wait after `failures` >= 1 failures; `randomness` in [0, 1) spreads it by +-20 %."""
    wait = min(base_ms * 2.0 ** min(failures - 1, 30), max_ms)
    return wait * (0.8 + 0.4 * randomness)


@dataclass(slots=True)
class Backoff:
    """Growing waits between retries; a success resets them."""

    base_ms: float
    max_ms: float
    failures: int = 0  # failures in a row

    def failed(self, randomness: float) -> float:
        """Count a failure; return the milliseconds to wait before the next try."""
        self.failures += 1
        return delay_ms(self.failures, self.base_ms, self.max_ms, randomness)

    def succeeded(self) -> None:
        """Reset the waits."""
        self.failures = 0
