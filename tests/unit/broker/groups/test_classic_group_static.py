"""Static members of a classic group (KIP-345): restarts without a rebalance, and fenced members."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafwire.errors import ErrorCode
from tests.support.group.members import Members, Membership


def restarted(group: Members, name: str, **how: Any) -> Any:
    """The response to a new process with this instance id."""
    return group.response_to(group.join(instance_id=name, **how))


def test_static_members_are_not_given_ids_first() -> None:
    group = Members()
    joined = restarted(group, "a")
    assert joined.error_code == 0
    assert joined.member_id.startswith("a-")
    assert [each.group_instance_id for each in joined.members] == ["a"]


def test_a_follower_restarts_and_has_its_assignment_without_a_rebalance() -> None:
    group = Members()
    leader, follower = group.stable(instance_ids=["a", "b"])
    joined = restarted(group, "b", client_id="another")
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 2, leader.member_id)
    assert (joined.members, joined.skip_assignment) == ([], False)
    assert joined.member_id != follower.member_id
    new = Membership(joined.member_id, 2, leader.member_id, "b")
    assert group.response_to(group.sync(new)).assignment == b"1"
    assert group.beat(new) == group.beat(leader) == 0
    described = {each.group_instance_id: (each.member_id, each.client_id) for each in group.describe().members}
    assert described == {"a": (leader.member_id, "test"), "b": (new.member_id, "test")}


@pytest.mark.parametrize("version", [8, 9])
def test_a_leader_restarts_and_does_not_assign(version: int) -> None:
    group = Members()
    leader, follower = group.stable(instance_ids=["a", "b"])
    joined = restarted(group, "a", version=version)
    if version == 9:  # it leads, and knows of all members, but is not to assign
        assert (joined.leader, joined.skip_assignment, len(joined.members)) == (joined.member_id, True, 2)
    else:  # an older one would assign if it knew that it leads
        assert (joined.leader, joined.skip_assignment, joined.members) == (leader.member_id, False, [])
    new = Membership(joined.member_id, joined.generation_id, joined.leader, "a")
    assert group.response_to(group.sync(new)).assignment == b"0"
    assert group.response_to(group.join(new.member_id, instance_id="a")) is None  # it does lead
    assert group.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_whose_instance_id_was_taken_is_fenced() -> None:
    group = Members()
    _, old = group.stable(instance_ids=["a", "b"])
    restarted(group, "b")
    assert group.beat(old) == ErrorCode.FENCED_INSTANCE_ID
    assert group.response_to(group.sync(old)).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.commit(old) == ErrorCode.FENCED_INSTANCE_ID
    again = group.response_to(group.join(old.member_id, instance_id="b"))
    assert (again.error_code, again.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    assert group.leave((old.member_id, "b")) == [ErrorCode.FENCED_INSTANCE_ID]
    nameless = dataclasses.replace(old, instance_id=None)
    assert group.beat(nameless) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_id() -> None:
    group = Members()
    (member,) = group.stable(instance_ids=["a"])
    assert group.beat(dataclasses.replace(member, instance_id="b")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave(("", "b")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_waits_to_join_is_fenced_at_once() -> None:
    group = Members()
    leader, follower = group.stable(instance_ids=["a", "b"])
    waiting = group.join(leader.member_id, instance_id="a")
    new = group.join(instance_id="a")
    fenced = group.response_to(waiting)
    assert (fenced.error_code, fenced.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader.member_id)
    assert group.response_to(new) is None
    other = group.join(follower.member_id, instance_id="b")
    assert group.response_to(new).generation_id == group.response_to(other).generation_id == 3


def test_a_restart_while_assignments_are_awaited_makes_all_join_again() -> None:
    group = Members()
    leader, follower = group.stable(instance_ids=["a", "b"])
    again = [group.join(leader.member_id, instance_id="a"), group.join(follower.member_id, instance_id="b")]
    generation = group.response_to(again[0]).generation_id
    early = group.sync(dataclasses.replace(follower, generation=generation))
    assert restarted(group, "b") is None
    assert group.response_to(early).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert group.beat(dataclasses.replace(leader, generation=generation)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_restart_with_other_metadata_and_the_same_protocol_does_not_rebalance() -> None:
    group = Members()
    group.stable(instance_ids=["a", "b"])
    assert restarted(group, "b", protocols=[("range", b"new")]).generation_id == 2
    assert group.status == "Stable"
    assert b"new" in {each.member_metadata for each in group.describe().members}


def test_a_restart_that_changes_the_vote_makes_all_join_again() -> None:
    group = Members()
    both = [("range", b""), ("sticky", b"")]
    group.stable(instance_ids=["a", "b"], protocols=both)
    assert restarted(group, "b", protocols=both[1:]) is None
    assert group.status == "PreparingRebalance"


def test_a_static_member_stays_when_it_does_not_join_and_leaves_when_its_session_ends() -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 45_000, "rebalance_ms": 20_000}
    leader, follower = group.stable(instance_ids=["a", "b"], **how)
    waiting = group.join(leader.member_id, instance_id="a", **how)
    group.pass_ms(20_000)
    joined = group.response_to(waiting)
    assert (joined.generation_id, len(joined.members)) == (3, 2)
    leader = dataclasses.replace(leader, generation=3)
    given = {leader.member_id: b"x", follower.member_id: b"y"}
    assert group.response_to(group.sync(leader, given)).assignment == b"x"
    returned = restarted(group, "b", **how)
    assert (returned.error_code, returned.generation_id) == (0, 3)
    returned = Membership(returned.member_id, 3, leader.member_id, "b")
    assert group.response_to(group.sync(returned)).assignment == b"y"


def test_no_member_joins_and_the_group_waits_until_sessions_end() -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 45_000, "rebalance_ms": 20_000}
    leader, follower = group.stable(instance_ids=["a", "b"], **how)
    assert group.leave(("", "b")) == [0]
    group.pass_ms(20_000)
    assert group.status == "PreparingRebalance"
    assert [each.member_id for each in group.describe().members] == [leader.member_id]
    group.pass_ms(25_000)
    assert group.status == "Empty"
    assert group.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_members_by_their_instance_ids() -> None:
    group = Members()
    group.stable(instance_ids=["a", "b"])
    assert group.leave(("", "a"), ("", "b"), ("", "c")) == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.status == "Empty"


def test_an_id_that_was_given_is_for_members_without_instance_ids() -> None:
    group = Members()
    assert group.response_to(group.join(group.new_id(), instance_id="a")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_another_leads_when_a_static_leader_does_not_join() -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 45_000, "rebalance_ms": 20_000}
    leader, follower = group.stable(instance_ids=["a", "b"], **how)
    waiting = group.join(follower.member_id, instance_id="b", protocols=[("range", b"new")], **how)
    group.pass_ms(20_000)
    joined = group.response_to(waiting)
    assert (joined.leader, len(joined.members)) == (follower.member_id, 2)
    assert group.beat(dataclasses.replace(leader, generation=3)) == 0


def test_a_removed_member_comes_again() -> None:
    group = Members()
    group.stable(instance_ids=["a"])
    assert group.leave(("", "a")) == [0]
    assert restarted(group, "a").generation_id == 3
