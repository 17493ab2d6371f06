"""pytest fixtures: Kafka for each test, in this process, as a real cluster, or simulated.

    pytest_plugins = ["kafwire.testing.pytest_plugin"]      # in the top conftest.py

- `kafka`: an `EmbeddedKafka` for this test; `@pytest.mark.kafka(nodes=3, ...)` has its arguments;
- `kafka_simulation`: a `ClusterWorld` for this test, with the marker's `nodes` and a seed from the test's name;
- `kafka_cluster`: `cluster`, or a skipped test if Java or Kafka's jars are missing;
- `cluster`: one node of the newest supported Kafka, for the whole session, and for all processes of pytest-xdist;
- `cluster_431`: the same with the Kafka before the newest;
- `cluster_391`: the same with the oldest supported Kafka;
- `make_cluster(nodes=3, ...)`: a cluster for this test, with the arguments of `KafkaCluster`;
- `topic_name`: a name that no other test uses.

The report of a failed test has the last requests to its embedded brokers, and the end of the logs of its clusters; with
`proxies`, also the played faults and their seed.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import uuid
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION, PREVIOUS_VERSION

if TYPE_CHECKING:
    from kafwire.broker.embedded import EmbeddedKafka
    from kafwire.testing.cluster import KafkaCluster
    from kafwire.testing.simulation.cluster import ClusterWorld

_EVENTS = 60
_REQUESTS = 60


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "kafka(**arguments): the arguments of the EmbeddedKafka of this test")


def _arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("kafka")
    return dict(marker.kwargs) if marker is not None else {}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """A Kafka cluster in this process, for this test. It needs no Java; any client can connect."""
    from kafwire.broker.embedded import EmbeddedKafka

    with EmbeddedKafka(**_arguments(request)) as running:
        yield running


@pytest.fixture
def kafka_simulation(request: pytest.FixtureRequest) -> Iterator[ClusterWorld]:
    """A Kafka cluster, its network and its clients' time, simulated in this thread."""
    from kafwire.testing.simulation.cluster import ClusterWorld

    nodes = int(_arguments(request).get("nodes", 1))
    with ClusterWorld(brokers=nodes, seed=zlib.crc32(request.node.nodeid.encode())) as world:
        yield world


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> KafkaCluster:
    """`cluster`; the test is skipped if Java is missing, or if Kafka's jars are neither here nor can be fetched."""
    from kafwire.broker.setup_error import SetupError
    from kafwire.testing.cluster.kafka import java

    try:
        java()
        running: KafkaCluster = request.getfixturevalue("cluster")
    except SetupError as error:
        pytest.skip(f"no Kafka cluster here: {error}")
    return running


class ClusterFactory:
    """Starts clusters with the arguments of `KafkaCluster`, and closes them all at the end of the test."""

    def __init__(self) -> None:
        self.clusters: list[KafkaCluster] = []

    def __call__(self, nodes: int = 1, **arguments: object) -> KafkaCluster:
        """Start a cluster and return it."""
        from kafwire.testing.cluster import KafkaCluster

        cluster = KafkaCluster(nodes, **arguments)  # type: ignore[arg-type]
        cluster.start()
        self.clusters.append(cluster)
        return cluster

    def close(self) -> None:
        """Close all clusters."""
        while self.clusters:
            self.clusters.pop().close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node of the newest Kafka that kafwire supports, shared by all tests of the session."""
    with _shared(DEFAULT_VERSION, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_431(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node of the Kafka before the newest, shared by all tests of the session."""
    with _shared(PREVIOUS_VERSION, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_391(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node of the oldest Kafka that kafwire supports, shared by all tests of the session."""
    with _shared(OLDEST_VERSION, tmp_path_factory) as running:
        yield running


@contextmanager
def _shared(version: str, factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Yield a cluster of this process, or the one that another process of pytest-xdist started."""
    from kafwire.testing.cluster import KafkaCluster

    if "PYTEST_XDIST_WORKER" not in os.environ:
        with KafkaCluster(version=version) as running:
            yield running
        return
    description = factory.getbasetemp().parent / f"kafka-{version}"
    with description.with_suffix(".users").open("a") as users:
        with _alone(description.with_suffix(".lock")):
            if description.exists():
                fcntl.flock(users, fcntl.LOCK_SH)
                running, mine = KafkaCluster.attach(description.read_text()), False
            else:
                running, mine = KafkaCluster(version=version), True
                running.start()
                description.write_text(running.describe())
        if not mine:
            yield running
            return
        try:
            yield running
        finally:
            with _alone(description.with_suffix(".lock")):
                description.unlink()
            fcntl.flock(users, fcntl.LOCK_EX)  # until no other process uses it; a dead process releases its lock
            running.close()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def make_cluster() -> Iterator[ClusterFactory]:
    """A factory of clusters that live as long as the test."""
    factory = ClusterFactory()
    yield factory
    factory.close()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses, with the test's own name in it."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:80].strip("-")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests, logs and faults of the test's brokers to the report of its failure."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            for each in value.clusters if isinstance(value, ClusterFactory) else [value]:
                report.sections.extend(_sections(each))
    return report


def _sections(value: object) -> list[tuple[str, str]]:
    """Return the sections of a report for a fixture. A class that is not imported cannot be its class."""
    embedded = sys.modules.get("kafwire.broker.embedded")
    cluster = sys.modules.get("kafwire.testing.cluster.kafka_cluster")
    if embedded is not None and isinstance(value, embedded.EmbeddedKafka):
        found = [(f"The last requests to Kafka at {value.bootstrap}", value.last_requests(_REQUESTS))]
        if value.problems:
            found.append((f"Errors inside Kafka at {value.bootstrap}", "\n".join(map(repr, value.problems))))
        return found
    if cluster is not None and isinstance(value, cluster.KafkaCluster):
        found = [(f"Kafka at {value.bootstrap}", value.logs())]
        if value.proxied:
            played = "\n".join(map(str, value.proxy.events[-_EVENTS:]))
            found.append((f"Faults from seed {value.proxy.seed}", played))
        return found
    return []
