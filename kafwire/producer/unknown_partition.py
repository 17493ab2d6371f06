"""The error of a record for a partition above those known of its topic. No I/O here: `topics.py` finds the partition.

A topic may have got partitions since the metadata was read. The accumulator raises this error, and the producer asks
for metadata until the partition is there or `max_block_ms` has passed.
"""

from __future__ import annotations

from kafwire.errors import ConfigError

LAST_PARTITION = 2**31 - 1


class UnknownPartition(ConfigError):
    """`topic` has no partition `partition` by the metadata at hand; its numbers are below `count`."""

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        """Make the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition


def no_partition(topic: str, count: int, partition: int, message: str = "") -> ConfigError:
    """The error for a partition number; an `UnknownPartition` where an added partition may have the number."""
    message = message or f"topic {topic!r} has partitions 0 to {count - 1}, not {partition!r}"
    if count <= partition <= LAST_PARTITION:
        return UnknownPartition(message, topic=topic, partition=partition)
    return ConfigError(message)
