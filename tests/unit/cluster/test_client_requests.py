"""`Client.metadata`: the cluster as typed values."""

from __future__ import annotations

import pickle

import kafwire
from kafwire.cluster.client_requests import Requests
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from tests.support.simulated import World


def test_the_cluster_as_values() -> None:
    with World(brokers=2) as world:
        topic = world.create_topic("t", partitions=3)
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        found = world.engine.run(Requests(cluster).metadata(["t", "missing"]))
        assert isinstance(found, kafwire.ClusterMetadata)
        assert sorted(broker.node_id for broker in found.brokers) == [1, 2]
        assert all(isinstance(broker, kafwire.BrokerMetadata) and broker.port > 0 for broker in found.brokers)
        there, missing = found.topics
        assert (there.name, there.topic_id, there.error_code) == ("t", topic.topic_id, 0)
        assert [part.partition_index for part in there.partitions] == [0, 1, 2]
        assert [part.leader_id for part in there.partitions] == [log.leader for log in topic.partitions]
        assert all(part.leader_id in part.replica_nodes for part in there.partitions)
        assert (missing.name, missing.error_code, missing.partitions) == ("missing", 3, ())
        assert pickle.loads(pickle.dumps(found)) == found
