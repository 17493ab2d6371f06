"""One Java process for each release and all tests of this folder; what they compared is counted."""

from collections import Counter
from collections.abc import Iterator

import pytest

from kafwire.testing.cluster.kafka import OLDEST_VERSION
from tests.support.java.oracle import Oracle


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that count what they compare."""
    config.addinivalue_line("markers", "compares(least): the test counts at least so much in its module's COMPARED")


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle() as started:
        yield started


@pytest.fixture(scope="session")
def old_oracle() -> Iterator[Oracle]:
    """The classes of Kafka 3.9, which have the versions that Kafka 4 removed."""
    with Oracle(OLDEST_VERSION) as started:
        yield started


@pytest.fixture(scope="session")
def oracles(oracle: Oracle, old_oracle: Oracle) -> dict[str, Oracle]:
    """The processes by the kind of versions that they judge."""
    return {"valid": oracle, "removed": old_oracle}


@pytest.fixture(autouse=True)
def _compared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test has compared as much as its marker says; the end of the run reports the sum of all of them."""
    counts: Counter[str] | None = getattr(request.module, "COMPARED", None)
    before = Counter(counts)
    yield
    if counts is not None:
        grown = counts - before
        request.node.user_properties.append(("compared", dict(grown)))
        marked = request.node.get_closest_marker("compares")
        assert marked is None or grown.total() >= marked.args[0], f"compared only {dict(grown)}"
