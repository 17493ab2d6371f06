"""Descriptions of topics: pages of DescribeTopicPartitions (KIP-966), or Metadata where brokers lack it.

At most one page of a response is in memory beside the descriptions.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

from kafwire import protocol
from kafwire.admin.asking import error_of
from kafwire.admin.operations import operations_of
from kafwire.cluster.requirements import is_lacking, needs
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, ProtocolError
from kafwire.lazy_dataclass import dataclass

__all__ = ["PartitionDescription", "TopicDescription", "TopicListing", "describe", "id_of", "listed", "text_of_topic"]

PAGE = 2000  # partitions in a response, and topics in a Metadata request; brokers' max.request.partition.size.limit

# A topic by its name or by its id.
Topic: TypeAlias = str | uuid.UUID
# Sends one request to any broker, and returns the response.
Call = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in the list of a cluster's topics.

    Args:
        name: the topic.
        topic_id: its id; None from brokers before Kafka 2.8.
        is_internal: True for Kafka's own topics.

    Example:
        >>> from kafwire.admin import TopicListing
        >>> TopicListing("flights", None, False).is_internal
        False
    """

    __module__ = "kafwire.admin"
    name: str
    topic_id: uuid.UUID | None
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a `TopicDescription`. Brokers are given by their ids.

    Args:
        partition: the partition's number.
        leader: the leader; None without one.
        leader_epoch: the leader's epoch; None if the broker does not report it.
        replicas: the replicas, the preferred leader first.
        isr: the replicas that are in sync.
        offline_replicas: the replicas that are offline.
        eligible_leaders: replicas outside of the ISR that may become the leader without loss of records (KIP-966);
            None if the broker does not report them.
        last_known_eligible: the last known eligible leaders of a partition that has none; None if not reported.

    Example:
        >>> from kafwire.admin import PartitionDescription
        >>> PartitionDescription(0, 1, 5, (1, 2), (1,), (2,), (), ()).isr
        (1,)
    """

    __module__ = "kafwire.admin"
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None
    last_known_eligible: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, in the order of their numbers.

    Args:
        name: the topic.
        topic_id: its id; None from brokers before Kafka 2.8.
        is_internal: True for Kafka's own topics.
        partitions: its partitions.
        authorized_operations: the operations on the topic that the client's ACLs permit, in their words ("Read",
            "DescribeConfigs"); None if the call did not ask for them.

    Example:
        >>> from kafwire.admin import TopicDescription
        >>> TopicDescription("flights", None, False, (), frozenset({"Read"})).authorized_operations
        frozenset({'Read'})
    """

    __module__ = "kafwire.admin"
    name: str
    topic_id: uuid.UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[str] | None


Described: TypeAlias = dict[Topic, TopicDescription | KafkaError]


async def describe(call: Call, topics: Iterable[Topic], *, operations: bool) -> Described:
    """Request the descriptions of topics. The error of a request is that of the topics without an outcome."""
    names = sorted(topic for topic in topics if isinstance(topic, str))
    ids = [topic for topic in topics if isinstance(topic, uuid.UUID)]
    return await _by_pages(call, names, operations) | await _by_metadata(call, ids, operations)


async def _by_pages(call: Call, names: list[str], operations: bool) -> Described:
    """Request pages until the last one. A page that ends within a topic names it and the next partition."""
    request: Any = protocol.DescribeTopicPartitionsRequest
    found: Described = {}
    left = names
    cursor: tuple[str, int] = "", 0
    while left:
        message = request(topics=[request.TopicRequest(name=name) for name in left], response_partition_limit=PAGE)
        if cursor[1]:
            message.cursor = request.Cursor(topic_name=cursor[0], partition_index=cursor[1])
        try:
            response = await call(message)
        except KafkaError as error:
            if isinstance(error, ProtocolError) and is_lacking(error, request):
                return found | await _by_metadata(call, left, operations)
            return found | dict.fromkeys(left, error)  # the first of them may have only some of its partitions
        for topic in response.topics:
            _add(found, topic, operations)
        following = response.next_cursor
        if following is None:
            break
        place = following.topic_name, following.partition_index
        if place <= cursor:
            text = f"the pages of a broker do not advance past {place}"
            return found | dict.fromkeys(left, ProtocolError(text, api=request.response.__name__))
        cursor = place
        left = left[bisect_left(left, place[0]) :]
    return found


def _add(found: Described, topic: Any, operations: bool) -> None:
    """Add a topic of a page to its part on the page before."""
    error = error_of(topic, f"describing topic {topic.name!r}", "DescribeTopicPartitions", topic=topic.name)
    if error is not None:
        found[topic.name] = error
        return
    made = _described(topic, operations)
    earlier = found.get(topic.name)
    if isinstance(earlier, TopicDescription):
        partitions = (*earlier.partitions, *made.partitions)
        made = TopicDescription(made.name, made.topic_id, made.is_internal, partitions, made.authorized_operations)
    found[topic.name] = made


async def _by_metadata(call: Call, topics: Sequence[Topic], operations: bool) -> Described:
    """Request metadata, all by names or all by ids: a request with an id has no names."""
    request: Any = protocol.MetadataRequest
    found: Described = {}
    for start in range(0, len(topics), PAGE):
        asked = [
            request.MetadataRequestTopic(name=topic) if isinstance(topic, str) else _by_id(topic)
            for topic in topics[start : start + PAGE]
        ]
        message = request(topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=operations)
        try:
            with needs(request, "authorized_operations=True", "2.3") if operations else nullcontext():
                response = await call(message)
        except KafkaError as error:
            return found | dict.fromkeys(topics[start:], error)
        for topic in response.topics:
            key: Topic = topic.topic_id if asked[0].name is None else topic.name
            found[key] = _metadata_error(topic, key) or _described(topic, operations)
    return found


def _by_id(topic_id: uuid.UUID) -> Any:
    return protocol.MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)


def _metadata_error(topic: Any, key: Topic) -> KafkaError | None:
    if topic.error_code == ErrorCode.INVALID_REQUEST and isinstance(key, uuid.UUID):
        return ProtocolError(f"describing topic {key} by its id needs Kafka 3.1 or newer", api="MetadataRequest")
    return error_of(topic, f"describing {text_of_topic(key)}", "Metadata", topic=topic.name)


def text_of_topic(topic: Topic) -> str:
    """Return the words for a topic in the text of an error."""
    return f"topic {topic!r}" if isinstance(topic, str) else f"topic {topic}"


def _described(topic: Any, operations: bool) -> TopicDescription:
    """Return the description of a topic in a response of either API."""
    partitions = sorted(map(_partition, topic.partitions), key=_number)
    return TopicDescription(
        topic.name,
        id_of(topic),
        topic.is_internal,
        tuple(partitions),
        operations_of(topic.topic_authorized_operations) if operations else None,
    )


def _number(partition: PartitionDescription) -> int:
    return partition.partition


def _partition(part: Any) -> PartitionDescription:
    eligible = getattr(part, "eligible_leader_replicas", None)
    last_known = getattr(part, "last_known_elr", None)
    return PartitionDescription(
        part.partition_index,
        part.leader_id if part.leader_id >= 0 else None,
        part.leader_epoch if part.leader_epoch >= 0 else None,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(part.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )


def id_of(topic: Any) -> uuid.UUID | None:
    """Return the topic id in a part of a response; None if the broker did not report it."""
    topic_id: uuid.UUID = topic.topic_id
    return topic_id if topic_id.int else None


def listed(response: Any, *, internal: bool) -> dict[str, TopicListing]:
    """Return the topics of a Metadata response by name, in the order of their names."""
    found = [
        TopicListing(topic.name, id_of(topic), topic.is_internal)
        for topic in response.topics
        if internal or not topic.is_internal
    ]
    return {topic.name: topic for topic in sorted(found, key=lambda topic: topic.name)}
