"""`outcomes`: reports of pytest, go and librdkafka, each as its own tool writes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.foreign_suites.outcomes import Outcome, ReportError, read_go, read_junit, read_librdkafka
from scripts.foreign_suites.running import ROOT

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED

TESTS = """
import pytest

@pytest.fixture
def broker():
    pass

@pytest.fixture
def damaged(broker):
    yield
    assert False

@pytest.mark.parametrize("name", ["a::b", "c"])
def test_passes(broker, name):
    pass

def test_fails(broker):
    assert False

def test_teardown(damaged):
    pass

def test_skips(broker):
    pytest.skip("not here")

def test_hangs(broker):
    raise SystemExit("it must not run")

def test_without_broker():
    assert False
"""


def junit(folder: Path, tests: str, *, never: dict[str, str] | None = None) -> str:
    """The report of tests, by the command line and the plugin of the suites."""
    (folder / "test_it.py").write_text(tests)
    report = folder / "report.xml"
    plugin = "scripts.foreign_suites.adapters.common"
    options = [
        "-q",
        "-p",
        plugin,
        "-p",
        "no:cacheprovider",
        "-c",
        "pytest.ini",
        "--rootdir",
        ".",
        f"--junitxml={report}",
    ]
    (folder / "pytest.ini").write_text("[pytest]\njunit_family = xunit1\n")
    settings = json.dumps({"never": never or {}, "fixtures": ["broker"]})
    subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "FOREIGN_SUITE": settings, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
    )
    return report.read_text()


def test_junit_has_node_ids_of_the_tests_that_use_a_broker(tmp_path: Path) -> None:
    outcomes = read_junit(junit(tmp_path, TESTS, never={r"test_it\.py::test_h.*": "it hangs"}))
    assert outcomes == {
        "test_it.py::test_passes[a::b]": P,
        "test_it.py::test_passes[c]": P,
        "test_it.py::test_fails": F,
        "test_it.py::test_teardown": F,
        "test_it.py::test_skips": S,
        "test_it.py::test_hangs": S,
    }


def test_junit_of_a_module_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    assert read_junit(junit(tmp_path, "import no_such_module")) == {"test_it": F}


def test_a_damaged_junit_report_is_an_error() -> None:
    with pytest.raises(ReportError, match="damaged"):
        read_junit("<testsuites><testsuite>")


def events(*named: tuple[str, str | None]) -> list[str]:
    return [
        json.dumps({"Action": action, "Package": "kgo"} | ({} if test is None else {"Test": test}))
        for action, test in named
    ]


def test_go_counts_tests_without_subtests() -> None:
    lines = events(
        ("run", "TestA"),
        ("run", "TestA/one"),
        ("run", "TestA/one/deep"),
        ("run", "TestA/two"),
        ("pass", "TestA/one/deep"),
        ("pass", "TestA/one"),
        ("fail", "TestA/two"),
        ("fail", "TestA"),
        ("run", "TestB"),
        ("output", "TestB"),
        ("skip", "TestB"),
        ("fail", None),
    )
    assert read_go(lines) == {"TestA/one/deep": P, "TestA/two": F, "TestB": S}


def test_go_counts_a_parent_that_fails_by_itself() -> None:
    lines = events(("run", "TestA"), ("run", "TestA/one"), ("pass", "TestA/one"), ("fail", "TestA"))
    assert read_go(lines) == {"TestA": F, "TestA/one": P}


def test_a_go_test_without_an_end_fails() -> None:
    lines = [*events(("run", "TestA"), ("run", "TestB"), ("pass", "TestB"), ("fail", None)), "panic: timed out", ""]
    assert read_go(lines) == {"TestA": F, "TestB": P}


def test_go_without_a_test_is_an_error() -> None:
    with pytest.raises(ReportError, match="ran no test: kgo: fail"):
        read_go(events(("fail", None)))
    with pytest.raises(ReportError, match="ran no test: no event"):
        read_go([])
    with pytest.raises(ReportError, match="damaged line"):
        read_go(['{"Action":'])


def test_librdkafka_has_states_of_tests_and_not_of_the_run() -> None:
    tests = {
        "<MAIN>": {"name": "<MAIN>", "state": "FAILED"},
        "0001_multiobj": {"name": "0001_multiobj", "state": "PASSED"},
        "0004_conf": {"name": "0004_conf", "state": "SKIPPED"},
        "0081_admin": {"name": "0081_admin", "state": "FAILED"},
        "0113_cooperative_rebalance": {"name": "0113_cooperative_rebalance", "state": "RUNNING"},
    }
    # The runner writes messages of tests without escapes.
    text = json.dumps({"id": "x", "tests": tests}).replace('"id": "x"', '"id": "x\ty"')
    assert read_librdkafka(text) == {
        "0001_multiobj": P,
        "0004_conf": S,
        "0081_admin": F,
        "0113_cooperative_rebalance": F,
    }


@pytest.mark.parametrize("text", ['{"tests": {', "{}", '{"tests": {"0001": {}}}', '{"tests": []}'])
def test_a_damaged_librdkafka_report_is_an_error(text: str) -> None:
    with pytest.raises(ReportError, match="damaged"):
        read_librdkafka(text)
