"""`Admin` about records and offsets, on the newest and the oldest tested Kafka."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import kafwire
from kafwire.errors import BrokerError, ProtocolError
from kafwire.testing import KafkaCluster
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS

pytestmark = pytest.mark.either_kafka

FIRST_MS = 1_700_000_000_000


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap)


def test_offsets_before_and_after_a_deletion(bootstrap: str, topic_name: str) -> None:
    first, second = (TopicPartition(topic_name, number) for number in (0, 1))
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic_name, partitions=2)
    with kafwire.Producer(bootstrap) as producer:
        for number in range(10):
            for partition in (0, 1):
                producer.send(topic_name, b"x", partition=partition, timestamp_ms=FIRST_MS + 1000 * number)
    with kafwire.Admin(bootstrap) as admin:

        def offset(spec: Any) -> tuple[int, int | None]:
            found = admin.list_offsets(dict.fromkeys((first, second), spec))
            assert found[first] == found[second]
            return found[first].offset, found[first].timestamp_ms

        assert (offset("earliest"), offset("latest")) == ((0, None), (10, None))
        assert admin.list_offsets({first: "latest"})[first].leader_epoch == 0
        assert offset(FIRST_MS + 2500) == (3, FIRST_MS + 3000)
        when = dt.datetime.fromtimestamp(FIRST_MS / 1000 + 4, dt.UTC)
        assert offset(when) == (4, FIRST_MS + 4000)
        assert offset(FIRST_MS + 10_000) == (-1, None)
        assert offset("max-timestamp") == (9, FIRST_MS + 9000)
        assert offset("earliest-local") == (0, None)
        assert offset("latest-tiered") == (-1, None)
        assert admin.delete_records({first: 4, second: "latest"}) == {first: 4, second: 10}
        assert admin.list_offsets({first: "earliest"})[first].offset == 4
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
            admin.delete_records({first: 11})


def test_places_that_only_newer_brokers_know(cluster: KafkaCluster, cluster_391: KafkaCluster, topic_name: str) -> None:
    where = TopicPartition(topic_name, 0)
    for bootstrap in (cluster.bootstrap, cluster_391.bootstrap):
        with kafwire.Client(bootstrap) as client:
            client.create_topic(topic_name, partitions=1)
    with kafwire.Admin(cluster.bootstrap) as admin:
        assert admin.list_offsets({where: "earliest-pending-upload"})[where].offset == -1
    with kafwire.Admin(cluster_391.bootstrap) as admin, pytest.raises(ProtocolError, match=r"needs Kafka 4\.2"):
        admin.list_offsets({where: "earliest-pending-upload"})
