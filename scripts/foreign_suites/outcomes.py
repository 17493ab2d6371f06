"""Outcomes of tests, read from the reports that suites write for machines. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from xml.etree import ElementTree as ET

__all__ = ["NODE_ID", "Outcome", "ReportError", "read_go", "read_junit", "read_librdkafka"]

NODE_ID = "node id"  # the property of a JUnit test case that has pytest's name of the test
_GO = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_LIBRDKAFKA = {"PASSED": "passed", "SKIPPED": "skipped"}
_LIBRDKAFKA_TOTAL = "<MAIN>"  # the run as a whole


class Outcome(Enum):
    """The end of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class ReportError(ValueError):
    """A suite's report is missing or damaged."""


def read_junit(text: str) -> dict[str, Outcome]:
    """Read pytest's JUnit XML: outcomes by node id, which the adapters record as a property."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ReportError(f"the JUnit report is damaged: {error}") from None
    outcomes: dict[str, Outcome] = {}
    for case in root.iter("testcase"):
        properties = {each.get("name"): each.get("value") for each in case.iter("property")}
        # A module that cannot be imported is a test case without properties.
        name = properties.get(NODE_ID) or "::".join(filter(None, (case.get("classname"), case.get("name"))))
        kinds = {child.tag for child in case}
        outcome = Outcome.PASSED
        if kinds & {"failure", "error"}:
            outcome = Outcome.FAILED
        elif "skipped" in kinds:
            outcome = Outcome.SKIPPED
        outcomes[name] = outcome  # of two cases of a test the later one is an error of its teardown
    return outcomes


def read_go(lines: Iterable[str]) -> dict[str, Outcome]:
    """Read `go test -json`: outcomes of tests without subtests by name, and of parents that fail on their own.

    A test without an end, as in a run that a panic or the time limit stopped, fails.
    """
    outcomes: dict[str, Outcome] = {}
    packages: dict[str, str] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
            action, name = event["Action"], event.get("Test")
        except (ValueError, KeyError) as error:
            raise ReportError(f"go's report has a damaged line: {line[:80]!r} ({error})") from None
        if name is None:
            packages[event.get("Package", event.get("ImportPath", ""))] = action
        elif action in _GO:
            outcomes[name] = Outcome(_GO[action])
        elif action == "run":
            outcomes[name] = Outcome.FAILED
    if not outcomes:
        raise ReportError(
            f"go ran no test: {', '.join(f'{name}: {end}' for name, end in packages.items()) or 'no event'}"
        )
    return _leaves(outcomes)


def _leaves(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    parents: dict[str, bool] = {}  # whether a test below failed
    for name, outcome in outcomes.items():
        parts = name.split("/")
        for count in range(1, len(parts)):
            parent = "/".join(parts[:count])
            parents[parent] = parents.get(parent, False) or outcome is Outcome.FAILED
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if name not in parents or (outcome is Outcome.FAILED and not parents[name])
    }


def read_librdkafka(text: str) -> dict[str, Outcome]:
    """Read the report of librdkafka's test-runner: outcomes by the test's name. A test without an end fails."""
    try:
        tests = json.loads(text, strict=False)["tests"]
        states = {name: test["state"] for name, test in tests.items() if name != _LIBRDKAFKA_TOTAL}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"librdkafka's report is damaged: {error!r}") from None
    return {name: Outcome(_LIBRDKAFKA.get(state, "failed")) for name, state in states.items()}
