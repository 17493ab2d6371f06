"""The partitions of keys, computed slowly and obviously: the judge of the fast functions."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

MASK = 0xFFFFFFFF
# The hash of each partitioner, and the smallest key that it hashes (-1: a null one).
HASHED = {
    "murmur2_random": ("murmur2", 0),
    "murmur2": ("murmur2", -1),
    "consistent_random": ("crc32", 1),
    "consistent": ("crc32", -1),
    "fnv1a_random": ("fnv1a", 0),
    "fnv1a": ("fnv1a", -1),
}


def murmur2(data: bytes) -> int:
    """The 32-bit hash that Java's client partitions by, word for word."""
    mask, m = MASK, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def fnv1a(data: bytes) -> int:
    """FNV-1a as a signed number of 32 bits, without its sign."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & MASK
    return h if h < 1 << 31 else (1 << 32) - h


HASHES = {"murmur2": lambda key: murmur2(key) & 0x7FFFFFFF, "crc32": zlib.crc32, "fnv1a": fnv1a}


def place(partitioner: str, key: bytes | None, partitions: int) -> int | None:
    """The partition of a key; None where it is not for the key to say."""
    name, hashed_from = HASHED[partitioner]
    if (-1 if key is None else len(key)) < hashed_from:
        return None
    return HASHES[name](key or b"") % partitions


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Java's default partitioner chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def sample_keys(seed: int, count: int = 100_000) -> list[bytes | None]:
    """Keys as they may be: null, empty, of one byte, long, text that is not ASCII, numbers, noise."""
    chance = random.Random(seed)
    letters = "aзж日本ü€𝄞é"
    kinds: list[Callable[[], bytes | None]] = [
        lambda: b"%d" % chance.randrange(10**9),
        lambda: "".join(chance.choices(letters, k=chance.randint(1, 12))).encode(),
        lambda: chance.randbytes(chance.randint(0, 40)),
    ]
    keys: list[bytes | None] = [None, b"", *(bytes([i]) for i in range(256))]
    keys += [chance.randbytes(chance.randint(1_000, 20_000)) for _ in range(50)]
    keys += [None] * (count // 50) + [b""] * (count // 100)
    keys += [chance.choice(kinds)() for _ in range(count - len(keys))]
    chance.shuffle(keys)
    return keys
