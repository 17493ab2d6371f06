"""The broker's side of TLS: a handshake in steps, an alert for plaintext, the next bytes to encrypt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

from kafwire.broker.log.log import FileSpan, read_span

_HANDSHAKE = b"\x16"  # the type of a record of TLS
_HEAD_BYTES = 3
_NO_TLS_ALERT = bytes((0x15, 3, 3, 0, 2, 2, 80))  # fatal, internal_error, as Java's TLS sends it
HANDSHAKE_MS = 10_000  # a longer handshake ends the connection
_RECORD_BYTES = 16 << 10
_FILE_BYTES = 64 << 10  # bytes of a file that are encrypted at a time


class Step(Enum):
    """The event that a handshake waits for."""

    DONE = "nothing more"
    READ = "bytes of the client"
    WRITE = "room for bytes to send"


def shake_hands(socket: Any) -> Step:
    """Advance a handshake as far as possible. Raises `OSError` if it fails."""
    import ssl

    try:
        socket.do_handshake()
    except ssl.SSLWantReadError:
        return Step.READ
    except ssl.SSLWantWriteError:
        return Step.WRITE
    return Step.DONE


def begins_tls(socket: Any) -> bool:
    """True if a client's first bytes may begin a TLS handshake. They stay unread."""
    import socket as sockets

    head = sockets.socket.recv(socket, _HEAD_BYTES, sockets.MSG_PEEK)  # the method of the TLS socket would decrypt
    if not head or head[:1] == _HANDSHAKE:
        return True
    # A hello of SSL 2; the handshake itself judges one that arrives in smaller pieces.
    return head[0] & 0x80 != 0 and head[2:3] in (b"", b"\x01")


def refuse_plaintext(socket: Any) -> None:
    """Send the alert that Kafka sends to a client without TLS, and the end of the stream."""
    import socket as sockets

    sockets.socket.send(socket, _NO_TLS_ALERT)
    sockets.socket.shutdown(socket, sockets.SHUT_WR)


def has_ended(socket: Any) -> bool:
    """Drop bytes of a refused client; True at its end. Closing the socket earlier would reset the connection."""
    import socket as sockets

    return not sockets.socket.recv(socket, _FILE_BYTES)


def next_plaintext(outgoing: Iterable[memoryview | FileSpan]) -> bytes | memoryview:
    """Return the bytes to encrypt next. If only a part could be sent, the next result begins in the same way.

    Small pieces are joined, since each TLS record is expensive, and a frame's size is a separate piece.
    """
    joined = bytearray()
    for each in outgoing:
        if isinstance(each, FileSpan):
            return bytes(joined) or read_span(replace(each, size=min(each.size, _FILE_BYTES)))
        if not joined and len(each) >= _RECORD_BYTES:
            return each
        joined += each[: _RECORD_BYTES - len(joined)]
        if len(joined) >= _RECORD_BYTES:
            break
    return bytes(joined)
