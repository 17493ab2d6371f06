"""Features, registrations, the quorum and log directories, as administrators change and see them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import ClusterState
from kafwire.broker.topics.log_dirs import LogDirs
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver

DIRECTORY = uuid.UUID(int=7)


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver(ClusterState((1, 2, 3), configs={"log.dirs": "/a, /b"}))


# --- features


def update(driver: Any, *updates: tuple[str, int, int], version: int = 2, **fields: Any) -> Any:
    request = protocol.UpdateFeaturesRequest
    keys = [request.FeatureUpdateKey(feature=f, max_version_level=v, upgrade_type=k) for f, v, k in updates]
    return driver.ask(request(feature_updates=keys, **fields), version)


def features(driver: Any) -> Any:
    return driver.ask(protocol.ApiVersionsRequest(client_software_name="x", client_software_version="1"))


def test_levels_change_together(driver: Any) -> None:
    assert not update(driver, ("group.version", 0, 2), ("share.version", 1, 3), validate_only=True).error_code
    assert features(driver).finalized_features_epoch == 1
    assert not update(driver, ("group.version", 0, 2), ("share.version", 1, 3)).error_code
    response = features(driver)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    assert (levels.get("group.version"), levels["share.version"], response.finalized_features_epoch) == (None, 1, 2)
    assert update(driver, ("group.version", 1, 1), ("share.version", 9, 1)).error_code
    assert driver.state.features["group.version"] == 0


@pytest.mark.parametrize(
    ("feature", "level", "kind", "text"),
    [
        ("share.version", 1, 1, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("share.version", 3, 1, "Local controller 1 only supports versions 0-2"),
        ("share.version", -1, 2, "A feature version cannot be less than 0."),
        ("share.version", 1, 4, "The controller does not support the given upgrade type."),
        ("no.such", 1, 1, "Local controller 1 does not support this feature."),
        ("metadata.version", 6, 2, "Local controller 1 only supports versions 7-33"),
        ("metadata.version", 32, 2, "Refusing to perform the requested downgrade"),
        ("metadata.version", 32, 3, "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_levels_that_are_refused(driver: Any, feature: str, level: int, kind: int, text: str) -> None:
    response = update(driver, (feature, level, kind))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message.startswith(
        "The update failed for all features since the following feature had an error"
    )
    assert text in response.error_message


def test_an_upgrade_after_a_downgrade_needs_the_type(driver: Any) -> None:
    assert not update(driver, ("share.version", 1, 2)).error_code
    assert "Can't downgrade to a newer version." in update(driver, ("share.version", 2, 2)).error_message


def test_old_versions_report_each_feature(driver: Any) -> None:
    (result,) = update(driver, ("share.version", 2, 1), version=1).results
    assert (result.feature, result.error_code) == ("share.version", 0)
    newer = update(driver, ("share.version", 2, 1), version=2)
    assert not protocol.UpdateFeaturesResponse.decode(newer.encode(2), 2).results


# --- registrations


def unregister(driver: Any, broker_id: int) -> int:
    return int(driver.ask(protocol.UnregisterBrokerRequest(broker_id=broker_id)).error_code)


def registered(driver: Any) -> list[int]:
    request = protocol.DescribeClusterRequest(include_fenced_brokers=True)
    return [each.broker_id for each in driver.ask(request).brokers]


def test_a_stopped_broker_is_unregistered_until_it_starts(driver: Any) -> None:
    driver.state.stop(3)
    assert registered(driver) == [1, 2, 3]
    assert not unregister(driver, 3)
    assert registered(driver) == [1, 2]
    assert [unregister(driver, 3), unregister(driver, 77)] == [ErrorCode.BROKER_ID_NOT_REGISTERED] * 2
    request = protocol.CreateTopicsRequest
    topics = [request.CreatableTopic(name="t", num_partitions=1, replication_factor=3)]
    (result,) = driver.ask(request(topics=topics, timeout_ms=1000)).topics
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in result.error_message
    assigned = [request.CreatableReplicaAssignment(partition_index=0, broker_ids=[3])]
    topics = [request.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assigned)]
    (result,) = driver.ask(request(topics=topics, timeout_ms=1000)).topics
    assert "includes broker 3, but no such broker is registered" in result.error_message
    driver.state.start(3)
    driver.state.stop(3)
    assert registered(driver) == [1, 2, 3]


def test_a_running_broker_that_is_unregistered_leads_nothing(driver: Any) -> None:
    partition = driver.state.topics.create("t", 1, 3).partitions[0]
    leader = partition.leader
    assert not unregister(driver, leader)
    assert partition.leader not in (-1, leader)
    assert leader not in registered(driver)


# --- the quorum


def quorum(driver: Any, *, name: str = "__cluster_metadata", index: int = 0, node: int = 1) -> Any:
    request = protocol.DescribeQuorumRequest
    topic = request.TopicData(topic_name=name, partitions=[request.PartitionData(partition_index=index)])
    return driver.ask(request(topics=[topic]), node=node)


def test_the_controller_is_the_voter(driver: Any) -> None:
    response = quorum(driver)
    (partition,) = response.topics[0].partitions
    assert (partition.leader_id, [each.replica_id for each in partition.current_voters]) == (1, [1])
    assert [each.replica_id for each in partition.observers] == [2, 3]
    assert len({each.replica_directory_id for each in [*partition.current_voters, *partition.observers]}) == 3
    assert [each.node_id for each in response.nodes] == [1]
    driver.pass_ms(1000)
    later = quorum(driver).topics[0].partitions[0]
    assert later.high_watermark == partition.high_watermark + 2
    assert later.current_voters[0].last_fetch_timestamp == partition.current_voters[0].last_fetch_timestamp + 1000


def test_another_controller_has_another_epoch(driver: Any) -> None:
    before = quorum(driver).topics[0].partitions[0]
    driver.state.stop(1)
    after = quorum(driver, node=2).topics[0].partitions[0]
    assert (after.leader_id, after.leader_epoch) == (2, before.leader_epoch + 1)
    assert [each.replica_id for each in after.observers] == [3]


@pytest.mark.parametrize("wrong", [{"name": "t"}, {"index": 1}])
def test_there_is_no_other_log(driver: Any, wrong: dict[str, Any]) -> None:
    (topic,) = quorum(driver, **wrong).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("kind", [protocol.AddRaftVoterRequest, protocol.RemoveRaftVoterRequest])
def test_voters_do_not_change(driver: Any, kind: Any) -> None:
    def code(**fields: Any) -> int:
        message = kind(**({"cluster_id": None, "voter_id": 4, "voter_directory_id": DIRECTORY} | fields))
        return int(driver.ask(message).error_code)

    assert code() == code(cluster_id=driver.state.cluster_id) == ErrorCode.UNSUPPORTED_VERSION
    assert code(cluster_id="another") == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert code(voter_id=-1) == code(voter_directory_id=uuid.UUID(int=0)) == ErrorCode.INVALID_REQUEST


# --- log directories


def move(driver: Any, path: str, name: str = "t", index: int = 0, node: int = 1) -> int:
    request = protocol.AlterReplicaLogDirsRequest
    topics = [request.AlterReplicaLogDirTopic(name=name, partitions=[index])]
    (topic,) = driver.ask(request(dirs=[request.AlterReplicaLogDir(path=path, topics=topics)]), node=node).results
    assert topic.topic_name == name
    return int(topic.partitions[0].error_code)


def places(driver: Any, node: int = 1) -> dict[str, list[tuple[str, int, int, bool]]]:
    return {
        each.log_dir: [
            (topic.name, part.partition_size, part.offset_lag, part.is_future_key)
            for topic in each.topics
            for part in topic.partitions
        ]
        for each in driver.ask(protocol.DescribeLogDirsRequest(topics=None), node=node).results
    }


def test_a_replica_moves_between_directories(driver: Any) -> None:
    partition = driver.state.topics.create("t", 1, 3).partitions[0]
    partition.append_values([b"a", b"b"])
    size = partition.log.size
    driver.state.part(LogDirs).copy_ms = 100
    assert places(driver) == {"/a": [("t", size, 0, False)], "/b": []}
    assert not move(driver, "/b")
    assert places(driver) == {"/a": [("t", size, 0, False)], "/b": [("t", 0, 2, True)]}
    driver.pass_ms(100)
    assert places(driver) == {"/a": [], "/b": [("t", size, 0, False)]}
    assert places(driver, node=2)["/a"], "a move is one broker's"


def test_a_move_is_cancelled_by_the_way_back(driver: Any) -> None:
    driver.state.topics.create("t", 1, 3)
    driver.state.part(LogDirs).copy_ms = 100
    assert not move(driver, "/b")
    assert not move(driver, "/a")
    driver.pass_ms(100)
    assert [name for name, *_ in places(driver)["/a"]] == ["t"]


def test_the_last_of_several_directories_counts(driver: Any) -> None:
    driver.state.topics.create("t", 1, 3)
    request = protocol.AlterReplicaLogDirsRequest
    topics = [request.AlterReplicaLogDirTopic(name="t", partitions=[0, 0])]
    dirs = [request.AlterReplicaLogDir(path=path, topics=topics) for path in ("/none", "/b")]
    (topic,) = driver.ask(request(dirs=dirs)).results
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 0)]


def test_replicas_that_do_not_move(driver: Any) -> None:
    partition = driver.state.topics.create("t", 1, 1).partitions[0]
    here, other = partition.leader, 1 + partition.leader % 3
    assert move(driver, "/none", node=here) == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(driver, "/b", name="x" * 220, node=here) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert move(driver, "/b", name="no", node=here) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(driver, "/b", node=other) == ErrorCode.REPLICA_NOT_AVAILABLE
    partition.replicas.append(other)
    assert [name for name, *_ in places(driver, node=other)["/b"]] == ["t"], "the broker keeps the choice"
    driver.state.replication.take_offline(here)
    assert move(driver, "/b", node=here) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_broker_has_one_directory_by_default() -> None:
    assert list(places(BrokerDriver(ClusterState((1, 2))), node=2)) == ["/embedded/node-2"]


def test_all_these_requests_need_permission() -> None:
    driver = BrokerDriver(ClusterState(authorizer=True))
    driver.connection().principal = "User:alice"
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert move(driver, "/embedded/node-1") == denied
    assert unregister(driver, 1) == denied
    assert update(driver, ("share.version", 2, 1)).error_code == denied
    assert quorum(driver).error_code == denied
    for kind in (protocol.AddRaftVoterRequest, protocol.RemoveRaftVoterRequest):
        message = kind(cluster_id=None, voter_id=4, voter_directory_id=DIRECTORY)
        assert driver.ask(message).error_code == denied
