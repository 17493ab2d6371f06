"""The settings of all tests: seeds are the same in every run, unless others are asked for; a skip has its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import seeds

PYTEST = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
ROOT = Path(__file__).resolve().parents[2]
INNER = """
import random
from hypothesis import given, strategies as st
from tests.support import seeds

def test_a():
    print("A", [seeds.of_test(), seeds.of_test()], random.random())

@seeds.several(2)
def test_b(seed):
    print("B", seed, seeds.of(__name__))

found = []

@given(st.integers())
def test_c(number):
    found.append(number)

def test_d():
    print("D", found)
    assert seeds.examples(3) == 3
"""


SKIPPING = """
import pytest

def test_skipped():
    pytest.skip("not today")

@pytest.mark.skipif(True, reason="not here")
def test_marked():
    pass

def test_foreseen():
    pytest.skip("no IPv6 here")

@pytest.mark.xfail(reason="not yet")
def test_expected():
    raise ValueError
"""


def inside(folder: Path, choice: str, *options: str, files: dict[str, str] | None = None) -> tuple[list[str], str]:
    """The output of tests that run under the settings of all tests; and the log."""
    package = folder / "tests"
    package.mkdir(exist_ok=True)
    for name in ("conftest.py", "support/seeds.py"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text((ROOT / "tests" / name).read_text().replace("pytest_plugins", "_"))
    for name, text in (files or {"test_inner.py": INNER}).items():
        (package / name).parent.mkdir(exist_ok=True, parents=True)
        (package / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    environment = {**os.environ, "KAFWIRE_EXAMPLES": "1", seeds.VARIABLE: choice, "PYTHONPATH": str(ROOT)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # it takes longer than all of this
    ran = subprocess.run(
        [*PYTEST, *options, "tests"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line.lstrip(".") for line in ran.stdout.splitlines()]
    return [line for line in lines if line[:2] in {"A ", "B ", "D "}], ran.stdout


def test_every_run_makes_the_same_choices_whatever_else_runs(tmp_path: Path) -> None:
    first, log = inside(tmp_path, "")
    assert len(set(first)) == 4, log
    assert "seeds: by the tests' names" in log
    assert inside(tmp_path, "")[0] == first
    assert inside(tmp_path, "", "-k", "test_b and 1")[0] == [first[2]]


def test_a_seed_that_is_given_is_that_of_each_test(tmp_path: Path) -> None:
    printed, log = inside(tmp_path, "7")
    assert printed[0].startswith("A [7, "), log
    assert printed[1:3] == ["B 7 7"] * 2


def test_a_fresh_run_makes_other_choices_and_says_how_to_repeat_them(tmp_path: Path) -> None:
    one, log = inside(tmp_path, "fresh")
    assert len(set(one)) == 4, log
    (said,) = [line.partition("=")[2] for line in log.splitlines() if line.startswith("seeds: ")]
    assert inside(tmp_path, said)[0] == one
    other, _ = inside(tmp_path, "fresh")
    assert not set(one) & set(other)


def test_a_sample_is_of_every_run_and_the_other_cases_of_long_runs() -> None:
    found = seeds.sampled(["a", ("b", 1)], "b")
    assert [(case.values, [mark.name for mark in case.marks]) for case in found] == [(("a",), ["long"]), (("b", 1), [])]
    with pytest.raises(AssertionError, match=r"no such case: \['c'\]"):
        seeds.sampled(["a", ("b", 1)], "b", "c")


def test_a_module_has_no_seed_of_a_test() -> None:
    seeds.begin("")
    with pytest.raises(AssertionError, match="no test is running"):
        seeds.of_test()


def test_a_skip_that_is_not_foreseen_fails_the_run(tmp_path: Path) -> None:
    files = {
        "unit/runtime/test_io.py": SKIPPING,
        "test_none.py": "import pytest; pytest.importorskip('no_such_module')",
    }
    _, log = inside(tmp_path, "", "-rA", "--continue-on-collection-errors", files=files)
    assert "1 failed, 1 skipped, 1 xfailed, 2 errors in" in log, log
    foreseen = "a skip that MAY_BE_SKIPPED in tests/conftest.py does not name"
    for reason in ("not today", "not here", "could not import 'no_such_module': No module named 'no_such_module'"):
        assert f"\nSkipped: {reason}: {foreseen}\n" in log, log
