"""`range`: each member gets a run of each topic's partitions; topics with the same members are split alike.

If members and replicas have racks, partitions first go to members in a rack of a replica (KIP-881). Rack matches change
neither the number of partitions of a member, nor the equal split of topics with the same members and size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from kafwire.consumer.group.member import Assignment, GroupMember, Partition, Topics, in_order


def assign(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    """Assign each partition to one of the subscribers of its topic; topics without a subscriber stay unassigned."""
    found: Assignment = {member.member_id: [] for member in members}
    ordered = sorted(members, key=lambda member: member.place)
    shares = [_Shares(name, racks, ordered) for name, racks in topics.items()]
    by_rack = any(share.by_rack for share in shares)
    if by_rack:
        _match_racks(shares, found)
    for share in shares:
        share.give(found)
    if by_rack:
        for partitions in found.values():
            partitions.sort(key=lambda each: (in_order(each[0]), each[1]))
    return found


class _Shares:
    """One topic: its subscribers, the partitions that each may still get, and the unassigned partitions."""

    def __init__(self, topic: str, racks: Sequence[frozenset[str]], members: Sequence[GroupMember]) -> None:
        self.topic = topic
        self.racks = {member.member_id: member.rack for member in members if topic in member.topics}
        self.left = list(range(len(racks)))
        self._least, self._more = divmod(len(racks), len(self.racks)) if self.racks else (0, 0)
        self._has = dict.fromkeys(self.racks, 0)
        self._replica_racks = racks
        wanted = {rack for rack in self.racks.values() if rack}
        there = frozenset().union(*racks)
        # If every partition has a replica in each rack, no choice is better.
        self.by_rack = bool(wanted & there) and any(each != there for each in racks)
        self.size = len(racks) if wanted else 0  # partitions that may be matched by rack

    @property
    def peers(self) -> frozenset[tuple[str, str | None]]:
        """The key that topics with the same split share: the subscribers and their racks."""
        return frozenset(self.racks.items())

    def matches(self, member_id: str, number: int) -> bool:
        rack = self.racks[member_id]
        return not rack or rack in self._replica_racks[number]

    def room(self, member_id: str) -> int:
        return max(0, self._least + (self._more > 0) - self._has[member_id])

    def take(self, member_id: str, numbers: Sequence[int]) -> list[Partition]:
        self._has[member_id] += len(numbers)
        if self._has[member_id] > self._least:
            self._more -= 1
        taken = set(numbers)
        self.left = [number for number in self.left if number not in taken]
        return [(self.topic, number) for number in numbers]

    def give(self, found: Assignment, fits: Callable[[str, int], bool] = lambda _member, _number: True) -> None:
        """Assign to each member as many partitions that fit as it has room for."""
        for member_id in self.racks:
            numbers = [number for number in self.left if fits(member_id, number)][: self.room(member_id)]
            if numbers:
                found[member_id] += self.take(member_id, numbers)


def _match_racks(shares: Sequence[_Shares], found: Assignment) -> None:
    alike: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Shares]] = defaultdict(list)
    for share in shares:
        if share.left:
            alike[share.peers, share.size].append(share)
    for (_, size), group in alike.items():
        if len(group) > 1:
            _match_together(group, size, found)
        elif group[0].by_rack:
            group[0].give(found, group[0].matches)


def _match_together(group: Sequence[_Shares], size: int, found: Assignment) -> None:
    """Assign partitions of the same number to the same member: those of all topics, or none."""
    members = list(group[0].racks)
    for number in range(size):
        for member_id in members:
            if all(share.matches(member_id, number) and share.room(member_id) for share in group):
                for share in group:
                    found[member_id] += share.take(member_id, [number])
                if not any(share.room(member_id) for share in group):
                    members.remove(member_id)
                break
