"""docs/reference/admin.md: each method that it names for kafwire exists on both faces."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest

import kafwire
from tests.support.doc_names import rows, spans

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "admin.md").read_text()
ROWS = [row for row in rows(TEXT) if row != ["Java", "kafwire", "compared"]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip("`") for row in ROWS])
def test_a_method_of_the_table_exists(row: list[str]) -> None:
    assert len(row) == 3
    name = spans(row[1])[0]
    if "." in name:
        assert operator.attrgetter(name)(kafwire)
    else:
        for face in (kafwire.Admin, kafwire.AsyncAdmin):
            assert callable(getattr(face, name)), name


@pytest.mark.parametrize("name", sorted({name for row in ROWS for name in spans(row[2]) if ".py" in name}))
def test_a_test_of_the_table_exists(name: str) -> None:
    path, _, function = name.partition("::")
    file = ROOT / path if "/" in path else ROOT / "tests" / "integration" / "admin" / path
    assert f"def {function}" in file.read_text()


def test_each_method_of_java_is_named_once() -> None:
    names = [row[0] for row in ROWS]
    assert len(set(names)) == len(names) >= 55
