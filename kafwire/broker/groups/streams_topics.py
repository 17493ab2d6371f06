"""A topology and the topics that exist: partitions of internal topics, tasks, and problems.

The rules are those of Kafka's `InternalTopicManager` and of the classes that it uses. See KIP-1071.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kafwire.broker.groups.hash_order import hash_of_text, in_hash_order
from kafwire.broker.groups.streams_topology import InternalTopic, StreamsTopology, Subtopology, failure
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

_MOST_SHOWN = 3  # topics in a message


class Status(IntEnum):
    """The problems of a streams group, by Kafka's codes."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its tasks, and with a partition count for each internal topic."""

    subtopology: Subtopology
    tasks: int
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """Subtopologies by id, sorted; None: they cannot be configured. `problem`: the reason why no task runs yet."""

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()  # internal topics to create
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        """True if tasks can run."""
        return self.problem is None


def configure(topology: StreamsTopology, existing: Mapping[str, int]) -> ConfiguredTopology:
    """Return a configured topology. `existing`: the partition counts of topics.

    Raises:
        Refusal: no topics can make this topology work.
    """
    try:
        _check_sources(topology, existing)
        counts = _Counts(topology, existing).decide()
        found = {each.subtopology_id: _configured(each, counts) for each in topology.subtopologies}
        missing = _missing(found.values(), topology, existing)
    except _TopicsProblem as wrong:
        return ConfiguredTopology(None, problem=(wrong.status, wrong.detail))
    problem = None
    if missing:
        text = f"Internal topics are missing: {summary([each.name for each in missing])}"
        problem = Status.MISSING_INTERNAL_TOPICS, text
    return ConfiguredTopology(dict(sorted(found.items())), missing, problem)


def summary(names: Collection[str]) -> str:
    """Return the first names, and the number of the others."""
    rest = len(names) - _MOST_SHOWN
    return ", ".join([*names][:_MOST_SHOWN]) + (f" and {rest} additional topics" if rest > 0 else "")


class _TopicsProblem(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def _misfit(detail: str) -> _TopicsProblem:
    return _TopicsProblem(Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _check_sources(topology: StreamsTopology, existing: Mapping[str, int]) -> None:
    missing = sorted({name for each in topology.subtopologies for name in each.sources if name not in existing})
    if missing:
        raise _TopicsProblem(Status.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing)} are missing.")


class _Counts:
    """Decides the partition counts of internal topics; existing topics keep theirs."""

    def __init__(self, topology: StreamsTopology, existing: Mapping[str, int]) -> None:
        self._subtopologies = topology.subtopologies
        self._existing = existing
        self._decided: dict[str, int] = {}
        repartition = [topic for each in self._subtopologies for topic in each.repartition_sources]
        self._fixed = {topic.name for topic in repartition if topic.partitions}
        self._flexible = {topic.name for topic in repartition if not topic.partitions}

    def decide(self) -> _Counts:
        self._decide_repartition_topics()
        for topics in [topics for each in self._subtopologies for topics in each.copartitioned()]:
            self._decided.update(self._copartition(topics))
        for each in self._subtopologies:
            inputs = each.inputs()
            if not inputs:
                raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
            most = max(self.of(name) for name in inputs)
            self._decided.update(dict.fromkeys([topic.name for topic in each.changelogs], most))
        return self

    def of(self, name: str) -> int:
        found = self._existing.get(name, self._decided.get(name))
        if found is None:
            raise failure()
        return found

    def decided(self, topic: InternalTopic) -> InternalTopic:
        count = topic.partitions or self._decided[topic.name]
        keys = [key for key, _ in topic.configs]
        if count < 1 or len({*keys}) < len(keys):
            raise failure()
        return topic._replace(partitions=count)

    def _decide_repartition_topics(self) -> None:
        """Give each repartition topic as many partitions as the largest input of the subtopology that writes it has."""
        counts = {
            topic.name: topic.partitions
            for each in self._subtopologies
            for topic in each.repartition_sources
            if topic.partitions
        }
        while waiting := [each for each in self._subtopologies if not counts.keys() >= {*each.repartition_sinks}]:
            before = len(counts)
            for each in waiting:
                known = [counts[topic.name] for topic in each.repartition_sources if topic.name in counts]
                known += [self._existing[name] for name in each.sources if name in self._existing]
                if known:
                    counts.update({name: max(known) for name in each.repartition_sinks if name not in counts})
            if len(counts) == before:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics."
                    " There may be loops in the topology that cannot be resolved."
                )
        if any(topic.name not in counts for each in self._subtopologies for topic in each.repartition_sources):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic"
                " is never used as a sink topic."
            )
        self._decided.update(counts)

    def _copartition(self, topics: frozenset[str]) -> dict[str, int]:
        """Return the partition counts of a copartition group's repartition topics: that of the other topics."""
        counts = {name: self.of(name) for name in topics}
        repartition = {name: counts[name] for name in topics if name in self._fixed or name in self._flexible}
        others = {name: count for name, count in counts.items() if name not in repartition}
        if not topics:
            return {}
        if others:
            wanted = _same(others, others)
        elif self._fixed:
            wanted = _same({name: self.of(name) for name in self._fixed}, repartition)
        else:
            wanted = max(repartition.values())
        for name in in_hash_order(repartition, hash_of_text):
            if name in self._fixed and repartition[name] != wanted:
                raise _misfit(
                    f"Number of partitions [{repartition[name]}] of repartition topic [{name}] doesn't match number of"
                    f" partitions [{wanted}] of the source topic."
                )
        return dict.fromkeys(repartition, wanted)


def _same(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the partition count that all topics share. `shown`: the topics that an error lists."""
    if len({*counts.values()}) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        raise _misfit(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts.values()))


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    tasks = max(counts.of(name) for name in subtopology.inputs())
    for topics in (subtopology.repartition_sources, subtopology.changelogs):
        if len({topic.name for topic in topics}) < len(topics):
            raise failure()
    if tasks < 1:
        raise failure()
    return ConfiguredSubtopology(
        subtopology,
        tasks,
        tuple(counts.decided(topic) for topic in subtopology.repartition_sources),
        tuple(counts.decided(topic) for topic in subtopology.changelogs),
    )


def _missing(
    found: Iterable[ConfiguredSubtopology], topology: StreamsTopology, existing: Mapping[str, int]
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist."""
    sorted_by_id = sorted(found, key=lambda each: each.subtopology.subtopology_id)
    wanted = {topic.name: topic for each in sorted_by_id for topic in [*each.repartition_sources, *each.changelogs]}
    for name in in_hash_order(topology.required_topics(), hash_of_text):
        if name in wanted and name in existing and existing[name] != wanted[name].partitions:
            raise _misfit(
                f"Existing topic {name} has different number of partitions: expected {wanted[name].partitions},"
                f" found {existing[name]}"
            )
    return tuple(wanted[name] for name in in_hash_order(wanted, hash_of_text) if name not in existing)
