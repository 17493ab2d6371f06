"""The shapes in which the tests of the simulated consumer run: each as it is written, in batches of one record, and among
1,000 partitions.
"""

import pytest

from tests.unit import simulated_consumer
from tests.unit.simulated_log import Topics

AS_WRITTEN = "as written"
SINGLE_RECORDS = "batches of one record"
MANY_PARTITIONS = "1,000 partitions"
SHAPES = (AS_WRITTEN, SINGLE_RECORDS, MANY_PARTITIONS)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that are about one shape."""
    config.addinivalue_line("markers", "shapes(*names): the shapes in which this test makes sense (default: all)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that uses `shape` runs in all of them, or in those that it is marked with."""
    if "shape" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("shapes")
        metafunc.parametrize("shape", marked.args if marked else SHAPES, indirect=True)


@pytest.fixture
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The simulated world in this shape."""
    name = str(request.param)
    monkeypatch.setattr(simulated_consumer, "single_records", name == SINGLE_RECORDS)
    monkeypatch.setattr(Topics, "least_partitions", 1000 if name == MANY_PARTITIONS else 1)
    return name
