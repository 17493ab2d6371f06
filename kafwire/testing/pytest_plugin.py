"""pytest fixtures around `KafkaCluster`; a failed test shows the end of the logs of the clusters that it used.

With `proxies`, it shows the faults that were played and their seed, too.

    pytest_plugins = ["kafwire.testing.pytest_plugin"]      # in the top conftest.py

- `cluster`: one node of the newest supported Kafka, for the whole session;
- `cluster_391`: the same of the oldest;
- `make_cluster(nodes=3, ...)`: a cluster for this test, with the arguments of `KafkaCluster`;
- `topic_name`: a name that no other test uses.
"""

import re
import uuid
from collections.abc import Generator, Iterator

import pytest

from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.kafka import OLDEST_VERSION

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
def cluster() -> Iterator[KafkaCluster]:
    """One node of the newest Kafka that kafwire supports, shared by all tests of the session."""
    with KafkaCluster() as running:
        yield running


@pytest.fixture(scope="session")
def cluster_391() -> Iterator[KafkaCluster]:
    """One node of the oldest Kafka that kafwire supports, shared by all tests of the session."""
    with KafkaCluster(version=OLDEST_VERSION) as running:
        yield running


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
