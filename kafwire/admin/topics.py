"""Topics: create, delete, list, describe, and add partitions to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.admin.topic_descriptions import Topic, TopicDescription, TopicListing, describe, listed, text_of_topic
from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import count, integer
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["CreatedTopic", "NewPartitions", "NewTopic", "TopicCalls"]

BROKER_DEFAULT = -1
NO_ID = uuid.UUID(int=0)
ALL = "all topics"  # the key of the list


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic for `Admin.create_topics`.

    Args:
        name: the topic.
        partitions: the number of partitions; -1: the broker's default.
        replication_factor: the number of replicas of each; -1: the broker's default.
        config: the topic's configuration, for example `{"cleanup.policy": "compact"}`.
        assignment: the broker ids of each partition's replicas, the preferred leader first; instead of both numbers.

    Example:
        >>> from kafwire.admin import NewTopic
        >>> NewTopic("flights", partitions=6, config={"retention.ms": "86400000"}).partitions
        6
    """

    __module__ = "kafwire.admin"
    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    config: Mapping[str, str] | None = None
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the cluster created it, or would create it with `validate_only`.

    Args:
        name: the topic.
        topic_id: its id; None from brokers before Kafka 2.8.
        partitions: the number of partitions; -1 if the broker did not report it.
        replication_factor: the number of replicas; -1 if the broker did not report it.
        config: the configuration with defaults; None if it may not be described. A hidden value is None.

    Example:
        >>> from kafwire.admin import CreatedTopic
        >>> CreatedTopic("flights", None, 6, 3, {"retention.ms": "604800000"}).partitions
        6
    """

    __module__ = "kafwire.admin"
    name: str
    topic_id: uuid.UUID | None
    partitions: int
    replication_factor: int
    config: dict[str, str | None] | None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The partitions that a topic is to have, for `Admin.create_partitions`.

    Args:
        total: the number of all partitions, with those that the topic has.
        assignment: the broker ids of each added partition's replicas, the preferred leader first; None: the controller
            chooses.

    Example:
        >>> from kafwire.admin import NewPartitions
        >>> NewPartitions(4, assignment=[[1, 2]]).total
        4
    """

    __module__ = "kafwire.admin"
    total: int
    assignment: Sequence[Sequence[int]] | None = None


class TopicCalls(AdminRequests):
    """The calls about topics."""

    def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool, timeout: float | None
    ) -> Work[Outcomes[str, CreatedTopic]]:
        """Create topics, or check whether they could be created."""
        if isinstance(topics, str | NewTopic):
            raise ConfigError(f"topics={topics!r}: write a list: create_topics([NewTopic(name, partitions=6)])")
        asked = {topic.name: topic for topic in map(_new_topic, topics)}
        request: Any = protocol.CreateTopicsRequest

        async def send(broker: int, names: list[str]) -> Mapping[str, CreatedTopic | KafkaError]:
            message = request(
                topics=[_creatable(asked[name]) for name in names],
                timeout_ms=BROKER_TIMEOUT_MS,
                validate_only=validate_only,
            )
            response = await route.call(broker, message)
            return {
                each.name: error_of(each, f"creating topic {each.name!r}", "CreateTopics", topic=each.name)
                or _created(each)
                for each in response.topics
            }

        route = self._any()
        return self._work(asked, route, send, "creating topics", timeout_ms_of(timeout))

    def delete_topics(self, topics: Iterable[Topic], *, timeout: float | None) -> Work[Outcomes[Topic, None]]:
        """Delete topics by their names or ids."""
        keys = _topics("topics", topics, 'delete_topics(["flights"])')
        request: Any = protocol.DeleteTopicsRequest

        async def send(broker: int, asked: list[Topic]) -> Mapping[Topic, KafkaError | None]:
            states = [
                request.DeleteTopicState(name=key) if isinstance(key, str) else request.DeleteTopicState(topic_id=key)
                for key in asked
            ]
            names = [key for key in asked if isinstance(key, str)]
            response = await route.call(broker, request(topics=states, topic_names=names, timeout_ms=BROKER_TIMEOUT_MS))
            wanted = set(asked)
            found: dict[Topic, KafkaError | None] = {}
            for each in response.responses:
                what = f"deleting {text_of_topic(each.name or each.topic_id)}"
                error = error_of(each, what, "DeleteTopics", topic=each.name)
                # Both are keys if the call names a topic twice.
                found |= {key: error for key in (each.name, each.topic_id) if key in wanted}
                if error is None:
                    names.append(each.name)
            self._cluster.forget(names)  # a new topic of this name is another topic
            return found

        route = self._any()
        return self._work(keys, route, send, "deleting topics", timeout_ms_of(timeout))

    def create_partitions(
        self, counts: Mapping[str, int | NewPartitions], *, validate_only: bool, timeout: float | None
    ) -> Work[Outcomes[str, None]]:
        """Add partitions to topics up to a number of all partitions."""
        if not isinstance(counts, Mapping):
            raise ConfigError(f"counts={counts!r}: write a dict: create_partitions({{topic: 12}})")
        asked = {text_of("topic", name): _grown(name, number) for name, number in counts.items()}
        request: Any = protocol.CreatePartitionsRequest

        async def send(broker: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            topics = [asked[name] for name in names]
            message = request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS, validate_only=validate_only)
            response = await route.call(broker, message)
            return {
                each.name: error_of(each, f"adding partitions to {each.name!r}", "CreatePartitions", topic=each.name)
                for each in response.results
            }

        route = self._any()
        return self._work(asked, route, send, "adding partitions", timeout_ms_of(timeout))

    def list_topics(self, *, internal: bool, timeout: float | None) -> Work[Outcomes[str, dict[str, TopicListing]]]:
        """List all topics that the client may describe; the only key is `ALL`."""
        message = protocol.MetadataRequest(topics=None, allow_auto_topic_creation=False)

        async def send(broker: int, _: list[str]) -> Mapping[str, dict[str, TopicListing]]:
            return {ALL: listed(await route.call(broker, message), internal=internal)}

        route = self._any()
        return self._work([ALL], route, send, "listing topics", timeout_ms_of(timeout))

    def describe_topics(
        self, topics: Iterable[Topic], *, authorized_operations: bool, timeout: float | None
    ) -> Work[Outcomes[Topic, TopicDescription]]:
        """Describe topics by their names or ids."""
        keys = _topics("topics", topics, 'describe_topics(["flights"])')

        async def send(broker: int, asked: list[Topic]) -> Mapping[Topic, TopicDescription | KafkaError]:
            return await describe(partial(route.call, broker), asked, operations=authorized_operations)

        route = self._any()
        return self._work(keys, route, send, "describing topics", timeout_ms_of(timeout))


def _topics(what: str, topics: Iterable[Topic], example: str) -> list[Topic]:
    """Return a list of names and ids without repetitions."""
    if isinstance(topics, str | bytes | uuid.UUID) or not isinstance(topics, Iterable):
        raise ConfigError(f"{what}={topics!r}: write a list of names or topic ids: {example}")
    found = dict.fromkeys(topic if isinstance(topic, uuid.UUID) else text_of(what, topic) for topic in topics)
    if NO_ID in found:
        raise ConfigError(f"{what}: {NO_ID} is no topic's id")
    return list(found)


def _grown(name: str, number: int | NewPartitions) -> Any:
    """Return the part of a CreatePartitions request about a topic."""
    request: Any = protocol.CreatePartitionsRequest
    wanted = number if isinstance(number, NewPartitions) else NewPartitions(number)
    if count(wanted.total) is None:
        raise ConfigError(f"{name!r}: {wanted.total!r}: the number of all partitions is needed, from 1")
    return request.CreatePartitionsTopic(
        name=name,
        count=wanted.total,
        assignments=None
        if wanted.assignment is None
        else [request.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in wanted.assignment],
    )


def _new_topic(topic: NewTopic | str) -> NewTopic:
    new = NewTopic(topic) if isinstance(topic, str) else topic
    if not isinstance(new, NewTopic):
        raise ConfigError(f"{topic!r} is not a topic: write NewTopic(name, partitions=6), or its name")
    text_of("topic", new.name)
    for what, number in (("partitions", new.partitions), ("replication_factor", new.replication_factor)):
        if integer(number) is None:
            raise ConfigError(f"topic {new.name!r}: {what}={number!r}: it must be a whole number, or -1")
        if new.assignment is not None and number != BROKER_DEFAULT:
            raise ConfigError(f"topic {new.name!r}: {what} follows from assignment: leave it out")
    return new


def _creatable(topic: NewTopic) -> Any:
    request: Any = protocol.CreateTopicsRequest
    return request.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(topic.assignment or ())
        ],
        configs=[
            request.CreatableTopicConfig(name=name, value=str(value)) for name, value in (topic.config or {}).items()
        ],
    )


def _created(topic: Any) -> CreatedTopic:
    topic_id = getattr(topic, "topic_id", None)
    configs = getattr(topic, "configs", None)
    return CreatedTopic(
        topic.name,
        topic_id if topic_id and topic_id.int else None,
        topic.num_partitions,
        topic.replication_factor,
        None if configs is None else {each.name: each.value for each in configs},
    )
