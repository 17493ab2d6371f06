"""Fixtures of tests on real brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafwire.testing import KafkaCluster
from kafwire.testing.faults import FaultProxy


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker that creates topics, where the documents have it; at another port if something listens there already."""
    with KafkaCluster(properties={"auto.create.topics.enable": True}) as cluster:
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", 9092)) == 0
        ports = None if taken else {1: 9092}
        with FaultProxy({1: cluster.direct}, ports=ports) as front:
            port = front.bootstrap.rpartition(":")[2]
            print(f"the documents' broker is at port {port}")
            yield f"localhost:{port}"
