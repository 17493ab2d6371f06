"""Hints for users after an attempt to connect failed. Pure: the facts of the attempt come in, a text comes out.

A hint stands behind its condition. Where no condition holds, there is no hint: the error alone is true.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from enum import IntEnum

from kafwire.lazy_dataclass import dataclass

# Errors of resolving: no address, no response of the name server, and any other (a thread that does not start).
NO_SUCH_NAME, NO_NAME_SERVER, UNRESOLVED = -1, -2, -3
# The errors by which a peer ends a connection.
CLOSED_BY_PEER = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ECONNABORTED})

_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_SIZE = r"bad frame: size prefix (-?\d+)"
_TLS = "TLS is spoken there"
# The first bytes of servers that do not speak Kafka's protocol, which are read as a frame's size.
_STRANGERS = (
    (b"HTTP", "an HTTP server answers there"),
    (b"\x15\x03", _TLS),
    (b"\x16\x03", _TLS),
    (b"SSH-", "an SSH server answers there"),
    (b"220", "a mail or FTP server answers there"),
)
_WANTS_TLS = "set security_protocol=SSL, or SASL_SSL where the listener asks for a login"
_WANTS_NO_TLS = "is it a listener for TLS? For one that is not, security_protocol is PLAINTEXT or SASL_PLAINTEXT"
_NO_BROKER = "is the port that of a Kafka broker?"


class Step(IntEnum):
    """How far an attempt came: the later the step, the more is known of the server."""

    RESOLVE = 0
    CONNECT = 1
    HANDSHAKE = 2
    GREET = 3
    LOG_IN = 4


@dataclass(frozen=True)
class Problem:
    """Why one attempt to connect failed.

    `step` is the step that failed, `number` its error: an `errno`, in RESOLVE one of those above,
    0 for an error without a number. A time-out has ETIMEDOUT, and a response that cannot be read has EBADMSG. `tls`
    is true for a client that speaks TLS; in CONNECT the connection may then stand and the handshake hang.
    """

    text: str
    step: Step
    number: int = 0
    tls: bool = False
    address: str = ""

    @property
    def cause(self) -> str:
        """The text; bytes of another protocol are named by that."""
        found = re.match(_SIZE, self.text)
        if found is not None and self.step is Step.GREET:
            first = (int(found[1]) & 0xFFFFFFFF).to_bytes(4, "big")
            for begin, words in _STRANGERS:
                if first.startswith(begin) and not (self.tls and words == _TLS):
                    return words
        return self.text

    @property
    def is_unreachable(self) -> bool:
        """True if the address is known to be out of reach: an error of this process says nothing of it."""
        return self.step <= Step.CONNECT and bool(self.hint)

    @property
    def hint(self) -> str:
        """The hint of the step that failed, or an empty text."""
        return _HINTS[self.step](self)


def _hint_to_resolve(problem: Problem) -> str:
    if problem.number == NO_SUCH_NAME:
        return "check the host name"
    return "does the name server of this machine respond?" if problem.number == NO_NAME_SERVER else ""


def _hint_to_connect(problem: Problem) -> str:
    if problem.number == errno.ECONNREFUSED:
        return "is it running, and is the address right?"
    if problem.number in _NO_ROUTE:
        return "is the address right, and does this machine have a route to it?"
    if problem.number != errno.ETIMEDOUT:
        return ""
    if problem.tls:
        return "is the address right, does a firewall drop the packets, and is it a listener for TLS?"
    return "is the address right, and does a firewall drop the packets?"


def _hint_to_handshake(problem: Problem) -> str:
    is_stranger = problem.text.startswith("no TLS is spoken")
    return _WANTS_NO_TLS if is_stranger or problem.number in CLOSED_BY_PEER else ""


def _hint_to_greet(problem: Problem) -> str:
    if problem.cause == _TLS:
        return _WANTS_TLS
    if problem.number == errno.EBADMSG or problem.text.startswith(("bad frame", "bad response")):
        return _NO_BROKER
    if problem.number in CLOSED_BY_PEER and not problem.tls:
        return f"is it a Kafka broker? A listener for TLS closes like that: for such a one, {_WANTS_TLS}"
    if problem.number in CLOSED_BY_PEER:
        return _NO_BROKER
    if problem.number == errno.ETIMEDOUT:
        return "is it a Kafka broker, and its listener for this security_protocol?"
    return ""


def _hint_to_log_in(problem: Problem) -> str:
    if problem.number in CLOSED_BY_PEER or problem.number == errno.ETIMEDOUT:
        return "the broker does not go on with SASL: its log may say why"
    return ""


_HINTS = {
    Step.RESOLVE: _hint_to_resolve,
    Step.CONNECT: _hint_to_connect,
    Step.HANDSHAKE: _hint_to_handshake,
    Step.GREET: _hint_to_greet,
    Step.LOG_IN: _hint_to_log_in,
}


def furthest(problems: Iterable[Problem]) -> Problem:
    """The problem of the address that came furthest: an address that answers says more than one that does not."""
    return max(problems, key=lambda problem: problem.step)


def misadvertised(servers: Iterable[str], address: str) -> str:
    """Return the hint for an advertised address at which no server ever responded."""
    named = ",".join(servers)
    return (
        f"{'one of ' if ',' in named else ''}{named} answered and says that this broker is at {address}, which this "
        f"machine cannot reach: set advertised.listeners in the broker's configuration to an address that it can, or "
        f"see that {address} resolves and answers here"
    )


def asks_for_login(*, tls: bool) -> str:
    """Return the hint for a peer that closed the connection, and responded to ApiVersions alone."""
    return (
        "before it responded to anything but ApiVersions: a listener that asks for a login does that; for such a one, "
        f"set security_protocol to {'SASL_SSL' if tls else 'SASL_PLAINTEXT'}, and sasl_mechanism"
    )
