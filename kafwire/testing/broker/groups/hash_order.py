"""The order in which Java's hash tables give what is in them. Kafka's assignors follow it where nothing else decides.

A table has a power of two of buckets, 16 at first, and is at most three quarters full. What is in one bucket comes in
the order in which it was put there; what `computeIfAbsent` puts there comes first, before what is there, and the table
grows one key later.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")


def hash_of_text(text: str) -> int:
    """`String.hashCode`, as 32 bits without a sign."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def hash_of_id(topic_id: uuid.UUID) -> int:
    """`Uuid.hashCode` of Kafka's, as 32 bits without a sign."""
    mixed = (topic_id.int >> 64) ^ (topic_id.int & 0xFFFFFFFFFFFFFFFF)
    return (mixed >> 32) ^ (mixed & 0xFFFFFFFF)


def hash_of_number(number: int) -> int:
    """`Integer.hashCode`."""
    return number


def buckets_of_copy(count: int) -> int:
    """How many buckets a `HashSet` has that is made as a copy of so many keys."""
    return max(16, 1 << int(count / 0.75).bit_length())


def in_hash_order(
    keys: Iterable[K], hash_of: Callable[[K], int], *, buckets: int = 16, computed: bool = False
) -> list[K]:
    """Keys in the order of a table that they were put into one by one.

    `buckets`: how many it has at first. `computed`: they were put there by `computeIfAbsent`.
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
