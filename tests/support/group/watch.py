"""Observation of a simulated group from the brokers' side: offsets with their owners, rebalances, zombies.

The coordinator's own state says which member has a partition; the members' consumers say what they read. The watch
compares both, and writes into a `GroupHistory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from kafwire.broker.groups.classic_group import ClassicGroup
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.consumer_member import MemberState
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.broker.request import Request
from kafwire.consumer.group.subscription import assigned
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.group.history import Commit, GroupHistory, Hold, Overlap, Where

LOOK_S = 0.25
HEARTBEAT_S = 1.0  # of members: a rebalance is noticed so late
HOLD_S = 1.0  # a member that only waits holds up a rebalance for so long
HOLD_LIMIT_S = HOLD_S + HEARTBEAT_S + 1.5  # with the round trips of leaving and joining
OVERLAP_S = 20.0  # two sessions


class WatchedMember(Protocol):
    """The properties of a member that the watch needs."""

    name: str

    @property
    def reads(self) -> set[Where]:
        """The partitions that its consumer lists as assigned, or fetches."""

    @property
    def only_waits(self) -> bool:
        """True if no handler runs, no write is under way, and no fault holds the member."""


class _Journal:
    """The brokers' journal: the watch looks at stored offsets."""

    def __init__(self, watch: GroupWatch) -> None:
        self._watch = watch

    def write(self, kind: str, key: Any, value: Any) -> None:
        """See `JournalWriter`."""
        if kind == "offset" and key[0] == self._watch.group_id and value is not None:
            self._watch.kept((key[1], key[2]), Committed(*value[:-1]))


class GroupWatch:
    """Watches one group. `is_calm`: whether no fault is going on that excuses a zombie or a slow rebalance."""

    def __init__(self, world: ClusterWorld, group_id: str, history: GroupHistory) -> None:
        self.members: dict[str, WatchedMember] = {}
        self.incarnations: dict[str, int] = {}
        self.calm_from_s = 0.0
        self.leads_from_s = 0.0  # a classic group's leader waits for metadata until then
        self._world, self.group_id, self._history = world, group_id, history
        self._coordinator = world.state.part(GroupCoordinator)
        self._store = world.state.part(OffsetStore)
        self._asking = ""
        self._pending: dict[tuple[Where, Committed], tuple[str, frozenset[str]]] = {}
        # Members, with the generation that a classic group's rebalance ends, and since when each holds it up. Members
        # that join one after the other cause a rebalance each, and each of them may take a heartbeat.
        self._holding: dict[tuple[str, int], float] = {}
        self._overlapping: dict[tuple[str, Where], float] = {}
        self._follow_commits()

    # --- the assignment, by the coordinator

    @property
    def _group(self) -> Any:
        return self._coordinator.groups.get(self.group_id)

    def _assignments(self) -> Mapping[str, set[Where]]:
        """Members by their client ids, and the partitions that the coordinator lists for each."""
        group, found = self._group, dict[str, set[Where]]()
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                found.setdefault(member.client_id, set()).update(assigned(member.assignment))
        elif isinstance(group, ConsumerGroup):
            topics = self._world.state.topics.by_id
            for each in group.members.values():
                places = [*each.assigned, *each.revoking]
                had = {(topics[topic].name, number) for topic, number in places if topic in topics}
                found.setdefault(each.client_id, set()).update(had)
        return found

    def owners(self, where: Where) -> frozenset[str]:
        """The members that the coordinator lists a partition for."""
        return frozenset(name for name, places in self._assignments().items() if where in places)

    def is_shared_out(self, count: int) -> bool:
        """True if the members have so many partitions between them, each one once."""
        had = [where for places in self._assignments().values() for where in places]
        return len(had) == len(set(had)) == count

    # --- commits

    def _follow_commits(self) -> None:
        def note(request: Request) -> None:
            if request.name in ("OffsetCommit", "TxnOffsetCommit"):
                member = getattr(self._group, "members", {}).get(request.message.member_id)
                self._asking = "" if member is None else member.client_id

        self._world.state.interceptors.insert(0, note)
        add = self._store.add_pending

        def pending(group: str, producer_id: int, epoch: int, place: Where, committed: Committed) -> None:
            self._pending[place, committed] = self._asking, self.owners(place)
            add(group, producer_id, epoch, place, committed)

        self._store.add_pending = pending
        self._world.state.journal = _Journal(self)

    def kept(self, place: Where, committed: Committed) -> None:
        """The coordinator stored an offset, at once or at the end of its transaction."""
        now = self._asking, self.owners(place)
        by, owners = self._pending.pop((place, committed), now)
        if by:
            now_s, which = self._world.loop.time(), self.incarnations.get(place[0], 0)
            self._history.commits.append(Commit(now_s, by, place, committed.offset, owners, which))

    # --- looking again and again

    async def look(self) -> None:
        """Look at the group until the task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = self._world.loop.time()
            self._look_at_rebalance(now_s)
            self._look_at_readers(now_s)

    def _holders(self) -> Iterable[str]:
        """The members that the group's rebalance waits for."""
        group = self._group
        if isinstance(group, ClassicGroup) and group.state is GroupState.PREPARING_REBALANCE:
            return [each.client_id for each in group.members.values() if each.on_join is None]
        if isinstance(group, ConsumerGroup):
            waiting = MemberState.UNREVOKED_PARTITIONS
            return [each.client_id for each in group.members.values() if each.state is waiting]
        return ()

    def _look_at_rebalance(self, now_s: float) -> None:
        group = self._group
        generation = group.generation if isinstance(group, ClassicGroup) else 0
        holding = [name for name in self._holders() if name in self.members and self.members[name].only_waits]
        holders = {(name, generation) for name in holding}
        if now_s < max(self.calm_from_s, self.leads_from_s):
            holders.clear()
        for key in [key for key in self._holding if key not in holders]:
            since_s = self._holding.pop(key)
            self._history.holds.append(Hold(since_s, key[0], now_s - since_s, HOLD_LIMIT_S))
        for key in holders:
            self._holding.setdefault(key, now_s)

    def _look_at_readers(self, now_s: float) -> None:
        had = self._assignments()
        seen: dict[tuple[str, Where], str] = {}
        for name, member in self.members.items() if now_s >= self.calm_from_s else ():
            for where in member.reads - had.get(name, set()):
                owner = next((other for other, places in had.items() if where in places), None)
                if owner is not None:
                    seen[name, where] = owner
        for key in [key for key in self._overlapping if key not in seen]:
            del self._overlapping[key]
        for key, owner in seen.items():
            since_s = self._overlapping.setdefault(key, now_s)
            if 0 <= now_s - since_s - OVERLAP_S < LOOK_S:
                self._history.overlaps.append(Overlap(now_s, key[1], key[0], owner, now_s - since_s))

    def end(self) -> None:
        """Write down the holds that still go on."""
        now_s = self._world.loop.time()
        for (name, _), since_s in self._holding.items():
            self._history.holds.append(Hold(since_s, name, now_s - since_s, HOLD_LIMIT_S))
        self._holding.clear()
