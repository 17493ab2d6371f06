"""The rule about throttle times (KIP-219): a client sends nothing on a connection within the time of a response."""

from __future__ import annotations

_CLOCK_S = 1e-6  # rounding error of times that are sums of fractions


class Throttling:
    """The throttle time of one connection. The broker serves what it got before; only the client waits."""

    def __init__(self) -> None:
        self._until_s = 0.0

    def on_response(self, now_s: float, throttle_s: float) -> None:
        """Note the `throttle_time_ms` of a response, in seconds, when the client gets it."""
        self._until_s = max(self._until_s, now_s + throttle_s)

    def early(self, now_s: float, node: int) -> AssertionError | None:
        """Return the error of a client that sends a request now; None: it may."""
        early_s = self._until_s - now_s
        if early_s <= _CLOCK_S:
            return None
        return AssertionError(f"sent to broker {node} {early_s:.3f} s before it may (KIP-219)")
