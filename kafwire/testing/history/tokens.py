"""The content of values: producer, key, sequence, transaction, and a seal over the record's other fields.

A value is a token of 24 bytes, which is repeated to fill longer ones: producer uint16, marks uint16, key uint32,
sequence uint32, transaction uint32 (0: none), seal uint32, all little-endian, and the CRC-32 of these 20 bytes. The
seal is a checksum of the value's size and of the record's other fields, its `Dress`; the marks name the fields that it
covers. So a reader can check by the record alone that it is unchanged.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

TOKEN = struct.Struct("<HHIIIII")
SIZE = TOKEN.size
CHECKED = struct.Struct("<20s4x")  # the bytes that a token's checksum covers
EMPTY = bytes(SIZE)

# Producers have numbers from 1 to below it. Its tokens stand for values that no producer made.
FOREIGN = 0xFFFF

# The marks: the fields that the seal covers besides the size. A reader adds ALTERED if the record does not match it.
DRESSED, TIMED, PLACED = 1, 2, 4
ALTERED = 0x8000

_NOBODY = bytes(2)
_BODY = struct.Struct("<HHIIII")
_CHECK = struct.Struct("<I")
_SEALED = struct.Struct("<iiqi")
_MARKS = struct.Struct("<2xH12xI")  # marks, seal

Headers = Sequence[tuple[str, bytes | None]]


class Dress(NamedTuple):
    """The fields of a record besides its value.

    If the time or partition is None, the client chooses it, and any value is right when the record is read.

    Args:
        key: the key, or None.
        headers: the headers.
        timestamp_ms: milliseconds since the epoch, or None.
        partition: the partition, or None.

    Example:
        >>> from kafwire.testing.history import Dress
        >>> Dress(key=b"UA").headers
        ()
    """

    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


def encode(
    producer: int, key: int, sequence: int, transaction: int = 0, *, size: int = SIZE, dress: Dress | None = None
) -> bytes:
    """Return a record's value of `size` bytes, at least 24. `dress`: its other fields; None: readers ignore them."""
    marks, seal = _seal(size, dress)
    token = _token(producer, marks, key, sequence, transaction, seal)
    return token if size == SIZE else _filled(token, size)


def tokens_of(values: Iterable[bytes | None]) -> bytes:
    """Return the tokens of values that were read, one after the other, without their records' other fields.

    A value that `encode` did not make becomes a foreign token: its length and checksum in place of key and sequence.
    """
    return b"".join([_token_of(value) for value in values])


def dressed_tokens_of(values: Iterable[bytes | None], dresses: Iterable[Dress]) -> tuple[bytes, list[int]]:
    """Return the tokens of records with all their fields, and the places of those that are not as they were sent."""
    tokens: list[bytes] = []
    altered = []
    for value, dress in zip(values, dresses, strict=True):
        if value is None or len(value) < SIZE or value[SIZE:] != value[:-SIZE] or value[:2] == _NOBODY:
            tokens.append(_token_of(value))
            continue
        token = value[:SIZE]
        marks, seal = _MARKS.unpack_from(token)
        if marks & DRESSED:
            key, headers, timestamp_ms, partition = dress
            is_right = seal == _checksum(
                len(value),
                key,
                headers,
                timestamp_ms if marks & TIMED else None,
                partition if marks & PLACED else None,
            )
        else:  # without checked fields, the seal is the size
            is_right = seal == len(value)
        if not is_right:
            token = _altered(token)
            altered.append(len(tokens))
        tokens.append(token)
    return b"".join(tokens), altered


def _token_of(value: bytes | None) -> bytes:
    # A value that repeats its token equals itself shifted by one token.
    if value and len(value) >= SIZE and value[SIZE:] == value[:-SIZE] and value[:2] != _NOBODY:
        token = value[:SIZE]
        marks, seal = _MARKS.unpack_from(token)
        return token if marks & DRESSED or seal == len(value) else _altered(token)
    return _token(FOREIGN, 0, 0 if value is None else len(value) + 1, zlib.crc32(value or b""), 0, 0)


def _token(producer: int, marks: int, key: int, sequence: int, transaction: int, seal: int) -> bytes:
    body = _BODY.pack(producer, marks, key, sequence, transaction, seal)
    return body + _CHECK.pack(zlib.crc32(body))


def _altered(token: bytes) -> bytes:
    """Return the token with the mark ALTERED; a token that is damaged itself stays unchanged."""
    producer, marks, key, sequence, transaction, seal, check = TOKEN.unpack(token)
    if zlib.crc32(token[: _BODY.size]) != check:
        return token
    return _token(producer, marks | ALTERED, key, sequence, transaction, seal)


def _seal(size: int, dress: Dress | None) -> tuple[int, int]:
    """Return marks and seal."""
    if dress is None:
        return 0, size
    marks = DRESSED
    if dress.timestamp_ms is not None:
        marks |= TIMED
    if dress.partition is not None:
        marks |= PLACED
    return marks, _checksum(size, *dress)


def _checksum(size: int, key: bytes | None, headers: Headers, timestamp_ms: int | None, partition: int | None) -> int:
    length = -1 if key is None else len(key)
    found = zlib.crc32(key or b"", zlib.crc32(_SEALED.pack(size, length, timestamp_ms or 0, partition or 0)))
    for name, value in headers:
        text = name.encode()
        found = zlib.crc32(b"%d,%d:" % (len(text), -1 if value is None else len(value)), found)
        found = zlib.crc32(value or b"", zlib.crc32(text, found))
    return found


def _filled(token: bytes, size: int) -> bytes:
    return (token * (size // SIZE + 1))[:size]
