"""`admin.group_offsets`: list, alter and delete the offsets of groups of all types, in both faces."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import TopicPartition, protocol
from kafwire.admin import GroupOffset
from kafwire.errors import AdminError, BrokerError, ConfigError, ErrorCode, KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.flavours import Flavour
from tests.support.simulated.made_groups import MadeGroups

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def groups(flavour: Flavour) -> MadeGroups:
    flavour.world.create_topic("t", partitions=2)
    flavour.world.create_topic("u", partitions=1)
    made = MadeGroups(flavour)
    for name, node in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
        made.on(name, node)
    return made


def offsets(flavour: Flavour, admin: Any, group: str) -> dict[TopicPartition, int | None]:
    """The offsets of one group."""
    found = flavour.get(admin.list_group_offsets([group]))[group]
    return {where: None if its is None else its.offset for where, its in found.items()}


# --- lists


def test_offsets_of_several_groups_are_listed(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4}, metadata="it")
    groups.commit("c", {T0: 5, U0: 6})
    groups.commit("b", {T1: 7})
    found = flavour.get(flavour.admin().list_group_offsets({"a": None, "b": [T1, T0], "c": [U0], "x": None}))
    assert found == {
        "a": {T0: GroupOffset(4, None, "it")},
        "b": {T1: GroupOffset(7), T0: None},
        "c": {U0: GroupOffset(6)},
        "x": {},
    }
    assert list(found["b"]) == [T1, T0]
    asked = [[group.group_id for group in call.message.groups] for call in flavour.world.made("OffsetFetch")]
    assert sorted(group for its in asked for group in its) == ["a", "b", "c", "x"]
    assert len(asked) == 2, "a broker gets one request for its groups"


def test_the_leader_epoch_is_listed(flavour: Flavour, groups: MadeGroups) -> None:
    request = protocol.OffsetCommitRequest
    part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_leader_epoch=2)
    topic = request.OffsetCommitRequestTopic(name="t", topic_id=flavour.world.topics["t"].topic_id, partitions=[part])
    assert not groups.call("a", request(group_id="a", topics=[topic])).topics[0].partitions[0].error_code
    found = flavour.get(flavour.admin().list_group_offsets(["a"]))
    assert found["a"][T0] == GroupOffset(3, 2)


def test_a_broker_of_one_group_per_request(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4})
    groups.commit("c", {T0: 5})
    for node in flavour.world.nodes.values():
        node.versions = {**node.versions, "OffsetFetch": (0, 7)}
    found = flavour.get(flavour.admin().list_group_offsets({"a": None, "c": [T0]}))
    assert found == {"a": {T0: GroupOffset(4)}, "c": {T0: GroupOffset(5)}}


def fetched(**groups: dict[TopicPartition, int]) -> Any:
    """An OffsetFetch response: for each partition an offset, or an error code as a negative number."""
    response: Any = protocol.OffsetFetchResponse
    kind = response.OffsetFetchResponsePartitions

    def topic(where: TopicPartition, value: int) -> Any:
        code, offset = (-value, -1) if value < 0 else (0, value)
        part = kind(partition_index=where.partition, committed_offset=offset, error_code=code)
        return response.OffsetFetchResponseTopics(name=where.topic, partitions=[part])

    return response(
        groups=[
            response.OffsetFetchResponseGroup(group_id=group, topics=[topic(*each) for each in its.items()])
            for group, its in groups.items()
        ]
    )


def test_a_group_that_fails_hides_no_other(flavour: Flavour, groups: MadeGroups) -> None:
    denied = -ErrorCode.TOPIC_AUTHORIZATION_FAILED
    flavour.world.on("OffsetFetch", lambda _: fetched(a={T0: denied}, c={T0: 5}))
    errors: dict[str, KafkaError] = {}
    found = flavour.get(flavour.admin().list_group_offsets({"a": [T0], "c": [T0]}, on_error=errors.__setitem__))
    assert found == {"c": {T0: GroupOffset(5)}}
    assert "listing the offsets of group a: t-0" in str(errors["a"])
    assert "Describe on Topic 't'" in str(errors["a"])


def test_a_partition_without_permission_hides_no_offset(flavour: Flavour, groups: MadeGroups) -> None:
    codes = -ErrorCode.UNSTABLE_OFFSET_COMMIT, -ErrorCode.TOPIC_AUTHORIZATION_FAILED
    flavour.world.on("OffsetFetch", lambda _: fetched(a={T0: codes[0], T1: 4, U0: codes[1]}))
    with pytest.raises(AdminError, match="2 of 3 failed: t-0: UNSTABLE.*u-0: TOPIC_AUTHORIZATION_FAILED") as caught:
        flavour.get(flavour.admin().list_group_offsets({"a": [T0, T1, U0]}))
    assert (caught.value.results, [*caught.value.errors]) == ({T1: GroupOffset(4)}, [T0, U0])


def test_a_response_may_lack_groups_and_partitions_or_have_others(flavour: Flavour, groups: MadeGroups) -> None:
    flavour.world.on("OffsetFetch", lambda _: fetched(a={T1: 4, U0: 4}, stranger={T0: 1}))
    errors: dict[str, KafkaError] = {}
    admin = flavour.admin()
    assert flavour.get(admin.list_group_offsets({"a": [T0, T1], "c": None}, on_error=errors.__setitem__)) == {}
    assert "the response lacks t-0" in str(errors["a"])
    assert "sent a response without 'c'" in str(errors["c"])
    partial = errors["a"]
    assert isinstance(partial, AdminError)
    assert partial.results == {T1: GroupOffset(4)}


def test_share_groups_that_a_response_adds_are_ignored(flavour: Flavour, groups: MadeGroups) -> None:
    describing: Any = protocol.ShareGroupDescribeResponse
    listing: Any = protocol.DescribeShareGroupOffsetsResponse
    topic = listing.DescribeShareGroupOffsetsResponseTopic
    part = listing.DescribeShareGroupOffsetsResponsePartition
    group = listing.DescribeShareGroupOffsetsResponseGroup
    described = describing(groups=[describing.DescribedGroup(group_id=each) for each in ("c", "stranger")])
    denied = part(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    kept = part(partition_index=1, start_offset=3)
    topics = [topic(topic_name="t", partitions=[denied, kept])]
    listed = listing(groups=[group(group_id=each, topics=topics) for each in ("stranger", "c")])
    flavour.world.on("ShareGroupDescribe", lambda _: described)
    flavour.world.on("DescribeShareGroupOffsets", lambda _: listed)
    with pytest.raises(AdminError, match="2 of 3 failed.*Describe on Topic 't'.*the response lacks u-0") as caught:
        flavour.get(flavour.admin().list_group_offsets({"c": [T0, T1, U0]}))
    assert caught.value.results[T1].offset == 3


def test_stable_offsets_are_awaited(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4})
    left = [True, True]

    def unstable(call: Call) -> Any:
        if not call.message.require_stable or not left:
            return None
        left.pop()
        return fetched(a={T0: -ErrorCode.UNSTABLE_OFFSET_COMMIT})

    flavour.world.on("OffsetFetch", unstable)
    admin = flavour.admin()
    assert offsets(flavour, admin, "a") == {T0: 4}
    assert len(left) == 2
    assert flavour.get(admin.list_group_offsets(["a"], require_stable=True)) == {"a": {T0: GroupOffset(4)}}
    left += [True] * 100
    with pytest.raises(KafkaTimeoutError, match="within 1 s: UNSTABLE_OFFSET_COMMIT"):
        flavour.get(admin.list_group_offsets(["a"], require_stable=True, timeout=1))


def test_start_offsets_of_a_share_group_are_listed(flavour: Flavour, groups: MadeGroups) -> None:
    for _ in range(5):
        flavour.world.log("t").append_values([b"x"])
    groups.commit("a", {T0: 4})
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("c", {T0: 2, T1: 0}, type="share"))
    found = flavour.get(admin.list_group_offsets({"a": None, "c": None, "x": [T0]}))
    assert {where: its.offset for where, its in found["c"].items()} == {T0: 2, T1: 0}
    assert (found["a"], found["x"]) == ({T0: GroupOffset(4)}, {T0: None})
    named = flavour.get(admin.list_group_offsets({"c": [T0, U0]}))["c"]
    assert (named[T0].offset, named[U0]) == (2, None)


def test_the_lag_of_a_share_group_is_listed(flavour: Flavour, groups: MadeGroups) -> None:
    response: Any = protocol.DescribeShareGroupOffsetsResponse
    kind = response.DescribeShareGroupOffsetsResponsePartition
    topic = response.DescribeShareGroupOffsetsResponseTopic(
        topic_name="t",
        partitions=[
            kind(partition_index=0, start_offset=3, leader_epoch=1, lag=8),
            kind(partition_index=1, start_offset=5, leader_epoch=-1, lag=-1),
            kind(partition_index=2, start_offset=-1, leader_epoch=-1),
        ],
    )
    group = response.DescribeShareGroupOffsetsResponseGroup(group_id="c", topics=[topic])
    flavour.world.on("DescribeShareGroupOffsets", lambda _: response(groups=[group]))
    groups.share("c", "it", ["t"])
    found = flavour.get(flavour.admin().list_group_offsets(["c"]))
    assert found == {"c": {T0: GroupOffset(3, 1, lag=8), T1: GroupOffset(5), TopicPartition("t", 2): None}}


def test_offsets_of_a_streams_group_are_listed_and_set(flavour: Flavour, groups: MadeGroups) -> None:
    groups.streams("d", "it", "t")
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="the group has members, and only they may commit for it: stop them"):
        flavour.get(admin.alter_group_offsets("d", {T0: 3}))
    leave: Any = protocol.StreamsGroupHeartbeatRequest(group_id="d", member_id="it", member_epoch=-1)
    assert not groups.call("d", leave).error_code
    flavour.get(admin.alter_group_offsets("d", {T0: 3}))
    assert offsets(flavour, admin, "d") == {T0: 3}
    flavour.get(admin.delete_group_offsets("d", [T0]))
    assert offsets(flavour, admin, "d") == {}


def test_an_old_broker_is_asked_for_no_share_groups(flavour: Flavour, groups: MadeGroups) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {**node.versions, "ShareGroupDescribe": (0, 0)}
    assert offsets(flavour, flavour.admin(), "a") == {}
    assert not flavour.world.made("ShareGroupDescribe")


# --- changes


def test_offsets_are_set(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("a", {T0: 5, ("t", 1): (6, "note")}))
    found = flavour.get(admin.list_group_offsets(["a"]))
    assert found == {"a": {T0: GroupOffset(5), T1: GroupOffset(6, None, "note")}}


def test_a_partition_that_fails_hides_no_other(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    with pytest.raises(AdminError, match="t-9: UNKNOWN_TOPIC_OR_PARTITION.*committing t-9 for group a") as caught:
        flavour.get(admin.alter_group_offsets("a", {T0: 5, ("t", 9): 5}))
    assert list(caught.value.results) == [T0]
    assert offsets(flavour, admin, "a") == {T0: 5}


def test_a_moved_coordinator_is_found_again(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("a", {T0: 5}))
    flavour.world.move_coordinator("a", 2)
    flavour.get(admin.alter_group_offsets("a", {T0: 6}))
    flavour.world.move_coordinator("a", 1)
    assert offsets(flavour, admin, "a") == {T0: 6}
    flavour.world.move_coordinator("a", 2)
    flavour.get(admin.delete_group_offsets("a", [T0]))
    assert offsets(flavour, admin, "a") == {}


def test_a_group_with_members_keeps_its_offsets(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4})
    groups.classic("a", {"t": [0]})
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="stop them") as caught:
        flavour.get(admin.alter_group_offsets("a", {T0: 5}))
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(BrokerError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
        flavour.get(admin.delete_group_offsets("a", [T0]))
    assert offsets(flavour, admin, "a") == {T0: 4}


def test_start_offsets_of_a_share_group_are_set(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("c", {T0: 2}, type="share"))
    flavour.get(admin.alter_group_offsets("c", {T0: 3, U0: 1}))  # its type is known now
    assert offsets(flavour, admin, "c") == {T0: 3, U0: 1}
    with pytest.raises(AdminError, match="t-9: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        flavour.get(admin.alter_group_offsets("c", {("t", 9): 3, T1: 4}))
    assert list(caught.value.results) == [T1]
    with pytest.raises(ConfigError, match="share group c stores no metadata"):
        flavour.get(admin.alter_group_offsets("c", {T0: (3, "note")}))
    groups.share("c", "it", ["t"])
    with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
        flavour.get(admin.alter_group_offsets("c", {T0: 4}))


def test_a_group_of_another_type_is_no_share_group(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4})
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(flavour.admin().alter_group_offsets("a", {T0: 3}, type="share"))


def test_a_share_group_has_no_offsets_of_other_types(flavour: Flavour, groups: MadeGroups) -> None:
    groups.share("c", "it", ["t"])
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(flavour.admin().alter_group_offsets("c", {T0: 3}, type="consumer"))
    assert not flavour.world.made("AlterShareGroupOffsets")


def test_an_old_broker_has_no_share_groups(flavour: Flavour, groups: MadeGroups) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {**node.versions, "AlterShareGroupOffsets": (99, 99)}
    with pytest.raises(ProtocolError, match=r"share group needs Kafka 4\.1"):
        flavour.get(flavour.admin().alter_group_offsets("c", {T0: 3}, type="share"))


# --- deletion


def test_offsets_are_deleted(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4, T1: 5, U0: 6})
    admin = flavour.admin()
    with pytest.raises(AdminError, match="t-9: UNKNOWN_TOPIC_OR_PARTITION.*deleting offsets of group a: t-9"):
        flavour.get(admin.delete_group_offsets("a", [T0, ("t", 9)]))
    assert offsets(flavour, admin, "a") == {T1: 5, U0: 6}
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(admin.delete_group_offsets("x", [T0]))


def test_offsets_of_whole_topics_are_deleted(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4, T1: 5, U0: 6})
    admin = flavour.admin()
    errors: dict[Any, KafkaError] = {}
    flavour.get(admin.delete_group_offsets("a", ["t", "gone"], on_error=errors.__setitem__))
    assert offsets(flavour, admin, "a") == {U0: 6}
    assert ([*errors], "UNKNOWN_TOPIC_OR_PARTITION" in str(errors["gone"])) == (["gone"], True)
    flavour.get(admin.delete_group_offsets("a", ["t", U0]))
    assert offsets(flavour, admin, "a") == {}
    with pytest.raises(AdminError, match="GROUP_ID_NOT_FOUND") as caught:
        flavour.get(admin.delete_group_offsets("x", ["t", "u"]))
    assert list(caught.value.errors) == ["t", "u"]


def test_a_deletion_without_a_response_is_no_success(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 4, T1: 5})
    response: Any = protocol.OffsetDeleteResponse
    parts = [response.OffsetDeleteResponsePartition(partition_index=0)]
    topics = [response.OffsetDeleteResponseTopic(name=name, partitions=parts) for name in ("t", "stranger")]
    flavour.world.on("OffsetDelete", lambda _: response(topics=topics))
    with pytest.raises(ProtocolError, match="sent a response without 't'"):
        flavour.get(flavour.admin().delete_group_offsets("a", ["t"]))


def test_start_offsets_are_deleted_by_topic(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("c", {T0: 2, T1: 3, U0: 1}, type="share"))
    with pytest.raises(ConfigError, match="t-0: Kafka deletes the offsets of share group c by topic only"):
        flavour.get(admin.delete_group_offsets("c", [T0]))
    with pytest.raises(AdminError, match="u-0: Kafka deletes.*by topic only") as caught:
        flavour.get(admin.delete_group_offsets("c", ["t", U0]))
    assert list(caught.value.results) == ["t"]
    assert offsets(flavour, admin, "c") == {U0: 1}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(admin.delete_group_offsets("c", ["t"]))


def test_a_share_group_without_offsets_has_none_to_delete(flavour: Flavour, groups: MadeGroups) -> None:
    flavour.world.on("DeleteShareGroupOffsets", lambda _: protocol.DeleteShareGroupOffsetsResponse())
    groups.share("c", "it", ["t"])
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*no state of t"):
        flavour.get(flavour.admin().delete_group_offsets("c", ["t"]))


def test_a_share_group_whose_coordinator_moves_is_found_again(flavour: Flavour, groups: MadeGroups) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_group_offsets("c", {T0: 2, U0: 1}, type="share"))
    flavour.world.move_coordinator("c", 2)
    with pytest.raises(AdminError, match="u-0: Kafka deletes.*by topic only"):
        flavour.get(admin.delete_group_offsets("c", ["t", U0]))
    flavour.world.move_coordinator("c", 1)
    assert offsets(flavour, admin, "c") == {U0: 1}


def test_a_coordinator_that_moves_between_two_requests_hides_no_missing_group(
    flavour: Flavour, groups: MadeGroups
) -> None:
    response: Any = protocol.ShareGroupDescribeResponse
    moved = response.DescribedGroup(group_id="a", error_code=ErrorCode.NOT_COORDINATOR)
    left = [response(groups=[moved])]
    flavour.world.on("ShareGroupDescribe", lambda _: left.pop() if left else None)
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(flavour.admin().delete_group_offsets("a", [T0]))
    assert not left


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("list_group_offsets", ("a",), {}, "write a list of names"),
    ("list_group_offsets", ({"a": "t"},), {}, "write a list of partitions"),
    ("list_group_offsets", ({"a": [("t",)]},), {}, "is not a partition"),
    ("list_group_offsets", ({"": None},), {}, "at least one character"),
    ("alter_group_offsets", ("", {T0: 1}), {}, "at least one character"),
    ("alter_group_offsets", ("a", [T0]), {}, "write a dict"),
    ("alter_group_offsets", ("a", {T0: -1}), {}, "neither an offset from 0"),
    ("alter_group_offsets", ("a", {T0: (1, 2)}), {}, "neither an offset from 0"),
    ("alter_group_offsets", ("a", {("t", -1): 1}), {}, "is not a partition"),
    ("alter_group_offsets", ("a", {T0: 1}), {"type": "kafka"}, "must be one of classic"),
    ("delete_group_offsets", ("a", "t"), {}, "write a list of partitions or topics"),
    ("delete_group_offsets", ("a", T0), {}, "write a list of partitions or topics"),
    ("delete_group_offsets", ("a", [3]), {}, "is not a partition"),
]


@pytest.mark.parametrize(("method", "args", "options", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: Any, options: Any, text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args, **options))
    assert not flavour.world.calls
