"""The meaning of an input of the target `message`, and its invariants.

Byte 0: twice the API key, plus one for the response; from 200 on the messages without a key, by name, in groups of 56.
Byte 1: the number of the version (`fuzz.versions`); for messages without a key, the upper four bits are the group. Byte
2: 1: bytes that may change; 2: a response comes with its header; 224 and more: once more with 16 KiB of zeros behind,
which makes the decoder put off inner arrays. So inputs of an API keep their meaning as messages are added.
"""

from __future__ import annotations

from typing import Any

from fuzz.versions import number_of, version_of
from kafwire import protocol
from kafwire.errors import ProtocolError

DATA = 200
DATA_AT_ONCE = 256 - DATA
VERSION = 0x0F
WRITABLE, WITH_HEADER, LARGE = 1, 2, 224
PADDING = bytes(1 << 14)
HEAD = 3
HIGHEST_TAG = 0x7FFFFFFE


class Broken(Exception):
    """An invariant does not hold."""


class Run:
    """One message, and its request if it is a response."""

    def __init__(self, message: Any, request: Any) -> None:
        self.message = message
        self.request = request
        for version in range(message.oldest_version, message.max_version + 1):
            message.plan(version)


def head(name: str, version: int) -> bytes:
    """Return bytes 0 and 1 of the inputs for a version of a message."""
    place = number(name)
    further = max(0, place - DATA) // DATA_AT_ONCE
    return bytes([place - further * DATA_AT_ONCE, number_of(protocol.MESSAGES[name], version) | further << 4])


def number(name: str) -> int:
    """Return the place of a message in `runs`."""
    message: Any = protocol.MESSAGES[name]
    if hasattr(message, "api_key"):
        return 2 * int(message.api_key) + name.endswith("Response")
    return DATA + sorted(n for n in protocol.MESSAGES if not hasattr(protocol.MESSAGES[n], "api_key")).index(name)


def runs() -> list[Run | None]:
    """Return the messages by their places, None for nothing."""
    found: list[Run | None] = [None] * (1 + max(map(number, protocol.MESSAGES)))
    for name, message in protocol.MESSAGES.items():
        request = protocol.MESSAGES[name.removesuffix("Response") + "Request"] if name.endswith("Response") else None
        found[number(name)] = Run(message, request)
    return found


def same(one: Any, other: Any) -> bool:
    """Equal, or different in nothing but floats that are no numbers."""
    return bool(one == other) or repr(one) == repr(other)


def chosen(data: bytes, known: list[Run | None]) -> tuple[Run, int] | None:
    """Return the message and version of an input, the inverse of `head`."""
    if len(data) < HEAD:
        return None
    place, version = data[0], data[1]
    if place >= DATA:
        place, version = place + (version >> 4) * DATA_AT_ONCE, version & VERSION
    run = known[place] if place < len(known) else None
    return None if run is None else (run, version_of(run.message, version))


def check(data: bytes, known: list[Run | None]) -> None:
    """Raise `Broken` when the invariant does not hold for an input."""
    found = chosen(data, known)
    if found is None:
        return
    run, version = found
    body: bytes | bytearray = data[HEAD:]
    if data[2] & WRITABLE:
        body = bytearray(body)
    if data[2] >= LARGE:
        _check_body(run, version, body + PADDING, data[2])
    _check_body(run, version, body, data[2])


def _check_body(run: Run, version: int, body: bytes | bytearray, manner: int) -> None:
    message = run.message
    try:
        if manner & WITH_HEADER and run.request is not None:
            _, first = protocol.decode_response(run.request, body, version)
            if run.request.api_key == 18:  # may be of another version than asked for
                return
        else:
            first = message.decode(body, version)
    except ProtocolError:
        return
    encoded = first.encode(version)
    second = message.decode(encoded, version)
    if not same(first, second) or second.encode(version) != encoded:
        raise Broken(f"{message.__name__} version {version} changes by encoding and decoding")
    if manner >= LARGE and version >= message.flexible_from and not second.unknown_tagged_fields:
        second.unknown_tagged_fields = ((HIGHEST_TAG, PADDING),)
        if not same(second, message.decode(second.encode(version), version)):
            raise Broken(f"{message.__name__} version {version} changes when it is large")
