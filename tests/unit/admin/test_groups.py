"""`admin.groups`: list, describe and delete groups of all types, and remove their members, in both faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafwire import TopicPartition, protocol
from kafwire.admin import GroupListing, GroupMember, StreamsTask
from kafwire.errors import AdminError, BrokerError, ConfigError, ErrorCode, KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.flavours import Flavour
from tests.support.simulated.made_groups import MadeGroups

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DESCRIBING = ("ConsumerGroupDescribe", "DescribeGroups", "ShareGroupDescribe", "StreamsGroupDescribe")


@pytest.fixture
def groups(flavour: Flavour) -> MadeGroups:
    flavour.world.create_topic("t", partitions=2)
    made = MadeGroups(flavour)
    for name, node in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
        made.on(name, node)
    return made


def every_type(groups: MadeGroups) -> None:
    groups.classic("a", {"t": [0, 1]})
    groups.consumer("b", "it", ["t"])
    groups.share("c", "it", ["t"])
    groups.streams("d", "it", "t")


def once(code: int, response: Callable[[int], Any]) -> Callable[[Call], Any]:
    """A handler that returns a response with an error, and then leaves the requests to the broker."""
    left = [code]
    return lambda _: response(left.pop()) if left else None


# --- lists


def test_groups_of_all_brokers_and_types_are_listed(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    assert flavour.get(flavour.admin().list_groups()) == [
        GroupListing("a", "classic", "Stable", "consumer", 1),
        GroupListing("b", "consumer", "Stable", "consumer", 2),
        GroupListing("c", "share", "Stable", "share", 1),
        GroupListing("d", "streams", "Stable", "streams", 2),
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"types": ["classic", "share"]}, ["a", "c", "e"]),
        ({"states": ["Empty"]}, ["e"]),
        ({"states": ["Empty", "Stable"], "types": ["classic"]}, ["a", "e"]),
        ({"protocol_types": ["streams", ""]}, ["d", "e"]),
        ({"states": [], "types": [], "protocol_types": []}, ["a", "b", "c", "d", "e"]),
    ],
    ids=str,
)
def test_lists_are_filtered(flavour: Flavour, groups: MadeGroups, filters: Any, found: list[str]) -> None:
    every_type(groups)
    groups.commit("e", {T0: 1})
    assert [each.group_id for each in flavour.get(flavour.admin().list_groups(**filters))] == found


def test_a_group_that_is_not_ready_is_found_by_its_state(flavour: Flavour, groups: MadeGroups) -> None:
    groups.streams("d", "it", "missing")
    (found,) = flavour.get(flavour.admin().list_groups(states=["NotReady"]))
    assert (found.group_id, found.state) == ("d", "NotReady")


def test_a_broker_that_fails_hides_no_other(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 1})
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    flavour.world.on(
        "ListGroups", lambda call: protocol.ListGroupsResponse(error_code=code) if call.node == 2 else None
    )
    admin = flavour.admin()
    with pytest.raises(AdminError, match="2: UNKNOWN_SERVER_ERROR.*listing the groups of broker 2") as caught:
        flavour.get(admin.list_groups())
    assert [each.group_id for each in caught.value.results[1]] == ["a"]
    errors: dict[int, KafkaError] = {}
    assert [each.group_id for each in flavour.get(admin.list_groups(on_error=errors.__setitem__))] == ["a"]
    assert list(errors) == [2]


def test_a_broker_that_loads_groups_is_asked_again(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 1})
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    flavour.world.on("ListGroups", once(code, lambda code: protocol.ListGroupsResponse(error_code=code)))
    assert len(flavour.get(flavour.admin().list_groups())) == 1
    assert len(flavour.world.made("ListGroups")) == 3


def test_an_old_broker_lists_no_groups_by_type(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("a", {T0: 1})
    for node in flavour.world.nodes.values():
        node.versions = {"ListGroups": (0, 4)}
    admin = flavour.admin()
    for types in (["share"], ["consumer"], ["classic", "share"]):
        with pytest.raises(AdminError, match=r"needs Kafka 3\.8 or newer") as caught:
            flavour.get(admin.list_groups(types=types))
        assert isinstance(caught.value.errors[1], ProtocolError)
    found = flavour.get(admin.list_groups(types=["classic"]))
    assert [(each.group_id, each.type, each.state) for each in found] == [("a", "", "Empty")]


# --- descriptions


def test_a_classic_group_is_described(flavour: Flavour, groups: MadeGroups) -> None:
    member_id = groups.classic("a", {"t": [0, 1]}, instance_id="one")
    its = flavour.get(flavour.admin().describe_groups(["a"]))["a"]
    assert (its.type, its.state, its.coordinator, its.assignor) == ("classic", "Stable", 1, "range")
    assert (its.protocol_type, its.epoch, its.assignment_epoch, its.topology) == ("consumer", None, None, None)
    (member,) = its.members
    assert (member.member_id, member.instance_id, member.client_id) == (member_id, "one", "member")
    assert (member.protocol, member.epoch, member.topics, member.problem) == ("classic", None, ("t",), "")
    assert (member.assignment, member.target_assignment) == ((T0, T1), None)
    assert (its.is_empty, its.owners(T1), its.owners(TopicPartition("t", 2))) == (False, [member], [])
    assert its.authorized_operations is None


def test_an_assignment_that_cannot_be_decoded_has_a_reason(flavour: Flavour, groups: MadeGroups) -> None:
    groups.classic("a", {"t": []}, assigned=b"\xff\xfe\0no assignment")
    groups.classic("b", {"t": []}, assigned=b"\xff\xfe\0of its own", protocol_type="connect")
    found = flavour.get(flavour.admin().describe_groups(["a", "b"]))
    assert [bool(each.members[0].problem) for each in found.values()] == [True, False]
    assert found["b"].protocol_type == "connect"
    assert found["a"].members[0].assignment == found["b"].members[0].assignment == ()


def test_a_consumer_group_is_described(flavour: Flavour, groups: MadeGroups) -> None:
    groups.consumer("b", "it", ["t"], instance_id="one")
    its = flavour.get(flavour.admin().describe_groups(["b"]))["b"]
    assert (its.type, its.state, its.coordinator, its.assignor) == ("consumer", "Stable", 2, "uniform")
    assert (its.protocol_type, its.epoch) == ("consumer", its.assignment_epoch)
    (member,) = its.members
    assert (member.member_id, member.instance_id, member.rack_id, member.protocol) == ("it", "one", "r1", "consumer")
    assert (member.topics, member.pattern, member.epoch) == (("t",), None, its.epoch)
    assert member.assignment == member.target_assignment == (T0, T1)


def test_a_share_group_is_described(flavour: Flavour, groups: MadeGroups) -> None:
    groups.share("c", "it", ["t"])
    its = flavour.get(flavour.admin().describe_groups(["c"]))["c"]
    assert (its.type, its.state, its.assignor, its.protocol_type) == ("share", "Stable", "simple", "share")
    (member,) = its.members
    assert (member.member_id, member.protocol, member.topics, member.assignment) == ("it", "share", ("t",), (T0, T1))
    assert its.owners(T0) == [member]


def test_a_streams_group_is_described(flavour: Flavour, groups: MadeGroups) -> None:
    flavour.world.create_topic("u", partitions=1)
    groups.streams("d", "it", "t", "u", stores=["d-store-changelog"])
    its = flavour.get(flavour.admin().describe_groups(["d"], topology_description=True))["d"]
    assert (its.type, its.state, its.protocol_type) == ("streams", "Stable", "streams")
    assert its.topology is not None
    assert (its.topology.epoch, its.topology.description_status) == (0, "not_stored")
    (part,) = its.topology.subtopologies
    assert (part.subtopology_id, part.source_topics) == ("0", ("t", "u"))
    assert [topic.name for topic in part.state_changelog_topics] == ["d-store-changelog"]
    (member,) = its.members
    assert (member.instance_id, member.protocol) == ("it-instance", "streams")
    assert member.assignment == (T0, T1, TopicPartition("u", 0)), "u has no partition for the second task"
    (looked_up,) = [call.message for call in flavour.world.made("Metadata") if call.message.topics]
    assert not looked_up.allow_auto_topic_creation, "a topic that was deleted stays so"
    assert member.streams is not None
    assert (member.streams.process_id, member.streams.endpoint) == ("p", ("h", 7))
    assert member.streams.client_tags == {"zone": "a"}
    assert member.streams.target_assignment.active == (StreamsTask("0", 0), StreamsTask("0", 1))
    assert member.streams.assignment == member.streams.target_assignment


def test_all_types_are_described_by_one_lookup(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    calls = len(flavour.world.calls)
    found = flavour.get(flavour.admin().describe_groups(["a", "b", "c", "d"]))
    assert [each.type for each in found.values()] == ["classic", "consumer", "share", "streams"]
    made = [call.name for call in flavour.world.calls[calls:]]
    assert (made.count("FindCoordinator"), made.count("ConsumerGroupDescribe")) == (1, 2)


def test_an_unknown_group_hides_no_other(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    admin = flavour.admin()
    with pytest.raises(AdminError, match="x: GROUP_ID_NOT_FOUND.*describing group x") as caught:
        flavour.get(admin.describe_groups(["a", "x", "d"]))
    assert list(caught.value.results) == ["a", "d"]
    with pytest.raises(BrokerError) as alone:
        flavour.get(admin.describe_groups(["x"]))
    assert alone.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_old_broker_describes_classic_groups(flavour: Flavour, groups: MadeGroups) -> None:
    groups.classic("a", {"t": [0]})
    for node in flavour.world.nodes.values():
        node.versions = dict.fromkeys(DESCRIBING, (99, 99)) | {"DescribeGroups": (0, 5)}
    admin = flavour.admin()
    assert flavour.get(admin.describe_groups(["a"]))["a"].type == "classic"
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):  # the response has the state "Dead", and no error
        flavour.get(admin.describe_groups(["x"]))


def test_a_disabled_type_is_no_error(flavour: Flavour, groups: MadeGroups) -> None:
    groups.share("c", "it", ["t"])
    flavour.world.state.features["streams.version"] = 0
    admin = flavour.admin()
    assert flavour.get(admin.describe_groups(["c"]))["c"].type == "share"
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(admin.describe_groups(["x"]))


def test_a_moved_coordinator_is_found_again(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    admin = flavour.admin()
    flavour.get(admin.describe_groups(["c"]))
    flavour.world.move_coordinator("c", 2)
    assert flavour.get(admin.describe_groups(["c"]))["c"].coordinator == 2


def test_permitted_operations_are_reported(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    found = flavour.get(flavour.admin().describe_groups(["a", "b", "c", "d"], authorized_operations=True))
    operations = {"Read", "Describe", "Delete", "DescribeConfigs", "AlterConfigs"}
    assert [each.authorized_operations for each in found.values()] == [operations] * 4


def test_an_old_broker_has_no_processing_graphs(flavour: Flavour, groups: MadeGroups) -> None:
    groups.streams("d", "it", "t")
    for node in flavour.world.nodes.values():
        node.versions = {"StreamsGroupDescribe": (0, 0)}
    admin = flavour.admin()
    topology = flavour.get(admin.describe_groups(["d"]))["d"].topology
    assert topology.description_status == "not_requested"
    with pytest.raises(ProtocolError, match=r"topology_description=True needs Kafka 4\.4"):
        flavour.get(admin.describe_groups(["d"], topology_description=True))


def test_a_processing_graph_is_read(flavour: Flavour, groups: MadeGroups) -> None:
    response: Any = protocol.StreamsGroupDescribeResponse
    source = response.TopologyDescriptionNode(name="in", node_type=1, source_topics=["t"], successors=["out"])
    sink = response.TopologyDescriptionNode(name="out", node_type=3, sink_topic="u")
    store = response.TopologyDescriptionNode(name="table", node_type=2, stores=["s"])
    described = response.DescribedGroup(
        group_id="d",
        group_state="Empty",
        topology=response.Topology(epoch=3, subtopologies=[]),
        topology_description_status=3,
        topology_description=response.TopologyDescription(
            subtopologies=[response.TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, sink])],
            global_stores=[response.TopologyDescriptionGlobalStore(source=source, processor=store)],
        ),
    )
    flavour.world.on("StreamsGroupDescribe", lambda _: response(groups=[described]))
    its = flavour.get(flavour.admin().describe_groups(["d"], topology_description=True))["d"].topology
    assert (its.epoch, its.description_status) == (3, "available")
    assert [(node.name, node.type, node.sink_topic) for node in its.description.subtopologies["0"]] == [
        ("in", "source", None),
        ("out", "sink", "u"),
    ]
    ((read, kept),) = its.description.global_stores
    assert (read.topics, kept.type, kept.stores) == (("t",), "processor", ("s",))


# --- deletion


def test_groups_are_deleted(flavour: Flavour, groups: MadeGroups) -> None:
    groups.commit("e", {T0: 1})
    groups.commit("f", {T0: 1})
    groups.share("c", "it", ["t"])
    admin = flavour.admin()
    errors: dict[str, KafkaError] = {}
    flavour.get(admin.delete_groups(["e", "c", "x", "f"], on_error=errors.__setitem__))
    named = {key: error.name for key, error in errors.items() if isinstance(error, BrokerError)}
    assert named == {"c": "NON_EMPTY_GROUP", "x": "GROUP_ID_NOT_FOUND"}
    assert [each.group_id for each in flavour.get(admin.list_groups())] == ["c"]
    with pytest.raises(BrokerError, match="deleting group x"):
        flavour.get(admin.delete_groups(["x"]))


# --- members


def test_members_are_removed_by_their_ids(flavour: Flavour, groups: MadeGroups) -> None:
    first = groups.classic("a", {"t": [0]})
    groups.consumer("b", "it", ["t"])
    groups.consumer("b", "other", ["t"])
    admin = flavour.admin()
    flavour.get(admin.remove_members("a", [first], reason="moving"))
    flavour.get(admin.remove_members("b", ["it"]))
    members = {name: its.members for name, its in flavour.get(admin.describe_groups(["a", "b"])).items()}
    assert ([*members["a"]], [each.member_id for each in members["b"]]) == ([], ["other"])
    reasons = [call.message.members[0].reason for call in flavour.world.made("LeaveGroup")]
    assert reasons == ["moving", "an administrator removed the member"]


def test_members_are_removed_by_their_instance_ids(flavour: Flavour, groups: MadeGroups) -> None:
    groups.classic("a", {"t": [0]}, instance_id="one")
    groups.consumer("b", "it", ["t"], instance_id="two")
    admin = flavour.admin()
    with pytest.raises(AdminError, match="three: UNKNOWN_MEMBER_ID.*removing member three of group a") as caught:
        flavour.get(admin.remove_members("a", instance_ids=["one", "three"]))
    assert list(caught.value.results) == ["one"]
    described = flavour.get(admin.describe_groups(["b"]))["b"]
    flavour.get(admin.remove_members("b", described.members))
    found = flavour.get(admin.describe_groups(["a", "b"]))
    assert [each.is_empty for each in found.values()] == [True, True]
    (asked,) = flavour.world.made("LeaveGroup")[-1].message.members
    assert (asked.member_id, asked.group_instance_id) == ("", "two")


def test_kafka_4_0_adds_the_id_of_a_static_member(flavour: Flavour, groups: MadeGroups) -> None:
    """So it does in consumer groups: the name stays the instance id of the call."""
    groups.consumer("b", "it", ["t"], instance_id="two")
    response: Any = protocol.LeaveGroupResponse
    part = response.MemberResponse(member_id="it", group_instance_id="two", error_code=ErrorCode.FENCED_INSTANCE_ID)
    flavour.world.on("LeaveGroup", lambda _: response(members=[part]))
    with pytest.raises(BrokerError, match="removing member two of group b"):
        flavour.get(flavour.admin().remove_members("b", instance_ids=["two"]))


@pytest.mark.parametrize("group", ["a", "b"])
def test_all_members_are_removed(flavour: Flavour, groups: MadeGroups, group: str) -> None:
    if group == "a":
        groups.classic("a", {"t": [0]}, instance_id="one")
    else:
        groups.consumer("b", "it", ["t"], instance_id="one")
        groups.consumer("b", "other", ["t"])
    admin = flavour.admin()
    flavour.get(admin.remove_members(group))
    assert flavour.get(admin.describe_groups([group]))[group].is_empty
    flavour.get(admin.remove_members(group))
    assert len(flavour.world.made("LeaveGroup")) == 1, "an empty group has no member to remove"


def test_one_time_limit_bounds_both_steps_of_a_removal(flavour: Flavour, groups: MadeGroups) -> None:
    groups.consumer("b", "it", ["t"])
    time, code = flavour.world.loop.time, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    response: Any = protocol.ConsumerGroupDescribeResponse
    loading = response(groups=[response.DescribedGroup(group_id="b", error_code=code)])
    begun = time()
    flavour.world.on("ConsumerGroupDescribe", lambda _: loading if time() < begun + 1.5 else None)
    flavour.world.on("LeaveGroup", lambda _: protocol.LeaveGroupResponse(error_code=code))
    with pytest.raises(KafkaTimeoutError):
        flavour.get(flavour.admin(default_api_timeout_ms=2000).remove_members("b"))
    assert 1.5 < time() - begun <= 2.1


def test_members_of_other_types_cannot_be_removed(flavour: Flavour, groups: MadeGroups) -> None:
    every_type(groups)
    admin = flavour.admin()
    for group in ("c", "d"):
        with pytest.raises(ConfigError, match="Kafka removes members of classic and consumer groups only"):
            flavour.get(admin.remove_members(group))
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            flavour.get(admin.remove_members(group, ["it"]))
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(admin.remove_members("x"))
    leave = protocol.ShareGroupHeartbeatRequest(group_id="c", member_id="it", member_epoch=-1)
    assert not groups.call("c", leave).error_code
    with pytest.raises(ConfigError, match="group c is a share group"):  # without members, too
        flavour.get(admin.remove_members("c"))


def test_a_member_is_removed_by_a_moved_coordinator(flavour: Flavour, groups: MadeGroups) -> None:
    groups.consumer("b", "it", ["t"])
    groups.consumer("b", "other", ["t"])
    admin = flavour.admin()
    flavour.get(admin.remove_members("b", ["it"]))
    flavour.world.move_coordinator("b", 1)
    flavour.get(admin.remove_members("b", ["other"]))
    assert flavour.get(admin.describe_groups(["b"]))["b"].is_empty


def test_an_old_broker_logs_no_reason(flavour: Flavour, groups: MadeGroups) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {"LeaveGroup": (0, 4)}
    member_id = groups.classic("a", {"t": [0]})
    admin = flavour.admin()
    with pytest.raises(ProtocolError, match=r"reason='moving' needs Kafka 3\.2 or newer"):
        flavour.get(admin.remove_members("a", [member_id], reason="moving"))
    flavour.get(admin.remove_members("a", [member_id]))
    assert flavour.get(admin.describe_groups(["a"]))["a"].is_empty


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("list_groups", (), {"states": "Empty"}, "write a list"),
    ("list_groups", (), {"states": ["empty"]}, "is not one of Empty, Stable"),
    ("list_groups", (), {"states": [["Empty"]]}, "is not a text"),
    ("list_groups", (), {"types": ["kafka"]}, "is not one of classic, consumer, share, streams"),
    ("list_groups", (), {"protocol_types": "consumer"}, "write a list"),
    ("list_groups", (), {"protocol_types": [3]}, "is not a text"),
    ("describe_groups", ("a",), {}, "write a list of names"),
    ("describe_groups", ([""],), {}, "at least one character"),
    ("delete_groups", ("a",), {}, "write a list of names"),
    ("remove_members", ("",), {}, "at least one character"),
    ("remove_members", ("a", "it"), {}, "write a list of member ids"),
    ("remove_members", ("a", [3]), {}, "is not a text"),
    ("remove_members", ("a", ["it"]), {"instance_ids": ["it"]}, "both a member id and an instance id"),
    ("remove_members", ("a", ["it"]), {"reason": "x" * 256}, "at most 255"),
    ("remove_members", ("a", ["it"]), {"reason": ""}, "at least one character"),
]


@pytest.mark.parametrize(("method", "args", "options", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: Any, options: Any, text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args, **options))
    assert not flavour.world.calls


def test_members_of_a_description_are_static_or_not(flavour: Flavour, groups: MadeGroups) -> None:
    groups.consumer("b", "it", ["t"])
    admin = flavour.admin()
    (member,) = flavour.get(admin.describe_groups(["b"]))["b"].members
    assert isinstance(member, GroupMember)
    flavour.get(admin.remove_members("b", [member]))
    (asked,) = flavour.world.made("LeaveGroup")[-1].message.members
    assert (asked.member_id, asked.group_instance_id) == ("it", None)


def test_a_static_member_and_a_member_id_of_the_same_name_clash(flavour: Flavour, groups: MadeGroups) -> None:
    groups.consumer("b", "it", ["t"], instance_id="one")
    admin = flavour.admin()
    (member,) = flavour.get(admin.describe_groups(["b"]))["b"].members
    for both in ([member, "one"], ["one", member]):
        with pytest.raises(ConfigError, match="'one' is both a member id and an instance id"):
            flavour.get(admin.remove_members("b", both))
