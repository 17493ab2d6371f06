"""The shapes in which the simulated consumer's tests run: as written, in batches of one record, among many partitions.

Among so many only the strategy that is the default is tried. They are 1,000 in a long run and in a few tests, as each
takes seconds then; and 100 in the others.
"""

from collections.abc import Iterator

import pytest

from tests.support import seeds
from tests.support.simulated import consumer as simulated_consumer
from tests.support.simulated.flavours import KINDS, Flavour
from tests.support.simulated.world import World

AS_WRITTEN = "as_written"
SINGLE_RECORDS = "single_records"
MANY_PARTITIONS = "many_partitions"
DEFAULT = {"fetch_strategy": "hybrid"}
SHAPES = (AS_WRITTEN, SINGLE_RECORDS, MANY_PARTITIONS)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests that are about one shape."""
    config.addinivalue_line("markers", "shapes(*names): the shapes in which this test makes sense (default: all)")
    config.addinivalue_line("markers", "thousand: among many partitions means among 1,000, not only in a long run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that uses `shape` runs in all of them, or in those that it is marked with."""
    if "shape" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("shapes")
        metafunc.parametrize("shape", marked.args if marked else SHAPES, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other strategies out where partitions are many."""
    found = [item for item in items if not _is_too_long(item)]
    config.hook.pytest_deselected(items=[item for item in items if _is_too_long(item)])
    items[:] = found


def _is_too_long(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("shape") == MANY_PARTITIONS and params.get("strategy", DEFAULT) != DEFAULT


@pytest.fixture
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The simulated world in this shape."""
    name = str(request.param)
    monkeypatch.setattr(simulated_consumer, "single_records", name == SINGLE_RECORDS)
    if name == MANY_PARTITIONS:
        thousand = seeds.is_long(request.config) or request.node.get_closest_marker("thousand") is not None
        monkeypatch.setattr(World, "least_partitions", 1000 if thousand else 100)
    return name


@pytest.fixture(params=KINDS)
def flavour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flavour]:
    """Each flavour, in a world of two brokers."""
    with World(brokers=2) as world:
        made = Flavour(request.param, world, monkeypatch)
        yield made
        made.end()
