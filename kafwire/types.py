"""Small immutable values of the public interface. Imports nothing of kafwire but its errors."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafwire.errors import ConfigError

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "ConsumerGroupMetadata",
    "Offset",
    "OffsetRange",
    "PartitionMetadata",
    "RecordMetadata",
    "Tail",
    "TopicMetadata",
    "TopicPartition",
]


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


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A broker of a cluster, and the address that it advertises to clients."""

    __module__ = "kafwire"
    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition of a topic. `leader_id` is -1 without a leader, `leader_epoch` -1 where the broker does not tell.

    `replica_nodes`, `isr_nodes` and `offline_replicas` are node ids: who holds it (the preferred leader first), who is
    in sync, who is offline. `error_code` is Kafka's, 0 for none.
    """

    __module__ = "kafwire"
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic and its partitions, in their order. `topic_id` is zero where the cluster has none.

    `error_code` is Kafka's, 0 for none; 3 says that the topic does not exist.
    """

    __module__ = "kafwire"
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What a broker knows of its cluster. `controller_id` is the broker that takes changes; -1: none is known."""

    __module__ = "kafwire"
    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerMetadata, ...]
    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True, order=True)
class Offset:
    """A place in each partition by its offset, from 0 on, for `start` and `end` of a scan and `start` of a consumer.

    As an `end` it is exclusive. Raises `ConfigError` for anything but a whole number from 0 on.
    """

    __module__ = "kafwire"
    offset: int

    def __post_init__(self) -> None:
        _check_number("Offset", self.offset)


@dataclass(frozen=True, slots=True, order=True)
class Tail:
    """The place in each partition that has `count` offsets between it and the end: `start=Tail(5)` reads the last five.

    Offsets without a record (compacted away, or a transaction's markers) count. Where a partition has fewer, its
    beginning. With `read_committed` the end is the last stable offset. Raises `ConfigError` for anything but a whole
    number from 0 on.
    """

    __module__ = "kafwire"
    count: int

    def __post_init__(self) -> None:
        _check_number("Tail", self.count)


def _check_number(kind: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise ConfigError(f"{kind}({number!r}): a number from 0 is needed")
