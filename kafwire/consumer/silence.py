"""When a loop that ends after some time without records ends: `timeout` of `batches` and of Arrow streams. Pure.

Before its first assignment a member of a group can have no records, and that is not silence: the time begins to count
at the first assignment. A spare member, which gets none, counts from `default_api_timeout_ms` after the call.
"""

from __future__ import annotations


class Silence:
    """One call's time without records. All times are in milliseconds of one clock."""

    def __init__(self, called_ms: float, timeout_ms: float, patience_ms: float) -> None:
        """`timeout_ms` of silence end the call; an assignment is waited for `patience_ms` at most."""
        self._called_ms = called_ms
        self._timeout_ms = timeout_ms
        self._patience_ms = patience_ms

    def left_ms(self, now_ms: float, assigned_since_ms: float | None) -> float:
        """Return how much silence is left until the call ends, 0 when it does.

        `assigned_since_ms` is when the first assignment came; None: none came yet.
        """
        since = now_ms if assigned_since_ms is None else assigned_since_ms
        since = max(self._called_ms, min(since, self._called_ms + self._patience_ms))
        return max(0.0, since + self._timeout_ms - now_ms)
