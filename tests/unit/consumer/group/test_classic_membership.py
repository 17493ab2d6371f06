"""`consumer.group.classic_membership`: joining, syncing, giving up and heartbeats, without a broker or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from kafwire import protocol
from kafwire.consumer.group.assignors.user_data import as_sticky_says
from kafwire.consumer.group.classic_membership import ClassicMembership
from kafwire.consumer.group.member import GroupMember, Partition
from kafwire.consumer.group.membership import (
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
)
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assigned, assignment, member_of, subscription
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaConnectionError

HEARTBEAT_MS = 3_000
SESSION_MS = 45_000
NO_RACK: frozenset[str] = frozenset()


class Member:
    """A membership, and the requests and other actions that came."""

    def __init__(self, *assignors: str, **options: Any) -> None:
        made = MemberOptions(
            group_id="g",
            random=lambda: 0.5,
            new_id=lambda: "unused",
            name_of=lambda _: None,
            assignors=assignors or ("range",),
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            **options,
        )
        self.membership = ClassicMembership(made)
        self.now = 0.0
        self.requests: list[Any] = []

    def did(self, actions: list[Action]) -> list[Action]:
        """The actions that are no requests."""
        self.requests += [action.message for action in actions if isinstance(action, Send)]
        return [action for action in actions if not isinstance(action, Send)]

    @property
    def last(self) -> Any:
        return self.requests[-1]

    def state(self) -> State:
        return self.membership.state

    def subscribe(self, *topics: str) -> list[Action]:
        return self.did(self.membership.subscribe(topics, self.now))

    def respond(self, message: Any, response: Any) -> list[Action]:
        return self.did(self.membership.on_response(message, response, self.now))

    def let_in(
        self, generation: int = 1, *, leader: str = "other", members: Sequence[GroupMember] = (), error: int = 0
    ) -> list[Action]:
        """The coordinator responds to the JoinGroup."""
        response_type = protocol.JoinGroupResponse
        response = response_type(
            error_code=error,
            generation_id=generation,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.last.protocols[0].name,
            leader=leader,
            member_id="me",
            members=[
                response_type.JoinGroupResponseMember(member_id=each.member_id, metadata=subscription(each))
                for each in members
            ],
        )
        return self.respond(self.last, response)

    def sync(self, *partitions: Partition, error: int = 0) -> list[Action]:
        """The coordinator responds to the SyncGroup."""
        data = b"" if error else assignment(partitions)
        return self.respond(self.last, protocol.SyncGroupResponse(error_code=error, assignment=data))

    def beat(self, error: int = 0) -> list[Action]:
        """The next heartbeat is due, and gets its response."""
        self.now = self.membership.wake_ms
        assert self.did(self.membership.tick(self.now)) == []
        assert isinstance(self.last, protocol.HeartbeatRequest)
        return self.respond(self.last, protocol.HeartbeatResponse(error_code=error))

    def released(self) -> list[Action]:
        return self.did(self.membership.released(self.now))

    def said(self, number: int = 0) -> GroupMember:
        """The leader's view of the last JoinGroup, by its assignor of that number."""
        assert isinstance(self.last, protocol.JoinGroupRequest)
        return member_of("me", None, self.last.protocols[number].metadata)


def joined(*partitions: int, assignors: Iterable[str] = ("range",), **options: Any) -> Member:
    """A follower with these partitions of `t` in generation 1."""
    member = Member(*assignors, **options)
    member.subscribe("t")
    member.let_in()
    member.sync(*(("t", number) for number in partitions))
    return member


# --- joining


def test_a_member_joins_with_the_id_that_the_coordinator_gives() -> None:
    member = Member()
    assert member.subscribe("u", "t") == []
    assert (member.last.member_id, member.said().topics) == ("", ["t", "u"])
    member.let_in(error=ErrorCode.MEMBER_ID_REQUIRED)
    assert member.last.member_id == "me"
    member.let_in(5)
    sync = member.last
    assert (sync.generation_id, sync.member_id, sync.assignments) == (5, "me", [])
    assert member.sync(("t", 0), ("v", 0)) == [Assign((("t", 0),))]  # `v` is of an earlier subscription
    assert member.state() is State.STABLE
    assert member.membership.metadata().generation_id == 5


def test_the_leader_assigns_to_all() -> None:
    member = Member("range")
    member.subscribe("t")
    both = [GroupMember("me", ["t"]), GroupMember("other", ["t"])]
    assert member.let_in(leader="me", members=both) == [LookUp(("t",))]
    member.did(member.membership.found({"t": [NO_RACK] * 3}, member.now))
    given = {each.member_id: assigned(each.assignment) for each in member.last.assignments}
    assert given == {"me": [("t", 0), ("t", 1)], "other": [("t", 2)]}


def test_only_the_leader_joins_again_for_new_partitions() -> None:
    grown = {"t": [NO_RACK] * 4}
    follower = joined(0)
    assert follower.did(follower.membership.changed(grown, 0.0)) == []
    leader = Member()
    leader.subscribe("t")
    leader.let_in(leader="me", members=[GroupMember("me", ["t"])])
    leader.did(leader.membership.found({"t": [NO_RACK]}, 0.0))
    leader.sync(("t", 0))
    assert leader.did(leader.membership.changed({"t": [NO_RACK]}, 0.0)) == []
    log, revoke = leader.did(leader.membership.changed(grown, 0.0))
    assert isinstance(log, Log)
    assert revoke == Revoke((("t", 0),))


def test_partitions_that_come_during_the_sync_are_assigned_after_it() -> None:
    leader = Member()
    leader.subscribe("t")
    leader.let_in(leader="me", members=[GroupMember("me", ["t"])])
    leader.did(leader.membership.found({"t": [NO_RACK]}, 0.0))
    (log,) = leader.did(leader.membership.changed({"t": [NO_RACK] * 4}, 0.0))
    assert isinstance(log, Log)
    assert leader.sync(("t", 0)) == [Assign((("t", 0),)), Revoke((("t", 0),))]
    assert leader.released() == []
    assert isinstance(leader.last, protocol.JoinGroupRequest)


# --- rebalances


def test_an_eager_member_gives_everything_up_before_it_joins_again() -> None:
    member = joined(0, 1)
    assert member.beat(ErrorCode.REBALANCE_IN_PROGRESS) == [Revoke((("t", 0), ("t", 1)))]
    assert not isinstance(member.last, protocol.JoinGroupRequest)
    assert member.membership.owned == (("t", 0), ("t", 1))
    assert member.released() == []
    assert member.said().owned == ()
    assert not member.membership.owned


def test_a_cooperative_member_gives_up_revoked_partitions_only_and_rejoins() -> None:
    member = joined(0, 1, assignors=["cooperative-sticky"])
    assert member.beat(ErrorCode.REBALANCE_IN_PROGRESS) == []
    assert (member.said().owned, member.said().generation) == ((("t", 0), ("t", 1)), 1)
    member.let_in(2)
    assert member.sync(("t", 1), ("t", 2)) == [Assign((("t", 2),)), Revoke((("t", 0),))]
    assert member.membership.is_rebalancing
    assert member.released() == []
    assert member.said().owned == (("t", 1), ("t", 2))
    assert member.said().generation == 2


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_sticky_member_names_the_generation_of_its_partitions(rounds: int) -> None:
    """If two members name one partition, the assignor believes the later generation: -1 is never believed."""
    member = joined(0, 1, assignors=["sticky"])
    for generation in range(2, rounds + 1):
        member.beat(ErrorCode.REBALANCE_IN_PROGRESS)
        member.released()
        member.let_in(generation)
        member.sync(("t", 0), ("t", 1))
    member.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    member.released()
    had = as_sticky_says(member.said())
    assert (sorted(had.owned), had.generation) == ([("t", 0), ("t", 1)], rounds)


def test_a_subscription_that_comes_while_the_member_joins_follows_that() -> None:
    member = Member()
    member.subscribe("t")
    member.subscribe("u")
    assert len(member.requests) == 1
    member.let_in()
    assert member.sync(("t", 0)) == [Assign(())]  # it wants `u`
    assert member.said().topics == ["u"]


# --- what goes wrong


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_a_member_whose_place_is_gone_loses_its_partitions_and_joins_again(code: int, member_id: str) -> None:
    member = joined(0)
    log, lost = member.beat(code)
    assert isinstance(log, Log)
    assert lost == Lose((("t", 0),))
    assert member.membership.metadata().generation_id == -1
    member.now = member.membership.wake_ms
    assert member.did(member.membership.tick(member.now)) == []
    assert (member.last.member_id, member.said().owned) == (member_id, ())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_refused_commit_of_the_present_member_loses_its_partitions(code: int) -> None:
    member = joined(0)
    sent_as = member.membership.metadata()
    log, lost = member.did(member.membership.fenced(code, sent_as, member.now))
    assert isinstance(log, Log)
    assert lost == Lose((("t", 0),))
    assert member.did(member.membership.fenced(code, sent_as, member.now)) == []  # a later refusal of the same member


def test_a_commit_of_an_unknown_member_ends_a_parked_join() -> None:
    """The JoinGroup of an unknown member id can only fail, and its response may never come."""
    member = joined(0, assignors=["cooperative-sticky"])
    member.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    parked = member.last
    assert isinstance(parked, protocol.JoinGroupRequest)
    sent_as = member.membership.metadata()
    assert member.did(member.membership.fenced(ErrorCode.ILLEGAL_GENERATION, sent_as, member.now)) == []
    _, lost = member.did(member.membership.fenced(ErrorCode.UNKNOWN_MEMBER_ID, sent_as, member.now))
    assert lost == Lose((("t", 0),))
    assert member.respond(parked, protocol.JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) == []
    member.now = member.membership.wake_ms
    member.did(member.membership.tick(member.now))
    assert (member.last.member_id, member.said().owned) == ("", ())


def test_a_refusal_of_an_earlier_member_leaves_the_present_one() -> None:
    member = joined(0)
    earlier = member.membership.metadata()
    member.now = member.membership.wake_ms
    member.did(member.membership.tick(member.now))
    heartbeat = member.last
    member.did(member.membership.fenced(ErrorCode.UNKNOWN_MEMBER_ID, earlier, member.now))
    member.now = member.membership.wake_ms
    member.did(member.membership.tick(member.now))
    member.respond(member.last, protocol.JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="new"))
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
        assert member.did(member.membership.fenced(code, earlier, member.now)) == []
    assert member.respond(heartbeat, protocol.HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) == []
    assert member.last.member_id == "new"


def test_a_member_with_a_refused_sync_rejoins_with_its_partitions() -> None:
    member = joined(0, assignors=["cooperative-sticky"])
    member.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    member.let_in(2)
    assert member.sync(error=ErrorCode.REBALANCE_IN_PROGRESS) == []
    assert member.said().owned == (("t", 0),)


def test_a_join_that_failed_is_sent_again_later_each_time() -> None:
    member = Member(retry_ms=100, retry_max_ms=300)
    member.subscribe("t")
    pauses = []
    for _ in range(4):
        member.did(member.membership.failed(member.last, KafkaConnectionError("gone"), member.now))
        pauses.append(member.membership.wake_ms - member.now)
        member.now = member.membership.wake_ms
        member.did(member.membership.tick(member.now))
    assert pauses == [100.0, 200.0, 300.0, 300.0]


def test_a_coordinator_that_moved_is_left() -> None:
    member = joined(0)
    assert member.beat(ErrorCode.NOT_COORDINATOR) == [LeaveCoordinator()]
    assert member.membership.owned == (("t", 0),)


def test_heartbeats_without_a_response_for_a_session_leave_the_coordinator_once_a_session() -> None:
    member = joined(0)
    left: list[float] = []
    while member.now < 2.5 * SESSION_MS:
        member.now = member.membership.wake_ms
        member.did(member.membership.tick(member.now))
        actions = member.did(member.membership.failed(member.last, KafkaConnectionError("gone"), member.now))
        left += [member.now for action in actions if isinstance(action, LeaveCoordinator)]
    assert len(left) == 2
    assert left[1] - left[0] > SESSION_MS
    assert member.membership.owned == (("t", 0),)


def test_an_undecodable_subscription_ends_the_leader() -> None:
    member = Member()
    member.subscribe("t")
    response_type = protocol.JoinGroupResponse
    response = response_type(
        generation_id=1,
        protocol_name="range",
        leader="me",
        member_id="me",
        members=[response_type.JoinGroupResponseMember(member_id="x", metadata=b"\0")],
    )
    (failed,) = member.respond(member.last, response)
    assert isinstance(failed, Fail)
    assert "cannot be decoded" in str(failed.error)
    assert member.state() is State.FAILED


# --- leaving


def test_a_member_that_leaves_while_it_gets_its_id_leaves_with_that_id() -> None:
    member = Member()
    member.subscribe("t")
    assert member.did(member.membership.leave(member.now)) == []
    assert member.state() is State.LEAVING
    member.let_in(error=ErrorCode.MEMBER_ID_REQUIRED)
    (identity,) = member.last.members
    assert identity.member_id == "me"
    member.respond(member.last, protocol.LeaveGroupResponse())
    assert member.state() is State.OUT


def test_a_static_member_does_not_leave() -> None:
    member = joined(0, instance_id="one")
    sent = len(member.requests)
    assert member.did(member.membership.leave(member.now)) == []
    assert len(member.requests) == sent
    assert member.state() is State.OUT
