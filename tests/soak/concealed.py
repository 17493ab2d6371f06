"""Aborted transactions that a Kafka broker may leave out of its responses to read_committed: a fault of Kafka's own.

Kafka 4.3.1 and 4.4.0 have it.

Of each aborted transaction a segment's `.txnindex` has its offsets, and the last stable offset when it ended. A broker
that looks for those of a response stops at the first whose last stable offset lies behind the response. A follower that
catches up appends several transactions at once, and then writes last stable offsets that are too high: of that
transaction's producer, later ones that are already in the log do not count. Once it leads, it stops too early, and
every client shows records of the aborted transactions that follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafwire.protocol.transaction_index import aborted_transactions
from kafwire.types import TopicPartition


def concealed(folders: Iterable[Path]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """The first and last offsets of such transactions by partition, whichever of these data folders conceals them."""
    found: dict[TopicPartition, set[tuple[int, int]]] = {}
    for folder in folders:
        for partition in {path.parent for path in folder.glob("*/*.txnindex")}:
            topic, _, number = partition.name.rpartition("-")
            if not topic or not number.isdecimal():  # being deleted, or moved
                continue
            index = b"".join(path.read_bytes() for path in sorted(partition.glob("*.txnindex")))
            if ranges := _concealed(index):
                found.setdefault(TopicPartition(topic, int(number)), set()).update(ranges)
    return {where: sorted(ranges) for where, ranges in found.items()}


def _concealed(index: bytes) -> list[tuple[int, int]]:
    ranges = []
    stops = 0
    for entry in aborted_transactions(index):
        if stops > entry.first_offset:  # a response that ends between the two has its records, and does not list it
            ranges.append((entry.first_offset, entry.last_offset))
        stops = max(stops, entry.last_stable_offset)
    return ranges
