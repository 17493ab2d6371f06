"""Small immutable values of the public interface. Imports nothing of kafwire but errors, integers and secrets.

`__module__` is the public path: pickles name it, so that another version may have the class in another module.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple, Self

from kafwire.errors import ConfigError
from kafwire.integers import natural
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "CommittedOffset",
    "ConsumerGroupMetadata",
    "DelegationToken",
    "Offset",
    "OffsetRange",
    "PartitionMetadata",
    "RecordMetadata",
    "Tail",
    "TopicMetadata",
    "TopicPartition",
    "TransactionHandle",
]


class TopicPartition(NamedTuple):
    """A partition of a topic. It is equal to, and sorts like, the tuple (topic, partition).

    Args:
        topic: the topic.
        partition: the partition's number, from 0 on.

    Example:
        >>> kafwire.TopicPartition("flights", 0) == ("flights", 0)
        True
    """

    topic: str
    partition: int


class TransactionHandle(NamedTuple):
    """An open transaction that its producer has detached: `Producer.detach` returns it.

    EndTxn with these three values commits or aborts the transaction, from any process.

    Args:
        transactional_id: the producer's transactional id.
        producer_id: the id that the coordinator assigned to it.
        producer_epoch: the producer's epoch in this transaction.

    Example:
        >>> kafwire.TransactionHandle("flights-7", 1000, 0).producer_epoch
        0
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int


class RecordMetadata(NamedTuple):
    """The place of a written record.

    Args:
        topic: the topic.
        partition: the partition's number.
        offset: the record's offset; -1 if the broker did not report it (acks=0).
        timestamp_ms: milliseconds since the epoch; None if there is none.

    Example:
        >>> kafwire.RecordMetadata("flights", 0, 42, 1_700_000_000_000).offset
        42
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None


class CommittedOffset(int):
    """The offset that a group has committed for a partition: an int, with the text that was committed with it.

    Args:
        offset: the offset of the next record to read.
        metadata: the text; "" without one.

    Example:
        >>> consumer.commit({partition: (2, "up to JFK-MIA")})
        >>> consumer.committed()[partition], consumer.committed()[partition].metadata
        (2, 'up to JFK-MIA')
    """

    __module__ = "kafwire"
    metadata: str

    def __new__(cls, offset: int, metadata: str = "") -> Self:
        """Create the offset; an int gets its value here."""
        self = super().__new__(cls, offset)
        self.metadata = metadata
        return self

    def __reduce__(self) -> tuple[type[CommittedOffset], tuple[int, str]]:
        """Pickle with the public path."""
        return type(self), (int(self), self.metadata)


class ConsumerGroupMetadata(NamedTuple):
    """The group and member that commit offsets within a transaction (KIP-447).

    Args:
        group_id: the group.
        generation_id: the member's generation; -1 without a membership.
        member_id: the member's id; "" without a membership.
        group_instance_id: the id of a static member (KIP-345), or None.

    Example:
        >>> kafwire.ConsumerGroupMetadata("billing").generation_id
        -1
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


# The public `__module__`, as in the classes below; the body of a NamedTuple may not set it.
for _named_tuple in (TopicPartition, RecordMetadata, ConsumerGroupMetadata, TransactionHandle):
    _named_tuple.__module__ = "kafwire"
del _named_tuple


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Consecutive records of one partition. It unpacks like a tuple of its four fields.

    Args:
        topic: the topic.
        partition: the partition's number.
        first_offset: the offset of the first record.
        count: the number of records.

    Example:
        >>> from kafwire.types import OffsetRange
        >>> topic_, partition_, first_offset, count = OffsetRange("flights", 0, 40, 3)
        >>> first_offset + count
        43
    """

    topic: str
    partition: int
    first_offset: int
    count: int

    def __iter__(self) -> Iterator[str | int]:
        return iter((self.topic, self.partition, self.first_offset, self.count))


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with which other clients authenticate as its owner (KIP-48). It cannot be pickled, as it has a secret.

    Give it to clients as `sasl_username=token.token_id, sasl_password=token.hmac, sasl_tokenauth=True`, with a
    `sasl_mechanism` of SCRAM. Java needs `hmac.reveal()` as the password. Times are in milliseconds since the epoch.

    Args:
        token_id: the user name for SCRAM.
        hmac: the password for SCRAM, in base64; it also identifies the token to renew or expire.
        owner: the principal of the token, as Kafka writes it: "User:alice".
        requester: the principal that requested it.
        issued_at_ms: when it was created.
        expires_at_ms: when it expires unless it is renewed.
        max_at_ms: when it expires in any case.
        renewers: the principals that may renew and expire it, besides the owner.

    Example:
        >>> token = kafwire.DelegationToken(
        ...     "u_DI-Yv0TkOAaQ", kafwire.Secret("c2VjcmV0"), "User:alice", "User:alice", 0, 1000, 2000, ()
        ... )
        >>> token.hmac
        Secret('***')
    """

    __module__ = "kafwire"
    token_id: str
    hmac: Secret
    owner: str
    requester: str
    issued_at_ms: int
    expires_at_ms: int
    max_at_ms: int
    renewers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokerMetadata:
    """A broker of a cluster, and the address that it advertises to clients.

    Args:
        node_id: the broker's id.
        host: the host that it advertises.
        port: the port that it advertises.
        rack: its rack, or None.

    Example:
        >>> kafwire.BrokerMetadata(1, "localhost", 9092, None).port
        9092
    """

    __module__ = "kafwire"
    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition of a topic, its leader and its replicas.

    Args:
        partition_index: the partition's number.
        leader_id: the node id of the leader; -1 without one.
        leader_epoch: the leader's epoch; -1 if the broker does not report it.
        replica_nodes: the node ids of the replicas, the preferred leader first.
        isr_nodes: the node ids of the replicas that are in sync.
        offline_replicas: the node ids of the replicas that are offline.
        error_code: Kafka's error code; 0 for none.

    Example:
        >>> kafwire.PartitionMetadata(0, 1, 5, (1, 2), (1,), (), 0).isr_nodes
        (1,)
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
    """A topic and its partitions, in the order of their numbers.

    Args:
        name: the topic.
        topic_id: the topic's id; zero if the cluster has none.
        is_internal: True for Kafka's own topics.
        partitions: its partitions.
        error_code: Kafka's error code; 0 for none, 3 if the topic does not exist.

    Example:
        >>> import uuid
        >>> kafwire.TopicMetadata("flights", uuid.UUID(int=0), False, (), 3).error_code
        3
    """

    __module__ = "kafwire"
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The brokers and topics of a cluster, as one broker knows them.

    Args:
        cluster_id: the cluster's id, or None.
        controller_id: the node id of the broker for administrative requests; -1 if none is known.
        brokers: the brokers.
        topics: the requested topics.

    Example:
        >>> kafwire.ClusterMetadata("4L6g3nShT-eMCtK--X86sw", 1, (), ()).controller_id
        1
    """

    __module__ = "kafwire"
    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerMetadata, ...]
    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True, order=True)
class Offset:
    """A bound at this offset in each partition: for `start` and `end` of a scan, and `start` of a consumer.

    Args:
        offset: the offset, from 0 on. As an `end` it is exclusive.

    Raises:
        ConfigError: `offset` is not a whole number from 0 on.

    Example:
        >>> kafwire.Offset(10)
        Offset(offset=10)
    """

    __module__ = "kafwire"
    offset: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", _check_number("Offset", self.offset))


@dataclass(frozen=True, slots=True, order=True)
class Tail:
    """A bound `count` offsets before the end of each partition: `start=Tail(5)` reads the last five.

    Offsets without a record, left by compaction or taken by a transaction's markers, count too. In a partition with
    fewer offsets, the bound is the beginning. With `read_committed` the end is the last stable offset.

    Args:
        count: the number of offsets, from 0 on.

    Raises:
        ConfigError: `count` is not a whole number from 0 on.

    Example:
        >>> kafwire.Tail(5)
        Tail(count=5)
    """

    __module__ = "kafwire"
    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _check_number("Tail", self.count))


def _check_number(kind: str, value: object) -> int:
    number = natural(value)
    if number is None:
        raise ConfigError(f"{kind}({value!r}): a number from 0 is needed")
    return number
