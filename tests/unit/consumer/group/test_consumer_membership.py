"""`consumer.group.consumer_membership`: heartbeats, targets and look-ups, decided without a broker or a clock."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.consumer.group.consumer_membership import PROMPT_MS, ConsumerMembership
from kafwire.consumer.group.member import Partition
from kafwire.consumer.group.membership import (
    Action,
    Assign,
    Fail,
    LeaveCoordinator,
    Log,
    LookUpIds,
    Lose,
    MemberOptions,
    Revoke,
    Send,
    State,
)
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, KafkaConnectionError, broker_error

INTERVAL_MS = 5_000
T, U = uuid.UUID(int=1), uuid.UUID(int=2)


class Member:
    """A membership, the names that metadata shows, and the requests and other actions that came."""

    def __init__(self, **options: Any) -> None:
        self.names = {T: "t"}
        ids = (f"m{number}" for number in itertools.count())
        self.membership = ConsumerMembership(
            MemberOptions(
                group_id="g",
                random=lambda: 0.5,
                new_id=lambda: next(ids),
                name_of=self.names.get,
                **options,
            )
        )
        self.now = 0.0
        self.requests: list[Any] = []

    def did(self, actions: list[Action]) -> list[Action]:
        """The actions that are no requests."""
        self.requests += [action.message for action in actions if isinstance(action, Send)]
        return [action for action in actions if not isinstance(action, Send)]

    def state(self) -> State:
        return self.membership.state

    def subscribe(self, *topics: str) -> list[Action]:
        return self.did(self.membership.subscribe(topics, self.now))

    def respond(self, assigned: Iterable[tuple[uuid.UUID, int]] | None = None, epoch: int = 1) -> list[Action]:
        """The coordinator accepts the last heartbeat; `assigned` is a new target."""
        response_type = protocol.ConsumerGroupHeartbeatResponse
        response = response_type(member_id=None, member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS)
        if assigned is not None:
            given = [
                response_type.TopicPartitions(topic_id=topic_id, partitions=[number for _, number in of])
                for topic_id, of in itertools.groupby(sorted(assigned), key=lambda place: place[0])
            ]
            response.assignment = response_type.Assignment(topic_partitions=given)
        return self.did(self.membership.on_response(self.requests[-1], response, self.now))

    def refuse(self, code: int) -> list[Action]:
        response = protocol.ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0)
        return self.did(self.membership.on_response(self.requests[-1], response, self.now))

    def wake(self) -> list[Action]:
        """The time goes on to the next tick."""
        assert self.membership.wake_ms < float("inf")
        self.now = max(self.now, self.membership.wake_ms)
        return self.did(self.membership.tick(self.now))

    def reported(self) -> list[Partition] | None:
        """The partitions that the last heartbeat names; None: it names none."""
        given = self.requests[-1].topic_partitions
        return None if given is None else [(self.names[of.topic_id], n) for of in given for n in of.partitions]


def joined(*partitions: int, **options: Any) -> Member:
    """A member that has these partitions of `t`, and has acknowledged them."""
    member = Member(**options)
    member.subscribe("t")
    member.respond([(T, number) for number in partitions])
    member.respond()
    return member


# --- heartbeats


def test_the_first_heartbeat_has_everything_and_a_later_one_nothing() -> None:
    member = Member(rack="east")
    member.subscribe("u", "t")
    (first,) = member.requests
    assert (first.member_epoch, first.subscribed_topic_names, first.rack_id) == (0, ["t", "u"], "east")
    assert member.reported() == []
    assert member.state() is State.JOINING
    assert member.respond([(T, 0)]) == [Assign((("t", 0),))]
    member.respond()
    member.wake()
    last = member.requests[-1]
    assert (last.member_epoch, last.subscribed_topic_names, last.rack_id, member.reported()) == (1, None, None, None)


def test_an_assignment_is_acknowledged_at_once() -> None:
    member = Member()
    member.subscribe("t")
    member.respond([(T, 0), (T, 1)])
    assert len(member.requests) == 2
    assert member.reported() == [("t", 0), ("t", 1)]
    assert member.membership.owned == (("t", 0), ("t", 1))


def test_an_unchanged_target_is_acknowledged() -> None:
    """The coordinator waits for that: the member may not have taken what was assigned in between."""
    member = joined(0)
    sent = len(member.requests)
    member.wake()
    assert member.respond([(T, 0)], epoch=2) == [Assign(())]
    assert len(member.requests) == sent + 2
    assert member.reported() == [("t", 0)]
    assert not member.membership.is_rebalancing


def test_a_revoked_partition_is_acknowledged_only_when_it_was_released() -> None:
    member = joined(0, 1)
    member.wake()
    assert member.respond([(T, 1), (T, 2)], epoch=2) == [Revoke((("t", 0),))]
    assert member.membership.owned == (("t", 0), ("t", 1))
    assert member.membership.is_rebalancing
    member.wake()
    assert member.reported() == [("t", 0), ("t", 1)]
    member.respond(epoch=2)
    assert member.did(member.membership.released(member.now)) == [Assign((("t", 2),))]
    assert member.reported() == [("t", 1), ("t", 2)]


def test_after_a_lost_response_a_heartbeat_has_everything() -> None:
    member = joined(0)
    member.wake()
    assert member.did(member.membership.failed(member.requests[-1], KafkaConnectionError("gone"), member.now)) == []
    member.wake()
    last = member.requests[-1]
    assert (last.member_epoch, last.subscribed_topic_names, member.reported()) == (1, ["t"], [("t", 0)])


def test_a_change_of_topics_while_a_heartbeat_is_under_way_follows_it() -> None:
    member = joined(0)
    member.wake()
    sent = len(member.requests)
    member.subscribe("u")
    assert len(member.requests) == sent
    member.respond()
    member.wake()
    assert (member.now, member.requests[-1].subscribed_topic_names) == (float(INTERVAL_MS), ["u"])


# --- without partitions


def pauses(member: Member, count: int) -> list[float]:
    """The times between heartbeats that bring nothing."""
    found = []
    for _ in range(count):
        before = member.now
        member.wake()
        member.respond()
        found.append(member.now - before)
    return found


def test_a_member_without_partitions_sends_heartbeats_at_growing_intervals() -> None:
    """No regular heartbeat comes later because of them."""
    member = Member()
    member.subscribe("t")
    member.respond()
    assert pauses(member, 8) == [100.0, 200.0, 400.0, 800.0, 1600.0, 1900.0, 5000.0, 5000.0]


def test_a_member_with_partitions_sends_heartbeats_at_the_interval() -> None:
    assert pauses(joined(0), 3) == [INTERVAL_MS] * 3


@pytest.mark.parametrize("how", ["revoked", "lost", "subscribed"])
def test_a_member_that_has_no_partitions_any_more_begins_with_short_intervals_again(how: str) -> None:
    member = joined(0) if how != "subscribed" else joined()
    pauses(member, 8)
    if how == "revoked":
        member.wake()
        member.respond([], epoch=2)
        member.did(member.membership.released(member.now))
        member.respond(epoch=2)
    elif how == "lost":
        member.wake()
        member.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
        member.wake()
        member.respond()
    else:
        member.subscribe("t", "u")
        member.respond()
    assert pauses(member, 2) == [PROMPT_MS, 2 * PROMPT_MS]


# --- topics without a name


def test_ids_without_a_name_are_looked_up_until_they_have_one() -> None:
    member = Member(retry_ms=100, retry_max_ms=1_000)
    member.subscribe("t")
    assert member.respond([(T, 0), (U, 3)]) == [Assign((("t", 0),)), LookUpIds((U,))]
    member.respond()
    times = []
    for number in range(6):
        actions = member.did(member.membership.named(member.now))
        warnings = [action for action in actions if isinstance(action, Log) and action.is_warning]
        assert len(warnings) == (number == 0)  # once
        assert all(str(U) in warning.text for warning in warnings)
        before = member.now
        assert member.wake() == [LookUpIds((U,))]
        times.append(member.now - before)
    assert times == [100.0, 200.0, 400.0, 800.0, 1000.0, 1000.0]
    assert member.membership.is_rebalancing
    member.names[U] = "u"
    assert member.did(member.membership.named(member.now)) == [Assign((("u", 3),))]
    assert member.reported() == [("t", 0), ("u", 3)]
    assert not member.membership.is_rebalancing


def test_metadata_that_shows_a_name_ends_the_look_ups() -> None:
    member = Member()
    member.subscribe("t")
    member.respond([(U, 0)])
    member.respond()
    member.did(member.membership.named(member.now))
    assert member.did(member.membership.changed({}, member.now)) == []  # other topics' news is no reason to ask
    member.names[U] = "u"
    assert member.did(member.membership.changed({}, member.now)) == [Assign((("u", 0),))]
    member.respond()
    assert member.membership.wake_ms == member.now + INTERVAL_MS


def test_a_look_up_waits_for_a_revocation() -> None:
    member = Member()
    member.subscribe("t")
    member.respond([(T, 0), (U, 0)])
    member.respond()
    member.did(member.membership.named(member.now))
    assert member.wake() == [LookUpIds((U,))]
    member.did(member.membership.named(member.now))
    sent_as = member.membership.metadata()
    member.did(member.membership.fenced(ErrorCode.STALE_MEMBER_EPOCH, sent_as, member.now))  # a heartbeat
    assert member.respond([(U, 0)], epoch=2) == [Revoke((("t", 0),))]
    assert member.membership.wake_ms == member.now + INTERVAL_MS
    assert member.did(member.membership.released(member.now)) == [LookUpIds((U,))]


@pytest.mark.parametrize("end", ["leave", "lose"])
def test_no_name_is_looked_up_for_a_member_that_has_no_target_any_more(end: str) -> None:
    member = Member()
    member.subscribe("t")
    member.respond([(U, 0)])
    member.respond()
    if end == "leave":
        member.did(member.membership.leave(member.now))
    else:
        member.wake()
        member.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.did(member.membership.named(member.now)) == []
    if end == "leave":
        member.respond()
        assert member.membership.wake_ms == float("inf")
    else:
        assert member.wake() == []  # it joins again
        assert member.requests[-1].member_epoch == 0


# --- what goes wrong


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_member_that_the_coordinator_does_not_know_any_more_joins_again(code: int) -> None:
    member = joined(0)
    member.wake()
    log, lost = member.refuse(code)
    assert isinstance(log, Log)
    assert log.is_warning
    assert ErrorCode(code).name in log.text
    assert lost == Lose((("t", 0),))
    assert member.membership.owned == ()
    assert member.membership.metadata().generation_id == -1
    member.wake()
    last = member.requests[-1]
    assert (last.member_id, last.member_epoch, last.subscribed_topic_names, member.reported()) == ("m0", 0, ["t"], [])
    assert member.respond([(T, 0)], epoch=7) == [Assign((("t", 0),))]
    assert member.membership.metadata().generation_id == 7


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_refused_commit_of_the_present_member_loses_its_partitions(code: int) -> None:
    """The response to the heartbeat on its way may never come."""
    member = joined(0)
    member.wake()
    sent_as, heartbeat = member.membership.metadata(), member.requests[-1]
    log, lost = member.did(member.membership.fenced(code, sent_as, member.now))
    assert isinstance(log, Log)
    assert lost == Lose((("t", 0),))
    member.wake()
    assert member.requests[-1].member_epoch == 0
    assert member.did(member.membership.fenced(code, sent_as, member.now)) == []
    response = protocol.ConsumerGroupHeartbeatResponse(error_code=code)
    assert member.did(member.membership.on_response(heartbeat, response, member.now)) == []


def test_a_commit_with_an_earlier_epoch_brings_a_heartbeat() -> None:
    member = joined(0)
    sent_as, before = member.membership.metadata(), len(member.requests)
    assert member.did(member.membership.fenced(ErrorCode.STALE_MEMBER_EPOCH, sent_as, member.now)) == []
    assert len(member.requests) == before + 1
    member.respond(epoch=sent_as.generation_id + 1)
    assert member.did(member.membership.fenced(ErrorCode.UNKNOWN_MEMBER_ID, sent_as, member.now)) == []
    assert member.membership.owned == (("t", 0),)


def test_a_group_that_a_member_cannot_join_fails_it() -> None:
    """A member whose group became classic meanwhile joins again, and gets the error that has the reason."""
    member = joined(0)
    member.wake()
    member.refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    member.wake()
    (failed,) = member.refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    assert isinstance(failed, Fail)
    assert "its members speak the classic one" in str(failed.error)
    assert member.state() is State.FAILED
    assert member.membership.wake_ms == float("inf")


def test_an_error_that_no_retry_mends_loses_the_partitions() -> None:
    member = joined(0)
    sent_as = member.membership.metadata()
    member.wake()
    error = broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "a heartbeat", api="ConsumerGroupHeartbeat", group="g")
    assert isinstance(error, AuthorizationError)
    lost, failed = member.did(member.membership.failed(member.requests[-1], error, member.now))
    assert (lost, failed) == (Lose((("t", 0),)), Fail(error))
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
        assert member.did(member.membership.fenced(code, sent_as, member.now)) == [], "a commit that was on its way"
        assert (member.state(), member.membership.wake_ms) == (State.FAILED, float("inf"))


def test_a_coordinator_that_moved_is_left_and_the_partitions_stay() -> None:
    member = joined(0)
    member.wake()
    assert member.refuse(ErrorCode.NOT_COORDINATOR) == [LeaveCoordinator()]
    assert member.membership.owned == (("t", 0),)
    member.wake()
    assert (member.requests[-1].member_epoch, member.reported()) == (1, [("t", 0)])


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_a_static_member_leaves_for_a_while(instance_id: str | None, epoch: int) -> None:
    member = joined(0, instance_id=instance_id)
    assert member.did(member.membership.leave(member.now)) == []
    assert member.requests[-1].member_epoch == epoch
    assert member.state() is State.LEAVING
    member.respond()
    assert member.state() is State.OUT
    assert member.membership.wake_ms == float("inf")
