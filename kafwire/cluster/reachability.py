"""When a client reports an address that cannot be reached. Pure; `reachability_hints` has the texts."""

from __future__ import annotations

from collections.abc import Iterable

# So long nobody is told that a connection takes its time.
PATIENCE_MS = 1_000.0
# Attempts that lie further apart than this are not one wait.
PAUSE_MS = 10_000.0

NO_ANSWER = "no answer"


class Watch:
    """What was said of one address. `begin` and `fail` enclose each attempt; each returns what is to be said now."""

    def __init__(self) -> None:
        self.reached = False  # ever
        self.served = False  # a connection to it got a response to more than ApiVersions
        self._since_ms: float | None = None
        self._ended_ms = 0.0
        self._attempts = 0
        self._causes: frozenset[str] = frozenset()
        self._text = ""
        self._told: set[frozenset[str]] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether an attempt is under way."""
        return self._attempts > 0

    @property
    def last(self) -> str:
        """What the last attempt failed by."""
        return self._text

    def begin(self, now_ms: float) -> str | None:
        """An attempt begins."""
        if self._since_ms is None or (not self._attempts and now_ms - self._ended_ms > PAUSE_MS):
            self._since_ms = now_ms
        self._attempts += 1
        return self._due(now_ms) if self._causes else None

    def look(self, now_ms: float, text: str) -> str | None:
        """Time has passed; `text` is said of an attempt that has not failed yet."""
        if not self._attempts:
            return None
        if not self._causes:
            self._causes, self._text = frozenset([NO_ANSWER]), text
        return self._due(now_ms)

    def fail(self, now_ms: float, causes: Iterable[str], text: str) -> str | None:
        """An attempt has failed: `causes` tell it from others, `text` is for people."""
        self._attempts -= 1
        self._ended_ms = now_ms
        self._causes = frozenset(NO_ANSWER if cause.startswith(NO_ANSWER) else cause for cause in causes)
        self._text = text
        return self._due(now_ms)

    def leave(self, now_ms: float) -> None:
        """An attempt was given up by whoever made it."""
        self._attempts -= 1
        self._ended_ms = now_ms

    def succeed(self, now_ms: float) -> float | None:
        """The address is connected; returns for how long it was not, in seconds, if somebody was told of that."""
        self._attempts -= 1
        self.reached = True
        since_ms, self._since_ms = self._since_ms, None
        told, self._told = self._told, set()
        self._causes, self._text = frozenset(), ""
        return (now_ms - (since_ms or now_ms)) / 1000 if told else None

    def _due(self, now_ms: float) -> str | None:
        if self._since_ms is None or now_ms - self._since_ms < PATIENCE_MS or self._causes in self._told:
            return None
        self._told.add(self._causes)
        return self._text
