"""Small immutable values of the public interface. Imports nothing of kafwire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ConsumerGroupMetadata", "OffsetRange", "RecordMetadata", "TopicPartition"]


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to, and sorted like, the tuple (topic, partition)."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 where the broker does not say (acks=0); `timestamp_ms` None
    without one.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None


class ConsumerGroupMetadata(NamedTuple):
    """Who commits offsets for a group within a transaction (KIP-447); without a membership the defaults hold."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """`count` records written one after the other from `first_offset` on. Unpacks like a tuple of its four fields."""

    topic: str
    partition: int
    first_offset: int
    count: int

    def __iter__(self) -> Iterator[str | int]:
        return iter((self.topic, self.partition, self.first_offset, self.count))
