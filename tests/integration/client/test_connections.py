"""How clients find real brokers, and find them again: IPv6, several addresses, idleness, new ports, another cluster."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.ports import Ports
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.errors import BrokerError
from kafwire.runtime.engine import default_engine
from kafwire.testing.cluster import KafkaCluster, KafkaNode
from tests.support import seeds
from tests.support.deadlines import until
from tests.support.kafka_versions import CLUSTERS
from tests.support.real_topics import SOON, values
from tests.support.time_limits import within

IDLE_MS = 1_500


class AtPort(KafkaCluster):
    """One node whose listener has a port of the test's choice."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def _make_node(self, node_id: int, ports: Ports) -> KafkaNode:
        return super()._make_node(node_id, replace(ports, listeners={**ports.listeners, node_id: self._port}))


class OnIpv6(KafkaCluster):
    """One node that clients find at [::1], with the port that it has at 127.0.0.1."""

    def _make_node(self, node_id: int, ports: Ports) -> KafkaNode:
        node = super()._make_node(node_id, ports)
        port = ports.listeners[node_id]
        at_home = f"PLAINTEXT://127.0.0.1:{port}"
        text = node.configuration.read_text()
        text = text.replace(f"advertised.listeners={at_home}", f"advertised.listeners={at_home},SIX://[::1]:{port}")
        text = text.replace(f"\nlisteners={at_home}", f"\nlisteners={at_home},SIX://[::1]:{port}")
        text = text.replace("security.protocol.map=", "security.protocol.map=SIX:PLAINTEXT,")
        node.configuration.write_text(text)
        return node


@pytest.fixture
def on_engine() -> Iterator[Callable[..., Cluster]]:
    """Cluster clients without a flavour, which are closed at the end."""
    made: list[Cluster] = []

    def make(bootstrap: str, **options: Any) -> Cluster:
        made.append(Cluster(default_engine(), ClientConfig.build({"bootstrap_servers": bootstrap, **options})))
        return made[-1]

    yield make
    for each in made:
        default_engine().run(each.close)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return default_engine().run(lambda: coroutine)


def wait_until_closed(connections: list[BrokerConnection], seconds: float) -> None:
    until(lambda: not any(connection.is_ready for connection in connections), "all closed", seconds)


def test_brokers_are_reached_over_ipv6_and_after_idleness(topic_name: str, on_engine: Callable[..., Cluster]) -> None:
    """The broker closes what was idle for `connections.max.idle.ms`; librdkafka's 0123."""
    with OnIpv6(properties={"connections.max.idle.ms": IDLE_MS}) as running:
        bootstrap = f"[::1]:{running.node(1).port}"
        cluster = on_engine(bootstrap)
        with within(60), kafwire.Client(bootstrap) as client, kafwire.Producer(bootstrap, **SOON) as producer:
            client.create_topic(topic_name)
            assert client.metadata([topic_name]).brokers[0].host == "::1"
            for value in (b"before", b"after"):
                assert producer.send(topic_name, value).result(10).topic == topic_name
                connections = [
                    connection
                    for each in (client, producer)
                    for connection in each._cluster.connections
                    if connection.is_ready
                ]
                assert {connection.host for connection in connections} == {"::1"}
                assert "produce" in {connection.role for connection in connections}
                wait_until_closed(connections, 20)
            run(cluster.refresh([topic_name]))
            assert cluster.metadata.brokers[1].host == "::1"
            assert values(bootstrap, topic_name) == [b"before", b"after"]
            with kafwire.Consumer(bootstrap, topics=topic_name, start="earliest") as consumer:
                assert [record.value for record in itertools.islice(consumer, 2)] == [b"before", b"after"]


def test_the_next_address_of_a_name_is_tried(cluster: KafkaCluster, names: dict[str, list[tuple[str, int]]]) -> None:
    port = cluster.node(1).port
    names["kafka.example"] = [("127.0.0.2", port), ("127.0.0.1", port)]
    with within(20), kafwire.Client(f"kafka.example:{port}") as client:
        assert [broker.node_id for broker in client.metadata().brokers] == [1]


@pytest.mark.parametrize("version", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_partitions_that_are_added_are_noticed(
    version: str, request: pytest.FixtureRequest, topic_name: str, on_engine: Callable[..., Cluster]
) -> None:
    running: KafkaCluster = request.getfixturevalue(version)
    reported = threading.Event()
    cluster = on_engine(running.bootstrap, metadata_max_age_ms=100)

    async def keep() -> None:
        await cluster.refresh([topic_name])
        cluster.on_change(lambda names: reported.set() if names == {topic_name} else None)
        cluster.keep_fresh([topic_name])

    with within(60), kafwire.Client(running.bootstrap) as client:
        client.create_topic(topic_name, partitions=1)
        run(keep())
        kind: Any = protocol.CreatePartitionsRequest
        more = kind.CreatePartitionsTopic(name=topic_name, count=3, assignments=None)
        assert client.call(kind(topics=[more], timeout_ms=10_000)).results[0].error_code == 0
        assert reported.wait(20)
    info = cluster.metadata.topics[topic_name]
    assert set(info.partitions) == {0, 1, 2}
    assert info.partitions[2].replicas == (1,)
    assert cluster.metadata.names == {info.topic_id: topic_name}


def test_connections_count_the_bytes_of_a_real_broker(cluster: KafkaCluster, on_engine: Callable[..., Cluster]) -> None:
    client = on_engine(cluster.bootstrap)
    native = default_engine().native
    run(client.refresh())
    connection = client.connection(1, "of its own")
    run(connection.open())
    time_before, before, opened = time.monotonic(), native.statistics(), connection.stats()
    for _ in range(10):
        run(connection.call(protocol.MetadataRequest(topics=None)))
    taken_ms = (time.monotonic() - time_before) * 1000
    after, stats = native.statistics(), connection.stats()
    assert stats["bytes_out"] - opened["bytes_out"] == after["bytes_out"] - before["bytes_out"]
    assert stats["bytes_in"] - opened["bytes_in"] == after["bytes_in"] - before["bytes_in"]
    assert (stats["requests"], stats["responses"], stats["connects"]) == (11, 11, 1)
    assert 0 < stats["latency_ms_sum"] - opened["latency_ms_sum"] <= taken_ms
    default_engine().start(client.release, 1, "of its own")
    run(client.refresh())
    assert connection not in client.connections
    assert not connection.is_ready


def test_another_cluster_at_the_same_address(topic_name: str, caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka's 0152: topic ids, leader epochs and producer ids of the old one mean nothing to the new."""
    with KafkaCluster() as first:
        port = first.node(1).port
        with kafwire.Client(first.bootstrap, **SOON) as client, kafwire.Producer(first.bootstrap, **SOON) as producer:
            client.create_topic(topic_name)
            old = client.topic(topic_name)
            old_cluster = client.metadata().cluster_id
            for number in range(3):
                producer.send(topic_name, b"old %d" % number).result(10)
            consumer = kafwire.Consumer(first.bootstrap, topics=topic_name, start="earliest", **SOON)
            assert [record.value for record in itertools.islice(consumer, 3)] == [b"old 0", b"old 1", b"old 2"]
            first.close()
            with AtPort(port) as second, within(60):
                with kafwire.Client(second.bootstrap) as other:
                    other.create_topic(topic_name)
                with caplog.at_level(logging.WARNING, "kafwire"):
                    # Records in flight while a client notices are in doubt, as the connections are closed then.
                    producer._engine.run(producer._cluster.refresh)
                    delivery = producer.send(topic_name, b"new")
                    assert delivery.result(30).offset == 0
                    until(lambda: f"no longer to {old_cluster}" in caplog.text)
                assert client.metadata().cluster_id != old_cluster
                client._engine.run(client._cluster.refresh)
                assert client.topic(topic_name).topic_id != old.topic_id
                assert values(second.bootstrap, topic_name) == [b"new"]
                with consumer, pytest.raises(BrokerError, match=f"{topic_name}.* was deleted and recreated"):
                    next(consumer.batches(timeout=20))
