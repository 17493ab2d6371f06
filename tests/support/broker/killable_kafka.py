"""A broker in a process of its own, which tests kill and start again: embedded on a folder, or Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from kafwire.testing import KafkaCluster
from tests.support.broker.process import BrokerProcess


class KillableKafka(Protocol):
    """One node; its address stays the same, and so does what it has acknowledged."""

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""

    def kill(self) -> None:
        """SIGKILL."""

    def start(self) -> None:
        """Start it again; it serves requests when this returns."""


class EmbeddedProcess:
    """An embedded broker.

    Args:
        folder: for its records.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = BrokerProcess(folder)
        self.bootstrap = self._process.bootstrap

    def kill(self) -> None:
        self._process.kill()

    def start(self) -> None:
        self._process = BrokerProcess(self._folder, int(self.bootstrap.rpartition(":")[2]))


class RealProcess:
    """A node of Apache Kafka.

    Args:
        cluster: it has this node only.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        self._node = cluster.node(1)
        self.bootstrap = cluster.bootstrap

    def kill(self) -> None:
        self._node.kill()

    def start(self) -> None:
        self._node.start()


@contextmanager
def killable_kafka(folder: Path, *, is_real: bool) -> Iterator[KillableKafka]:
    """A node that runs."""
    if is_real:
        with KafkaCluster() as cluster:
            yield RealProcess(cluster)
        return
    embedded = EmbeddedProcess(folder / "broker")
    try:
        yield embedded
    finally:
        embedded.kill()
