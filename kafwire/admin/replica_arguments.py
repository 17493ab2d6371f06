"""Checks of brokers, partitions and replicas that calls name. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafwire.admin.arguments import partition_of
from kafwire.errors import ConfigError
from kafwire.integers import integer
from kafwire.types import TopicPartition

__all__ = [
    "Directories",
    "Reassigned",
    "TopicPartitionReplica",
    "flag_of",
    "node_of",
    "nodes_of",
    "replica_of",
]

HIGHEST = 0x7FFFFFFF


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


def flag_of(what: str, value: Any) -> bool:
    """Return a boolean; other values are refused, as a text would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what}={value!r}: write True or False")
    return value


def node_of(what: str, value: Any) -> int:
    """Return the id of a broker or controller."""
    number = integer(value)
    if number is None or not 0 <= number <= HIGHEST:
        raise ConfigError(f"{what}={value!r}: it must be a node's id, a whole number from 0 on")
    return number


def nodes_of(what: str, values: Any, example: str) -> list[int]:
    """Return a list of node ids."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of node ids: {example}")
    return [node_of(what, value) for value in values]


def replica_of(value: Any) -> TopicPartitionReplica:
    """Return a replica, given as one or as a tuple (topic, partition, broker)."""
    if isinstance(value, tuple) and len(value) == 3:
        topic, partition = partition_of(value[:2])
        return TopicPartitionReplica(topic, partition, node_of("broker_id", value[2]))
    raise ConfigError(
        f"{value!r} is not a replica: write TopicPartitionReplica(topic, 0, broker), or the tuple (topic, 0, broker)"
    )
