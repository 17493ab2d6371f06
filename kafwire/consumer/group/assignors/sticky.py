"""`sticky` and `cooperative-sticky`: loads as even as subscriptions allow, and as few partitions as possible move.

Members keep their partitions. A free partition goes to the member with the fewest, preferably in the rack of a replica.
Then partitions move along chains of members, each of which passes one on, from a member to another that has at least
two fewer, until no such chain exists: no assignment is more even.

If two members claim a partition, the claim of the later generation counts; of the same generation, neither does. With
`cooperative-sticky` (KIP-429) no member gets a partition that another member still owns: the owner revokes it first,
and the next assignment gives it to the new owner.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from kafwire.consumer.group.member import Assignment, GroupMember, Partition, Topics, in_order


def assign(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    """Assign each partition to one of the subscribers of its topic; topics without a subscriber stay unassigned."""
    ordered = sorted(members, key=lambda member: member.place)
    sharing = _Sharing(topics, ordered)
    sharing.keep(_owners(topics, ordered))
    sharing.fill()
    sharing.level()
    return {who: sorted(has, key=lambda each: (in_order(each[0]), each[1])) for who, has in sharing.has.items()}


def withhold(assignment: Assignment, members: Sequence[GroupMember]) -> Assignment:
    """Return the assignment without partitions that another member must revoke first."""
    owners: dict[Partition, set[str]] = defaultdict(set)
    for member in members:
        for partition in member.owned:
            owners[partition].add(member.member_id)
    return {
        member_id: [each for each in given if not owners[each] or member_id in owners[each]]
        for member_id, given in assignment.items()
    }


def _owners(topics: Topics, members: Sequence[GroupMember]) -> Mapping[Partition, str]:
    """Return the owner of each existing partition with exactly one owner, if that still subscribes to the topic."""
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
    """An assignment in progress."""

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
        """Assign each partition to its current owner."""
        self._owners = owners
        for partition, member_id in owners.items():
            self.has[member_id].append(partition)

    def fill(self) -> None:
        """Assign the unowned partitions, topics with few subscribers first."""
        for topic in sorted(self._takers, key=lambda topic: len(self._takers[topic])):
            for number, racks in enumerate(self._topics[topic]):
                if (topic, number) not in self._owners and self._takers[topic]:
                    taker = min(
                        self._takers[topic],
                        key=lambda member_id: (len(self.has[member_id]), self._racks[member_id] not in racks),
                    )
                    self.has[taker].append((topic, number))

    def level(self) -> None:
        """Move partitions, from members with the most first, as long as loads become more even."""
        while chain := next(
            filter(None, map(self._chain, sorted(self.has, key=lambda who: -len(self.has[who])))), None
        ):
            for giver, topic, taker in chain:
                self._move(giver, topic, taker)

    def _chain(self, start: str) -> list[tuple[str, str, str]]:
        """Return the shortest chain from a member to another with at least two fewer: (giver, topic, taker) each."""
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
        """Move one partition of a topic, preferably back to its owner, else one that the giver did not own."""

        def cost(partition: Partition) -> tuple[bool, bool, bool]:
            owner = self._owners.get(partition)
            racks = self._topics[topic][partition[1]]
            return owner != taker, owner == giver, self._racks[taker] not in racks

        partition = min((each for each in self.has[giver] if each[0] == topic), key=cost)
        self.has[giver].remove(partition)
        self.has[taker].append(partition)


def _steps(came: Mapping[str, tuple[str, str]], start: str, end: str) -> list[tuple[str, str, str]]:
    """Return the chain from `start` to `end`, its last step first."""
    steps = []
    while end != start:
        giver, topic = came[end]
        steps.append((giver, topic, end))
        end = giver
    return steps
