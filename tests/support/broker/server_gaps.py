"""The tests of clients that cannot pass on a profile of another server, and the error that each expects there.

    KAFKA=event-hubs pytest -m either_kafka tests/integration

A listed test passes if it ends with its error, and fails if it passes: its row is out of date then.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import pytest

_LACKS = r"does not offer {}Request \(api key \d+\)"


class Gap(NamedTuple):
    """Tests whose id contains `test`, on these servers; `error` is a pattern of the failure's text."""

    servers: frozenset[str]
    test: str
    error: str


def _gaps(servers: str, *rows: tuple[str, str]) -> list[Gap]:
    return [Gap(frozenset(servers.split()), test, error) for test, error in rows]


GAPS: list[Gap] = []


def gap_of(server: str, nodeid: str) -> Gap | None:
    """Return the gap that a test meets on a server."""
    return next((gap for gap in GAPS if server in gap.servers and gap.test in nodeid), None)


def judge_gap(item: pytest.Item, report: pytest.TestReport) -> None:
    """Let a listed test pass if it failed with its error, and fail if it passed."""
    if report.when != "call" or item.get_closest_marker("either_kafka") is None:
        return
    gap = gap_of(os.environ.get("KAFKA", ""), item.nodeid)
    if gap is None:
        return
    if report.passed:
        report.outcome, report.longrepr = "failed", f"the gap {gap.test!r} is closed: remove its row"
    elif report.failed and re.search(gap.error, report.longreprtext):
        report.outcome = "passed"
