"""What the broker's side of TLS needs beside plain sockets: a handshake in steps, and what is encrypted next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

from kafwire.testing.broker.log.log import FileSpan, read_span

HANDSHAKE_MS = 10_000  # a client whose handshake takes longer is let go
_RECORD_BYTES = 16 << 10
_FILE_BYTES = 64 << 10  # of a file that are encrypted at a time


class Step(Enum):
    """What a handshake waits for."""

    DONE = "nothing more"
    READ = "what the client sends"
    WRITE = "room for what is sent"


def shake_hands(socket: Any) -> Step:
    """Go on with a handshake, as far as that is possible. Raises `OSError` if it fails."""
    import ssl

    try:
        socket.do_handshake()
    except ssl.SSLWantReadError:
        return Step.READ
    except ssl.SSLWantWriteError:
        return Step.WRITE
    return Step.DONE


def next_plaintext(outgoing: Iterable[memoryview | FileSpan]) -> bytes | memoryview:
    """What is encrypted next. After only a part of it could be sent, what comes the next time begins in the same way.

    Small pieces go together, since a record of TLS costs much, and a frame's size is a piece of its own.
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
