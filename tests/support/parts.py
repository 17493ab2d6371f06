"""How tests are spread over processes and runs.

With `--dist loadgroup`, the tests of a file run in one process, and so do those of several files that share what is
dear to start. `KAFWIRE_DURATIONS` names a file that gets a line with the seconds of every test, and of one that failed
with its error; `--part 2/5` runs every fifth file, the second of each five.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

# The files that share a Spark session, or a cluster of three nodes.
TOGETHER = {
    "tests/spark/": "spark",
    "tests/integration/test_three_": "three nodes",
}
# These groups begin first: begun late, they would keep one process busy when the others have ended.
FIRST = ("spark", "three nodes")


def group(nodeid: str) -> str:
    """Which tests run in the process of this one."""
    file = nodeid.split("::", 1)[0]
    return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--part`."""
    parser.addoption("--part", default="1/1", help="k/n: run the files of the kth of n parts (default: all)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the part, and put long groups first."""
    part, parts = map(int, str(config.getoption("--part")).split("/"))
    files = sorted({item.path for item in items})
    chosen = set(files[part - 1 :: parts])
    config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
    order = {name: number for number, name in enumerate(FIRST)}
    items[:] = [item for item in items if item.path in chosen]
    items.sort(key=lambda item: order.get(group(item.nodeid), len(order)))


class _Groups(LoadGroupScheduling):  # type: ignore[misc]  # xdist is not typed
    """Groups by names: those by marks need node ids that pytest 9.2 lets nobody change (xdist 3.8)."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """Spread groups instead of tests, if groups were asked for."""
    return _Groups(config, log) if config.getoption("dist") == "loadgroup" else None


_seconds: dict[str, float] = {}
_errors: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how long a test took, with what was set up and torn down for it, and the error it failed with."""
    file = os.environ.get("KAFWIRE_DURATIONS")
    if file is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _errors.setdefault(report.nodeid, " ".join(report.longreprtext.splitlines()[-12:]) or "failed")
    if report.when == "teardown":
        with Path(file).open("a") as lines:
            error = " ".join(_errors.pop(report.nodeid, "").split())
            lines.write(f"{_seconds.pop(report.nodeid):.3f}\t{report.nodeid}\t{error}\n")
