"""All groups of a cluster: permitted commits, the coordinator, the list of groups, and their deletion."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.errors import ErrorCode
from kafwire.protocol import ConsumerProtocolSubscription
from tests.support.group.members import Members, Membership


def coordinator(group: Members) -> GroupCoordinator:
    found: GroupCoordinator = group.state.part(GroupCoordinator)
    return found


def offsets(group: Members) -> OffsetStore:
    found: OffsetStore = group.state.part(OffsetStore)
    return found


def subscription(*topics: str) -> bytes:
    return b"\0\1" + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


def listed(group: Members, version: int = 5, **filters: Any) -> dict[str, tuple[str, str, str]]:
    response = group.ask(protocol.ListGroupsRequest(**filters), version)
    assert response.error_code == 0
    response = protocol.ListGroupsResponse.decode(bytes(response.encode(version)), version)
    return {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in response.groups}


def delete(group: Members, *names: str) -> dict[str, int]:
    response = group.ask(protocol.DeleteGroupsRequest(groups_names=list(names)))
    assert len(response.results) == len(set(names))
    return {each.group_id: each.error_code for each in response.results}


# --- permitted commits


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_group_that_does_not_exist(is_transactional: bool) -> None:
    check = coordinator(Members()).check_commit
    how = {"is_transactional": is_transactional}
    assert check("g", "", None, -1, **how) == 0
    assert check("g", "somebody", None, -1, **how) == 0
    assert check("g", "", None, 0, **how) == ErrorCode.ILLEGAL_GENERATION
    assert check("g", "somebody", None, 0, **how) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("is_transactional", [False, True])
def test_an_empty_group_takes_commits_outside_of_a_generation(is_transactional: bool) -> None:
    group = Members()
    coordinator(group).ensure("g")
    check = coordinator(group).check_commit
    how = {"is_transactional": is_transactional}
    assert check("g", "", None, -1, **how) == 0
    assert check("g", "somebody", None, -1, **how) == 0
    assert check("g", "somebody", "a", -1, **how) == 0
    assert check("g", "", None, 0, **how) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_group_with_members_is_for_them(is_transactional: bool) -> None:
    group = Members()
    (member,) = group.stable(instance_ids=["a"])
    check = coordinator(group).check_commit
    how = {"is_transactional": is_transactional}
    assert check("g", member.member_id, "a", 1, **how) == 0
    assert check("g", member.member_id, None, 1, **how) == 0
    assert check("g", member.member_id, None, 0, **how) == ErrorCode.ILLEGAL_GENERATION
    assert check("g", member.member_id, None, -1, **how) == ErrorCode.ILLEGAL_GENERATION
    assert check("g", "somebody", None, 1, **how) == ErrorCode.UNKNOWN_MEMBER_ID
    assert check("g", "somebody", None, -1, **how) == ErrorCode.UNKNOWN_MEMBER_ID
    assert check("g", "somebody", "a", 1, **how) == ErrorCode.FENCED_INSTANCE_ID
    assert check("g", "somebody", "b", 1, **how) == ErrorCode.UNKNOWN_MEMBER_ID
    # Transactions of old clients have no word of members.
    assert check("g", "", None, -1, **how) == (0 if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID)


def test_while_members_join_they_may_commit_and_while_they_wait_for_assignments_they_may_not() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    waiting = [group.join(leader.member_id)]
    assert group.commit(follower) == 0
    waiting.append(group.join(follower.member_id))
    generation = group.response_to(waiting[0]).generation_id
    follower = dataclasses.replace(follower, generation=generation)
    assert group.commit(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    check = coordinator(group).check_commit
    assert check("g", follower.member_id, None, generation, is_transactional=True) == 0


# --- the coordinator


def test_another_broker_goes_on_where_the_last_one_was() -> None:
    group = Members(nodes=(1, 2))
    leader, follower = group.stable(count=2)
    group.commit(leader)
    first, second = (group.node, 3 - group.node)
    group.state.move_coordinator("g", second)
    assert group.beat(leader) == ErrorCode.NOT_COORDINATOR
    assert group.response_to(group.join(leader.member_id)).error_code == ErrorCode.NOT_COORDINATOR
    assert group.response_to(group.sync(leader)).error_code == ErrorCode.NOT_COORDINATOR
    assert group.commit(leader) == ErrorCode.NOT_COORDINATOR
    assert group.describe().error_code == ErrorCode.NOT_COORDINATOR
    assert listed(group) == {}
    assert delete(group, "g") == {"g": ErrorCode.NOT_COORDINATOR}
    group.node = second
    assert group.beat(leader) == group.beat(follower) == 0
    assert group.response_to(group.sync(follower)).assignment == b"1"
    assert group.status == "Stable"
    assert listed(group) == {"g": ("consumer", "Stable", "classic")}
    group.state.move_coordinator("g", first)
    group.node = first
    assert group.commit(follower) == 0


def test_a_waiting_member_gets_the_error_of_a_moved_coordinator() -> None:
    group = Members(nodes=(1, 2))
    leader, follower = group.stable(count=2)
    joining = group.join(leader.member_id)
    group.state.move_coordinator("g", 3 - group.node)
    group.pass_ms(0)
    reported = group.response_to(joining)
    assert (reported.error_code, reported.member_id) == (ErrorCode.NOT_COORDINATOR, leader.member_id)
    group.node = 3 - group.node
    assert group.status == "Stable"  # of the rebalance that had begun nothing was written
    again = [group.join(leader.member_id), group.join(follower.member_id)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    assert leader.generation == 3
    syncing = group.sync(follower)
    group.state.move_coordinator("g", 3 - group.node)
    group.pass_ms(0)
    assert group.response_to(syncing).error_code == ErrorCode.NOT_COORDINATOR
    group.node = 3 - group.node
    assert group.beat(leader) == ErrorCode.ILLEGAL_GENERATION  # nor of the generation without assignments
    assert group.beat(dataclasses.replace(leader, generation=2)) == 0


def test_a_new_coordinator_knows_the_written_state_of_members() -> None:
    group = Members(nodes=(1, 2))
    both = [("range", b"r"), ("sticky", b"s")]
    leader, follower = group.stable(instance_ids=["a", "b"], protocols=both)
    lost = group.new_id(protocols=both)
    group.state.move_coordinator("g", 3 - group.node)
    group.node = 3 - group.node
    assert group.response_to(group.join(lost, protocols=both)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.response_to(group.join(instance_id="b", protocols=both[:1])).generation_id == 2
    assert group.beat(follower) == ErrorCode.FENCED_INSTANCE_ID
    # It knows of the chosen protocol only, so one with both looks changed.
    assert group.response_to(group.join(instance_id="b", protocols=both)).generation_id == 2
    assert group.response_to(group.join(leader.member_id, instance_id="a", protocols=both)) is None


def test_sessions_restart_with_a_new_coordinator_and_end_there() -> None:
    group = Members(nodes=(1, 2))
    leader, follower = group.stable(count=2, session_ms=10_000)
    group.pass_ms(9_000)
    group.state.move_coordinator("g", 3 - group.node)
    group.node = 3 - group.node
    group.pass_ms(9_000)
    assert group.beat(leader) == 0
    group.pass_ms(1_000)
    assert group.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_no_broker_coordinates_for_a_while_and_no_session_ends() -> None:
    group = Members(nodes=(1, 2))
    (member,) = group.stable()
    group.state.move_coordinator("g", -1)
    assert group.beat(member) == ErrorCode.NOT_COORDINATOR
    group.pass_ms(3_600_000)
    group.state.move_coordinator("g", group.node)
    assert group.beat(member) == 0


def test_a_broker_restarts_and_knows_its_groups() -> None:
    group = Members()
    (member,) = group.stable()
    group.commit(member)
    group.join(group.new_id())
    assert group.status == "PreparingRebalance"
    group.state.stop(1)
    group.pass_ms(3_600_000)
    group.state.start(1)
    assert group.status == "Stable"
    assert group.beat(member) == 0
    assert offsets(group).has_offsets("g")


def test_a_coordinator_that_is_loading() -> None:
    group = Members()
    (member,) = group.stable()
    coordinator(group).loading.add("g")
    assert group.beat(member) == 0  # a live member needs no error
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.commit(member) == code
    refused = group.response_to(group.join(member.member_id))
    assert (refused.error_code, refused.member_id) == (code, "")
    assert group.response_to(group.sync(member)).error_code == code
    assert group.ask(protocol.LeaveGroupRequest(group_id="g")).error_code == code
    assert group.ask(protocol.ListGroupsRequest()).error_code == code
    coordinator(group).loading.clear()
    assert group.commit(member) == 0


def test_a_group_that_is_too_large_for_a_new_coordinator_rebalances() -> None:
    group = Members(nodes=(1, 2))
    members = group.stable(count=3)
    group.state.configs["group.max.size"] = "2"
    group.state.move_coordinator("g", 3 - group.node)
    group.node = 3 - group.node
    assert group.beat(members[0]) == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = [group.join(each.member_id) for each in members]
    assert group.response_to(waiting[2]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    group.pass_ms(60_000)
    assert [group.response_to(each).generation_id for each in waiting[:2]] == [3, 3]


# --- listed and deleted groups


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(version: int) -> None:
    group = Members()
    assert listed(group, version) == {}
    group.commit(None)
    state, kind = ("Empty" if version >= 4 else "", "classic" if version >= 5 else "")
    assert listed(group, version) == {"g": ("", state, kind)}
    assert group.commit(Membership("stranger", 3, "")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_groups_are_filtered() -> None:
    group = Members()
    group.commit(None)
    group.group_id = "h"
    group.stable()
    assert set(listed(group)) == {"g", "h"}
    assert set(listed(group, states_filter=["STABLE"])) == {"h"}
    assert set(listed(group, states_filter=["Empty", "Dead"])) == {"g"}
    assert set(listed(group, types_filter=["Classic"])) == {"g", "h"}
    assert listed(group, types_filter=["share"]) == {}
    assert set(listed(group, states_filter=["stable"], types_filter=["consumer", "classic"])) == {"h"}


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(version: int) -> None:
    group = Members()
    missing = group.describe(version)
    assert (missing.error_code, missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0, "Dead")
    assert missing.error_message == ("Group g not found." if version >= 6 else None)
    (member,) = group.stable(instance_ids=["a"])
    found = group.describe(version)
    assert (found.group_state, found.members[0].member_id) == ("Stable", member.member_id)
    group.join(member.member_id, instance_id="a")
    found = group.describe(version)
    assert (found.group_state, found.protocol_data) == ("CompletingRebalance", "")
    assert (found.members[0].member_metadata, found.members[0].member_assignment) == (b"", b"0")


def test_groups_without_members_are_deleted_with_their_offsets() -> None:
    group = Members()
    (member,) = group.stable()
    assert group.commit(member) == 0
    assert delete(group, "g", "h", "g") == {"g": ErrorCode.NON_EMPTY_GROUP, "h": ErrorCode.GROUP_ID_NOT_FOUND}
    assert group.leave((member.member_id, None)) == [0]
    assert offsets(group).has_offsets("g")
    assert delete(group, "g") == {"g": 0}
    assert not offsets(group).has_offsets("g")
    assert listed(group) == {}
    assert delete(group, "g") == {"g": ErrorCode.GROUP_ID_NOT_FOUND}


def test_a_deleted_group_forgets_the_ids_that_it_gave() -> None:
    group = Members()
    given = group.new_id()
    assert group.status == "Empty"
    assert delete(group, "g") == {"g": 0}
    group.pass_ms(60_000)
    assert group.response_to(group.join(given)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert listed(group) == {}


# --- unused offsets


def test_a_group_without_members_and_offsets_is_forgotten() -> None:
    group = Members()
    (member,) = group.stable(session_ms=1_800_000)
    group.pass_ms(600_000)
    assert group.status == "Stable"
    group.leave((member.member_id, None))
    group.pass_ms(599_999)
    assert group.status == "Empty"
    group.pass_ms(1)
    assert listed(group) == {}


def test_since_when_offsets_are_not_needed() -> None:
    group = Members()
    since = coordinator(group).unused_since
    assert since("g", "t", 5) == 5
    group.commit(None)
    assert since("g", "t", 5) == 5  # no member has ever joined
    (member,) = group.stable(protocols=[("range", subscription("t"))], session_ms=1_800_000)
    assert since("g", "t", 5) is None
    assert since("g", "other", 5) == 5
    waiting = group.join(group.new_id())
    assert since("g", "other", 5) is None
    group.pass_ms(60_000)
    other = group.response_to(waiting).member_id
    assert group.leave((member.member_id, None), (other, None)) == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
    emptied_ms = group.state.wall_ms
    group.pass_ms(10_000)
    assert since("g", "t", 5) == emptied_ms


def test_subscriptions_that_cannot_be_read_are_taken_for_all_topics() -> None:
    group = Members()
    group.stable(protocols=[("range", b"")])
    its = coordinator(group)
    assert its.is_subscribed("g", "t")
    assert its.unused_since("g", "t", 5) is None


def test_offsets_of_topics_that_are_read_are_not_deleted() -> None:
    group = Members()
    (member,) = group.stable(protocols=[("range", subscription("t"))])
    its = coordinator(group)
    assert (its.is_subscribed("g", "t"), its.is_subscribed("g", "other")) == (True, False)
    assert its.check_offset_delete("g") == 0
    group.leave((member.member_id, None))
    assert not its.is_subscribed("g", "t")
    group.group_id = "workers"
    group.stable(protocol_type="connect")
    assert its.check_offset_delete("workers") == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("version", [0, 1])
def test_classic_groups_are_not_described_as_groups_of_the_consumer_protocol(version: int) -> None:
    group = Members()
    group.stable()
    response = group.ask(protocol.ConsumerGroupDescribeRequest(group_ids=["g", "none", ""]), version)
    assert [(each.group_id, each.error_code, each.error_message) for each in response.groups] == [
        ("", ErrorCode.INVALID_GROUP_ID, None),
        ("g", ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
    ]


def test_a_group_with_offsets_stays() -> None:
    group = Members()
    group.commit(None)
    group.pass_ms(1_200_000)
    assert group.status == "Empty"
