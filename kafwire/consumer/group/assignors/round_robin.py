"""`roundrobin`: all partitions of all topics, in order, to the members in turn; non-subscribers are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from kafwire.consumer.group.member import Assignment, GroupMember, Topics, in_order


def assign(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    """Assign each partition to one of the subscribers of its topic; topics without a subscriber stay unassigned."""
    found: Assignment = {member.member_id: [] for member in members}
    turns = cycle(sorted(members, key=lambda member: member.place))
    wanted = {topic for member in members for topic in member.topics}
    for topic in sorted(wanted & topics.keys(), key=in_order):
        for number in range(len(topics[topic])):
            member = next(member for member in turns if topic in member.topics)
            found[member.member_id].append((topic, number))
    return found
