"""Hints for users after a failed attempt to connect. Pure: the facts of the attempt come in, a text comes out.

Each hint has a condition. If no condition holds, there is no hint: only the error is certain.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from enum import IntEnum

from kafwire.lazy_dataclass import dataclass

# Resolver errors: no address, no response of the name server, and any other (a thread that does not start).
NO_SUCH_NAME, NO_NAME_SERVER, UNRESOLVED = -1, -2, -3
# The errors by which a peer closes a connection.
CLOSED_BY_PEER = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ECONNABORTED})

_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_SIZE = r"bad frame: size prefix (-?\d+)"
_TLS = "the server speaks TLS"
# The first bytes of servers of other protocols, decoded as a frame's size.
_STRANGERS = (
    (b"HTTP", "an HTTP server responded"),
    (b"\x15\x03", _TLS),
    (b"\x16\x03", _TLS),
    (b"SSH-", "an SSH server responded"),
    (b"220", "a mail or FTP server responded"),
)
_WANTS_TLS = "set security_protocol=SSL, or SASL_SSL if the listener requires SASL"
_WANTS_NO_TLS = "is it a TLS listener? If not, set security_protocol to PLAINTEXT or SASL_PLAINTEXT"
_NO_BROKER = "is it the port of a Kafka broker?"


class Step(IntEnum):
    """The step that an attempt reached: later steps reveal more about the server."""

    RESOLVE = 0
    CONNECT = 1
    HANDSHAKE = 2
    GREET = 3
    LOG_IN = 4


@dataclass(frozen=True)
class Problem:
    """The failure of one attempt to connect.

    `step` is the step that failed, `number` its error: an `errno`, in RESOLVE one of those above, 0 for an error
    without a number. A time-out has ETIMEDOUT, a peer without TLS EPROTONOSUPPORT, a malformed response EBADMSG. `tls`
    is True for a client that uses TLS; in CONNECT the TCP connection may then be open and the handshake hang.
    """

    text: str
    step: Step
    number: int = 0
    tls: bool = False
    address: str = ""

    @property
    def cause(self) -> str:
        """The text; bytes of another protocol are replaced by that server's name."""
        found = re.match(_SIZE, self.text)
        if found is not None and self.step is Step.GREET:
            first = (int(found[1]) & 0xFFFFFFFF).to_bytes(4, "big")
            for begin, words in _STRANGERS:
                if first.startswith(begin) and not (self.tls and words == _TLS):
                    return words
        return self.text

    @property
    def is_unreachable(self) -> bool:
        """True if the address is known to be unreachable; an error of this process is no evidence."""
        return self.step <= Step.CONNECT and bool(self.hint)

    @property
    def hint(self) -> str:
        """The hint for the failed step, or an empty text."""
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
        return "is the address right, does a firewall drop the packets, and is it a TLS listener?"
    return "is the address right, and does a firewall drop the packets?"


def _hint_to_handshake(problem: Problem) -> str:
    return _WANTS_NO_TLS if problem.number == errno.EPROTONOSUPPORT or problem.number in CLOSED_BY_PEER else ""


def _hint_to_greet(problem: Problem) -> str:
    if problem.cause == _TLS:
        return _WANTS_TLS
    if problem.number == errno.EBADMSG or problem.text.startswith(("bad frame", "bad response")):
        return _NO_BROKER
    if problem.number in CLOSED_BY_PEER and not problem.tls:
        return f"is it a Kafka broker? A TLS listener closes like this: if it is one, {_WANTS_TLS}"
    if problem.number in CLOSED_BY_PEER:
        return _NO_BROKER
    if problem.number == errno.ETIMEDOUT:
        return "is it a Kafka broker, and the listener for this security_protocol?"
    return ""


def _hint_to_log_in(problem: Problem) -> str:
    if problem.number in CLOSED_BY_PEER or problem.number == errno.ETIMEDOUT:
        return "the broker does not continue with SASL: its log may say why"
    return ""


_HINTS = {
    Step.RESOLVE: _hint_to_resolve,
    Step.CONNECT: _hint_to_connect,
    Step.HANDSHAKE: _hint_to_handshake,
    Step.GREET: _hint_to_greet,
    Step.LOG_IN: _hint_to_log_in,
}


def furthest(problems: Iterable[Problem]) -> Problem:
    """Return the problem of the address that came furthest: a server that responds reveals more."""
    return max(problems, key=lambda problem: problem.step)


def misadvertised(servers: Iterable[str], address: str) -> str:
    """Return the hint for an advertised address at which no server ever responded."""
    named = ",".join(servers)
    return (
        f"{'one of ' if ',' in named else ''}{named} responded and advertises {address} for this broker, which this "
        f"machine cannot reach: set advertised.listeners in the broker's configuration to an address that it can "
        f"reach, or make {address} resolve and connect here"
    )


def asks_for_login(*, tls: bool) -> str:
    """Return the hint for a peer that closed the connection after it responded to ApiVersions alone."""
    return (
        "before it responded to any request but ApiVersions: a SASL listener does that; if it is one, "
        f"set security_protocol to {'SASL_SSL' if tls else 'SASL_PLAINTEXT'}, and sasl_mechanism"
    )
