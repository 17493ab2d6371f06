"""What the members of a consumer group want: topics by name and by pattern, and whether they all want the same."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.testing.broker.groups.consumer_member import ConsumerMember
    from kafwire.testing.broker.topics.topics import Topics

Members = Mapping[str, "ConsumerMember"]
Matched = Mapping[str, frozenset[str]]  # patterns, and the topics that match them
Subscriptions = Mapping[str, tuple[int, int]]  # topics: how many members name one, how many patterns match it
Metadata = Mapping[str, tuple[uuid.UUID, int]]  # what an assignment is made from: topics' ids and partitions


def patterns_of(members: Members) -> Counter[str]:
    """How many members have each pattern."""
    return Counter(each.pattern for each in members.values() if each.pattern)


def subscriptions(members: Members, matched: Matched) -> Subscriptions:
    """The topics that members want."""
    names = Counter(topic for each in members.values() for topic in each.topics)
    by_pattern = Counter(topic for each in patterns_of(members) for topic in matched.get(each, ()))
    return {topic: (names[topic], by_pattern[topic]) for topic in names.keys() | by_pattern.keys()}


def are_even(members: Members, wanted: Subscriptions) -> bool:
    """Whether all members want the same topics, as far as Kafka looks."""
    patterns = patterns_of(members)
    if not patterns:
        return all(names == len(members) for names, _ in wanted.values())
    return max(patterns.values()) == len(members) and all(found == (0, 1) for found in wanted.values())


def metadata_of(topics: Topics, names: Iterable[str]) -> Metadata:
    """Those of the topics that exist."""
    known = topics.by_name
    return {name: (known[name].topic_id, len(known[name].partitions)) for name in names if name in known}


def topic_ids(topics: Topics, member: ConsumerMember, matched: Matched) -> frozenset[uuid.UUID]:
    """The topics that a member wants, as far as they exist."""
    names = member.topics | matched.get(member.pattern, frozenset())
    return frozenset(topics.by_name[name].topic_id for name in names if name in topics.by_name)
