"""Decides when a client reports an unreachable address. Pure; `reachability_hints` has the texts."""

from __future__ import annotations

from collections.abc import Iterable

# No report before a connection has taken this long.
PATIENCE_MS = 1_000.0
# Attempts further apart than this are separate waits.
PAUSE_MS = 10_000.0

NO_RESPONSE = "no response"


class Watch:
    """The reports on one address. `begin` and `fail` enclose each attempt; each returns the text to report now."""

    def __init__(self) -> None:
        self.reached = False  # at any time
        self.served = False  # a connection to it got a response other than to ApiVersions
        self._since_ms: float | None = None
        self._ended_ms = 0.0
        self._attempts = 0
        self._causes: frozenset[str] = frozenset()
        self._text = ""
        self._reported: set[frozenset[str]] = set()

    @property
    def is_waiting(self) -> bool:
        """True if an attempt is running."""
        return self._attempts > 0

    @property
    def last(self) -> str:
        """The error of the last attempt."""
        return self._text

    def begin(self, now_ms: float) -> str | None:
        """Begin an attempt."""
        if self._since_ms is None or (not self._attempts and now_ms - self._ended_ms > PAUSE_MS):
            self._since_ms = now_ms
        self._attempts += 1
        return self._due(now_ms) if self._causes else None

    def look(self, now_ms: float, text: str) -> str | None:
        """Check a running attempt after some time; `text` describes it."""
        if not self._attempts:
            return None
        if not self._causes:
            self._causes, self._text = frozenset([NO_RESPONSE]), text
        return self._due(now_ms)

    def fail(self, now_ms: float, causes: Iterable[str], text: str) -> str | None:
        """End an attempt that failed; `causes` identify the failure, `text` describes it to users."""
        self._attempts -= 1
        self._ended_ms = now_ms
        self._causes = frozenset(NO_RESPONSE if cause.startswith(NO_RESPONSE) else cause for cause in causes)
        self._text = text
        return self._due(now_ms)

    def leave(self, now_ms: float) -> None:
        """End an attempt that its caller gave up."""
        self._attempts -= 1
        self._ended_ms = now_ms

    def succeed(self, now_ms: float) -> float | None:
        """End an attempt that connected; return the outage in seconds if it was reported, else None."""
        self._attempts -= 1
        self.reached = True
        since_ms, self._since_ms = self._since_ms, None
        reported, self._reported = self._reported, set()
        self._causes, self._text = frozenset(), ""
        return (now_ms - (since_ms or now_ms)) / 1000 if reported else None

    def _due(self, now_ms: float) -> str | None:
        if self._since_ms is None or now_ms - self._since_ms < PATIENCE_MS or self._causes in self._reported:
            return None
        self._reported.add(self._causes)
        return self._text
