"""The end of a loop after some time without records: `timeout` of `batches` and of Arrow streams. Pure.

A member of a group can have no records before its first assignment, so the time begins at the first assignment. For a
spare member, which gets none, it begins `default_api_timeout_ms` after the call.
"""

from __future__ import annotations


class Silence:
    """One call's time without records. All times are in milliseconds of one clock."""

    def __init__(self, called_ms: float, timeout_ms: float, patience_ms: float) -> None:
        """The call ends after `timeout_ms` without records; it waits for an assignment at most `patience_ms`."""
        self._called_ms = called_ms
        self._timeout_ms = timeout_ms
        self._patience_ms = patience_ms

    def left_ms(self, now_ms: float, assigned_since_ms: float | None) -> float:
        """Return the time without records after which the call ends; 0: it ends now.

        `assigned_since_ms` is the time of the first assignment; None: none came yet.
        """
        since = now_ms if assigned_since_ms is None else assigned_since_ms
        since = max(self._called_ms, min(since, self._called_ms + self._patience_ms))
        return max(0.0, since + self._timeout_ms - now_ms)
