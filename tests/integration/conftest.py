"""Fixtures of tests on real brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.testing import KafkaCluster
from kafwire.testing.faults import FaultProxy
from tests.support.broker.either_kafka import either_kafka
from tests.support.real_topics import PARKED_MS, all_up


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker that creates topics, where the documents have it; at another port if something listens there already."""
    with either_kafka({"auto.create.topics.enable": True}) as cluster:
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", 9092)) == 0
        ports = None if taken else {1: 9092}
        with FaultProxy({1: cluster.direct}, ports=ports) as front:
            port = front.bootstrap.rpartition(":")[2]
            print(f"the documents' broker is at port {port}")
            yield f"localhost:{port}"


@pytest.fixture(scope="session")
def _three() -> Iterator[KafkaCluster]:
    """Node 1 is in rack r1, and so on; a consumer in a rack may read from the replica there (KIP-392)."""
    properties = {
        "min.insync.replicas": 2,
        "default.replication.factor": 3,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.lag.time.max.ms": 3000,
        "log.cleaner.backoff.ms": 100,
        "connections.max.idle.ms": 10_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    }
    racks = {node: {"broker.rack": f"r{node}"} for node in (1, 2, 3)}
    with KafkaCluster(3, properties=properties, node_properties=racks, heap="320m") as running:
        yield running


@pytest.fixture
def three(_three: KafkaCluster) -> KafkaCluster:
    """Three nodes, all of them up."""
    return all_up(_three)


@pytest.fixture(scope="session")
def _three_proxied() -> Iterator[KafkaCluster]:
    properties = {"min.insync.replicas": 2, "default.replication.factor": 3, "replica.fetch.wait.max.ms": PARKED_MS}
    with KafkaCluster(3, proxies=True, properties=properties, heap="320m") as running:
        yield running


@pytest.fixture
def three_proxied(_three_proxied: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three nodes behind proxies, all of them up, and no faults; a follower's fetch waits for `PARKED_MS` at most."""
    all_up(_three_proxied).proxy.restart()
    yield _three_proxied
    _three_proxied.proxy.restart()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, int]]]:
    """Host names that this test gives, and what they resolve to."""
    found: dict[str, list[tuple[str, int]]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *others: Any, **options: Any) -> list[Any]:
        if host not in found:
            return list(real(host, port, *others, **options))
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror("not a number")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in found[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return found
