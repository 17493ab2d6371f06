"""Topics: create, delete, list, describe, and add partitions to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import HIGHEST, flag_of, nodes_of, text_of, timeout_ms_of, value_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.admin.topic_descriptions import (
    Topic,
    TopicDescription,
    TopicListing,
    describe,
    id_of,
    listed,
    text_of_topic,
)
from kafwire.cluster.topic_deletion import delete_topics
from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import count, integer
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["CreatedTopic", "NewPartitions", "NewTopic", "TopicCalls"]

BROKER_DEFAULT = -1
HIGHEST_FACTOR = 0x7FFF
NO_ID = uuid.UUID(int=0)


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
        config: the configuration with defaults; None if it may not be described, or from brokers before Kafka 2.4. A
            hidden value is None.

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
        if isinstance(topics, str | NewTopic) or not isinstance(topics, Iterable):
            raise ConfigError(f"topics={topics!r}: write a list: create_topics([NewTopic(name, partitions=6)])")
        asked: dict[str, Any] = {}
        for topic in map(_creatable, topics):
            if asked.setdefault(topic.name, topic) != topic:
                raise ConfigError(f"topic {topic.name!r} is named twice, with different definitions")
        request: Any = protocol.CreateTopicsRequest
        only = flag_of("validate_only", validate_only)

        async def send(broker: int, names: list[str]) -> Mapping[str, CreatedTopic | KafkaError]:
            topics = [asked[name] for name in names]
            response = await route.call(
                broker, request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS, validate_only=only)
            )
            return {
                each.name: error_of(each, f"creating topic {each.name!r}", "CreateTopics", topic=each.name)
                or _created(each)
                for each in response.topics
            }

        route = self._any()
        return self._work(asked, route, send, "creating topics", timeout_ms_of(timeout))

    def delete_topics(self, topics: Iterable[Topic], *, timeout: float | None) -> Work[Outcomes[Topic, None]]:
        """Delete topics by their names or ids."""
        keys = _topics(topics, 'delete_topics(["flights"])')
        request: Any = protocol.DeleteTopicsRequest

        async def send(broker: int, asked: list[Topic]) -> Mapping[Topic, KafkaError | None]:
            states = [
                request.DeleteTopicState(name=key) if isinstance(key, str) else request.DeleteTopicState(topic_id=key)
                for key in asked
            ]
            names = [key for key in asked if isinstance(key, str)]
            message = request(topics=states, timeout_ms=BROKER_TIMEOUT_MS)
            response = await delete_topics(partial(route.call, broker), message)
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
        only = flag_of("validate_only", validate_only)

        async def send(broker: int, names: list[str]) -> Mapping[str, KafkaError | None]:
            topics = [asked[name] for name in names]
            response = await route.call(
                broker, request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS, validate_only=only)
            )
            return {
                each.name: error_of(each, f"adding partitions to {each.name!r}", "CreatePartitions", topic=each.name)
                for each in response.results
            }

        route = self._any()
        return self._work(asked, route, send, "adding partitions", timeout_ms_of(timeout))

    def list_topics(self, *, internal: bool, timeout: float | None) -> Work[dict[str, TopicListing]]:
        """List all topics that the client may describe."""
        message = protocol.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        flag_of("internal", internal)

        async def send(broker: int) -> dict[str, TopicListing]:
            return listed(await route.call(broker, message), internal=internal)

        route = self._any()
        return self._single(route, send, "listing topics", timeout_ms_of(timeout))

    def describe_topics(
        self, topics: Iterable[Topic], *, authorized_operations: bool, timeout: float | None
    ) -> Work[Outcomes[Topic, TopicDescription]]:
        """Describe topics by their names or ids."""
        keys = _topics(topics, 'describe_topics(["flights"])')
        flag_of("authorized_operations", authorized_operations)

        async def send(broker: int, asked: list[Topic]) -> Mapping[Topic, TopicDescription | KafkaError]:
            return await describe(partial(route.call, broker), asked, operations=authorized_operations)

        route = self._any()
        return self._work(keys, route, send, "describing topics", timeout_ms_of(timeout))


def _topics(topics: Iterable[Topic], example: str) -> list[Topic]:
    """Return a list of names and ids without repetitions."""
    if isinstance(topics, str | bytes | uuid.UUID) or not isinstance(topics, Iterable):
        raise ConfigError(f"topics={topics!r}: write a list of names or topic ids: {example}")
    found = dict.fromkeys(topic if isinstance(topic, uuid.UUID) else text_of("topics", topic) for topic in topics)
    if NO_ID in found:
        raise ConfigError(f"topics: {NO_ID} is no topic's id")
    return list(found)


def _grown(name: str, number: int | NewPartitions) -> Any:
    """Return the part of a CreatePartitions request about a topic."""
    request: Any = protocol.CreatePartitionsRequest
    wanted = number if isinstance(number, NewPartitions) else NewPartitions(number)
    total = count(wanted.total)
    if total is None or total > HIGHEST:
        raise ConfigError(f"topic {name!r}: total={wanted.total!r}: it must be a whole number from 1")
    return request.CreatePartitionsTopic(
        name=name,
        count=total,
        assignments=None
        if wanted.assignment is None
        else [request.CreatePartitionsAssignment(broker_ids=brokers) for brokers in _brokers(name, wanted.assignment)],
    )


def _brokers(topic: str, assignment: Any) -> list[list[int]]:
    """Return the brokers of each partition's replicas."""
    what, example = f"topic {topic!r}: assignment", "assignment=[[1, 2], [2, 3]]"
    if isinstance(assignment, str | bytes) or not isinstance(assignment, Iterable):
        raise ConfigError(f"{what}={assignment!r}: write the brokers of each partition: {example}")
    return [nodes_of(what, brokers, example) for brokers in assignment]


def _creatable(topic: NewTopic | str) -> Any:
    """Return the part of a CreateTopics request about a topic."""
    new = NewTopic(topic) if isinstance(topic, str) else topic
    if not isinstance(new, NewTopic):
        raise ConfigError(f"{topic!r} is not a topic: write NewTopic(name, partitions=6), or its name")
    text_of("topic", new.name)
    for what, value, highest in (
        ("partitions", new.partitions, HIGHEST),
        ("replication_factor", new.replication_factor, HIGHEST_FACTOR),
    ):
        number = integer(value)
        if number is None or not BROKER_DEFAULT <= number <= highest:
            raise ConfigError(f"topic {new.name!r}: {what}={value!r}: it must be a whole number, or -1")
        if new.assignment is not None and number != BROKER_DEFAULT:
            raise ConfigError(f"topic {new.name!r}: {what} follows from assignment: leave it out")
    config = {} if new.config is None else new.config
    if not isinstance(config, Mapping):
        raise ConfigError(f"topic {new.name!r}: config={config!r}: write a dict: {{option: value}}")
    request: Any = protocol.CreateTopicsRequest
    return request.CreatableTopic(
        name=new.name,
        num_partitions=new.partitions,
        replication_factor=new.replication_factor,
        assignments=[
            request.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in enumerate(_brokers(new.name, new.assignment or ()))
        ],
        configs=[
            request.CreatableTopicConfig(
                name=text_of("option", name), value=value_of(f"topic {new.name!r}: {name}", value)
            )
            for name, value in config.items()
        ],
    )


def _created(topic: Any) -> CreatedTopic:
    return CreatedTopic(
        topic.name,
        id_of(topic),
        topic.num_partitions,
        topic.replication_factor,
        None
        if topic.configs is None or topic.num_partitions < 0
        else {each.name: each.value for each in topic.configs},
    )
