"""The cluster, its features, its quorum and its replicas: on real brokers, old ones too, and embedded."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pytest

import kafwire
from kafwire.admin import FeatureUpdate
from kafwire.errors import BrokerError, ErrorCode, KafkaError, ProtocolError
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import until
from tests.support.java.admin_cluster import COMPARISONS
from tests.support.java.admin_comparison import Scene, shown

# Calls with a cluster's own names, sizes and features in their results.
OWN = {"describeFeatures", "describeMetadataQuorum", "describeLogDirs", "describeReplicaLogDirs"}


def outcomes(bootstrap: str, name: str) -> dict[str, Any]:
    """The results and the texts of errors of the calls that are compared with Java's."""
    found: dict[str, Any] = {}
    with ExitStack() as stack, kafwire.Admin(bootstrap) as admin:
        for number, each in enumerate(COMPARISONS):
            scene = Scene(f"{name}-{number}", bootstrap, stack)
            errors: dict[str, str] = {}

            def on_error(key: Any, error: KafkaError, errors: dict[str, str] = errors) -> None:
                errors[shown(key)] = str(error)

            each.prepare(scene)
            results = {shown(key): each.ours(value) for key, value in each.call(admin, scene, on_error).items()}
            found[str(each)] = results, errors
    for aspect in ("", "-everything"):
        results, _ = found[f"describeCluster{aspect}"]
        found[f"describeCluster{aspect}"] = results["cluster"][-1]  # the operations: names differ
    return found


def test_the_embedded_broker_has_the_same_outcomes(cluster: KafkaCluster, topic_name: str) -> None:
    with EmbeddedKafka() as embedded:
        here, real = (outcomes(each.bootstrap, topic_name) for each in (embedded, cluster))
    differing = {call: (outcome, real[call]) for call, outcome in here.items() if outcome != real[call]}
    assert differing.keys() <= OWN, differing


def test_times_and_lags_of_the_quorum(cluster: KafkaCluster) -> None:
    with kafwire.Admin(cluster.bootstrap) as admin:
        quorum = admin.describe_metadata_quorum()
    leader = next(each for each in quorum.voters if each.replica_id == quorum.leader_id)
    assert leader.lag == 0
    assert leader.log_end_offset is not None
    assert quorum.high_watermark is not None
    assert 0 < quorum.high_watermark <= leader.log_end_offset
    assert leader.last_fetch_ms is not None
    assert abs(leader.last_fetch_ms - time.time() * 1000) < 60_000


def test_an_old_kafka(cluster_391: KafkaCluster) -> None:
    with kafwire.Admin(cluster_391.bootstrap) as admin:
        assert list(admin.describe_cluster().brokers) == [1]
        with pytest.raises(ProtocolError, match="fenced=True needs Kafka 4.0 or newer"):
            admin.describe_cluster(fenced=True)
        assert admin.describe_features().finalized["metadata.version"].max_version == 21
        assert admin.describe_metadata_quorum().leader_id == 1
        assert list(admin.describe_log_dirs()) == [1]
        with pytest.raises(ProtocolError, match="unregister_controller needs Kafka 4.4"):
            admin.unregister_controller(7)
        with pytest.raises(ProtocolError, match="allow_replication_factor_change=False needs Kafka 4.1"):
            admin.alter_partition_reassignments({("t", 0): [1]}, allow_replication_factor_change=False)


def test_features_change(cluster: KafkaCluster) -> None:
    """`share.version` is lowered and raised again."""

    def level(admin: kafwire.Admin) -> int:
        return admin.describe_features().finalized["share.version"].max_version

    with kafwire.Admin(cluster.bootstrap) as admin:
        before = level(admin)
        try:
            admin.update_features({"share.version": FeatureUpdate(before - 1, "safe_downgrade")})
            until(lambda: admin.describe_features().finalized.get("share.version") is None or level(admin) < before)
        finally:
            admin.update_features({"share.version": before})
        until(lambda: level(admin) == before)


def test_partitions_move_between_three_brokers(three: KafkaCluster, topic_name: str) -> None:
    place = kafwire.TopicPartition(topic_name, 0)
    with kafwire.Admin(three.bootstrap) as admin, kafwire.Client(three.bootstrap) as client:
        client.create_topic(topic_name, partitions=1, replication_factor=1)
        (old,) = client.topic(topic_name).partitions[0].replicas
        new = 1 + old % 3
        admin.alter_partition_reassignments({place: [new]})
        until(lambda: not admin.list_partition_reassignments([place]))
        until(lambda: place in next(iter(admin.describe_log_dirs([new])[new].values())).replicas)
        until(lambda: place not in next(iter(admin.describe_log_dirs([old])[old].values())).replicas)
        with pytest.raises(BrokerError) as caught:
            admin.elect_leaders("preferred", [place])
        assert caught.value.code == ErrorCode.ELECTION_NOT_NEEDED
        quorum = admin.describe_metadata_quorum()
        assert [each.replica_id for each in quorum.voters] == [1, 2, 3]
        client.delete_topic(topic_name)
