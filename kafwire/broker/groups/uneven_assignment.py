"""Uniform assignments of partitions to members that want different topics.

As in Kafka's `UniformHeterogeneousAssignmentBuilder`, members keep their partitions of topics that they still want. The
rest goes to the members with the fewest. Then each topic's subscribers are balanced in turn, until no topic changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kafwire.broker.groups.consumer_member import TopicPartition

ROUNDS = 16  # overlapping subscriptions may take long to balance: it stops after this many rounds


class UnevenAssignment:
    """The owners of partitions. Members are numbers in `members`."""

    def __init__(
        self,
        members: Sequence[str],
        wanted: Mapping[str, frozenset[uuid.UUID]],
        before: Mapping[str, frozenset[TopicPartition]],
        partitions: Mapping[uuid.UUID, int],
    ) -> None:
        self._members = members
        self._sizes = [0] * len(members)
        self._counts = partitions
        self._subscribers: dict[uuid.UUID, list[int]] = {}
        for number, name in enumerate(members):
            for topic in wanted[name]:
                self._subscribers.setdefault(topic, []).append(number)
        self._owners = {topic: [-1] * partitions[topic] for topic in self._subscribers}
        for number, name in enumerate(members):
            for topic, index in before[name]:
                if topic in wanted[name]:
                    self._owners[topic][index] = number
                    self._sizes[number] += 1

    def build(self) -> dict[str, frozenset[TopicPartition]]:
        """Return each member's partitions."""
        if not self._subscribers:
            return {}
        topics = sorted(self._subscribers, key=self._rank)
        self._assign_rest([topic for topic in topics if -1 in self._owners[topic]])
        self._balance([topic for topic in topics if len(self._subscribers[topic]) > 1])
        given: dict[str, set[TopicPartition]] = {name: set() for name in self._members}
        for topic, owners in self._owners.items():
            for index, owner in enumerate(owners):
                if owner >= 0:
                    given[self._members[owner]].add((topic, index))
        return {name: frozenset(its) for name, its in given.items()}

    def _rank(self, topic: uuid.UUID) -> tuple[float, int, int, int]:
        """Sort topics with the most partitions per subscriber first, then those with few subscribers."""
        subscribers = len(self._subscribers[topic])
        halves = topic.int >> 64, topic.int & 0xFFFFFFFFFFFFFFFF
        high, low = (half - (1 << 64) if half >> 63 else half for half in halves)  # in Java's order
        return -(self._counts[topic] / subscribers), subscribers, high, low

    def _assign(self, topic: uuid.UUID, index: int, member: int) -> None:
        before = self._owners[topic][index]
        if before >= 0:
            self._sizes[before] -= 1
        self._owners[topic][index] = member
        self._sizes[member] += 1

    def _assign_rest(self, topics: Sequence[uuid.UUID]) -> None:
        for topic in topics:
            balancer = _Balancer(self._sizes, self._subscribers[topic])
            for index, owner in enumerate(self._owners[topic]):
                if owner < 0:
                    self._assign(topic, index, balancer.least())

    def _balance(self, topics: Sequence[uuid.UUID]) -> None:
        last: int | None = None  # the topic after which nothing has changed
        for _ in range(ROUNDS):
            for number, topic in enumerate(topics):
                if number == last:
                    return
                if self._balance_topic(topic) or last is None:
                    last = number

    def _balance_topic(self, topic: uuid.UUID) -> bool:
        """Move partitions of a topic from members with many to members with few. Return True if any moved."""
        balancer = _Balancer(self._sizes, self._subscribers[topic])
        if balancer.imbalance <= 1:
            return False
        theirs: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic]):
            theirs.setdefault(owner, []).append(index)
        has_changed = False
        while not balancer.is_balanced:
            giver = balancer.most()
            while giver is not None and not theirs.get(giver):
                balancer.exclude_most()
                giver = balancer.most()
            if giver is None:
                break
            index = theirs[giver].pop()
            taker = balancer.least()
            if balancer.is_balanced:
                break
            self._assign(topic, index, taker)
            has_changed = True
        return has_changed


class _Balancer:
    """Goes through members from both ends in turns: `least` to give to, `most` to take from.

    Each end is a range of members with equally many partitions. After a turn of each member in a range, the range's
    level is one more, or one less, and it grows by the members at that level.
    """

    def __init__(self, sizes: Sequence[int], members: Sequence[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=lambda number: (sizes[number], number))
        first, last = sizes[self._sorted[0]], sizes[self._sorted[-1]]
        self.imbalance = last - first
        self._least_level, self._least_end, self._least_next = first - 1, 0, 0
        self._most_level, self._most_start, self._most_end = last + 1, len(self._sorted), len(self._sorted)
        self._most_next = self._most_end - 1

    @property
    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def _size(self, place: int) -> int:
        return self._sizes[self._sorted[place]]

    def least(self) -> int:
        if self._least_next >= self._least_end:
            self._least_level += 1
            while self._least_end < len(self._sorted) and self._size(self._least_end) == self._least_level:
                self._least_end += 1
            self._least_next = 0
        self._least_next += 1
        return self._sorted[self._least_next - 1]

    def most(self) -> int | None:
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_level = self._size(self._most_start - 1)  # all members of the range are excluded
            else:
                self._most_level -= 1
            while self._most_start > 0 and self._size(self._most_start - 1) == self._most_level:
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return None
        self._most_next -= 1
        return self._sorted[self._most_next + 1]

    def exclude_most(self) -> None:
        """Exclude the last returned member, which has no partition to give."""
        place, end = self._most_next + 1, self._most_end - 1
        self._sorted[place], self._sorted[end] = self._sorted[end], self._sorted[place]
        self._most_end = end
