"""Small values that the public interface speaks in."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is.

    `offset` is -1 when the broker did not say (acks=0); `timestamp_ms` is the record's own, or the broker's where the
    topic stamps on append.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
