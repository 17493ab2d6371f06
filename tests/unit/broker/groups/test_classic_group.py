"""One classic group: joining, assignments, leaving, static members, and all that time does to it."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from tests.support.group.members import Members, Membership


def test_a_member_is_given_an_id_first_and_leads_when_it_is_alone() -> None:
    group = Members()
    first = group.response_to(group.join(client_id="app"))
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("app-")
    assert (first.generation_id, first.protocol_name, first.leader) == (-1, None, "")
    joined = group.response_to(group.join(first.member_id))
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
    assert (joined.protocol_type, joined.protocol_name, joined.skip_assignment) == ("consumer", "range", False)
    assert [(each.member_id, each.metadata) for each in joined.members] == [(first.member_id, b"metadata")]
    assert group.status == "CompletingRebalance"


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_joining(version: int) -> None:
    group = Members()
    joined = group.response_to(group.join(version=version))
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert joined.protocol_name == (None if version >= 7 else "")
        joined = group.response_to(group.join(joined.member_id, version=version))
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    decoded = protocol.JoinGroupResponse.decode(bytes(joined.encode(version)), version)
    assert decoded.leader == joined.member_id


def test_a_protocol_may_have_an_empty_name() -> None:
    group = Members()
    joined = group.response_to(group.join(group.new_id(), protocols=[("", b"metadata")]))
    assert (joined.error_code, joined.protocol_name) == (0, "")


def test_a_second_member_makes_the_first_join_again() -> None:
    group = Members()
    (first,) = group.stable()
    other = group.new_id()
    assert group.beat(first) == 0  # nothing happens until it joins with its id
    waiting = group.join(other, protocols=[("range", b"other")])
    assert group.response_to(waiting) is None
    assert group.status == "PreparingRebalance"
    assert group.beat(first) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.response_to(group.sync(first)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    leader = group.response_to(group.join(first.member_id))
    follower = group.response_to(waiting)
    assert leader.generation_id == follower.generation_id == 2
    assert leader.leader == follower.leader == first.member_id
    assert {each.member_id: each.metadata for each in leader.members} == {first.member_id: b"metadata", other: b"other"}
    assert follower.members == []
    assert group.beat(Membership(other, 2, first.member_id)) == 0


def test_a_follower_that_asks_before_the_leader_waits_for_it() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    again = [group.join(leader.member_id), group.join(follower.member_id)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    early = group.sync(follower)
    assert group.response_to(early) is None
    given = {leader.member_id: b"a", follower.member_id: b"b", "nobody": b"c"}
    own = group.response_to(group.sync(leader, given))
    assert (own.error_code, own.assignment, own.protocol_type, own.protocol_name) == (0, b"a", "consumer", "range")
    assert group.response_to(early).assignment == b"b"
    assert group.response_to(group.sync(follower)).assignment == b"b"  # as often as it asks
    assert group.status == "Stable"


def test_a_member_that_the_leader_forgets_has_an_empty_assignment() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    again = [group.join(leader.member_id), group.join(follower.member_id)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    group.response_to(group.sync(leader, {leader.member_id: b"a"}))
    assert group.response_to(group.sync(follower)).assignment == b""


def test_twenty_members() -> None:
    group = Members()
    members = group.stable(count=20)
    assert {each.generation for each in members} == {2}
    described = group.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert sorted(each.member_assignment for each in described.members) == sorted(b"%d" % n for n in range(20))
    assert {(each.client_id, each.client_host, each.member_metadata) for each in described.members} == {
        ("test", "/127.0.0.1", b"metadata")
    }


# --- protocols


def test_protocols_that_do_not_match() -> None:
    group = Members()
    nothing = group.response_to(group.join(protocols=[]))
    assert (nothing.error_code, nothing.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert group.response_to(group.join(protocol_type="")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (first,) = group.stable(protocols=[("range", b""), ("sticky", b"")])
    for how in ({"protocol_type": "connect"}, {"protocols": [("other", b"")]}):
        assert group.response_to(group.join(**how)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = group.response_to(group.join(first.member_id, protocols=[("other", b"")]))
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, first.member_id)
    assert group.status == "Stable"
    assert group.new_id(protocols=[("other", b""), ("sticky", b"")])


def test_the_protocol_that_most_like_best() -> None:
    group = Members()
    ids = [group.new_id() for _ in range(3)]
    first = group.join(ids[0], protocols=[("a", b"1"), ("b", b"2"), ("c", b"3")])
    assert group.response_to(first).protocol_name == "a"
    waiting = [
        group.join(ids[1], protocols=[("d", b""), ("b", b"")]),
        group.join(ids[2], protocols=[("b", b""), ("a", b"")]),
        group.join(ids[0], protocols=[("a", b"1"), ("b", b"2"), ("c", b"3")]),
    ]
    responses = [group.response_to(each) for each in waiting]
    assert {each.protocol_name for each in responses} == {"b"}
    assert {each.member_id: each.metadata for each in responses[2].members}[ids[0]] == b"2"


def test_assignments_are_asked_for_with_the_protocol() -> None:
    group = Members()
    (member,) = group.stable()
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.response_to(group.sync(member, protocol_name=None)).error_code == code
    assert group.response_to(group.sync(member, protocol_type=None)).error_code == code
    assert group.response_to(group.sync(member, protocol_name="other")).error_code == code
    assert group.response_to(group.sync(member, protocol_type="other")).error_code == code
    without = {"protocol_name": None, "protocol_type": None}
    assert group.response_to(group.sync(member, version=4, **without)).assignment == b"0"


# --- joining again


def test_a_leader_that_joins_again_makes_all_join_again() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    waiting = group.join(leader.member_id)
    assert group.response_to(waiting) is None
    assert group.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.response_to(group.join(follower.member_id)).generation_id == 3
    assert group.response_to(waiting).generation_id == 3


def test_a_follower_that_joins_again_gets_the_generation_unless_it_has_changed() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    same = group.response_to(group.join(follower.member_id))
    assert (same.error_code, same.generation_id, same.leader, same.members) == (0, 2, leader.member_id, [])
    assert group.status == "Stable"
    assert group.response_to(group.join(follower.member_id, protocols=[("range", b"new")])) is None
    assert group.beat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_before_the_assignments_the_leader_gets_the_members_again() -> None:
    group = Members()
    member_id = group.new_id()
    assert group.response_to(group.join(member_id)).generation_id == 1
    again = group.response_to(group.join(member_id))
    assert (again.generation_id, [each.member_id for each in again.members]) == (1, [member_id])
    changed = group.response_to(group.join(member_id, protocols=[("range", b"new")]))
    assert changed.generation_id == 2


def test_a_join_while_assignments_are_awaited_sends_all_back() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    again = [group.join(leader.member_id), group.join(follower.member_id)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    early = group.sync(follower)
    group.join(group.new_id())
    assert group.response_to(early).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.status == "PreparingRebalance"
    assert {each.member_assignment for each in group.describe().members} == {b""}


def test_the_last_request_to_join_gets_a_response() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    given_up, waiting = group.join(leader.member_id), group.join(leader.member_id)
    group.response_to(group.join(follower.member_id))
    assert group.response_to(waiting).generation_id == 3
    assert group.response_to(given_up) is None


def test_stale_generations_and_strangers() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    stale = Membership(leader.member_id, 1, leader.leader)
    assert group.beat(stale) == ErrorCode.ILLEGAL_GENERATION
    assert group.response_to(group.sync(stale)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert group.commit(stale) == ErrorCode.ILLEGAL_GENERATION
    stranger = Membership("stranger", 2, "")
    assert group.beat(stranger) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.response_to(group.sync(stranger)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    refused = group.response_to(group.join("stranger"))
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert group.commit(follower) == 0


# --- time


def test_a_session_ends_without_heartbeats() -> None:
    group = Members()
    first, second = group.stable(count=2, session_ms=10_000)
    for _ in range(3):
        group.pass_ms(4_000)
        assert group.beat(first) in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.status == "PreparingRebalance"
    assert group.beat(second) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.response_to(group.join(first.member_id)).generation_id == 3


def test_commits_keep_a_session_alive_and_a_lost_one_empties_the_group() -> None:
    group = Members()
    (member,) = group.stable(session_ms=10_000)
    for _ in range(3):
        group.pass_ms(9_000)
        assert group.commit(member) == 0
    group.pass_ms(10_000)
    assert group.status == "Empty"
    assert group.commit(member) == ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = group.stable()
    assert member.generation == 3  # 2 was the empty one


def test_a_member_that_waits_for_the_others_need_not_send_heartbeats() -> None:
    group = Members()
    leader, follower = group.stable(count=2, session_ms=10_000)
    waiting = group.join(leader.member_id, session_ms=10_000)
    for _ in range(5):
        group.pass_ms(8_000)
        assert group.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    group.response_to(group.join(follower.member_id))
    assert group.response_to(waiting).generation_id == 3


def test_laggards_are_out_after_the_longest_rebalance_timeout() -> None:
    group = Members()
    leader, follower = group.stable(count=2, session_ms=10_000, rebalance_ms=30_000)
    group.join(group.new_id(rebalance_ms=20_000), rebalance_ms=20_000)
    for _ in range(6):
        group.pass_ms(5_000 - 1)
        assert group.beat(leader) == group.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    group.pass_ms(6)
    for each in (leader, follower):
        assert group.beat(each) == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leads_when_the_leader_lags() -> None:
    group = Members()
    leader, follower = group.stable(count=2, session_ms=60_000, rebalance_ms=20_000)
    waiting = group.join(follower.member_id, protocols=[("range", b"new")], session_ms=60_000, rebalance_ms=20_000)
    group.pass_ms(19_999)
    assert group.response_to(waiting) is None
    group.pass_ms(1)
    joined = group.response_to(waiting)
    assert (joined.generation_id, joined.leader) == (3, follower.member_id)
    assert [each.member_id for each in joined.members] == [follower.member_id]
    assert group.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("leader_syncs", [True, False])
def test_a_member_that_does_not_ask_for_its_assignment_in_time_is_out(leader_syncs: bool) -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 60_000, "rebalance_ms": 20_000}
    leader, follower = group.stable(count=2, **how)
    again = [group.join(leader.member_id, **how), group.join(follower.member_id, **how)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    diligent, lazy = (leader, follower) if leader_syncs else (follower, leader)
    asked = group.sync(diligent, {leader.member_id: b"a"} if leader_syncs else None)
    assert group.status == ("Stable" if leader_syncs else "CompletingRebalance")
    group.pass_ms(19_999)
    assert group.beat(lazy) == 0
    group.pass_ms(1)
    assert group.beat(lazy) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(diligent) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.response_to(asked).error_code == (0 if leader_syncs else ErrorCode.REBALANCE_IN_PROGRESS)


def test_an_unused_id_holds_a_rebalance_up_until_its_session_ends() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    lost = group.new_id(session_ms=6_000)
    waiting = [group.join(leader.member_id), group.join(follower.member_id)]
    assert group.response_to(waiting[0]) is None
    group.pass_ms(6_000)
    assert [group.response_to(each).generation_id for each in waiting] == [3, 3]
    assert group.response_to(group.join(lost)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_waits_five_minutes_at_most() -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 1_000_000, "rebalance_ms": 1_000_000}
    group.stable(**how)
    waiting = group.join(version=3, **how)
    group.pass_ms(299_999)
    assert group.response_to(waiting) is None
    group.pass_ms(1)
    response = group.response_to(waiting)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert len(group.describe().members) == 1


def test_the_first_rebalance_waits_for_more_members() -> None:
    group = Members(group_initial_rebalance_delay_ms=3000)
    first = group.join(group.new_id())
    group.pass_ms(2_000)
    second = group.join(group.new_id())
    group.pass_ms(1_000)
    assert group.response_to(first) is None  # one more has come
    group.pass_ms(2_999)
    assert group.response_to(first) is None
    group.pass_ms(1)
    responses = [group.response_to(first), group.response_to(second)]
    assert [each.generation_id for each in responses] == [1, 1]
    assert len(responses[0].members) == 2
    assert group.response_to(group.join(group.new_id())) is None  # later ones wait for all members


def test_the_first_rebalance_takes_no_longer_than_a_rebalance() -> None:
    group = Members(group_initial_rebalance_delay_ms=3000)
    first = group.join(group.new_id(), rebalance_ms=10_000)
    for _ in range(4):
        group.pass_ms(2_499)
        assert group.response_to(first) is None
        group.join(group.new_id(), rebalance_ms=10_000)
    group.pass_ms(4)
    assert len(group.response_to(first).members) == 5


# --- leaving


def test_a_member_leaves() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    assert group.leave((leader.member_id, None)) == [0]
    assert group.beat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = group.response_to(group.join(follower.member_id))
    assert (joined.generation_id, joined.leader) == (3, follower.member_id)
    assert group.leave((leader.member_id, None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.leave((follower.member_id, None)) == [0]
    assert group.status == "Empty"
    assert group.describe().members == []


def test_several_leave_at_once_and_the_others_rebalance_once() -> None:
    group = Members()
    members = group.stable(count=3)
    named = [(each.member_id, None) for each in members[:2]]
    assert group.leave(*named, ("stranger", None), ("", None)) == [0, 0, *[ErrorCode.UNKNOWN_MEMBER_ID] * 2]
    assert group.response_to(group.join(members[2].member_id)).generation_id == 3


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_member_leaves_in_old_versions(version: int) -> None:
    group = Members()
    (member,) = group.stable()
    request = protocol.LeaveGroupRequest(group_id="g", member_id=member.member_id)
    assert group.ask(request, version).error_code == 0
    assert group.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.status == "Empty"


def test_a_member_that_leaves_while_it_waits_to_join_gets_an_error_and_the_others_go_on() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    waiting = group.join(leader.member_id)
    assert group.leave((leader.member_id, None)) == [0]
    reported = group.response_to(waiting)
    assert (reported.error_code, reported.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    other = group.join(follower.member_id)
    assert group.response_to(other).generation_id == 3


def test_an_id_that_was_given_can_leave() -> None:
    group = Members()
    leader, follower = group.stable(count=2)
    lost = group.new_id()
    waiting = [group.join(leader.member_id), group.join(follower.member_id)]
    assert group.leave((lost, None)) == [0]
    assert [group.response_to(each).generation_id for each in waiting] == [3, 3]


# --- limits


def test_a_group_has_so_many_members_and_no_more() -> None:
    group = Members(group_max_size=2)
    leader, follower = group.stable(count=2)
    refused = group.response_to(group.join())
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    waiting = group.join(leader.member_id)
    new = group.new_id()  # one has joined, and one more may
    joined = group.join(new)
    assert group.response_to(joined) is None
    assert group.response_to(group.join(follower.member_id)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    group.pass_ms(60_000)
    assert [group.response_to(each).generation_id for each in (waiting, joined)] == [3, 3]


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_sessions_that_are_too_short_or_too_long(session_ms: int) -> None:
    group = Members()
    response = group.response_to(group.join("somebody", session_ms=session_ms))
    assert (response.error_code, response.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "somebody")


def test_a_group_without_a_name() -> None:
    group = Members("")
    nobody = Membership("", -1, "")
    assert group.response_to(group.join()).error_code == ErrorCode.INVALID_GROUP_ID
    assert group.response_to(group.sync(nobody)).error_code == ErrorCode.INVALID_GROUP_ID
    assert group.beat(nobody) == ErrorCode.INVALID_GROUP_ID
    assert group.ask(protocol.LeaveGroupRequest(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_group_that_does_not_exist() -> None:
    group = Members()
    stranger = Membership("stranger", 0, "")
    assert group.response_to(group.join("stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.response_to(group.sync(stranger)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat(stranger) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave(("stranger", None), ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_session_restarts_with_the_assignment() -> None:
    group = Members()
    how: dict[str, Any] = {"session_ms": 10_000}
    leader, follower = group.stable(count=2, **how)
    again = [group.join(leader.member_id, **how), group.join(follower.member_id, **how)]
    leader, follower = (Membership(j.member_id, j.generation_id, j.leader) for j in map(group.response_to, again))
    early = group.sync(follower)
    for _ in range(3):
        group.pass_ms(5_000)
        assert group.beat(leader) == 0
    group.response_to(group.sync(leader, {}))
    assert group.response_to(early).error_code == 0
    group.pass_ms(9_999)
    assert group.beat(leader) == 0
    group.pass_ms(1)
    assert group.beat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
