"""`sticky` and `cooperative-sticky`: loads as even as subscriptions allow, and as few partitions as possible move.

Members keep what they owned. What is free goes to the member with the least, in the rack of a replica if there is such
a one. Then partitions move along chains of members, each of which passes one on, from a member to one that has at least
two fewer, until there is no such chain: no assignment is more even.

A partition that two members say they owned stays with the one of the later generation, and with neither if both are
of the same. With `cooperative-sticky` (KIP-429) nobody is given what another member still owns: that one is asked to
give it up first, and the next assignment gives it to its new owner.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from kafwire.consumer.group.member import Assignment, GroupMember, Partition, Topics, in_order


def assign(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    """Give each partition to one of the members that want its topic; what nobody wants is nobody's."""
    ordered = sorted(members, key=lambda member: member.place)
    sharing = _Sharing(topics, ordered)
    sharing.keep(_owners(topics, ordered))
    sharing.fill()
    sharing.level()
    return {who: sorted(has, key=lambda each: (in_order(each[0]), each[1])) for who, has in sharing.has.items()}


def withhold(assignment: Assignment, members: Sequence[GroupMember]) -> Assignment:
    """Leave out of an assignment what another member has to give up first."""
    owners: dict[Partition, set[str]] = defaultdict(set)
    for member in members:
        for partition in member.owned:
            owners[partition].add(member.member_id)
    return {
        member_id: [each for each in given if not owners[each] or member_id in owners[each]]
        for member_id, given in assignment.items()
    }


def _owners(topics: Topics, members: Sequence[GroupMember]) -> Mapping[Partition, str]:
    """Whose each partition was, where it still is there, still wanted, and one member's."""
    claims: dict[Partition, list[GroupMember]] = defaultdict(list)
    for member in members:
        for topic, number in dict.fromkeys(member.owned):
            if topic in member.topics and number < len(topics.get(topic, ())):
                claims[topic, number].append(member)
    owners = {}
    for partition, who in claims.items():
        latest = max(member.generation for member in who)
        last = [member for member in who if member.generation == latest]
        if len(last) == 1:
            owners[partition] = last[0].member_id
    return owners


class _Sharing:
    """Who has what, while that changes."""

    def __init__(self, topics: Topics, members: Sequence[GroupMember]) -> None:
        self.has: Assignment = {member.member_id: [] for member in members}
        self._topics = topics
        self._racks = {member.member_id: member.rack for member in members}
        self._takers = {
            topic: [member.member_id for member in members if topic in member.topics]
            for topic in sorted(topics, key=in_order)
        }
        self._owners: Mapping[Partition, str] = {}

    def keep(self, owners: Mapping[Partition, str]) -> None:
        """Everybody has what was his."""
        self._owners = owners
        for partition, member_id in owners.items():
            self.has[member_id].append(partition)

    def fill(self) -> None:
        """Give what nobody has; first what few can take."""
        for topic in sorted(self._takers, key=lambda topic: len(self._takers[topic])):
            for number, racks in enumerate(self._topics[topic]):
                if (topic, number) not in self._owners and self._takers[topic]:
                    taker = min(
                        self._takers[topic],
                        key=lambda member_id: (len(self.has[member_id]), self._racks[member_id] not in racks),
                    )
                    self.has[taker].append((topic, number))

    def level(self) -> None:
        """Move partitions, one at a time from who has the most, as long as that makes loads more even."""
        while chain := next(
            filter(None, map(self._chain, sorted(self.has, key=lambda who: -len(self.has[who])))), None
        ):
            for giver, topic, taker in chain:
                self._move(giver, topic, taker)

    def _chain(self, start: str) -> list[tuple[str, str, str]]:
        """The shortest chain from a member to one that has two fewer or less: who passes which topic on to whom."""
        most = len(self.has[start]) - 2
        came: dict[str, tuple[str, str]] = {start: ("", "")}
        seen: set[str] = set()  # topics
        waiting = deque([start])
        while waiting:
            giver = waiting.popleft()
            for topic in dict.fromkeys(topic for topic, _ in self.has[giver]):
                if topic in seen:
                    continue
                seen.add(topic)
                takers = [each for each in self._takers[topic] if each not in came]
                for taker in takers:
                    came[taker] = giver, topic
                    waiting.append(taker)
                least = min(takers, key=lambda each: len(self.has[each]), default=None)
                if least is not None and len(self.has[least]) <= most:
                    return _steps(came, start, least)
        return []

    def _move(self, giver: str, topic: str, taker: str) -> None:
        """Of the giver's partitions of a topic that one moves whose way is shortest: back home, or never its own."""

        def cost(partition: Partition) -> tuple[bool, bool, bool]:
            owner = self._owners.get(partition)
            racks = self._topics[topic][partition[1]]
            return owner != taker, owner == giver, self._racks[taker] not in racks

        partition = min((each for each in self.has[giver] if each[0] == topic), key=cost)
        self.has[giver].remove(partition)
        self.has[taker].append(partition)


def _steps(came: Mapping[str, tuple[str, str]], start: str, end: str) -> list[tuple[str, str, str]]:
    """The chain from `start` to `end`, its last step first."""
    steps = []
    while end != start:
        giver, topic = came[end]
        steps.append((giver, topic, end))
        end = giver
    return steps
