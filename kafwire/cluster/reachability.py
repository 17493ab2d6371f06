"""Addresses that cannot be reached: why, what to do about it, and when to say so. No clock of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable

# So long nobody is told that a connection takes its time.
PATIENCE_MS = 1_000.0
# Attempts that lie further apart than this are not one wait.
PAUSE_MS = 10_000.0

NO_ANSWER = "no answer"
# The first bytes of what is no answer of a broker's, which are read as a frame's size.
_STRANGERS = (
    (b"HTTP", "an HTTP server answers there"),
    (b"\x15\x03", "TLS is spoken there"),
    (b"\x16\x03", "TLS is spoken there"),
    (b"SSH-", "an SSH server answers there"),
    (b"220", "a mail or FTP server answers there"),
)
_SIZE = re.compile(r"size prefix (-?\d+)")
# What a client that speaks TLS, and one that does not, may have got wrong.
_WANTS_TLS = "set security_protocol=SSL, or SASL_SSL where the listener asks who its clients are"
_WANTS_NO_TLS = "is it a listener for TLS? For one that is not, security_protocol is PLAINTEXT or SASL_PLAINTEXT"
_ADVICE = (
    ("no TLS is spoken", _WANTS_NO_TLS),
    ("during the TLS handshake", _WANTS_NO_TLS),
    ("TLS is spoken", _WANTS_TLS),
    ("answers there", "is the port that of a Kafka broker?"),
    ("cannot resolve", "check the host name"),
    ("the peer closed", f"is it a Kafka broker? A listener that wants TLS closes like that: {_WANTS_TLS}"),
    ("TLS handshake)", "is the address right, does a firewall drop the packets, and is it a listener for TLS?"),
    ("authentication)", "the broker does not go on with SASL: its log may say why"),
    (
        NO_ANSWER,
        "is the address right, does a firewall drop the packets, and is it the listener for this security_protocol?",
    ),
)
# What closed a connection whose first request it was. Only ApiVersions is answered before SASL.
WANTS_SASL = (
    "before it answered anything but ApiVersions: a listener that asks who its clients are does that; set "
    "security_protocol to SASL_SSL or SASL_PLAINTEXT, and sasl_mechanism"
)


def named(problem: str) -> str:
    """What ended a connection, in words: bytes that are no answer of a broker's are named for what they look like."""
    found = _SIZE.search(problem)
    if found is not None:
        first = (int(found[1]) & 0xFFFFFFFF).to_bytes(4, "big")
        for begin, words in _STRANGERS:
            if first.startswith(begin):
                return words
    return problem


def advice(problems: Iterable[str]) -> str:
    """What to look at, by what was found."""
    text = "; ".join(problems)
    return next((words for sign, words in _ADVICE if sign in text), "is it running, and is the address right?")


def misadvertised(bootstrap: str, address: str) -> str:
    """What to do about an address that the cluster names, and that was never reached."""
    return (
        f"{bootstrap} answered and says that this broker is at {address}, which this machine cannot reach: set "
        f"advertised.listeners in the broker's configuration to an address that it can, or see that {address} resolves "
        "and answers here"
    )


class Watch:
    """What was said of one address. `begin` and `fail` enclose each attempt; each returns what is to be said now."""

    def __init__(self) -> None:
        self.reached = False  # ever
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
