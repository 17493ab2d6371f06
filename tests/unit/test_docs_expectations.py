"""docs/reference/expectations.md: each row names a test of kafwire's that exists."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.support.doc_names import rows

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "expectations.md").read_text()
HEADER = ["expectation", "confluent-kafka", "aiokafka", "kafka-python", "kafwire"]
TESTS = ROOT / "tests"
ROWS = [row for row in rows(TEXT) if row != HEADER]


@cache
def functions_of(path: str) -> frozenset[str]:
    """The names of the test functions of a file that pytest collects."""
    file = TESTS / path
    assert file.name.startswith("test_"), f"pytest collects no tests of {path}"
    body = ast.parse(file.read_text()).body
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in body if isinstance(each, functions) and each.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 5
    assert all(row), "a cell is empty"
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row[4])
    assert named
    for path, name in named:
        assert name in functions_of(path), f"{path} has no {name}"


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 40
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert list(rows(TEXT)).count(HEADER) == TEXT.count("\n## ")


def test_only_linux_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    systems = [name for name in project["classifiers"] if name.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
