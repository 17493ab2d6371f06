"""A member of a group of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

With eager assignors, the member revokes all its partitions before it joins again. With cooperative ones (KIP-429), it
keeps them, and afterwards revokes those that go to other members. Static members (KIP-345) do not leave. One member,
the leader, assigns for all. Pure; see `membership.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kafwire import protocol
from kafwire.consumer.group.assignors import ASSIGNORS, Assignor
from kafwire.consumer.group.member import GroupMember, Partition, Topics
from kafwire.consumer.group.membership import (
    COORDINATOR_MOVED,
    ENDS,
    NEVER,
    Action,
    Assign,
    Fail,
    LeaveCoordinator,
    Log,
    LookUp,
    Lose,
    MemberOptions,
    Revoke,
    Send,
    State,
    left_behind,
    why_fatal,
)
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assigned, assignment, member_of, subscription
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError, ProtocolError
from kafwire.types import ConsumerGroupMetadata

NO_GENERATION = -1
JOIN_SLACK_MS = 5_000  # a coordinator responds to a JoinGroup at most this long after the rebalance timeout
# The member was removed, and its partitions are lost.
_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class ClassicMembership:
    """A member of a classic group. `options.assignors` names assignors; the group uses one that all members support."""

    def __init__(self, options: MemberOptions) -> None:
        self._options = options
        self._assignors: list[Assignor] = [ASSIGNORS[name] for name in options.assignors]
        self._is_cooperative = all(assignor.is_cooperative for assignor in self._assignors)
        self.state = State.OUT
        self.owned: tuple[Partition, ...] = ()
        self._member_id = ""
        self._generation = NO_GENERATION
        self._topics: tuple[str, ...] = ()
        self._protocol = ""
        self._had: tuple[Partition, ...] = ()  # the assignment of generation `_had_in`, for sticky assignors
        self._had_in = NO_GENERATION
        self._releasing: frozenset[Partition] = frozenset()
        self._in_flight: Any = None  # JoinGroup or SyncGroup
        self._beating: Any = None  # Heartbeat
        self._members: list[GroupMember] = []  # the group's members, for the leader
        self._skips = False
        self._counts: dict[str, int] | None = None  # partitions of each topic that the leader assigned
        self._is_leader = False
        self._again = False  # another rebalance must follow this one
        self._failures = 0
        self._join_ms = NEVER
        self._beat_ms = NEVER
        self._heard_ms = 0.0

    # --- public state

    @property
    def is_rebalancing(self) -> bool:
        """See `Membership`."""
        return self.state is State.JOINING or bool(self._releasing)

    @property
    def wake_ms(self) -> float:
        """See `Membership`."""
        beat = self._beat_ms if self._beats and self._beating is None else NEVER
        return min(self._join_ms if not self._releasing else NEVER, beat)

    def metadata(self) -> ConsumerGroupMetadata:
        """See `Membership`."""
        return ConsumerGroupMetadata(
            self._options.group_id, self._generation, self._member_id, self._options.instance_id
        )

    @property
    def _beats(self) -> bool:
        """True if the coordinator expects heartbeats. It expects none while a JoinGroup is parked."""
        joins = isinstance(self._in_flight, protocol.JoinGroupRequest)
        return self._generation != NO_GENERATION and self.state in (State.STABLE, State.JOINING) and not joins

    # --- events

    def subscribe(self, topics: Sequence[str], now: float, *, pattern: str | None = None) -> list[Action]:  # noqa: ARG002
        """See `Membership`. The caller matches patterns: the coordinator of a classic group cannot."""
        wanted = tuple(sorted(set(topics)))
        if wanted == self._topics and self.state in (State.JOINING, State.STABLE):
            return []
        self._topics = wanted
        return self._rejoin(now)

    def tick(self, now: float) -> list[Action]:
        """See `Membership`."""
        actions: list[Action] = []
        if now >= self._join_ms and not self._releasing:
            actions += self._join()
        if self._beats and self._beating is None and now >= self._beat_ms:
            actions += self._beat(now)
        return actions

    def released(self, now: float) -> list[Action]:
        """See `Membership`."""
        if not self._releasing:
            return []
        self.owned = tuple(each for each in self.owned if each not in self._releasing)
        self._releasing = frozenset()
        if self.state not in (State.JOINING, State.STABLE):
            return []
        return self._rejoin(now)

    def changed(self, topics: Topics, now: float) -> list[Action]:
        """See `Membership`. Only the leader reacts: it starts a rebalance, after its SyncGroup if one is in flight."""
        is_syncing = self.state is State.JOINING and isinstance(self._in_flight, protocol.SyncGroupRequest)
        if not self._is_leader or self._counts is None or not (is_syncing or self.state is State.STABLE):
            return []
        if all(len(topics[name]) == self._counts.get(name, 0) for name in topics):
            return []
        text = f"partitions of topics of group {self._options.group_id!r} changed: it is rebalanced"
        return [Log(text), *self._rejoin(now)]

    def named(self, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`: this protocol names topics, and has no ids."""
        return []

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata, now: float) -> list[Action]:
        """See `Membership`."""
        self._beat_ms = min(self._beat_ms, now)
        return self._unknown(code, sent_as.member_id, sent_as.generation_id, now) if code in _GONE else []

    def leave(self, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`."""
        if self.state in (State.OUT, State.FAILED):
            return []
        self.owned, self._releasing = (), frozenset()
        is_static = self._options.instance_id is not None
        joining, self._in_flight = self._in_flight, None
        self._beating = None
        self._join_ms = self._beat_ms = NEVER
        self._again = False
        self._topics = ()
        if not self._member_id and joining is not None and not is_static:
            # The coordinator waits for a member that it has given an id: leave as soon as the response has the id.
            self.state, self._in_flight = State.LEAVING, joining
            return []
        self.state = State.OUT if is_static or not self._member_id else State.LEAVING
        return [] if self.state is State.OUT else self._leave()

    def _leave(self) -> list[Action]:
        request = protocol.LeaveGroupRequest(group_id=self._options.group_id)
        request.members = [request.MemberIdentity(member_id=self._member_id, reason="the consumer leaves")]
        self._in_flight = request
        self._member_id, self._generation = "", NO_GENERATION
        return [Send(request, self._options.request_timeout_ms)]

    def on_response(self, message: Any, response: Any, now: float) -> list[Action]:
        """See `Membership`."""
        if message is self._beating:
            self._beating = None
            if response.error_code in _GONE:
                return self._unknown(response.error_code, message.member_id, message.generation_id, now)
            return self._on_heartbeat(response.error_code, now)
        if message is not self._in_flight:
            return []
        self._in_flight = None
        if self.state is State.LEAVING:
            if isinstance(message, protocol.JoinGroupRequest) and response.member_id:
                self._member_id = response.member_id
                return self._leave()
            self.state = State.OUT
            return []
        if isinstance(message, protocol.JoinGroupRequest):
            return self._on_join(response, now)
        return self._on_sync(response, now)

    def failed(self, message: Any, error: KafkaError, now: float) -> list[Action]:
        """See `Membership`: a request without a response is retried. An error of `ENDS` ends the membership."""
        if message is self._beating:
            self._beating = None
            return self._fail(Fail(error)) if isinstance(error, ENDS) else self._retry_beat(now)
        if message is not self._in_flight:
            return []
        self._in_flight = None
        if self.state is State.LEAVING:
            self.state = State.OUT
            return []
        if isinstance(error, ENDS):
            return self._fail(Fail(error))
        return self._retry_join(now)

    def found(self, topics: Topics, now: float) -> list[Action]:  # noqa: ARG002
        """See `Membership`: the leader assigns."""
        members, self._members = self._members, []
        if self.state is not State.JOINING or not members or self._in_flight is not None:
            return []
        self._counts = {name: len(partitions) for name, partitions in topics.items()}
        if self._skips:  # the assignment stays as it is (KIP-814)
            return self._sync([])
        given = ASSIGNORS[self._protocol].assign(topics, members)
        return self._sync([(member.member_id, assignment(given.get(member.member_id, ()))) for member in members])

    # --- joining

    def _rejoin(self, now: float) -> list[Action]:
        """Join (again), after the revocation of partitions that must be given up first."""
        self._again = False
        if self.state is State.JOINING and (self._in_flight is not None or self._members):
            self._again = True
            return []
        self.state = State.JOINING
        self._join_ms = now
        if self._releasing:
            return []
        keeps = self._topics if self._is_cooperative else ()
        dropped = tuple(each for each in self.owned if each[0] not in keeps)
        if dropped:
            return self._release(dropped)
        return self._join()

    def _release(self, partitions: tuple[Partition, ...]) -> list[Action]:
        self._releasing = frozenset(partitions)
        return [Revoke(partitions)]

    def _join(self) -> list[Action]:
        self._join_ms = NEVER
        options = self._options
        me = GroupMember(self._member_id, self._topics, options.instance_id, self.owned, self._generation, options.rack)
        had = replace(me, owned=self._had, generation=self._had_in)
        request = protocol.JoinGroupRequest(
            group_id=options.group_id,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                protocol.JoinGroupRequest.JoinGroupRequestProtocol(
                    name=assignor.name, metadata=subscription(replace(me, user_data=assignor.user_data(had)))
                )
                for assignor in self._assignors
            ],
        )
        self._in_flight = request
        timeout_ms = max(options.request_timeout_ms, options.rebalance_timeout_ms + JOIN_SLACK_MS)
        return [Send(request, timeout_ms, apart=True)]

    def _on_join(self, response: Any, now: float) -> list[Action]:
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return self._join()
        if code:
            return self._join_refused(code, now)
        self._failures = 0
        self._heard_ms = now
        self._member_id, self._generation = response.member_id, response.generation_id
        self._protocol = response.protocol_name or ""
        self._is_leader = response.leader == response.member_id
        self._counts = None
        self._beat_ms = now + self._options.heartbeat_interval_ms
        if self._protocol not in self._options.assignors:
            return self._fail(why_fatal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "joining", self._options.group_id))
        if not self._is_leader:
            return self._sync([])
        try:
            members = []
            for each in response.members:
                member_id = each.member_id
                members.append(member_of(member_id, each.group_instance_id, each.metadata))
        except ProtocolError as error:
            return self._fail(
                Fail(
                    KafkaError(
                        f"member {member_id!r} of group {self._options.group_id!r} joined with a subscription that "
                        f"cannot be decoded: {error}"
                    )
                )
            )
        self._members = members
        self._skips = response.skip_assignment
        return [LookUp(tuple(sorted({topic for member in members for topic in member.topics})))]

    def _sync(self, given: Sequence[tuple[str, bytes]]) -> list[Action]:
        request = protocol.SyncGroupRequest(
            group_id=self._options.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._options.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
        )
        request.assignments = [
            request.SyncGroupRequestAssignment(member_id=member, assignment=data) for member, data in given
        ]
        self._in_flight = request
        timeout_ms = max(self._options.request_timeout_ms, self._options.rebalance_timeout_ms + JOIN_SLACK_MS)
        return [Send(request, timeout_ms, apart=True)]

    def _on_sync(self, response: Any, now: float) -> list[Action]:
        if response.error_code:
            return self._sync_refused(response.error_code, now)
        try:
            given = [each for each in assigned(response.assignment) if each[0] in self._topics]
        except ProtocolError as error:
            what = f"the assignment of member {self._member_id!r} of group {self._options.group_id!r}"
            return self._fail(Fail(KafkaError(f"{what} cannot be decoded; the leader's assignor made it: {error}")))
        self._heard_ms = now
        self.state = State.STABLE
        self._beat_ms = now + self._options.heartbeat_interval_ms
        self._had, self._had_in = tuple(given), self._generation
        before, after = set(self.owned), set(given)
        added = tuple(each for each in given if each not in before)
        gone = tuple(each for each in self.owned if each not in after)
        self.owned += added
        actions: list[Action] = [Assign(added)]
        if gone:
            actions += self._release(gone)
        elif self._again:
            actions += self._rejoin(now)
        return actions

    # --- errors

    def _join_refused(self, code: int, now: float) -> list[Action]:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            return self._reset(now, forget_id=True)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return self._retry_join(now)
        return self._refused(code, "joining", now)

    def _sync_refused(self, code: int, now: float) -> list[Action]:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return self._rejoin(now)
        if code in _GONE:
            return self._reset(now, forget_id=code == ErrorCode.UNKNOWN_MEMBER_ID)
        return self._refused(code, "syncing with", now)

    def _refused(self, code: int, doing: str, now: float) -> list[Action]:
        if code in COORDINATOR_MOVED:
            return [LeaveCoordinator(), *self._retry_join(now)]
        if code in ERROR_CODES and ERROR_CODES[code].retriable:
            return self._retry_join(now)
        return self._fail(why_fatal(code, doing, self._options.group_id))

    def _retry_join(self, now: float) -> list[Action]:
        self.state = State.JOINING
        self._failures += 1
        self._members = []
        self._join_ms = now + self._options.backoff_ms(self._failures)
        return []

    def _reset(self, now: float, *, forget_id: bool) -> list[Action]:
        """Lose all partitions: the coordinator does not know this member, or its generation, any more."""
        lost = self._forget_owned()
        self._generation = NO_GENERATION
        if forget_id:
            self._member_id = ""
        return lost + self._retry_join(now)

    def _forget_owned(self) -> list[Action]:
        lost, self.owned, self._releasing = self.owned, (), frozenset()
        return [Lose(lost)] if lost else []

    def _fail(self, reason: Fail) -> list[Action]:
        self.state = State.FAILED
        self._in_flight, self._members, self._again = None, [], False
        self._join_ms = self._beat_ms = NEVER
        return [*self._forget_owned(), reason]

    # --- heartbeats

    def _beat(self, now: float) -> list[Action]:
        self._beat_ms = now + self._options.heartbeat_interval_ms
        self._beating = protocol.HeartbeatRequest(
            group_id=self._options.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._options.instance_id,
        )
        return [Send(self._beating, min(self._options.request_timeout_ms, self._options.session_timeout_ms))]

    def _retry_beat(self, now: float) -> list[Action]:
        self._beat_ms = now + self._options.retry_ms
        if now - self._heard_ms <= self._options.session_timeout_ms:
            return []
        self._heard_ms = now  # repeat this after the same time
        text = "no heartbeat had a response within session_timeout_ms (%d): the member looks up the coordinator again"
        return [LeaveCoordinator(), Log(text % self._options.session_timeout_ms, is_warning=True)]

    def _on_heartbeat(self, code: int, now: float) -> list[Action]:
        if not code:
            self._heard_ms = now
            return []
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._heard_ms = now
            return self._rejoin(now) if self.state is State.STABLE else []
        if code in COORDINATOR_MOVED:
            return [LeaveCoordinator(), *self._retry_beat(now)]
        if code in ERROR_CODES and ERROR_CODES[code].retriable:
            return self._retry_beat(now)
        return self._fail(why_fatal(code, "staying in", self._options.group_id))

    def _unknown(self, code: int, member_id: str, generation: int, now: float) -> list[Action]:
        """Lose the partitions: the coordinator does not know this member id, or this generation of it.

        A parked JoinGroup of an unknown member id can only fail. After ILLEGAL_GENERATION it may succeed, or it made
        the later generation.
        """
        if not member_id or member_id != self._member_id or self.state not in (State.STABLE, State.JOINING):
            return []
        is_joining = isinstance(self._in_flight, protocol.JoinGroupRequest)
        if code == ErrorCode.ILLEGAL_GENERATION and (is_joining or generation != self._generation):
            return []
        self._in_flight = None
        self._members = []
        return [
            left_behind(code, self._options.group_id),
            *self._reset(now, forget_id=code == ErrorCode.UNKNOWN_MEMBER_ID),
        ]
