"""A pytest plugin: which functions each test enters; which tests to run, in which order; which one ran last.

The environment has its instructions, since xdist's workers and tests of crashes take nothing else:

- MUTANTS_SEEN: a folder; each process writes a line of JSON there for each test: its id, outcome, seconds, functions.
- MUTANTS_PLAN: a JSON list of test ids; only these run, in this order.
- MUTANTS_DONE: a JSON list of test ids; these do not run.
- MUTANTS_TRAIL: a folder; each process writes there which test begins, ends and fails, at once: it may die of it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType

import pytest
from _pytest.runner import runtestprotocol

PACKAGE = f"{Path.cwd() / 'kafwire'}{os.sep}"

_entered: set[CodeType] = set()


def _enter(frame: FrameType, _event: str, _arg: object) -> None:
    _entered.add(frame.f_code)


def functions(entered: set[CodeType]) -> list[str]:
    """Those of the package, as path:qualified name."""
    start = len(PACKAGE) - len("kafwire/")
    return sorted(
        {f"{code.co_filename[start:]}:{code.co_qualname}" for code in entered if code.co_filename.startswith(PACKAGE)}
    )


def _writer(variable: str) -> Path | None:
    folder = os.environ.get(variable)
    return Path(folder) / f"{os.getpid()}" if folder else None


def pytest_configure() -> None:
    """Watch threads that begin from now on, too."""
    if os.environ.get("MUTANTS_SEEN"):
        threading.settrace(_enter)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the planned tests, in the plan's order."""
    plan, done = os.environ.get("MUTANTS_PLAN"), os.environ.get("MUTANTS_DONE")
    if done:
        left_out = set(json.loads(Path(done).read_text()))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    if not plan:
        return
    rank = {name: number for number, name in enumerate(json.loads(Path(plan).read_text()))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in rank])
    items[:] = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write what the test entered."""
    trail, seen = _writer("MUTANTS_TRAIL"), _writer("MUTANTS_SEEN")
    if trail is not None:
        _say(trail, "begins", item.nodeid)
    _entered.clear()
    item.stash[_failed] = False
    if seen is not None:
        sys.settrace(_enter)
    began = time.monotonic()
    try:
        done = yield
        if trail is not None and item.stash[_failed] and not hasattr(item.config, "workerinput"):
            # Once more at once: what fails twice did not do so by chance.
            _say(trail, "fails", item.nodeid)
            item.stash[_failed] = False
            item._initrequest()  # type: ignore[attr-defined]
            runtestprotocol(item, log=False, nextitem=None)
        return done
    finally:
        seconds = time.monotonic() - began
        if seen is not None:
            sys.settrace(None)
            found = {
                "test": item.nodeid,
                "seconds": round(seconds, 4),
                "failed": item.stash[_failed],
                "functions": functions(set(_entered)),
            }
            with seen.open("a") as file:
                file.write(json.dumps(found) + "\n")
        if trail is not None:
            _say(trail, "fails" if item.stash[_failed] else "passes", item.nodeid)


_failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember a failure of any of its phases."""
    report = yield
    item.stash[_failed] = item.stash.get(_failed, False) or bool(report and report.failed)
    return report


def _say(trail: Path, what: str, test: str) -> None:
    with trail.open("a") as file:
        file.write(json.dumps([what, test]) + "\n")
