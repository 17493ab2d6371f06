"""Exponential backoff with jitter (KIP-580)."""


def delay_ms(failures: int, base_ms: int, max_ms: int, randomness: float) -> float:
    """The wait before the next try after `failures` >= 1 failures; `randomness` in [0, 1) spreads it by +-20 %."""
    wait = min(base_ms * 2.0 ** min(failures - 1, 30), max_ms)
    return wait * (0.8 + 0.4 * randomness)
