"""The iteration order of Java's hash tables. Kafka's assignors follow it where no other rule decides.

A table has a power of two of buckets, 16 at first, and is at most three quarters full. Keys of one bucket come in the
order in which they were added. A key that `computeIfAbsent` adds comes first in its bucket, and the table grows one key
later.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")


def hash_of_text(text: str) -> int:
    """Return `String.hashCode`, as 32 bits without a sign."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def hash_of_id(topic_id: uuid.UUID) -> int:
    """Return Kafka's `Uuid.hashCode`, as 32 bits without a sign."""
    mixed = (topic_id.int >> 64) ^ (topic_id.int & 0xFFFFFFFFFFFFFFFF)
    return (mixed >> 32) ^ (mixed & 0xFFFFFFFF)


def hash_of_number(number: int) -> int:
    """Return `Integer.hashCode`."""
    return number


def buckets_of_copy(count: int) -> int:
    """Return the number of buckets of a `HashSet` that is a copy of this many keys."""
    return max(16, 1 << int(count / 0.75).bit_length())


def in_hash_order(
    keys: Iterable[K], hash_of: Callable[[K], int], *, buckets: int = 16, computed: bool = False
) -> list[K]:
    """Return keys in the order of a table to which they were added one by one.

    `buckets`: the first number of buckets. `computed`: `computeIfAbsent` added them.
    """
    listed = list(keys)
    if computed:
        listed.reverse()
    while len(listed) - computed > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(listed, key=bucket)
