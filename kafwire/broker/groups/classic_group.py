"""One group of the classic protocol: its members, its generation, and the members that wait for others.

A rebalance has two phases. First all members join, and the leader among them gets the list of members. Then all members
request their assignments, which the leader sends. The rules are those of Kafka's `GroupMetadataManager`. See KIP-62
(time-outs), KIP-134 (the first rebalance waits), KIP-345 (static members), KIP-394 (a member gets its id first),
KIP-814 (a replaced leader keeps the assignment).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafwire.broker.groups.classic_member import Joined, Member, OnJoin, OnSync, Protocols, subscribed_topics
from kafwire.broker.groups.classic_offsets import CONSUMER, ClassicOffsets
from kafwire.broker.groups.group import GroupState, GroupType
from kafwire.broker.groups.offsets_topic import OffsetsTopic, Stored
from kafwire.errors import ErrorCode
from kafwire.protocol import JoinGroupRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer

NEW_MEMBER_MS = 300_000  # the longest wait of a new member in its first join


class ClassicGroup(ClassicOffsets):
    """A group. `state` is the cluster's, for time, ids and options."""

    type = GroupType.CLASSIC
    expires = True

    def __init__(self, state: ClusterState, group_id: str) -> None:
        self._cluster = state
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.since_ms = state.wall_ms  # the time of entry into this state
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance ids, and the members that have them
        self.pending: dict[str, Timer] = {}  # ids whose members have not joined with them yet
        self.subscribed: frozenset[str] | None = None  # topics, if the coordinator can decode the subscriptions
        self._awaited: set[str] = set()  # members that have not requested their assignment in this generation
        self._join_timer: Timer | None = None
        self._sync_timer: Timer | None = None
        self._is_first = False  # the first rebalance since the group was empty
        self._has_grown = False  # a member joined while the group waited for more
        self._stored = Stored()

    # --- checks of requests

    def refuses_member(self, member_id: str, instance_id: str | None) -> int:
        """Return the error code for a request in the name of this member, or 0."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return 0 if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with these protocols may join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(self._is_common(name) for name, _ in protocols)

    def _is_common(self, protocol: str) -> bool:
        return all(member.supports(protocol) for member in self.members.values())

    def _accepts(self, member_id: str) -> bool:
        """True if the group has room. During a rebalance only joined members count, so late ones may find no room."""
        most = self._cluster.config_int("group.max.size")
        known = self.members.get(member_id)
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            joined = sum(member.on_join is not None for member in self.members.values())
            return joined < most or (known is not None and known.on_join is not None)
        return known is not None or len(self.members) < most

    # --- joining

    def join(self, asked: Member, on_join: OnJoin, *, version: int) -> None:
        """Add a member, as `asked` describes it. `on_join` gets the result, at once or later."""
        if not self._accepts(asked.member_id):
            self._remove(asked.member_id)
            on_join(Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        elif not self.supports(asked.protocol_type, asked.protocols):
            on_join(Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, asked.member_id))
        elif not asked.member_id:
            self._join_new(asked, on_join, version=version)
        elif asked.member_id in self.pending:
            if asked.instance_id is not None:  # static members do not get an id first
                on_join(Joined(ErrorCode.UNKNOWN_SERVER_ERROR, ""))
            else:
                self._add(asked, on_join)
        else:
            code = self.refuses_member(asked.member_id, asked.instance_id)
            if not code:
                self._rejoin(self.members[asked.member_id], asked, on_join)
            else:
                on_join(Joined(code, asked.member_id))

    def _join_new(self, asked: Member, on_join: OnJoin, *, version: int) -> None:
        member_id = f"{asked.instance_id or asked.client_id}-{self._cluster.make_id()}"
        if asked.instance_id is None and version >= JoinGroupRequest.ID_FIRST:
            timer = self._cluster.after(asked.session_timeout_ms, lambda: self._expire_pending(member_id))
            self.pending[member_id] = timer
            on_join(Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        asked.member_id = member_id
        before = None if asked.instance_id is None else self.static.get(asked.instance_id)
        if before is None:
            self._add(asked, on_join)
        else:
            self._replace(self.members[before], asked, on_join, version=version)

    def _add(self, member: Member, on_join: OnJoin) -> None:
        _cancel(self.pending.pop(member.member_id, None))
        if self.state is GroupState.PREPARING_REBALANCE and self._is_first:
            self._has_grown = True
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        member.is_new, member.on_join = True, on_join
        self._set_timer(member, NEW_MEMBER_MS)
        self._rebalance()

    def _replace(self, old: Member, asked: Member, on_join: OnJoin, *, version: int) -> None:
        """Replace a static member by a new one with its instance id: the old one is fenced."""
        before = self.leader
        old.stop_timer()
        old.respond_to_join(Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        old.respond_to_sync(ErrorCode.FENCED_INSTANCE_ID)
        del self.members[old.member_id]
        new = asked
        new.client_id, new.host, new.assignment = old.client_id, old.host, old.assignment
        self.members[new.member_id] = new
        self.static[new.instance_id or ""] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        self._set_timer(new, old.session_timeout_ms)
        if self.state is GroupState.STABLE and self._vote() == self.protocol_name:
            self._store()
            if version >= JoinGroupRequest.SKIPS_ASSIGNMENT:
                joined = self._joined(new)
                joined.skip_assignment = new.member_id == self.leader
            else:  # the member would assign, if it knew that it leads
                joined = self._joined(new, is_leader=False)
                joined.leader = before or ""
            on_join(joined)
            return
        new.on_join = on_join
        self._rebalance()

    def _rejoin(self, member: Member, asked: Member, on_join: OnJoin) -> None:
        same = list(asked.protocols) == list(member.protocols)
        asks_again = self.state is GroupState.STABLE and member.member_id == self.leader
        if self.state is GroupState.PREPARING_REBALANCE or not same or asks_again:
            member.protocols = asked.protocols
            member.session_timeout_ms = asked.session_timeout_ms
            member.rebalance_timeout_ms = asked.rebalance_timeout_ms
            member.on_join = on_join  # an earlier JoinGroup of this member gets no response
            self._rebalance()
        else:  # the member may not have received the response
            on_join(self._joined(member))

    def _joined(self, member: Member, *, is_leader: bool | None = None) -> Joined:
        leads = member.member_id == self.leader if is_leader is None else is_leader
        return Joined(
            0,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            members=[
                (each.member_id, each.instance_id, each.metadata(self.protocol_name))
                for each in (self.members.values() if leads else ())
            ],
        )

    # --- rebalancing

    def _enter(self, state: GroupState) -> None:
        self._is_first = self.state is GroupState.EMPTY
        self.state = state
        self.since_ms = self._cluster.wall_ms

    def _rebalance(self) -> None:
        """Begin a rebalance, or go on with it."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance()
        elif not self._is_first and self._all_joined():
            self._complete_join()

    def _prepare_rebalance(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                if member.respond_to_sync(ErrorCode.REBALANCE_IN_PROGRESS):
                    self.keep_alive(member)
        self._awaited.clear()
        self._sync_timer = _cancel(self._sync_timer)
        self._enter(GroupState.PREPARING_REBALANCE)
        if self._is_first:
            delay_ms = self._cluster.config_int("group.initial.rebalance.delay.ms")
            left_ms = max(self._longest_rebalance_ms() - delay_ms, 0)
            self._wait_for_more(delay_ms, left_ms)
        elif self._all_joined():
            self._complete_join()
        else:
            self._set_join_timer(self._longest_rebalance_ms(), self._complete_join)

    def _wait_for_more(self, delay_ms: int, left_ms: int) -> None:
        if delay_ms:
            self._set_join_timer(delay_ms, lambda: self._end_first_wait(delay_ms, left_ms))
        else:
            self._complete_join()

    def _end_first_wait(self, waited_ms: int, left_ms: int) -> None:
        """End a wait of an empty group for members. It waits again while more come, up to the rebalance time-out."""
        if self._has_grown and left_ms:
            self._has_grown = False
            delay_ms = self._cluster.config_int("group.initial.rebalance.delay.ms")
            self._wait_for_more(min(delay_ms, left_ms), max(left_ms - waited_ms, 0))
        else:
            self._complete_join()

    def _longest_rebalance_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _set_join_timer(self, delay_ms: int, call: Callable[[], None]) -> None:
        _cancel(self._join_timer)
        self._join_timer = self._cluster.after(delay_ms, call)

    def _all_joined(self) -> bool:
        return not self.pending and all(member.on_join is not None for member in self.members.values())

    def _complete_join(self) -> None:
        """End the join: all have joined, or time is up. Members that have not joined leave, except static ones."""
        self._join_timer = _cancel(self._join_timer)
        for member in [m for m in self.members.values() if m.on_join is None and m.instance_id is None]:
            self._remove(member.member_id)
        if self.members and not self._elect():  # no member is here that could lead
            self._set_join_timer(self._longest_rebalance_ms(), self._complete_join)
            return
        self.generation += 1
        self._awaited.clear()
        self.protocol_name = self._vote()
        self.subscribed = self._subscriptions()
        if not self.members:
            self._enter(GroupState.EMPTY)
            self._store()
            return
        self._enter(GroupState.COMPLETING_REBALANCE)
        for member in self.members.values():
            member.respond_to_join(self._joined(member))
            self.keep_alive(member)
            member.is_new = False
            self._awaited.add(member.member_id)
        self._sync_timer = self._cluster.after(self._longest_rebalance_ms(), self._expire_sync)

    def _elect(self) -> bool:
        """Elect another leader if the leader has not joined. Return True if any member has joined."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.on_join is not None:
            return True
        joined = [member.member_id for member in self.members.values() if member.on_join is not None]
        self.leader = joined[0] if joined else self.leader
        return bool(joined)

    def _vote(self) -> str | None:
        """Return the protocol that most members prefer, among those that all have."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if self._is_common(name)), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name], default=None)

    def _subscriptions(self) -> frozenset[str] | None:
        return subscribed_topics(self.members.values(), self.protocol_name) if self.protocol_type == CONSUMER else None

    # --- assignments

    def sync(self, member: Member, assignments: Mapping[str, bytes], on_sync: OnSync) -> None:
        """Return a member's assignment by `on_sync`; the leader's request has those of all."""
        if self.state is GroupState.PREPARING_REBALANCE:
            on_sync(ErrorCode.REBALANCE_IN_PROGRESS, b"")
            return
        self._awaited.discard(member.member_id)
        if not self._awaited:
            self._sync_timer = _cancel(self._sync_timer)
        if self.state is GroupState.STABLE:
            on_sync(0, member.assignment)
            return
        member.on_sync = on_sync
        if member.member_id == self.leader:
            for each in self.members.values():
                each.assignment = assignments.get(each.member_id, b"")
                if each.respond_to_sync(0, each.assignment):
                    self.keep_alive(each)
            self._enter(GroupState.STABLE)
            self._store()

    def _expire_sync(self) -> None:
        """Remove members that have not requested their assignment in time."""
        if self._awaited:
            for member_id in list(self._awaited):
                self._remove(member_id)
            self._prepare_rebalance()

    # --- staying and leaving

    def keep_alive(self, member: Member) -> None:
        """Restart a member's session."""
        self._set_timer(member, member.session_timeout_ms)

    def _set_timer(self, member: Member, delay_ms: int) -> None:
        member.stop_timer()
        member.timer = self._cluster.after(delay_ms, lambda: self._expire(member))

    def _expire(self, member: Member) -> None:
        """End a session, unless the member waits for a response: it sends nothing meanwhile."""
        if member.is_new or (member.on_join is None and member.on_sync is None):
            member.respond_to_join(Joined(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            self._remove(member.member_id)
            self._fewer()

    def _expire_pending(self, member_id: str) -> None:
        """Forget an id with which no member has joined in time."""
        self._remove(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._fewer()

    def _fewer(self) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            if self._all_joined():
                self._complete_join()
        elif self.state is not GroupState.EMPTY:
            self._prepare_rebalance()

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Remove members by their ids, or by instance ids if the id is empty. Return an error code for each."""
        codes = [self._leave(member_id, instance_id) for member_id, instance_id in leaving]
        if 0 in codes and self.state is not GroupState.EMPTY:
            self._rebalance()
        return codes

    def _leave(self, member_id: str, instance_id: str | None) -> int:
        if not member_id:
            member_id = "" if instance_id is None else self.static.get(instance_id, "")
        if member_id not in self.pending:
            code = self.refuses_member(member_id, instance_id)
            if code:
                return code
            self.members[member_id].respond_to_join(Joined(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        self._remove(member_id)
        return 0

    def _remove(self, member_id: str) -> None:
        """Forget an id, of a member or of one that has not joined yet, without a response to its waiting request."""
        _cancel(self.pending.pop(member_id, None))
        self._awaited.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            member.stop_timer()
            if member.instance_id is not None:
                del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def adopt(self, members: Sequence[Member], generation: int) -> None:
        """Take over the classic members of a former consumer group: they keep their assignments, and rebalance."""
        self.members = {member.member_id: member for member in members}
        self.static = {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        self.generation, self.protocol_type, self.leader = generation, CONSUMER, next(iter(self.members))
        self._enter(GroupState.STABLE)
        self.protocol_name = self._vote()
        self.subscribed = self._subscriptions()
        for member in members:
            self.keep_alive(member)
        self._store()
        self._prepare_rebalance()

    # --- coordinators

    def _store(self) -> None:
        members = [member.stored(self.protocol_name) for member in self.members.values()]
        chosen = self.protocol_type, self.protocol_name
        self._stored = Stored(self.generation, *chosen, self.leader, self.since_ms, members)
        topic: OffsetsTopic = self._cluster.part(OffsetsTopic)
        topic.write_group(self.group_id, self._stored)

    def unload(self, *, tell: bool) -> None:
        """End this coordinator's work for the group. `tell`: it runs, so waiting members get a response."""
        for member in self.members.values():
            if tell:
                member.respond_to_join(Joined(ErrorCode.NOT_COORDINATOR, member.member_id))
                member.respond_to_sync(ErrorCode.NOT_COORDINATOR)
            member.stop_timer()
        for timer in self.pending.values():
            timer.cancel()
        self.pending = {}
        self._join_timer = _cancel(self._join_timer)
        self._sync_timer = _cancel(self._sync_timer)
        self._awaited.clear()
        self.members, self.static = {}, {}
        self.state = GroupState.DEAD

    def load(self) -> None:
        """Load the group at its new coordinator, or at the same one again, from its record; sessions restart."""
        its = self._stored
        self.generation, self.protocol_type, self.protocol_name = its.generation, its.protocol_type, its.protocol_name
        self.leader, self.since_ms = its.leader, its.since_ms
        self._is_first = self._has_grown = False
        self.members = {member.member_id: member.stored(its.protocol_name) for member in its.members}
        self.static = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.subscribed = self._subscriptions()
        for member in self.members.values():
            self.keep_alive(member)
        if len(self.members) > self._cluster.config_int("group.max.size"):
            self._prepare_rebalance()


def _cancel(timer: Timer | None) -> Timer | None:
    """Cancel a timer, and return None to store in its place."""
    if timer is not None:
        timer.cancel()
    return None
