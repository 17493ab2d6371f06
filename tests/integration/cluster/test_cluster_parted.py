"""A node that is parted from the others: they go on without it, clients still reach it, and then it is one of them."""

from __future__ import annotations

import pytest

import kafwire
from kafwire.errors import KafkaTimeoutError
from kafwire.testing.cluster import ClusterError, KafkaCluster
from kafwire.types import TopicPartition
from tests.support.deadlines import until

pytestmark = pytest.mark.long


def test_a_leader_that_is_parted_leads_no_more() -> None:
    with (
        KafkaCluster(3, properties={"min.insync.replicas": 2}, proxies=True, partitions=True) as cluster,
        kafwire.Client(cluster.direct) as client,
        kafwire.Producer(cluster.bootstrap, request_timeout_ms=2_000, delivery_timeout_ms=60_000) as producer,
    ):
        client.create_topic("t", partitions=1, replication_factor=3)
        assert producer.send("t", b"before", partition=0).result(30).offset == 0
        old = client.metadata(["t"]).topics[0].partitions[0].leader_id
        others = ",".join(node.address for node in cluster.nodes if node.id != old)
        cluster.part(old)
        with kafwire.Client(others) as elsewhere:

            def moved() -> bool:
                return elsewhere.metadata(["t"]).topics[0].partitions[0].leader_id not in (old, -1)

            until(moved, "another node leads", 60)
            # Clients still reach it, and it believes that it leads; it acknowledges nothing.
            with (
                kafwire.Producer(
                    cluster.node(old).address, request_timeout_ms=1_000, delivery_timeout_ms=2_000, linger_ms=0
                ) as misled,
                pytest.raises(KafkaTimeoutError),
            ):
                misled.send("t", b"to nobody", partition=0).result(30)
            assert producer.send("t", b"meanwhile", partition=0).result(60).offset == 1
            cluster.rejoin()
            until(lambda: len(elsewhere.metadata(["t"]).topics[0].partitions[0].isr_nodes) == 3, "all are in sync", 60)
        assert client.offsets([TopicPartition("t", 0)], "latest") == {TopicPartition("t", 0): 2}


def test_a_cluster_without_proxies_between_nodes_cannot_be_parted() -> None:
    with pytest.raises(ClusterError, match="partitions=True"):
        KafkaCluster(1).part(1)
