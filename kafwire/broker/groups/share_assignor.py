"""Kafka's assignor of share groups, `simple`: partitions for members.

Members share partitions. Each partition has as many members as are needed for all members to have one. Members have
equally many partitions, as far as possible those of before. The result is that of Kafka's assignor for the same members
and topics, so the assignor iterates over partitions in the order of Kafka's hash tables. See KIP-932.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.groups.hash_order import hash_of_id, hash_of_text, in_hash_order

SIMPLE = "simple"
Assignment = dict[str, frozenset[TopicPartition]]


@dataclass(frozen=True, slots=True)
class ShareSpec:
    """The input of the assignor.

    `wanted`: the topics of each member. `before`: its partitions of the assignment before. `partitions`: the readable
    ones of each topic, topics in the order of Kafka's table of names. `is_even`: all members want the same topics.
    """

    wanted: Mapping[str, frozenset[uuid.UUID]]
    before: Mapping[str, frozenset[TopicPartition]]
    partitions: Mapping[uuid.UUID, Sequence[int]]
    is_even: bool


def simple(spec: ShareSpec) -> Assignment:
    """Assign all partitions of members' topics. Members without an entry have none."""
    members = in_hash_order(spec.wanted, hash_of_text)
    topics = {topic for wanted in spec.wanted.values() for topic in wanted}
    if not topics:
        return {}
    given = {name: set(spec.before[name]) for name in members}
    if spec.is_even:
        for name in members:
            given[name] = {each for each in given[name] if each[0] in topics}
        places = [(topic, index) for topic, indexes in spec.partitions.items() if topic in topics for index in indexes]
        _Balance(members, given, places, _hash).settle()
        return {name: frozenset(its) for name, its in given.items()}
    for topic in topics:
        subscribers = [name for name in members if topic in spec.wanted[name]]
        for name in members:
            if name not in subscribers:
                given[name] = {each for each in given[name] if each[0] != topic}
        its = {name: {each for each in given[name] if each[0] == topic} for name in subscribers}
        others = {name: given[name] - its[name] for name in subscribers}
        _Balance(subscribers, its, [(topic, index) for index in spec.partitions[topic]], _number).settle()
        for name in subscribers:
            given[name] = others[name] | its[name]
    return {name: frozenset(its) for name, its in given.items()}


class _Balance:
    """Partitions and the members that may have them.

    `given`: each member's partitions, which `settle` changes. `hash_of`: the hash by which Kafka's tables order
    partitions.
    """

    def __init__(
        self,
        members: Sequence[str],
        given: dict[str, set[TopicPartition]],
        places: Iterable[TopicPartition],
        hash_of: Callable[[TopicPartition], int],
    ) -> None:
        self._members = members
        self._given = given
        self._hash_of = hash_of
        had = [each for name in members for each in _in_order(given[name])]
        targets = [*places]
        every = [*dict.fromkeys([*had, *targets])]
        self._places = in_hash_order(every, hash_of, buckets=_buckets_for(len(targets)), computed=True)
        self._sharing = -(-len(members) // len(targets)) if targets else 0  # members of each partition
        precise = self._sharing * len(targets) / len(members)
        self._quota = {
            name: math.ceil(precise * (number + 1)) - math.ceil(precise * number) for number, name in enumerate(members)
        }

    def settle(self) -> None:
        """Take surplus partitions away, and fill up members that have too few."""
        given, quota = self._given, self._quota
        unfilled = [name for name in self._members if len(given[name]) < quota[name]]
        for name in self._members:
            too_many = len(given[name]) - quota[name]
            if too_many > 0:
                given[name] -= {*in_hash_order(_in_order(given[name]), self._hash_of)[:too_many]}
        for place in self._places:
            having = [name for name in self._members if place in given[name]]
            for name in having[: max(0, len(having) - self._sharing)]:
                given[name].discard(place)
                unfilled.append(name)
        self._fill([name for name in self._members if name in unfilled])

    def _fill(self, unfilled: list[str]) -> None:
        """Give partitions with too few members to members with too few partitions, in turns."""
        at, has_given = 0, False
        for place in self._places:
            missing = self._sharing - sum(place in its for its in self._given.values())
            while missing > 0:
                if at >= len(unfilled):
                    if not has_given:
                        break
                    at, has_given = 0, False
                    if not unfilled:
                        return
                name = unfilled[at]
                at += 1
                if place in self._given[name]:
                    continue
                self._given[name].add(place)
                missing -= 1
                has_given = True
                if len(self._given[name]) >= self._quota[name]:
                    at -= 1
                    del unfilled[at]
            if not unfilled:
                return


def _by_topic(place: TopicPartition) -> tuple[int, int]:
    return place[0].int, place[1]


def _in_order(places: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of their addition to a table: by topic, in the order of a table of topics."""
    listed = sorted(places, key=_by_topic)
    topics = in_hash_order(dict.fromkeys(topic for topic, _ in listed), hash_of_id)
    return sorted(listed, key=lambda place: topics.index(place[0]))


def _hash(place: TopicPartition) -> int:
    return (hash_of_id(place[0]) * 31 + place[1]) & 0xFFFFFFFF


def _number(place: TopicPartition) -> int:
    return place[1]


def _buckets_for(count: int) -> int:
    """Return the number of buckets of a table that Kafka creates for this many keys."""
    return 1 << (int((count + 1) / 0.75 + 1) - 1).bit_length()
