"""The list of tests that cannot pass on a profile, and its judgement of their ends."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.broker.profiles import PROFILES
from tests.support.broker import server_gaps
from tests.support.broker.server_gaps import GAPS, LEFT_OUT

INTEGRATION = Path(__file__).parents[2] / "integration"
LISTED = "tests/integration/test_configs.py::test_resources_are_listed"


def test_the_list_of_gaps_names_servers_and_tests() -> None:
    files = {each.name: each.read_text() for each in INTEGRATION.rglob("test_*.py")}
    for gap in GAPS:
        assert gap.servers <= PROFILES.keys(), gap
        file, _, test = gap.test.partition("::")
        assert re.search(f"def {test}", files[file.replace("\\", "")]), f"no test has the name of {gap.test!r}"
    for server, folders in LEFT_OUT.items():
        assert server in PROFILES
        assert all((INTEGRATION.parents[1] / each).is_dir() for each in folders)


def judged(nodeid: str, outcome: Any, text: str = "", *, when: Any = "call", marked: bool = True) -> Any:
    """The report of a test that ended so, as the plug-in leaves it."""
    item: Any = SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: name if marked else None)
    judgement = server_gaps.pytest_runtest_makereport(item)
    next(judgement)
    try:
        judgement.send(pytest.TestReport(nodeid, ("", None, ""), {}, outcome, text or None, when))
    except StopIteration as end:
        return end.value
    raise AssertionError("the hook goes on")


def test_a_listed_test_must_end_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "the broker does not offer ListConfigResourcesRequest (api key 74)"
    monkeypatch.setenv("KAFKA", "redpanda")
    for when in ("setup", "call"):
        met = judged(LISTED, "failed", error, when=when)
        assert (met.outcome, met.wasxfail) == ("skipped", "the API is missing")
    assert judged(LISTED, "failed", "another error").outcome == "failed"
    closed = judged(LISTED, "passed")
    assert (closed.outcome, "remove its row" in closed.longrepr) == ("failed", True)
    assert judged(LISTED, "passed", when="setup").outcome == "passed"
    assert judged("tests/integration/test_configs.py::test_another", "passed").outcome == "passed"
    assert judged(LISTED, "failed", error, marked=False).outcome == "failed"
    for server in ("", "real"):
        monkeypatch.setenv("KAFKA", server)
        assert judged(LISTED, "passed").outcome == "passed"
        assert judged(LISTED, "failed", error).outcome == "failed"
