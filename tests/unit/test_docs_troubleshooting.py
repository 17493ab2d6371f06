"""docs/operate/troubleshooting.md lists every public error class, and messages that the code has."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kafwire.error_codes import ErrorCode
from scripts.prose import files, passages
from tests.support.doc_names import rows, spans
from tests.support.public_names import MODULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operate" / "troubleshooting.md").read_text()
MESSAGES = ("message", "line")  # the first column of tables whose cells quote the code


def public_errors() -> set[str]:
    """The names of all public exception classes."""
    public = [
        getattr(module, name) for module in map(import_module, MODULES) for name in getattr(module, "__all__", ())
    ]
    return {each.__name__ for each in public if isinstance(each, type) and issubclass(each, BaseException)}


@functools.cache
def texts() -> str:
    """All texts of the code, each on a line; values in them are `x`."""
    found = [
        " ".join(passage.text.split())
        for name in files(["kafwire"])
        if name.endswith((".py", ".pyx"))
        for passage in passages(name, (ROOT / name).read_text())
        if passage.kind not in {"comment", "docstring"}
    ]
    return re.sub(r"%[a-z]", "x", "\n".join(found))


def first_cells(*headings: str) -> Iterator[str]:
    """The code spans in the first cells of the tables that begin with one of these headings."""
    is_asked = False
    for line in TEXT.splitlines():
        cells = next(rows(line), None)
        if cells is None:
            is_asked = is_asked and line.startswith("|---")
        elif cells[0] in headings:
            is_asked = True
        elif is_asked:
            yield from spans(cells[0])


def test_every_public_error_has_a_section() -> None:
    pytest.importorskip("pyspark", exc_type=ImportError)  # some of the errors are of `kafwire.spark`
    listed = re.findall(r"^###? (\w+)$", TEXT, re.MULTILINE)
    assert len(listed) == len(set(listed))
    sections = {"Connections", "Time", "Groups", "Records", "Transactions"}
    assert set(listed) - sections == public_errors()


@pytest.mark.parametrize("message", [*first_cells(*MESSAGES)])
def test_a_message_is_one_of_the_code(message: str) -> None:
    pattern = r"[^\n]*".join(re.escape(part.strip()) for part in message.split("..."))
    assert re.search(pattern, texts()), message


def test_the_names_are_kafka_s() -> None:
    names = set(first_cells("name"))
    assert len(names) > 10
    assert names <= set(ErrorCode.__members__)
