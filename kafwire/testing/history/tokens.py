"""What a value says: who sent it, for which key, as which of its records, in which of its transactions.

A value is a token of 16 bytes, which is repeated to fill longer ones: producer uint16, key uint32, sequence uint32,
transaction uint32 (0: none), all little-endian, and the lower half of the CRC-32 of these 14 bytes.
"""

import struct
import zlib
from collections.abc import Iterable

TOKEN = struct.Struct("<HIIIH")
SIZE = TOKEN.size
CHECKED = struct.Struct("<14s2x")  # what a token's checksum is of
EMPTY = bytes(SIZE)

# Producers have numbers from 1 below it. Its own tokens stand for values that no producer made.
FOREIGN = 0xFFFF

_NOBODY = bytes(2)
_BODY = struct.Struct("<HIII")
_CHECK = struct.Struct("<H")


def encode(producer: int, key: int, sequence: int, transaction: int = 0, *, size: int = SIZE) -> bytes:
    """The value of `size` bytes, at least 16, of one record."""
    body = _BODY.pack(producer, key, sequence, transaction)
    token = body + _CHECK.pack(zlib.crc32(body) & 0xFFFF)
    return token if size == SIZE else _filled(token, size)


def tokens_of(values: Iterable[bytes | None]) -> bytes:
    """The tokens of values as they were read, one after the other.

    A value that is not wholly what `encode` made becomes a foreign token: its length and checksum in place of key and
    sequence.
    """
    return b"".join(
        [value if value and len(value) == SIZE and value[:2] != _NOBODY else _token_of(value) for value in values]
    )


def _token_of(value: bytes | None) -> bytes:
    if value is not None and len(value) > SIZE and value[:2] != _NOBODY:
        token = value[:SIZE]
        if value == _filled(token, len(value)):
            return token
    return encode(FOREIGN, 0 if value is None else len(value) + 1, zlib.crc32(value or b""))


def _filled(token: bytes, size: int) -> bytes:
    return (token * (size // SIZE + 1))[:size]
