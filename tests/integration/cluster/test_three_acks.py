"""The records that `acks` 0, 1 and "all" lose and store twice, by fault: the table in docs/guide/producing.md."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.faults import DropResponse, Reset, Rule
from tests.support.deadlines import until
from tests.support.known_topics import make_topic
from tests.support.real_topics import PARKED_MS

# Long enough for a busy machine to elect a leader in.
OPTIONS: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 50, "retry_backoff_max_ms": 500}
ACKS: dict[str, Any] = {"none": 0, "leader": 1, "all": "all"}


@pytest.fixture
def cluster(three_proxied: KafkaCluster) -> KafkaCluster:
    return three_proxied


def values(cluster: KafkaCluster, topic: str) -> list[bytes]:
    return list(pa.table(kafwire.scan(cluster.direct, topic, columns=["value"]))["value"].to_pylist())


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    with kafwire.Client(cluster.direct) as client:
        return int(client.topic(topic).partitions[0].leader)


def producers(cluster: KafkaCluster, topic: str, stack: ExitStack) -> dict[str, kafwire.Producer]:
    """One for each `acks`, which has sent to the topic: connections are open, identities are there.

    That which waits for all replicas goes first: a leader that has just begun drops what comes without acks.
    """
    made = {}
    for name, acks in reversed(ACKS.items()):
        made[name] = stack.enter_context(kafwire.Producer(cluster.bootstrap, acks=acks, client_id=name, **OPTIONS))
        made[name].send(topic, b"first of " + name.encode()).result(60)
    until(lambda: len(values(cluster, topic)) == len(ACKS), seconds=60)
    return made


@pytest.mark.parametrize(
    ("fault", "found"), [(Reset(), {"none": 0, "leader": 1, "all": 1}), (DropResponse(), {"leader": 2, "all": 1})]
)
def test_a_connection_breaks(cluster: KafkaCluster, topic_name: str, fault: Any, found: dict[str, int]) -> None:
    """Before the leader has the request, and after; then the record is there once, twice, or not at all."""
    make_topic(cluster.direct, topic_name, replication_factor=3)
    with ExitStack() as stack:
        made = producers(cluster, topic_name, stack)
        for name in found:
            cluster.proxy.restart()
            cluster.proxy.add(Rule(fault, api="Produce", client_id=name, count=1))
            delivery = made[name].send(topic_name, name.encode())
            assert (delivery.result(60).offset >= 0) == (name != "none")
            cluster.proxy.wait_for(len, 30)
            assert name in {event.client_id for event in cluster.proxy.events}

        def read() -> dict[str, int]:
            log = values(cluster, topic_name)
            return {name: log.count(name.encode()) for name in found}

        until(lambda: all(count >= found[name] for name, count in read().items()), seconds=60)
        assert read() == found


@pytest.mark.timeout(240)
def test_a_leader_dies_before_its_followers_have_its_records(cluster: KafkaCluster, topic_name: str) -> None:
    """Followers stand still, so nothing is replicated; the leader after the death does not have the record."""
    make_topic(cluster.direct, topic_name, replication_factor=3)
    with ExitStack() as stack:
        made = producers(cluster, topic_name, stack)
        leader = cluster.node(leader_of(cluster, topic_name))
        followers = [node for node in cluster.nodes if node is not leader]
        for node in followers:
            node.pause()
            stack.callback(node.resume)
        # The response to the fetch that a follower left at the leader waits in its socket: it must be empty by now.
        time.sleep(5 * PARKED_MS / 1000)
        sent = {name: producer.send(topic_name, name.encode()) for name, producer in made.items()}
        assert sent["none"].result(30).offset == -1
        assert sent["leader"].result(30).offset >= 0
        until(lambda: cluster.proxy.requests[leader.id, "all", "Produce"] >= 2)
        assert not sent["all"].done()
        leader.kill()
        for node in followers:
            node.resume()
        assert sent["all"].result(100).offset >= 0
        assert sorted(values(cluster, topic_name)) == sorted([*(b"first of " + name.encode() for name in ACKS), b"all"])
