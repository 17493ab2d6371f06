"""The embedded broker's responses to members of share groups: time, waiting, sessions, leaders, offsets, errors."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.share_group import ShareGroup
from kafwire.broker.security.acls import Authorizer
from kafwire.broker.share.share_sessions import Cached
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.share.sharing_members import GROUP, SharingMembers, got

ACCEPT, RELEASE, RENEW = 1, 2, 4
LOCK_MS = 30_000  # group.share.record.lock.duration.ms
SESSION_MS = 45_000  # group.share.session.timeout.ms


def codes(response: Any) -> list[int]:
    return [part.error_code for topic in response.responses for part in topic.partitions]


# --- members


def test_a_member_has_its_partitions_with_its_second_heartbeat() -> None:
    group = SharingMembers(2)
    coordinator: GroupCoordinator = group.state.part(GroupCoordinator)
    assert coordinator.delete(GROUP) == 0
    first = group.beat("a", 0)
    assert (first.member_epoch, first.assignment.topic_partitions) == (2, [])
    second = group.beat("a", 2)
    assert (second.member_epoch, second.assignment.topic_partitions[0].partitions) == (3, [0, 1])
    assert group.beat("a", 3).assignment is None, "there is nothing new"


def test_a_silent_member_is_out() -> None:
    group = SharingMembers()
    epoch = group.beat("a", 0).member_epoch
    group.pass_ms(SESSION_MS - 1)
    assert group.beat("a", epoch).error_code == 0
    group.pass_ms(SESSION_MS)
    assert group.beat("a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_follow_to_another_coordinator_is_out() -> None:
    group = SharingMembers(nodes=(1, 2))
    epoch = group.beat("a", 0).member_epoch
    group.state.move_coordinator(GROUP, 3 - group.state.coordinator(GROUP))
    group.pass_ms(SESSION_MS)
    assert group.beat("a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_makes_room() -> None:
    group = SharingMembers(2)
    for member_id in ("a", "b"):
        group.beat(member_id, 0)
    epoch = group.beat("a", 0).member_epoch
    before = group.beat("a", epoch)
    described = protocol.ShareGroupDescribeRequest(group_ids=[GROUP])
    known = group.ask(described).groups[0].group_epoch
    assert group.beat("b", -1).member_epoch == -1
    assert group.ask(described).groups[0].group_epoch == known + 1
    after = group.beat("a", before.member_epoch)
    assert after.member_epoch == before.member_epoch + 1
    assert after.assignment.topic_partitions[0].partitions == [0, 1]


def test_a_partition_is_named_once_more_after_its_error() -> None:
    cached = Cached(is_known=True)
    assert not cached.tells(has_records=False, has_error=False)
    assert cached.tells(has_records=False, has_error=True)
    assert cached.tells(has_records=False, has_error=False)
    assert not cached.tells(has_records=False, has_error=False)


def test_a_group_is_full() -> None:
    group = SharingMembers()
    group.state.configs["group.share.max.size"] = "1"
    assert group.beat("a", 0).error_code == 0
    assert group.beat("b", 0).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_empty_group_stays_until_it_is_deleted() -> None:
    group = SharingMembers()
    group.pass_ms(10 * 60_000 + 1)  # offsets.retention.check.interval.ms
    assert group.offsets() == [(-1, -1)]
    request = protocol.DeleteGroupsRequest(groups_names=[GROUP])
    assert group.ask(request).results[0].error_code == 0
    assert group.offsets() == []
    assert group.ask(request).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_nothing_is_served_where_the_feature_is_off() -> None:
    group = SharingMembers()
    group.state.features["share.version"] = 0
    code = ErrorCode.UNSUPPORTED_VERSION
    assert group.beat("a", 0).error_code == code
    assert group.ask(group.fetch_request("a", 0)).error_code == code
    said = protocol.ShareAcknowledgeRequest(group_id=GROUP, member_id="a", share_session_epoch=1)
    described = protocol.ShareGroupDescribeRequest(group_ids=[GROUP])
    assert group.ask(said).error_code == code
    assert group.ask(described).groups[0].error_code == code
    assert group.ask(protocol.AlterShareGroupOffsetsRequest(group_id=GROUP)).error_code == code
    assert group.ask(protocol.DeleteShareGroupOffsetsRequest(group_id=GROUP)).error_code == code


# --- locks and waiting


def test_a_lock_that_ends_gives_records_to_a_waiting_member() -> None:
    group = SharingMembers()
    group.append(3)
    assert group.fetch("a", 0) == {0: [(0, 2, 1)]}
    waiting = group.wait("b", 0)
    group.pass_ms(LOCK_MS - 1)
    assert waiting not in group.late
    group.pass_ms(1)
    assert got(group.late[waiting]) == {0: [(0, 2, 2)]}
    assert group.say("a", 1, {0: [(0, 2, [ACCEPT])]}) == [ErrorCode.INVALID_RECORD_STATE]


def test_a_lock_that_is_renewed_ends_later_than_those_that_are_not() -> None:
    group = SharingMembers()
    group.append(3)
    group.fetch("a", 0)
    group.pass_ms(LOCK_MS // 2)
    assert group.say("a", 1, {0: [(1, 1, [RENEW])]}, renews=True) == [0]
    group.pass_ms(LOCK_MS // 2)
    assert group.fetch("b", 0) == {0: [(0, 0, 2), (2, 2, 2)]}
    group.pass_ms(LOCK_MS // 2)
    assert group.fetch("b", 1) == {0: [(1, 1, 2)]}


def test_a_group_may_have_no_renewal() -> None:
    group = SharingMembers(share_renew_acknowledge_enable="false")
    group.append(2)
    group.fetch("a", 0)
    code = ErrorCode.INVALID_RECORD_STATE
    assert group.say("a", 1, {0: [(0, 1, [RENEW])]}, renews=True) == [code]
    assert group.say("a", 2, {0: [(0, 0, [ACCEPT]), (1, 1, [RENEW])]}, renews=True) == [code]
    assert group.say("a", 3, {0: [(0, 1, [ACCEPT])]}) == [0], "nothing was changed"


def test_locks_have_the_duration_of_the_time_when_they_begin() -> None:
    group = SharingMembers(share_record_lock_duration_ms="20000")
    group.append(1)
    group.append(1)
    assert group.fetch("a", 0, max_records=1) == {0: [(0, 0, 1)]}
    group.state.group_configs[GROUP]["share.record.lock.duration.ms"] = "15000"
    assert group.fetch("a", 1) == {0: [(1, 1, 1)]}
    group.pass_ms(15_000)
    assert group.fetch("b", 0) == {0: [(1, 1, 2)]}
    group.pass_ms(5_000)
    assert group.fetch("b", 1) == {0: [(0, 0, 2)]}


def test_written_or_released_records_are_for_a_waiting_member() -> None:
    group = SharingMembers()
    waiting = group.wait("b", 0)
    group.append(2)
    assert got(group.late.pop(waiting)) == {0: [(0, 1, 1)]}
    assert group.fetch("a", 0) == {0: []}
    waiting = group.wait("a", 1)
    assert group.say("b", 1, {0: [(0, 0, [RELEASE]), (1, 1, [ACCEPT])]}) == [0]
    assert got(group.late.pop(waiting)) == {0: [(0, 0, 2)]}


def test_released_records_are_not_in_their_own_response_unless_it_waits() -> None:
    group = SharingMembers()
    group.append(2)
    group.fetch("a", 0)
    assert group.fetch("a", 1, {0: [(0, 1, [RELEASE])]}) == {0: []}
    assert group.fetch("a", 2) == {0: [(0, 1, 2)]}
    assert group.fetch("a", 3, {0: [(0, 1, [RELEASE])]}, max_wait_ms=100) == {0: [(0, 1, 3)]}


def test_a_partition_in_which_nothing_has_moved_comes_first() -> None:
    group = SharingMembers(2)
    for partition in (0, 0, 1):
        group.append(1, partition)
    assert group.fetch("a", 0, max_records=1) == {0: [(0, 0, 1)], 1: []}
    assert group.fetch("b", 0, max_records=1) == {0: [], 1: [(0, 0, 1)]}
    assert group.fetch("b", 1, max_records=1) == {0: [(1, 1, 1)]}


def test_a_wait_in_vain_gets_a_response_in_time() -> None:
    group = SharingMembers()
    waiting = group.wait("a", 0)
    group.pass_ms(60_000)
    assert got(group.late[waiting]) == {0: []}


def test_no_more_records_than_may_be_locked_are_in_flight() -> None:
    group = SharingMembers(share_partition_max_record_locks="100")
    for _ in range(12):
        group.append(10)
    assert group.fetch("a", 0) == {0: [(0, 99, 1)]}
    waiting = group.wait("a", 1)
    group.pass_ms(1)
    assert waiting not in group.late
    group.pass_ms(LOCK_MS)
    assert got(group.late[waiting]) == {0: [(0, 99, 2)]}


# --- sessions


def test_a_session_ends_with_its_connection() -> None:
    group = SharingMembers()
    group.append(2)
    connection = group.state.connect(1)
    request = group.fetch_request("a", 0)
    assert got(group.ask(request, connection=connection)) == {0: [(0, 1, 1)]}
    assert group.fetch("b", 0) == {0: []}
    waiting = group.wait("b", 1)
    group.state.disconnect(connection)
    group.pass_ms(0)
    assert got(group.late[waiting]) == {0: [(0, 1, 2)]}
    gone = protocol.ShareAcknowledgeRequest(group_id=GROUP, member_id="a", share_session_epoch=1)
    assert group.ask(gone).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_nothing_is_acquired_for_a_closed_connection() -> None:
    group = SharingMembers()
    connection = group.state.connect(1)
    waiting = group.wait("a", 0, connection=connection)
    group.state.disconnect(connection)
    group.append(1)
    assert waiting not in group.late
    assert group.fetch("b", 0) == {0: [(0, 0, 1)]}


def test_there_are_only_so_many_sessions() -> None:
    group = SharingMembers()
    group.state.configs["group.share.max.share.sessions"] = "1"
    group.fetch("a", 0)
    waiting = group.wait("b", 0)
    group.pass_ms(60_000)
    assert group.late[waiting].error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert group.fetch("a", 0) == {0: []}, "one that starts over is not one more"


def test_renewal_asks_for_no_records() -> None:
    group = SharingMembers()
    group.append(1)
    group.fetch("a", 0)
    wrong = group.fetch_request("a", 1, {0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert group.ask(wrong).error_code == ErrorCode.INVALID_REQUEST
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    right = group.ask(group.fetch_request("a", 1, {0: [(0, 0, [RENEW])]}, **nothing))
    assert (right.error_code, got(right)) == (0, {0: []})
    old = group.fetch_request("a", 2, {0: [(0, 0, [RENEW])]})
    (part,) = group.ask(old, 1).responses[0].partitions
    assert part.acknowledge_error_code == ErrorCode.INVALID_REQUEST, "version 1 has no renewal"


# --- leaders and logs


def test_another_leader_goes_on_where_the_group_was() -> None:
    group = SharingMembers(nodes=(1, 2))
    group.append(4)
    assert group.fetch("a", 0) == {0: [(0, 3, 1)]}
    assert group.say("a", 1, {0: [(0, 1, [ACCEPT]), (2, 2, [RELEASE])]}) == [0]
    group.state.move_leader("t", 0, 2)
    response = group.ask(group.fetch_request("a", 2))
    (part,) = response.responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert [each.node_id for each in response.node_endpoints] == [2]
    assert group.say("a", 3, {0: [(3, 3, [ACCEPT])]}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    moved = group.ask(group.fetch_request("a", 0), node=2)
    assert got(moved) == {0: [(2, 2, 2), (3, 3, 1)]}
    group.state.move_leader("t", 0, 1)
    assert group.fetch("a", 4) == {0: [(2, 2, 2), (3, 3, 1)]}, "the first leader's state counts no more"


def test_a_log_that_begins_later_moves_the_group() -> None:
    group = SharingMembers()
    group.append(3)
    group.append(3)
    group.topic.partitions[0].delete_before(3)
    assert group.fetch("a", 0) == {0: [(3, 5, 1)]}
    group.append(2)
    group.topic.partitions[0].delete_before(8)
    assert group.fetch("a", 1) == {}
    group.append(1)
    assert group.fetch("a", 2) == {0: [(8, 8, 1)]}


@pytest.mark.parametrize(
    ("strategy", "delivered"), [("latest", []), ("earliest", [(0, 1, 1)]), ("by_duration:PT1M", [(1, 1, 1)])]
)
def test_a_group_begins_where_its_option_says(strategy: str, delivered: list[tuple[int, int, int]]) -> None:
    group = SharingMembers(share_auto_offset_reset=strategy)
    partition = group.topic.partitions[0]
    for age_ms in (3_600_000, 0):
        record: dict[str, object] = {"value": b"x", "timestamp_ms": group.state.wall_ms - age_ms}
        partition.append(bytes(encode_batch([record])))
    assert group.fetch("a", 0) == {0: delivered}


# --- offsets


def test_offsets_are_described_altered_and_deleted() -> None:
    group = SharingMembers()
    group.append(4)
    assert group.offsets() == [(-1, -1)]
    group.fetch("a", 0)
    group.say("a", 1, {0: [(1, 2, [ACCEPT])]})
    assert group.offsets() == [(0, 2)]
    alter = protocol.AlterShareGroupOffsetsRequest(group_id=GROUP)
    part = alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3)
    alter.topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[part])]
    assert codes(group.ask(alter)) == [0]
    assert group.offsets() == [(3, 1)], "no record from a new start offset on is final"
    assert group.fetch("b", 0) == {0: [(3, 3, 1)]}
    epoch = group.beat("b", 0).member_epoch
    assert group.ask(alter).error_code == ErrorCode.NON_EMPTY_GROUP
    assert epoch > 0
    group.beat("b", -1)
    delete = protocol.DeleteShareGroupOffsetsRequest(group_id=GROUP)
    delete.topics = [delete.DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    assert [each.error_code for each in group.ask(delete).responses] == [0]
    assert group.offsets() == []
    response = group.ask(group.fetch_request("b", 1))
    assert codes(response) == [ErrorCode.UNKNOWN_SERVER_ERROR], "as in Kafka, a reader has to subscribe first"


def test_offsets_of_topics_that_there_are_not_make_no_group() -> None:
    group = SharingMembers()
    alter = protocol.AlterShareGroupOffsetsRequest(group_id="other")
    part = alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3)
    alter.topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name="none", partitions=[part])]
    assert codes(group.ask(alter)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    coordinator: GroupCoordinator = group.state.part(GroupCoordinator)
    assert not coordinator.exists("other")
    alter.topics[0].topic_name = "t"
    assert codes(group.ask(alter)) == [0]
    assert coordinator.exists("other")


def test_offsets_of_no_partitions_of_a_topic_are_an_error() -> None:
    group = SharingMembers()
    request = protocol.DescribeShareGroupOffsetsRequest()
    topic = request.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[])
    request.groups = [request.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])]
    assert group.ask(request).groups[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    topic.topic_name = "none"
    assert group.ask(request).groups[0].error_code == 0


def test_a_group_of_a_deleted_name_starts_over() -> None:
    group = SharingMembers()
    group.append(2)
    assert group.fetch("a", 0) == {0: [(0, 1, 1)]}
    assert group.say("a", 1, {0: [(0, 1, [ACCEPT])]}) == [0]
    assert group.ask(protocol.DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code == 0
    assert group.say("a", 2, {0: [(0, 1, [ACCEPT])]}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    group.beat("a", 0)
    assert group.fetch("a", 3) == {0: [(0, 1, 1)]}


def test_a_waiting_member_gets_the_error_of_a_deleted_topic() -> None:
    group = SharingMembers()
    waiting = group.wait("a", 0)
    group.state.topics.delete(group.topic)
    group.pass_ms(0)
    assert codes(group.late[waiting]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# --- access


def test_acls_permit_reading() -> None:
    group = SharingMembers()
    group.append(1)
    authorizer: Authorizer = group.state.part(Authorizer)
    authorizer.is_enabled = True
    assert group.ask(group.fetch_request("a", 0)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert group.beat("a", 0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    authorizer.is_enabled = False
    assert group.fetch("a", 0) == {0: [(0, 0, 1)]}


def test_an_empty_group_has_no_older_assignment() -> None:
    group = SharingMembers()
    group.beat("a", 0)
    group.beat("a", -1)
    coordinator: GroupCoordinator = group.state.part(GroupCoordinator)
    its = coordinator.groups[GROUP]
    assert isinstance(its, ShareGroup)
    assert its.assignment_epoch == its.epoch
