"""pytest fixtures around `KafkaCluster`; a failed test shows the end of the logs of the clusters that it used.

With `proxies`, it shows the faults that were played and their seed, too.

    pytest_plugins = ["kafwire.testing.pytest_plugin"]      # in the top conftest.py

- `cluster`: one node of the newest supported Kafka, for the whole session, and for all processes of pytest-xdist;
- `cluster_391`: the same of the oldest;
- `make_cluster(nodes=3, ...)`: a cluster for this test, with the arguments of `KafkaCluster`;
- `topic_name`: a name that no other test uses.
"""

import fcntl
import os
import re
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.kafka import DEFAULT_VERSION, OLDEST_VERSION

_EVENTS = 60


class ClusterFactory:
    """Starts clusters with the arguments of `KafkaCluster` and closes them all at the end of the test."""

    def __init__(self) -> None:
        self.clusters: list[KafkaCluster] = []

    def __call__(self, nodes: int = 1, **arguments: object) -> KafkaCluster:
        """Start a cluster and return it."""
        cluster = KafkaCluster(nodes, **arguments)  # type: ignore[arg-type]
        cluster.start()
        self.clusters.append(cluster)
        return cluster

    def close(self) -> None:
        """Close what was started."""
        while self.clusters:
            self.clusters.pop().close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node of the newest Kafka that kafwire supports, shared by all tests of the session."""
    with _shared(DEFAULT_VERSION, tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_391(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One node of the oldest Kafka that kafwire supports, shared by all tests of the session."""
    with _shared(OLDEST_VERSION, tmp_path_factory) as running:
        yield running


@contextmanager
def _shared(version: str, factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster of this process, or the one that another process of pytest-xdist started."""
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
            fcntl.flock(users, fcntl.LOCK_EX)  # until no other process uses it; one that dies uses nothing
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
    """Add the ends of the logs of the test's clusters to the report of its failure."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for value in item.funcargs.values():
            clusters = value.clusters if isinstance(value, ClusterFactory) else [value]
            for cluster in clusters:
                if isinstance(cluster, KafkaCluster):
                    report.sections.append((f"Kafka at {cluster.bootstrap}", cluster.logs()))
                    if cluster.proxied:
                        played = "\n".join(map(str, cluster.proxy.events[-_EVENTS:]))
                        report.sections.append((f"Faults from seed {cluster.proxy.seed}", played))
    return report
