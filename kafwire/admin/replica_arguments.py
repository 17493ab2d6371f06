"""The replicas that calls name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafwire.admin.arguments import node_of, partition_of
from kafwire.errors import ConfigError
from kafwire.types import TopicPartition

__all__ = ["Directories", "Reassigned", "TopicPartitionReplica", "replica_of"]


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


def replica_of(value: Any) -> TopicPartitionReplica:
    """Return a replica, given as one or as a tuple (topic, partition, broker)."""
    if isinstance(value, tuple) and len(value) == 3:
        topic, partition = partition_of(value[:2])
        return TopicPartitionReplica(topic, partition, node_of("broker_id", value[2]))
    raise ConfigError(
        f"{value!r} is not a replica: write TopicPartitionReplica(topic, 0, broker), or the tuple (topic, 0, broker)"
    )
