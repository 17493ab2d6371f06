"""`admin.replicas`: log directories, reassignments and elections, in both faces."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import PartitionReassignment, ReplicaInfo, ReplicaLogDirs, TopicPartitionReplica
from kafwire.broker.topics.log_dirs import LogDirs
from kafwire.broker.topics.reassignments import Reassignments
from kafwire.errors import (
    AdminError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import HANGUP, Call
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour

FIRST, SECOND = "/data/1", "/data/2"


@pytest.fixture(autouse=True)
def two_directories(flavour: Flavour) -> None:
    """Each broker has two; topic "t" has a partition with a replica on each broker."""
    flavour.world.state.configs["log.dirs"] = f"{FIRST},{SECOND}"
    flavour.world.create_topic("t", replicas=2)
    flavour.world.log("t").append_values([b"a", b"b"])


# --- log directories


def test_log_directories_of_all_brokers(flavour: Flavour) -> None:
    admin = flavour.admin()
    found = flavour.get(admin.describe_log_dirs())
    assert {broker: list(dirs) for broker, dirs in found.items()} == {1: [FIRST, SECOND], 2: [FIRST, SECOND]}
    size = flavour.world.log("t").log.size
    assert found[1][FIRST].replicas == {TopicPartition("t", 0): ReplicaInfo(size, 0, is_future=False)}
    assert (found[1][FIRST].error, found[1][SECOND].replicas) == (None, {})
    assert list(flavour.get(admin.describe_log_dirs([2]))) == [2]


def test_volumes_and_cordons(flavour: Flavour) -> None:
    def respond(_: Call) -> Any:
        response = protocol.DescribeLogDirsResponse
        result = response.DescribeLogDirsResult
        return response(
            results=[
                result(log_dir=FIRST, topics=[], total_bytes=1000, usable_bytes=10, is_cordoned=True),
                result(log_dir=SECOND, topics=[], error_code=ErrorCode.KAFKA_STORAGE_ERROR),
            ]
        )

    flavour.world.on("DescribeLogDirs", respond)
    dirs = flavour.get(flavour.admin().describe_log_dirs([1]))[1]
    assert (dirs[FIRST].total_bytes, dirs[FIRST].usable_bytes, dirs[FIRST].is_cordoned) == (1000, 10, True)
    assert (dirs[SECOND].total_bytes, dirs[SECOND].usable_bytes, dirs[SECOND].is_cordoned) == (None, None, False)
    error = dirs[SECOND].error
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_one_broker_that_fails_hides_no_other(flavour: Flavour) -> None:
    flavour.world.on("DescribeLogDirs", lambda call: HANGUP if call.node == 2 else None)
    admin = flavour.admin()
    with pytest.raises(AdminError, match="1 of 2 failed: 2: describing log directories did not succeed") as caught:
        flavour.get(admin.describe_log_dirs([1, 2], timeout=1))
    assert list(caught.value.results) == [1]
    errors: dict[int, KafkaError] = {}
    found = flavour.get(admin.describe_log_dirs([1, 7], on_error=errors.__setitem__))
    assert list(found) == [1]
    assert "broker 7 is not in the cluster" in str(errors[7])


@pytest.mark.parametrize("version", [1, 3])
def test_a_broker_that_refuses_the_description(flavour: Flavour, version: int) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {"DescribeLogDirs": (1, version)}
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version == 3 else 0
    flavour.world.on("DescribeLogDirs", lambda _: protocol.DescribeLogDirsResponse(error_code=code, results=[]))
    admin = flavour.admin()
    for call in (admin.describe_log_dirs, admin.describe_replica_log_dirs):
        with pytest.raises(AuthorizationError, match="an ACL that permits Describe on the Cluster"):
            flavour.get(call([1] if call == admin.describe_log_dirs else [("t", 0, 1)]))


def test_a_replica_moves_between_directories(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.world.state.part(LogDirs).copy_ms = 60_000
    here, there = ("t", 0, 1), TopicPartitionReplica("t", 0, 2)
    flavour.get(admin.alter_replica_log_dirs({here: SECOND, there: FIRST}))
    found = flavour.get(admin.describe_replica_log_dirs([here, there]))
    assert found == {here: ReplicaLogDirs(FIRST, 0, SECOND, 2), there: ReplicaLogDirs(FIRST, 0, None, None)}
    assert all(isinstance(key, TopicPartitionReplica) for key in found)
    flavour.world.pass_time(61)
    found = flavour.get(admin.describe_replica_log_dirs([here, ("t", 5, 1)]))
    assert found == {here: ReplicaLogDirs(SECOND, 0, None, None), ("t", 5, 1): ReplicaLogDirs(None, None, None, None)}
    assert len(flavour.world.made("AlterReplicaLogDirs")) == 2, "a request for each broker"


def test_replicas_that_do_not_move(flavour: Flavour) -> None:
    moves = {("t", 0, 1): SECOND, ("t", 0, 2): "/none", ("t", 5, 2): SECOND, ("t", 0, 9): SECOND}
    errors: dict[TopicPartitionReplica, Any] = {}
    flavour.get(flavour.admin().alter_replica_log_dirs(moves, on_error=errors.__setitem__))
    assert {key: getattr(error, "name", type(error).__name__) for key, error in errors.items()} == {
        ("t", 0, 2): "LOG_DIR_NOT_FOUND",
        ("t", 5, 2): "UNKNOWN_TOPIC_OR_PARTITION",
        ("t", 0, 9): "ConfigError",
    }
    assert len(flavour.world.made("AlterReplicaLogDirs")) == 2, "these errors are final"


# --- reassignments


def test_partitions_move_and_moves_are_cancelled(flavour: Flavour) -> None:
    admin, place = flavour.admin(), TopicPartition("u", 0)
    flavour.world.create_topic("u")
    (old,) = flavour.world.log("u").replicas
    new = 3 - old
    flavour.world.state.replication.hold(new)
    flavour.get(admin.alter_partition_reassignments({place: [new]}))
    expected = {place: PartitionReassignment((new, old), (new,), (old,))}
    assert flavour.get(admin.list_partition_reassignments()) == expected
    assert flavour.get(admin.list_partition_reassignments([("u", 0), ("t", 0)])) == expected
    assert flavour.get(admin.list_partition_reassignments([("t", 0)])) == {}
    flavour.get(admin.alter_partition_reassignments({("u", 0): None}))
    assert flavour.get(admin.list_partition_reassignments()) == {}
    assert flavour.world.log("u").replicas == [old]


def test_partitions_that_do_not_move(flavour: Flavour) -> None:
    moves = {("t", 0): [1, 9], ("t", 1): [1], ("x", 0): [1]}
    with pytest.raises(AdminError, match="3 of 3 failed") as caught:
        flavour.get(flavour.admin().alter_partition_reassignments(moves))
    assert {key: error.name for key, error in caught.value.errors.items() if isinstance(error, BrokerError)} == {
        ("t", 0): "INVALID_REPLICA_ASSIGNMENT",
        ("t", 1): "UNKNOWN_TOPIC_OR_PARTITION",
        ("x", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    with pytest.raises(BrokerError, match="NO_REASSIGNMENT_IN_PROGRESS.*reassigning t-0"):
        flavour.get(flavour.admin().alter_partition_reassignments({("t", 0): None}))


def test_the_replication_factor_may_be_kept(flavour: Flavour) -> None:
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
        flavour.get(admin.alter_partition_reassignments({("t", 0): [1]}, allow_replication_factor_change=False))
    assert not flavour.world.state.part(Reassignments).ongoing
    for node in flavour.world.nodes.values():
        node.versions = {"AlterPartitionReassignments": (0, 0)}
    admin = flavour.admin()
    with pytest.raises(ProtocolError, match="allow_replication_factor_change=False needs Kafka 4.1 or newer"):
        flavour.get(admin.alter_partition_reassignments({("t", 0): [1]}, allow_replication_factor_change=False))
    flavour.get(admin.alter_partition_reassignments({("t", 0): [1]}))


def test_an_error_of_the_whole_request_is_that_of_all_partitions(flavour: Flavour) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = protocol.AlterPartitionReassignmentsResponse(error_code=code, error_message=None, responses=[])
    flavour.world.on("AlterPartitionReassignments", lambda _: response)
    with pytest.raises(AdminError, match="2 of 2 failed: t-0: CLUSTER_AUTHORIZATION_FAILED") as caught:
        flavour.get(flavour.admin().alter_partition_reassignments({("t", 0): [1], ("t", 1): [1]}))
    assert all(isinstance(error, AuthorizationError) for error in caught.value.errors.values())


def test_a_refused_list_is_raised(flavour: Flavour) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = protocol.ListPartitionReassignmentsResponse(error_code=code, error_message=None, topics=[])
    flavour.world.on("ListPartitionReassignments", lambda _: response)
    with pytest.raises(AuthorizationError, match="Describe on the Cluster"):
        flavour.get(flavour.admin().list_partition_reassignments())


@pytest.mark.parametrize("method", ["alter_partition_reassignments", "list_partition_reassignments", "elect_leaders"])
def test_a_moved_controller_is_found_again(flavour: Flavour, method: str) -> None:
    args = {
        "alter_partition_reassignments": ({("t", 0): [1, 2]},),
        "list_partition_reassignments": (),
        "elect_leaders": ("preferred",),
    }[method]
    api = "".join(part.capitalize() for part in method.split("_"))
    refusals = [ErrorCode.NOT_CONTROLLER]

    def respond(_: Call) -> Any:
        return getattr(protocol, f"{api}Response")(error_code=refusals.pop()) if refusals else None

    flavour.world.on(api, respond)
    flavour.get(getattr(flavour.admin(), method)(*args))
    assert len(flavour.world.made(api)) == 2


# --- elections


def test_preferred_leaders_are_elected(flavour: Flavour) -> None:
    admin, log = flavour.admin(), flavour.world.log("t")
    preferred, other = log.replicas
    log.lead(other)
    assert flavour.get(admin.elect_leaders("preferred", [("t", 0)])) == [TopicPartition("t", 0)]
    assert log.leader == preferred
    with pytest.raises(BrokerError, match="ELECTION_NOT_NEEDED.*electing the preferred leader of t-0"):
        flavour.get(admin.elect_leaders("preferred", [("t", 0)]))


def test_elections_of_all_partitions_leave_out_those_that_need_none(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.world.create_topic("u", replicas=2)
    assert flavour.get(admin.elect_leaders("preferred")) == []
    log = flavour.world.log("u")
    log.lead(log.replicas[1])
    assert flavour.get(admin.elect_leaders("preferred")) == [TopicPartition("u", 0)]


def test_one_failed_election_hides_no_other(flavour: Flavour) -> None:
    log = flavour.world.log("t")
    log.lead(log.replicas[1])
    with pytest.raises(AdminError, match="1 of 2 failed: x-0: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        flavour.get(flavour.admin().elect_leaders("preferred", [("t", 0), ("x", 0)]))
    assert list(caught.value.results) == [("t", 0)]


def test_a_failed_election_among_all_is_an_error(flavour: Flavour) -> None:
    log = flavour.world.log("t")
    other = log.replicas[1]
    log.lead(other)
    log.isr = [other]
    with pytest.raises(BrokerError, match="PREFERRED_LEADER_NOT_AVAILABLE"):
        flavour.get(flavour.admin().elect_leaders("preferred"))
    errors: dict[TopicPartition, KafkaError] = {}
    assert flavour.get(flavour.admin().elect_leaders("preferred", on_error=errors.__setitem__)) == []
    assert list(errors) == [TopicPartition("t", 0)]


def test_an_unclean_election(flavour: Flavour) -> None:
    log = flavour.world.log("t")
    log.lead(-1)
    assert flavour.get(flavour.admin().elect_leaders("unclean", [("t", 0)])) == [TopicPartition("t", 0)]
    assert log.leader > 0
    (call,) = flavour.world.made("ElectLeaders")
    assert call.message.election_type == 1


def test_an_election_that_is_refused_as_a_whole(flavour: Flavour) -> None:
    refused = protocol.ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    flavour.world.on("ElectLeaders", lambda _: refused)
    with pytest.raises(AdminError, match="2 of 2 failed.*permits Alter on the Cluster"):
        flavour.get(flavour.admin().elect_leaders("preferred", [("t", 0), ("t", 1)]))
    with pytest.raises(AuthorizationError):
        flavour.get(flavour.admin().elect_leaders("preferred"))


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("describe_log_dirs", ("1",), "write a list of node ids"),
    ("describe_log_dirs", ([-1],), "brokers=-1"),
    ("describe_replica_log_dirs", ("t",), "write a list of replicas"),
    ("describe_replica_log_dirs", (TopicPartitionReplica("t", 0, 1),), "write a list of replicas"),
    ("describe_replica_log_dirs", ([("t", 0)],), "is not a replica"),
    ("describe_replica_log_dirs", ([("t", 0, -1)],), "broker_id=-1"),
    ("alter_replica_log_dirs", ([("t", 0, 1)],), "write a dict"),
    ("alter_replica_log_dirs", ({("t", 0, 1): ""},), "at least one character"),
    ("alter_partition_reassignments", ([("t", 0)],), "write a dict"),
    ("alter_partition_reassignments", ({"t": [1]},), "'t' is not a partition"),
    ("alter_partition_reassignments", ({("t", -1): [1]},), "is not a partition"),
    ("alter_partition_reassignments", ({("t", 0): []},), "None cancels"),
    ("alter_partition_reassignments", ({("t", 0): 1},), "None cancels"),
    ("alter_partition_reassignments", ({("t", 0): ["1"]},), "must be a node's id"),
    ("list_partition_reassignments", ("t",), "write a list of partitions"),
    ("list_partition_reassignments", (TopicPartition("t", 0),), "write a list of partitions"),
    ("list_partition_reassignments", ([("", 0)],), "is not a partition"),
    ("elect_leaders", ("clean",), "one of preferred, unclean"),
    ("elect_leaders", ([],), "one of preferred, unclean"),
    ("elect_leaders", ("preferred", [("t\ud800", 0)]), "lone surrogate"),
    ("elect_leaders", ("preferred", ("t", 0)), "is not a partition"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls
