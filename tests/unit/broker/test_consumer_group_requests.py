"""Requests about consumer groups: the rules of heartbeats, and the view of such groups in other APIs."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.request import ANONYMOUS
from kafwire.broker.security.acls import Acl
from kafwire.errors import ErrorCode
from tests.support.broker.driver import ask
from tests.support.broker.transactions import TransactionalClient
from tests.support.group.consumer_members import ConsumerMembers

FIRST: dict[str, Any] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "owned": set()}


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": {("t", 0)}}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_heartbeats_that_say_too_little(fields: dict[str, Any], reported: str) -> None:
    group = ConsumerMembers()
    said: dict[str, Any] = {"member_id": "a", "epoch": 0} | FIRST | fields
    response = group.beat(**said)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, reported)
    assert not group.coordinator.exists("g")


def test_an_assignor_that_there_is_not() -> None:
    response = ConsumerMembers().beat("a", 0, **FIRST, server_assignor="sticky")
    reported = "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_ASSIGNOR, reported)
    few = ConsumerMembers(group_consumer_assignors="range")
    assert few.beat("a", 0, **FIRST, server_assignor="uniform").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert few.beat("a", 0, **FIRST).error_code == 0
    assert few.group.assignor == "range"


def test_members_of_version_0_are_given_ids() -> None:
    group = ConsumerMembers()
    responses = [group.beat("", 0, version=0, **FIRST) for _ in range(2)]
    assert len({each.member_id for each in responses}) == 2
    assert {len(each.member_id) for each in responses} == {22}
    assert group.group.members.keys() == {each.member_id for each in responses}


def test_a_cluster_without_the_feature() -> None:
    group = ConsumerMembers()
    group.state.features["group.version"] = 0
    assert group.beat("a", 0, **FIRST).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_another_broker_coordinates() -> None:
    group = ConsumerMembers((1, 2))
    wrong = 3 - group.state.coordinator("g")
    message = protocol.ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
    assert group.driver.ask(message, 1, node=wrong).error_code == ErrorCode.NOT_COORDINATOR


def describe(group: ConsumerMembers, version: int = 1) -> Any:
    response = group.driver.ask(protocol.ConsumerGroupDescribeRequest(group_ids=["g"]), version)
    return protocol.ConsumerGroupDescribeResponse.decode(bytes(response.encode(version)), version).groups[0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described(version: int) -> None:
    group = ConsumerMembers(topics={"t": 3})
    first = group.reader("a", instance_id="i", rack_id="r")
    first.enter()
    group.reader("b").enter(["t", "u"], subscribed_topic_regex="x")
    first.quiet()
    found = describe(group, version)
    assert (found.error_code, found.group_state, found.group_epoch, found.assignment_epoch) == (0, "Reconciling", 3, 3)
    assert found.assignor_name == "uniform"
    one, other = found.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == ("a", "i", "r", 2)
    assert (one.client_id, one.client_host, one.subscribed_topic_names) == ("test", "/127.0.0.1", ["t"])
    assert one.member_type == (1 if version else -1)
    assert [each.topic_name for each in one.assignment.topic_partitions] == ["t"]
    assert one.assignment.topic_partitions[0].partitions == [0, 1, 2], (
        "a partition that it has not given up yet, it has"
    )
    assert len(one.target_assignment.topic_partitions[0].partitions) == 2
    assert (other.subscribed_topic_names, other.subscribed_topic_regex) == (["t", "u"], "x")
    assert other.assignment.topic_partitions == []


def test_members_are_hidden_without_permission_for_their_topics() -> None:
    group = ConsumerMembers()
    group.joined("a")
    group.state.authorizer.is_enabled = True
    group.state.authorizer.add([Acl(ANONYMOUS, "Describe", "Group", "g")])
    found = describe(group)
    assert (found.error_code, found.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    group.state.authorizer.add([Acl(ANONYMOUS, "Describe", "Topic", "t")])
    assert len(describe(group).members) == 1


def test_classic_requests_do_not_know_of_the_group() -> None:
    group = ConsumerMembers()
    group.joined("a")
    beat = protocol.HeartbeatRequest(group_id="g", member_id="a", generation_id=2)
    assert group.driver.ask(beat).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    sync = protocol.SyncGroupRequest(group_id="g", member_id="a", protocol_type="consumer", protocol_name="range")
    assert group.driver.ask(sync).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (found,) = group.driver.ask(protocol.DescribeGroupsRequest(groups=["g"])).groups
    assert (found.error_code, found.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )


def join(group: ConsumerMembers) -> Any:
    request = protocol.JoinGroupRequest(
        group_id="g", protocol_type="consumer", session_timeout_ms=10_000, rebalance_timeout_ms=10_000
    )
    request.protocols = [request.JoinGroupRequestProtocol(name="range", metadata=b"")]
    return group.driver.ask(request, 2)


def listed(group: ConsumerMembers, **filters: Any) -> list[tuple[str, str, str]]:
    response = group.driver.ask(protocol.ListGroupsRequest(**filters))
    return [(each.protocol_type, each.group_state, each.group_type) for each in response.groups]


def test_groups_change_their_protocol_while_they_are_empty() -> None:
    group = ConsumerMembers(group_consumer_migration_policy="DISABLED")
    (first,) = group.joined("a")
    assert join(group).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert listed(group, types_filter=["Consumer"]) == [("consumer", "Stable", "consumer")]
    assert listed(group, types_filter=["classic"]) == []
    first.leave()
    assert join(group).error_code == 0
    assert listed(group) == [("consumer", "CompletingRebalance", "classic")]
    refused = first.enter()
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in refused.error_message
    assert group.beat("a", 2).error_message == "Group g is not a consumer group."
    group.pass_ms(20_000)
    assert listed(group) == [("consumer", "Empty", "classic")]
    assert first.enter().member_epoch == 2
    assert listed(group, states_filter=["stable"]) == [("consumer", "Stable", "consumer")]


def test_members_are_removed_from_outside() -> None:
    group = ConsumerMembers()
    for name in ("a", "b"):
        group.reader(name, instance_id=f"i{name}").enter()
    group.reader("c").enter()
    epoch = group.group.epoch
    request = protocol.LeaveGroupRequest(group_id="g")
    leaving = [("", "ia"), ("x", "ib"), ("", "i?"), ("c", None), ("?", None)]
    request.members = [request.MemberIdentity(member_id=m, group_instance_id=i) for m, i in leaving]
    codes = [each.error_code for each in group.driver.ask(request).members]
    assert codes == [0, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert ({*group.group.members}, group.group.epoch) == ({"b"}, epoch + 1)


def test_groups_with_members_are_not_deleted() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    request = protocol.DeleteGroupsRequest(groups_names=["g"])
    assert group.driver.ask(request).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    first.leave()
    assert group.driver.ask(request).results[0].error_code == 0
    assert not group.coordinator.exists("g")


# --- offsets


def commit(group: ConsumerMembers, member_id: str, epoch: int, *indexes: int, version: int = 9) -> list[int]:
    request = protocol.OffsetCommitRequest(group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch)
    parts = [request.OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in indexes]
    request.topics = [request.OffsetCommitRequestTopic(name="t", partitions=parts)]
    return [each.error_code for each in group.driver.ask(request, version).topics[0].partitions]


def test_permitted_commits() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    assert commit(group, "a", first.epoch, 0) == [0]
    assert commit(group, "a", first.epoch + 1, 0) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(group, "b", first.epoch, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(group, "", -1, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(group, "a", first.epoch, 0, version=8) == [ErrorCode.UNSUPPORTED_VERSION]
    first.leave()
    assert commit(group, "", -1, 0) == [0], "the group is empty"


def test_an_earlier_epoch_is_good_for_partitions_that_the_member_has_kept() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    early = min(group.group.members["a"].assigned.values())
    assert early < first.epoch
    kept = sorted(index for _, index in first.owned)
    given = sorted(index for _, index in second.owned)
    assert commit(group, "a", early, *kept) == [0, 0]
    assert commit(group, "a", early - 1, *kept) == [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert commit(group, "a", early, kept[0], given[0]) == [ErrorCode.STALE_MEMBER_EPOCH] * 2, "one refuses all"
    assert commit(group, "a", first.epoch, given[0]) == [0], "its own epoch is good for all"


def test_permitted_offset_fetches() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")

    def fetch(member_id: str | None, epoch: int) -> int:
        request = protocol.OffsetFetchRequest()
        of = request.OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=[])
        request.groups = [of]
        return int(group.driver.ask(request, 9).groups[0].error_code)

    assert fetch("a", first.epoch) == fetch(None, -1) == 0
    assert fetch("a", first.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("b", first.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(None, 1) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_offsets_in_transactions() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    producer = TransactionalClient(group.driver)
    assert producer.init() == 0

    def commit_by(member_id: str, epoch: int, index: int) -> int:
        return producer.commit_offset(1, to=("t", index), member=(member_id, epoch))

    kept, given = min(first.owned)[1], min(second.owned)[1]
    early = group.group.members["a"].assigned[group.topic_id("t"), kept]
    assert early < first.epoch
    assert commit_by("", -1, given) == commit_by("a", first.epoch, given) == commit_by("a", early, kept) == 0
    assert commit_by("a", early, given) == ErrorCode.ILLEGAL_GENERATION
    assert commit_by("a", first.epoch + 1, kept) == ErrorCode.ILLEGAL_GENERATION
    assert commit_by("x", 1, kept) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_members_want_are_kept() -> None:
    group = ConsumerMembers(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    group.state.topics.create("u", 1)
    (first,) = group.joined("a")
    assert commit(group, "a", first.epoch, 0) == [0]
    assert group.coordinator.unused_since("g", "t", 5) is None
    assert group.coordinator.unused_since("g", "u", 5) == 5
    request = protocol.OffsetDeleteRequest(group_id="g")
    part = request.OffsetDeleteRequestPartition(partition_index=0)
    request.topics = [request.OffsetDeleteRequestTopic(name=name, partitions=[part]) for name in ("t", "u")]
    codes = [each.partitions[0].error_code for each in group.driver.ask(request).topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]


# --- options of groups


def alter(group: ConsumerMembers, name: str, value: str, *, operation: int = 0, group_id: str = "g") -> Any:
    request = protocol.IncrementalAlterConfigsRequest()
    config = request.AlterableConfig(name=name, value=value, config_operation=operation)
    resource = request.AlterConfigsResource(resource_type=32, resource_name=group_id, configs=[config])
    request.resources = [resource]
    (response,) = ask(group.state, request).responses
    return response


def described(group: ConsumerMembers) -> dict[str, tuple[str, int]]:
    request = protocol.DescribeConfigsRequest()
    request.resources = [request.DescribeConfigsResource(resource_type=32, resource_name="g")]
    (response,) = ask(group.state, request).results
    return {each.name: (each.value, each.config_source) for each in response.configs}


def test_a_group_has_options_of_its_own() -> None:
    group = ConsumerMembers()
    assert {name: value for name, value in described(group).items() if name.startswith("consumer.")} == {
        "consumer.assignment.interval.ms": ("0", 4),
        "consumer.heartbeat.interval.ms": ("5000", 5),
        "consumer.session.timeout.ms": ("45000", 5),
    }
    for name, value in (("consumer.heartbeat.interval.ms", "6000"), ("consumer.session.timeout.ms", "50000")):
        assert alter(group, name, value).error_code == 0
        assert described(group)[name] == (value, 8)
    (first,) = group.joined("a")
    assert first.beat().heartbeat_interval_ms == 6000
    group.pass_ms(49_000)
    assert first.beat().error_code == 0
    listed = ask(group.state, protocol.ListConfigResourcesRequest(resource_types=[32])).config_resources
    assert [each.resource_name for each in listed] == ["g"]
    assert alter(group, "consumer.heartbeat.interval.ms", "", operation=1).error_code == 0
    assert first.beat().heartbeat_interval_ms == 5000


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("nope", "1", "Unknown group config name: nope"),
        (
            "consumer.session.timeout.ms",
            "44999",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "15001",
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
    ],
)
def test_options_that_a_group_may_not_have(name: str, value: str, reported: str) -> None:
    group = ConsumerMembers()
    response = alter(group, name, value)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_CONFIG, reported)
    assert alter(group, "consumer.session.timeout.ms", "x").error_code == ErrorCode.INVALID_CONFIG
    assert group.state.group_configs == {}


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    group = ConsumerMembers(group_consumer_min_session_timeout_ms=1)
    response = alter(group, "consumer.session.timeout.ms", "5000")
    reported = "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_CONFIG, reported)
    assert alter(group, "consumer.session.timeout.ms", "5001").error_code == 0
