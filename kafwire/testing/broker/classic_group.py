"""One group of the classic protocol: who is in it, which generation it is in, and who waits for the others.

A rebalance goes through two phases: all members join, and one of them, the leader, hears who the others are; then all
ask for their assignments, which the leader brings. See KIP-62 (time-outs), KIP-345 (static members), KIP-394 (ids are
given first), KIP-814 (a leader that is replaced keeps its assignment).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState
    from kafwire.testing.broker.timers import Timer

Protocols = Sequence[tuple[str, bytes]]


class GroupState(Enum):
    """What a group is at, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class Joined:
    """What a member that has joined is told."""

    error_code: int
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: list[Member] = field(default_factory=list)  # of the leader only


@dataclass(slots=True, eq=False)
class Member:
    """A member. `on_join`, `on_sync`: where it waits for the others."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    on_join: Callable[[Joined], None] | None = None
    on_sync: Callable[[int, bytes], None] | None = None
    timer: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said of itself for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class ClassicGroup:
    """A group. `state` is the cluster's, for time and options."""

    def __init__(self, state: ClusterState, group_id: str) -> None:
        self._cluster = state
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance ids, and the members that have them
        self.pending: dict[str, Timer] = {}  # ids that were given, and whose members have not joined with them yet
        self.emptied_ms = state.now_ms
        self._rebalance: Timer | None = None  # until those that have not joined, or synced, are given up
        self._is_first = False  # while a new group waits for more members

    # --- who it knows

    def refuses_member(self, member_id: str, instance_id: str | None) -> int:
        """The error code for who says that it is this member."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return 0 if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may be in it."""
        if not self.members:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        common = set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))
        return any(name in common for name, _ in protocols)

    # --- joining

    def join_new(self, member: Member, protocol_type: str, on_join: Callable[[Joined], None], *, version: int) -> None:
        """A member that is not in it joins; one with an instance id takes the place of the one that had it."""
        before = None if member.instance_id is None else self.static.get(member.instance_id)
        if before is not None:
            self._replace(self.members[before], member, on_join, version=version)
            return
        self.pending_ends(member.member_id)
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        member.on_join = on_join
        self.keep_alive(member)
        self._prepare_rebalance()

    def _replace(self, old: Member, new: Member, on_join: Callable[[Joined], None], *, version: int) -> None:
        """Another process has come with the instance id of a static member: the old one is fenced."""
        was_leader = self.leader == old.member_id
        if old.on_join is not None:
            old.on_join(Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        if old.on_sync is not None:
            old.on_sync(ErrorCode.FENCED_INSTANCE_ID, b"")
        self._stop_timer(old)
        same = list(old.protocols) == list(new.protocols)
        new.assignment = old.assignment
        # It has the old one's place in the order.
        self.members = {
            new.member_id if key == old.member_id else key: new if key == old.member_id else its
            for key, its in self.members.items()
        }
        assert new.instance_id is not None
        self.static[new.instance_id] = new.member_id
        if was_leader:
            self.leader = new.member_id
        self.keep_alive(new)
        if self.state is not GroupState.STABLE or self._vote() != self.protocol_name or not same:
            new.on_join = on_join
            self._prepare_rebalance()
        elif was_leader and version < 9:
            # It would take itself for a leader that has to assign, of which older protocols have no word.
            joined = self._joined(new)
            joined.leader, joined.members = old.member_id, []
            on_join(joined)
        else:
            joined = self._joined(new)
            joined.skip_assignment = was_leader
            on_join(joined)

    def rejoin(self, member: Member, protocols: Protocols, on_join: Callable[[Joined], None]) -> None:
        """A member joins again."""
        changed = list(protocols) != list(member.protocols)
        needs_rebalance = (
            self.state is GroupState.PREPARING_REBALANCE
            or changed
            or (self.state is GroupState.STABLE and member.member_id == self.leader)
        )
        if not needs_rebalance:
            on_join(self._joined(member))
            return
        if member.on_join is not None:  # it has given up the request before this one
            member.on_join(Joined(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        member.protocols = protocols
        member.on_join = on_join
        self._stop_timer(member)
        self._prepare_rebalance()

    def _joined(self, member: Member) -> Joined:
        leads = member.member_id == self.leader
        return Joined(
            0,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            members=list(self.members.values()) if leads else [],
        )

    def _prepare_rebalance(self) -> None:
        if self.state is GroupState.PREPARING_REBALANCE:
            self._try_complete_join()
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self._is_first = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING_REBALANCE
        delay_ms = self._cluster.config_int("group.initial.rebalance.delay.ms") if self._is_first else 0
        if delay_ms:
            self._set_rebalance(delay_ms, self._end_first_wait)
        else:
            self._is_first = False
            self._set_rebalance(self._longest_rebalance_ms(), self._complete_join)
            self._try_complete_join()

    def _end_first_wait(self) -> None:
        self._is_first = False
        self._complete_join()

    def _longest_rebalance_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _set_rebalance(self, delay_ms: float, call: Callable[[], None]) -> None:
        if self._rebalance is not None:
            self._rebalance.cancel()
        self._rebalance = self._cluster.after(delay_ms, call)

    def _try_complete_join(self) -> None:
        everybody = all(member.on_join is not None for member in self.members.values())
        if self.state is GroupState.PREPARING_REBALANCE and not self._is_first and everybody and not self.pending:
            self._complete_join()

    def _complete_join(self) -> None:
        """All have joined, or time is up: those that have not are out, but for static ones."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        for member in [m for m in self.members.values() if m.on_join is None and m.instance_id is None]:
            self._forget(member)
        joined = [member for member in self.members.values() if member.on_join is not None]
        if self.members and not joined:  # nobody who could lead: wait once more
            self._set_rebalance(self._longest_rebalance_ms(), self._complete_join)
            return
        if self._rebalance is not None:
            self._rebalance.cancel()
            self._rebalance = None
        self.generation += 1
        if not self.members:
            self._become_empty()
            return
        if self.leader not in self.members or self.members[self.leader].on_join is None:
            self.leader = joined[0].member_id
        self.protocol_name = self._vote()
        self.state = GroupState.COMPLETING_REBALANCE
        for member in self.members.values():
            member.assignment = b""
            if member.on_join is not None:
                on_join, member.on_join = member.on_join, None
                on_join(self._joined(member))
            self.keep_alive(member)
        self._set_rebalance(self._longest_rebalance_ms(), self._end_sync)

    def _vote(self) -> str | None:
        """The protocol that most members like best, of those that all have."""
        members = list(self.members.values())
        common = set.intersection(*({name for name, _ in member.protocols} for member in members))
        votes: dict[str, int] = {}
        for member in members:
            choice = next((name for name, _ in member.protocols if name in common), None)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name], default=None)

    def _become_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.leader = self.protocol_name = None
        self.emptied_ms = self._cluster.now_ms

    # --- assignments

    def sync(
        self, member: Member, assignments: Iterable[tuple[str, bytes]], on_sync: Callable[[int, bytes], None]
    ) -> None:
        """A member asks for its assignment; the leader brings those of all."""
        if self.state is GroupState.PREPARING_REBALANCE:
            on_sync(ErrorCode.REBALANCE_IN_PROGRESS, b"")
        elif self.state is GroupState.STABLE:
            self.keep_alive(member)
            on_sync(0, member.assignment)
        elif self.state is GroupState.COMPLETING_REBALANCE:
            member.on_sync = on_sync
            self.keep_alive(member)
            if member.member_id == self.leader:
                given = dict(assignments)
                self.state = GroupState.STABLE
                for each in self.members.values():
                    each.assignment = given.get(each.member_id, b"")
                for each in list(self.members.values()):
                    self._answer_sync(each, 0)
        else:
            on_sync(ErrorCode.UNKNOWN_MEMBER_ID, b"")

    def _answer_sync(self, member: Member, code: int) -> None:
        if member.on_sync is not None:
            on_sync, member.on_sync = member.on_sync, None
            on_sync(code, b"" if code else member.assignment)
            self.keep_alive(member)

    def _end_sync(self) -> None:
        """Who has not asked for its assignment in time is out."""
        self._rebalance = None
        if self.state is GroupState.COMPLETING_REBALANCE:
            late = [member for member in self.members.values() if member.on_sync is None]
            for member in late:
                self._forget(member)
            if late:
                self._prepare_rebalance()

    # --- staying and leaving

    def keep_alive(self, member: Member) -> None:
        """A member was heard of."""
        self._stop_timer(member)
        member.timer = self._cluster.after(member.session_timeout_ms, lambda: self._expire(member))

    def _stop_timer(self, member: Member) -> None:
        if member.timer is not None:
            member.timer.cancel()
            member.timer = None

    def _expire(self, member: Member) -> None:
        if member.on_join is not None or member.on_sync is not None:
            self.keep_alive(member)  # it waits for an answer, and sends nothing meanwhile
        elif self.members.get(member.member_id) is member:
            self.remove(member)

    def remove(self, member: Member) -> None:
        """A member is in it no more; the others rebalance."""
        if member.on_join is not None:
            member.on_join(Joined(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        if member.on_sync is not None:
            member.on_sync(ErrorCode.UNKNOWN_MEMBER_ID, b"")
        self._forget(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._try_complete_join()
        elif self.state is not GroupState.EMPTY:
            self._prepare_rebalance()

    def _forget(self, member: Member) -> None:
        self._stop_timer(member)
        del self.members[member.member_id]
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = None

    def expect(self, member_id: str, timeout_ms: int) -> None:
        """An id was given to somebody who is to join with it (KIP-394)."""

        def give_up() -> None:
            if self.pending.pop(member_id, None) is not None:
                self._try_complete_join()

        self.pending[member_id] = self._cluster.after(timeout_ms, give_up)

    def pending_ends(self, member_id: str) -> bool:
        """Nobody is waited for under this id any more. Returns whether somebody was."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def abandon(self) -> None:
        """Its coordinator is another broker now: who waits is told, and sessions begin anew there."""
        for member in self.members.values():
            if member.on_join is not None:
                on_join, member.on_join = member.on_join, None
                on_join(Joined(ErrorCode.NOT_COORDINATOR, member.member_id))
            if member.on_sync is not None:
                on_sync, member.on_sync = member.on_sync, None
                on_sync(ErrorCode.NOT_COORDINATOR, b"")
            self.keep_alive(member)


def member_of(request: Request, member_id: str) -> Member:
    """The member that a JoinGroup request describes."""
    message = request.message
    rebalance_ms = message.rebalance_timeout_ms if request.version >= 1 else message.session_timeout_ms
    return Member(
        member_id,
        message.group_instance_id,
        request.client_id or "",
        f"/{request.connection.peer}",
        message.session_timeout_ms,
        rebalance_ms,
        [(protocol.name, bytes(protocol.metadata)) for protocol in message.protocols],
    )
