"""Kafka's assignors of consumer groups, `uniform` and `range`: partitions for members.

They give the same result as Kafka's for the same members and topics, so they iterate over both in the order of its hash
tables. `uneven_assignment.py` has uniform assignments for members that want different topics. See KIP-848.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.groups.hash_order import (
    buckets_of_copy,
    hash_of_id,
    hash_of_number,
    hash_of_text,
    in_hash_order,
)
from kafwire.broker.groups.uneven_assignment import UnevenAssignment

UNIFORM, RANGE = "uniform", "range"
Assignment = dict[str, frozenset[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member: its topics, and its partitions of the assignment before."""

    topics: frozenset[uuid.UUID]
    before: frozenset[TopicPartition] = frozenset()
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The input of an assignor. `partitions`: numbers of partitions. `is_even`: all members want the same topics."""

    members: Mapping[str, Subscriber]
    partitions: Mapping[uuid.UUID, int]
    is_even: bool

    def member_ids(self) -> list[str]:
        """Return the members' ids, in the order of Kafka's table."""
        return in_hash_order(self.members, hash_of_text)


def uniform(spec: GroupSpec) -> Assignment:
    """Assign equally many partitions to each member, as far as possible its partitions of before."""
    if not spec.is_even:
        return UnevenAssignment(
            spec.member_ids(),
            {name: each.topics for name, each in spec.members.items()},
            {name: each.before for name, each in spec.members.items()},
            spec.partitions,
        ).build()
    return _Even(spec).build() if spec.members else {}


@dataclass(slots=True)
class _Even:
    spec: GroupSpec
    unassigned: list[TopicPartition] = field(default_factory=list)
    given: dict[str, set[TopicPartition]] = field(default_factory=dict)
    # Members, and the number of partitions that each still gets.
    room: list[tuple[str, int]] = field(default_factory=list)

    def build(self) -> Assignment:
        members = self.spec.member_ids()
        wanted = self.spec.members[members[0]].topics
        if not wanted:
            return {}
        taken = {each for member in self.spec.members.values() for each in member.before}
        every = [
            (topic, index)
            for topic in in_hash_order(_by_id(wanted), hash_of_id, buckets=buckets_of_copy(len(wanted)))
            for index in range(self.spec.partitions[topic])
        ]
        self.unassigned = [each for each in every if each not in taken]
        self._keep(members, wanted, *divmod(len(every), len(members)))
        left = iter(self.unassigned)
        for name, count in self.room:
            self.given[name].update(each for _, each in zip(range(count), left, strict=False))
        return {name: frozenset(its) for name, its in self.given.items()}

    def _keep(self, members: Sequence[str], wanted: AbstractSet[uuid.UUID], least: int, extra: int) -> None:
        """Let each member keep its partitions, up to its share; `extra` members get one more than `least`."""
        for number, name in enumerate(members):
            quota = least + (extra > 0)
            has_extra = extra > 0
            kept: set[TopicPartition] = set()
            for topic, indexes in _by_topic(self.spec.members[name].before):
                if topic not in wanted:
                    continue
                for index in indexes:
                    if quota > 0:
                        quota -= 1
                        kept.add((topic, index))
                    else:
                        self.unassigned.append((topic, index))
            if quota > 0 and has_extra and len(members) - number > extra:
                quota -= 1  # another member takes it, as long as there are enough of them
                has_extra = False
            if quota > 0:
                self.room.append((name, quota))
            extra -= has_extra
            self.given[name] = kept


def _by_id(topics: AbstractSet[uuid.UUID]) -> list[uuid.UUID]:
    return sorted(topics, key=lambda topic: topic.int)


def _by_topic(partitions: AbstractSet[TopicPartition]) -> list[tuple[uuid.UUID, list[int]]]:
    """Return partitions in the order of Kafka's tables."""
    found: dict[uuid.UUID, list[int]] = {}
    for topic, index in sorted(partitions, key=lambda each: (each[0].int, each[1])):
        found.setdefault(topic, []).append(index)
    return [
        (topic, in_hash_order(found[topic], hash_of_number, buckets=buckets_of_copy(len(found[topic]))))
        for topic in in_hash_order(found, hash_of_id)
    ]


def range_(spec: GroupSpec) -> Assignment:
    """Assign a range of each topic's partitions to each member; partitions of the same number go together."""
    names = sorted(spec.members, key=lambda name: _place(spec, name))
    wanted = {name: spec.members[names[0] if spec.is_even else name].topics for name in names}
    subscribers = Counter(topic for topics in wanted.values() for topic in topics)
    given: dict[str, set[TopicPartition]] = {name: set() for name in names}
    started = dict.fromkeys(spec.partitions, 0)
    extra = {topic: count % (subscribers[topic] or 1) for topic, count in spec.partitions.items()}
    for name in names:
        for topic in wanted[name]:
            count = spec.partitions[topic] // subscribers[topic] + (extra[topic] > 0)
            extra[topic] -= extra[topic] > 0
            given[name].update((topic, index) for index in range(started[topic], started[topic] + count))
            started[topic] += count
    return {name: frozenset(its) for name, its in given.items()}


def _place(spec: GroupSpec, name: str) -> tuple[bool, bytes]:
    """Sort static members first, by their instance ids, then the others by their own ids, in Java's order."""
    instance_id = spec.members[name].instance_id
    return instance_id is None, (name if instance_id is None else instance_id).encode("utf-16-be")


ASSIGNORS: Mapping[str, Callable[[GroupSpec], Assignment]] = {UNIFORM: uniform, RANGE: range_}
