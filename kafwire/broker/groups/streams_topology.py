"""The topology of a streams group, as its first member describes it: subtopologies, and the topics that they need.

Values only: `streams_topics.py` derives partitions and tasks from the existing topics. See KIP-1071.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafwire.broker.groups.hash_order import hash_of_text, in_hash_order
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode


class Task(NamedTuple):
    """One task: a subtopology, for one partition of each of its source topics."""

    subtopology_id: str
    partition: int


class InternalTopic(NamedTuple):
    """A topic that the brokers create for the application. 0 partitions or replicas: the group decides."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics of a subtopology with equal partition counts, as indexes into its lists."""

    sources: tuple[int, ...]
    source_patterns: tuple[int, ...]
    repartition_sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Processors that run in one task. `changelogs`: the topics of its state; a subtopology with one has a state."""

    subtopology_id: str
    sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def inputs(self) -> list[str]:
        """Return the topics that its tasks read."""
        return [*self.sources, *(topic.name for topic in self.repartition_sources)]

    def copartitioned(self) -> list[frozenset[str]]:
        """Return the topic names of each copartition group."""
        repartition = [topic.name for topic in self.repartition_sources]
        return [
            frozenset([*_at(self.sources, group.sources), *_at(repartition, group.repartition_sources)])
            for group in self.copartition_groups
        ]


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """A whole topology. `subtopologies` are in the order of Kafka's hash table."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def required_topics(self) -> list[str]:
        """Return all topics that the tasks read or keep their state in, each once."""
        return list(
            dict.fromkeys(
                name
                for each in self.subtopologies
                for name in [*each.inputs(), *(topic.name for topic in each.changelogs)]
            )
        )

    def reader_of(self, topic: str) -> str | None:
        """Return the subtopology that reads a topic; None: no subtopology does."""
        return next((each.subtopology_id for each in reversed(self.subtopologies) if topic in each.inputs()), None)


def topology_of(message: Any) -> StreamsTopology:
    """Return the topology of a StreamsGroupHeartbeat.

    Raises:
        Refusal: Kafka's coordinator fails on it.
    """
    found = {each.subtopology_id: _subtopology(each) for each in message.subtopologies}
    if message.epoch < 0 or len(found) < len(message.subtopologies):
        raise failure()
    ordered = in_hash_order(found, hash_of_text)
    return StreamsTopology(message.epoch, tuple(found[each] for each in ordered))


def failure() -> Refusal:
    """Return the error of a coordinator that an exception has stopped: Kafka gives no message with it."""
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _subtopology(message: Any) -> Subtopology:
    return Subtopology(
        message.subtopology_id,
        tuple(message.source_topics),
        tuple(message.repartition_sink_topics),
        tuple(_internal(each) for each in message.repartition_source_topics),
        tuple(_internal(each) for each in message.state_changelog_topics),
        tuple(
            CopartitionGroup(
                tuple(each.source_topics), tuple(each.source_topic_regex), tuple(each.repartition_source_topics)
            )
            for each in message.copartition_groups
        ),
    )


def _internal(message: Any) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in message.topic_configs)
    return InternalTopic(message.name, message.partitions, message.replication_factor, configs)


def _at(names: Sequence[str], indexes: Sequence[int]) -> list[str]:
    if any(not 0 <= index < len(names) for index in indexes):
        raise failure()
    return [names[index] for index in indexes]
