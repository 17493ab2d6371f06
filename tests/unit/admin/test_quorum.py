"""`admin.quorum`: the quorum of controllers, in both faces."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import QuorumReplica, RaftVoterEndpoint
from kafwire.errors import BrokerError, ConfigError, ErrorCode, ProtocolError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.flavours import Flavour

DIRECTORY = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
AS_TEXT = "ABEiM0RVZneImaq7zN3u_w"
ENDPOINT = RaftVoterEndpoint("CONTROLLER", "controller-4", 9093)
NONE_SHARED = (9, 9)  # versions of an API that kafwire does not have


def quorum(*, code: int = 0, name: str = "__cluster_metadata", index: int = 0, top: int = 0) -> Any:
    """A response: controller 7 leads, 8 lags, broker 1 observes, and nothing is known of 9."""
    response: Any = protocol.DescribeQuorumResponse
    state = response.ReplicaState
    partition = response.PartitionData(
        partition_index=index,
        error_code=code,
        error_message="why" if code else None,
        leader_id=7,
        leader_epoch=3,
        high_watermark=90,
        current_voters=[
            state(replica_id=7, replica_directory_id=DIRECTORY, log_end_offset=100, last_fetch_timestamp=5),
            state(
                replica_id=8,
                replica_directory_id=uuid.UUID(int=0),
                log_end_offset=90,
                last_fetch_timestamp=4,
                last_caught_up_timestamp=2,
            ),
            state(replica_id=9, replica_directory_id=uuid.UUID(int=0), log_end_offset=-1),
        ],
        observers=[state(replica_id=1, replica_directory_id=DIRECTORY, log_end_offset=101, last_fetch_timestamp=4)],
    )
    listeners = [response.Listener(name="CONTROLLER", host="controller-4", port=9093)]
    return response(
        error_code=top,
        error_message="why" if top else None,
        topics=[response.TopicData(topic_name=name, partitions=[partition])],
        nodes=[response.Node(node_id=7, listeners=listeners)],
    )


def test_the_quorum_is_described(flavour: Flavour) -> None:
    flavour.world.on("DescribeQuorum", lambda _: quorum())
    found = flavour.get(flavour.admin().describe_metadata_quorum())
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (7, 3, 90)
    assert found.voters == (
        QuorumReplica(7, DIRECTORY, 100, 0, 5, None),
        QuorumReplica(8, None, 90, 10, 4, 2),
        QuorumReplica(9, None, None, None, None, None),
    )
    assert found.observers == (QuorumReplica(1, DIRECTORY, 101, 0, 4, None),)
    assert found.nodes == {7: (ENDPOINT,)}


def test_without_the_end_of_the_leader_no_lag_is_known(flavour: Flavour) -> None:
    response = quorum()
    response.topics[0].partitions[0].leader_id = 6
    flavour.world.on("DescribeQuorum", lambda _: response)
    found = flavour.get(flavour.admin().describe_metadata_quorum())
    assert {each.lag for each in (*found.voters, *found.observers)} == {None}


def test_a_broker_follows_the_controller(flavour: Flavour) -> None:
    found = flavour.get(flavour.admin().describe_metadata_quorum())
    assert (found.leader_id, [each.replica_id for each in found.voters]) == (1, [1])
    assert [(each.replica_id, each.lag) for each in found.observers] == [(2, 0)]
    assert list(found.nodes) == [1]


def test_an_old_controller_has_no_times_and_endpoints(flavour: Flavour) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {"DescribeQuorum": (0, 0)}
    found = flavour.get(flavour.admin().describe_metadata_quorum())
    (voter,) = found.voters
    assert (voter.directory_id, voter.last_fetch_ms, voter.last_caught_up_ms) == (None, None, None)
    assert voter.log_end_offset is not None
    assert found.nodes == {}


@pytest.mark.parametrize("place", ["code", "top"])
def test_the_leader_is_found_again(flavour: Flavour, place: str) -> None:
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]

    def respond(_: Call) -> Any:
        code: Any = {place: codes.pop()} if codes else None
        return quorum(**code) if code else None

    flavour.world.on("DescribeQuorum", respond)
    assert flavour.get(flavour.admin().describe_metadata_quorum()).leader_id == 1
    assert len(flavour.world.made("DescribeQuorum")) == 3


@pytest.mark.parametrize("place", ["code", "top"])
def test_other_errors_are_final(flavour: Flavour, place: str) -> None:
    code: Any = {place: ErrorCode.UNKNOWN_SERVER_ERROR}
    flavour.world.on("DescribeQuorum", lambda _: quorum(**code))
    with pytest.raises(BrokerError, match="describing the metadata quorum: why"):
        flavour.get(flavour.admin().describe_metadata_quorum())
    assert len(flavour.world.made("DescribeQuorum")) == 1


@pytest.mark.parametrize("wrong", [{"name": "t"}, {"index": 1}])
def test_a_response_about_another_log_is_refused(flavour: Flavour, wrong: dict[str, Any]) -> None:
    flavour.world.on("DescribeQuorum", lambda _: quorum(**wrong))
    with pytest.raises(ProtocolError, match="not __cluster_metadata-0"):
        flavour.get(flavour.admin().describe_metadata_quorum())


def test_voters_are_added_and_removed(flavour: Flavour) -> None:
    flavour.world.on("AddRaftVoter", lambda _: protocol.AddRaftVoterResponse(error_message=None))
    flavour.world.on("RemoveRaftVoter", lambda _: protocol.RemoveRaftVoterResponse(error_message=None))
    admin = flavour.admin()
    flavour.get(admin.add_raft_voter(4, DIRECTORY, [ENDPOINT], cluster_id="simulated"))
    flavour.get(admin.remove_raft_voter(4, AS_TEXT))
    (added,), (removed,) = (flavour.world.made(name) for name in ("AddRaftVoter", "RemoveRaftVoter"))
    assert (added.message.voter_id, added.message.voter_directory_id) == (4, DIRECTORY)
    assert added.message.cluster_id == "simulated"
    (listener,) = added.message.listeners
    assert (listener.name, listener.host, listener.port) == ("CONTROLLER", "controller-4", 9093)
    assert (removed.message.voter_id, removed.message.voter_directory_id) == (4, DIRECTORY)
    assert removed.message.cluster_id is None


def test_a_static_quorum_refuses_changes(flavour: Flavour) -> None:
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION.*adding voter because the kraft.version feature is 0"):
        flavour.get(admin.add_raft_voter(4, DIRECTORY, [ENDPOINT]))
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION.*removing voter because the kraft.version feature is 0"):
        flavour.get(admin.remove_raft_voter(4, DIRECTORY))
    with pytest.raises(BrokerError, match="INCONSISTENT_CLUSTER_ID"):
        flavour.get(admin.remove_raft_voter(4, DIRECTORY, cluster_id="another"))


def test_a_controller_is_unregistered(flavour: Flavour) -> None:
    admin = flavour.admin()
    with pytest.raises(BrokerError, match="CONTROLLER_ID_NOT_REGISTERED.*unregistering controller 7"):
        flavour.get(admin.unregister_controller(7))
    flavour.world.on("UnregisterController", lambda _: protocol.UnregisterControllerResponse(error_message=None))
    flavour.get(admin.unregister_controller(7))


@pytest.mark.parametrize(
    ("api", "method", "args", "text"),
    [
        ("DescribeQuorum", "describe_metadata_quorum", (), r"Kafka 3.3 \(with KRaft\)"),
        ("AddRaftVoter", "add_raft_voter", (4, DIRECTORY, [ENDPOINT]), r"Kafka 3.9 \(with KRaft\)"),
        ("RemoveRaftVoter", "remove_raft_voter", (4, DIRECTORY), r"Kafka 3.9 \(with KRaft\)"),
        ("UnregisterController", "unregister_controller", (4,), "Kafka 4.4"),
    ],
)
def test_an_old_broker_is_named(flavour: Flavour, api: str, method: str, args: tuple[Any, ...], text: str) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {api: NONE_SHARED}
    with pytest.raises(ProtocolError, match=f"{method} needs {text} or newer"):
        flavour.get(getattr(flavour.admin(), method)(*args))


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("add_raft_voter", (-1, DIRECTORY, [ENDPOINT]), "voter_id=-1"),
    ("add_raft_voter", (4, "short", [ENDPOINT]), "directory_id='short'"),
    ("add_raft_voter", (4, uuid.UUID(int=0), [ENDPOINT]), "directory_id="),
    ("add_raft_voter", (4, DIRECTORY, []), "write a list"),
    ("add_raft_voter", (4, DIRECTORY, ENDPOINT), "write a list"),
    ("add_raft_voter", (4, DIRECTORY, ["c:1"]), "write a list"),
    ("remove_raft_voter", (4, 7), "directory_id=7"),
    ("unregister_controller", ("4",), "controller_id='4'"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls


@pytest.mark.parametrize(("name", "host", "port"), [("", "h", 1), ("c", "", 1), ("c", "h", 1 << 16), ("c", "h", "1")])
def test_wrong_endpoints(name: str, host: str, port: Any) -> None:
    with pytest.raises(ConfigError):
        RaftVoterEndpoint(name, host, port)
