"""Subscriptions of a consumer group's members: topics by name and by pattern, and whether all are equal."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.groups.consumer_member import ConsumerMember
    from kafwire.broker.topics.topics import Topics

Members = Mapping[str, "ConsumerMember"]
Matched = Mapping[str, frozenset[str]]  # patterns, and the topics that match them
# By topic: the number of members that name it, and of patterns that match it.
Subscriptions = Mapping[str, tuple[int, int]]
Metadata = Mapping[str, tuple[uuid.UUID, int]]  # the input of an assignment: topics' ids and partitions


def patterns_of(members: Members) -> Counter[str]:
    """Return the number of members with each pattern."""
    return Counter(each.pattern for each in members.values() if each.pattern)


def subscriptions(members: Members, matched: Matched) -> Subscriptions:
    """Return the topics of members' subscriptions."""
    names = Counter(topic for each in members.values() for topic in each.topics)
    by_pattern = Counter(topic for each in patterns_of(members) for topic in matched.get(each, ()))
    return {topic: (names[topic], by_pattern[topic]) for topic in names.keys() | by_pattern.keys()}


def are_even(members: Members, wanted: Subscriptions) -> bool:
    """True if all members want the same topics, as far as Kafka checks."""
    patterns = patterns_of(members)
    if not patterns:
        return all(names == len(members) for names, _ in wanted.values())
    return max(patterns.values()) == len(members) and all(found == (0, 1) for found in wanted.values())


def metadata_of(topics: Topics, names: Iterable[str]) -> Metadata:
    """Return the ids and partitions of the topics that exist."""
    known = topics.by_name
    return {name: (known[name].topic_id, len(known[name].partitions)) for name in names if name in known}


def topic_ids(topics: Topics, member: ConsumerMember, matched: Matched) -> frozenset[uuid.UUID]:
    """Return the ids of a member's topics that exist."""
    names = member.topics | matched.get(member.pattern, frozenset())
    return frozenset(topics.by_name[name].topic_id for name in names if name in topics.by_name)
