"""A client on three nodes that die or move: its commits, what it sends meanwhile, and what it finds them by."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pytest

import kafwire
from kafwire.broker.ports import free_ports
from kafwire.cluster.group_offsets import Committed, OffsetToCommit
from kafwire.testing.cluster import KafkaCluster, KafkaNode
from kafwire.testing.faults import Corrupt, Cut, Delay, DropResponse, Hold, Reset, Rule
from tests.support.group.real_group_offsets import offsets_of
from tests.support.known_topics import make_topic
from tests.support.real_topics import QUICK, SOON, cluster_leader, values
from tests.support.time_limits import within


def test_commits_go_on_when_the_coordinator_dies(three: KafkaCluster, topic_name: str) -> None:
    with kafwire.Client(three.bootstrap) as client:
        client.create_topic(topic_name, partitions=2)
    with offsets_of(three.bootstrap, topic_name) as ours:
        ours.commit({(topic_name, 0): OffsetToCommit(1), (topic_name, 1): OffsetToCommit(1)})
        first = ours.offsets.coordinator
        assert first is not None
        three.node(first).kill()
        ours.commit({(topic_name, 0): OffsetToCommit(2)})
        assert ours.offsets.coordinator not in (None, first)
        assert ours.fetch((topic_name, 0), (topic_name, 1)) == [Committed(2, -1, ""), Committed(1, -1, "")]


def test_all_brokers_go_on_at_other_ports(
    three: KafkaCluster, names: dict[str, list[tuple[str, int]]], topic_name: str
) -> None:
    """Only the name in `bootstrap_servers` leads to them (KIP-899). Records sent meanwhile arrive once, in order."""
    running = three

    def boot_from(node: KafkaNode) -> None:
        names["boot.example"] = [("127.0.0.1", node.port)]

    boot_from(running.node(1))
    sent = [b"%d" % number for number in range(30)]
    with within(110), kafwire.Producer("boot.example:9092", **SOON) as producer:
        client = kafwire.Client("boot.example:9092")
        client.create_topic(topic_name, partitions=1, replication_factor=3)
        consumer = kafwire.Consumer("boot.example:9092", topics=topic_name, start="earliest", **SOON)
        with client, consumer:
            for value in sent[:10]:
                producer.send(topic_name, value).result(10)
            assert [record.value for record in itertools.islice(consumer, 10)] == sent[:10]
            old = {broker.port for broker in client.metadata().brokers}
            for node in running.nodes:
                node.kill()
            deliveries = [producer.send(topic_name, value) for value in sent[10:20]]
            with free_ports(3) as ports:
                for node, port in zip(running.nodes, ports, strict=True):
                    old_address, node.port = node.address, port
                    text = node.configuration.read_text()
                    node.configuration.write_text(text.replace(f"//{old_address}", f"//{node.address}"))
            for node in running.nodes:
                node.start(wait=False)
            for node in running.nodes:
                node.wait_ready()
            boot_from(running.node(3))
            deliveries += [producer.send(topic_name, value) for value in sent[20:]]
            for delivery in deliveries:
                delivery.result(60)
            assert [record.value for record in itertools.islice(consumer, 20)] == sent[10:]
            new = {broker.port for broker in client.metadata().brokers}
            assert new == {node.port for node in running.nodes}
            assert not new & old
        assert values(running.bootstrap, topic_name) == sent


@pytest.mark.long
def test_many_faults_and_a_killed_leader_lose_and_repeat_nothing(three_proxied: KafkaCluster, topic_name: str) -> None:
    faults = [
        Reset(),
        DropResponse(),
        Hold((0.0, 0.5)),
        Cut(),
        Cut(way="request"),
        Corrupt("request", spot=0.95),
        Delay((0.0, 0.2)),
    ]
    rules = [Rule(fault, api="Produce", probability=0.2, count=3) for fault in faults]
    rules.append(Rule(Delay((0.0, 0.2), "request"), probability=0.02))
    cluster = three_proxied
    make_topic(cluster.direct, topic_name, 6)
    cluster.proxy.restart(*rules)
    print("seed", cluster.proxy.seed)
    options = QUICK | {"linger_ms": 0, "batch_size": 2_000, "request_timeout_ms": 5_000}
    sent: list[list[bytes]] = [[] for _ in range(6)]
    with within(110), kafwire.Producer(cluster.bootstrap, **options) as producer:
        deliveries = []
        for number in range(10_000):
            value = b"%d" % number
            deliveries.append(producer.send(topic_name, value, partition=number % 6))
            sent[number % 6].append(value)
            if number == 4_000:
                deliveries[0].result(30)
                victim = cluster.node(cluster_leader(cluster, topic_name))
                victim.kill()
        producer.flush(60)
        for delivery in deliveries:
            delivery.result(0)
        victim.start()
    table = pa.table(kafwire.scan(cluster.direct, topic_name, columns=["partition", "value"])).to_pylist()
    found = [[row["value"] for row in table if row["partition"] == number] for number in range(6)]
    assert found == sent
    kinds = Counter(event.kind for event in cluster.proxy.events)
    print(kinds, cluster.proxy.requests)
    assert set(kinds) >= {type(fault).__name__ for fault in faults}
    assert not any((client or "").startswith("broker-") for _, client, _ in cluster.proxy.requests)
