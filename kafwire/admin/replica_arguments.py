"""Checks of partitions and replicas that calls name. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafwire.admin.arguments import HIGHEST, node_of
from kafwire.errors import ConfigError
from kafwire.integers import integer
from kafwire.types import TopicPartition

__all__ = [
    "Directories",
    "Reassigned",
    "TopicPartitionReplica",
    "partition_of",
    "partitions_of",
    "replica_of",
]


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on a broker. It is equal to the tuple (topic, partition, broker).

    Args:
        topic: the topic.
        partition: the partition's number, from 0 on.
        broker_id: the id of the broker.

    Example:
        >>> from kafwire.admin import TopicPartitionReplica
        >>> TopicPartitionReplica("flights", 0, 1) == ("flights", 0, 1)
        True
    """

    topic: str
    partition: int
    broker_id: int


TopicPartitionReplica.__module__ = "kafwire.admin"

# The keys of a mapping are invariant: each kind of key is an alternative.
Reassigned: TypeAlias = Mapping[TopicPartition, Sequence[int] | None] | Mapping[tuple[str, int], Sequence[int] | None]
Directories: TypeAlias = Mapping[TopicPartitionReplica, str] | Mapping[tuple[str, int, int], str]


def partition_of(value: Any) -> TopicPartition:
    """Return a partition, given as one or as a tuple (topic, partition)."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0]:
        number = integer(value[1])
        if number is not None and 0 <= number <= HIGHEST:
            return TopicPartition(value[0], number)
    raise ConfigError(f"{value!r} is not a partition: write TopicPartition(topic, 0), or the tuple (topic, 0)")


def partitions_of(values: Any, example: str) -> list[TopicPartition]:
    """Return a list of partitions without repetitions."""
    if isinstance(values, str | bytes | TopicPartition) or not isinstance(values, Iterable):
        raise ConfigError(f"partitions={values!r}: write a list of partitions: {example}")
    return list(dict.fromkeys(map(partition_of, values)))


def replica_of(value: Any) -> TopicPartitionReplica:
    """Return a replica, given as one or as a tuple (topic, partition, broker)."""
    if isinstance(value, tuple) and len(value) == 3:
        topic, partition = partition_of(value[:2])
        return TopicPartitionReplica(topic, partition, node_of("broker_id", value[2]))
    raise ConfigError(
        f"{value!r} is not a replica: write TopicPartitionReplica(topic, 0, broker), or the tuple (topic, 0, broker)"
    )
