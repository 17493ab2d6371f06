"""The journeys of docs/design.md, and a batch's outcome: each names functions that exist, and no file twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"^(\d)\. `([\w/]+\.pyx?): ([\w.]+)` ", re.MULTILINE)
MOST_FILES = 8
# Batches in doubt aside.
FILES_OF_AN_OUTCOME = 4


def journeys(section: str = "Four journeys") -> dict[str, list[tuple[str, str]]]:
    """The steps of each journey in a section: file, function."""
    text = (ROOT / "docs" / "design.md").read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    titles = re.split(r"^\*\*(.+?)\*\*", text, flags=re.MULTILINE)[1:]
    steps = {title: STEP.findall(part) for title, part in zip(titles[::2], titles[1::2], strict=True)}
    assert all([int(number) for number, *_ in each] == list(range(1, len(each) + 1)) for each in steps.values())
    return {title: [(file, name) for _, file, name in each] for title, each in steps.items()}


OUTCOME = journeys("The path of a sent record")


def is_defined(source: str, name: str) -> bool:
    """True if the source defines the function, or the class and its method."""
    kind, _, method = name.rpartition(".")
    if not kind:
        return re.search(rf"^(async )?(def|cpdef \w+) {method}\(", source, re.MULTILINE) is not None
    body = re.search(rf"^(cdef )?class {kind}\b.*?(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
    return (
        body is not None and re.search(rf"^    (async )?(def|cpdef \w+) {method}\(", body[0], re.MULTILINE) is not None
    )


def test_there_are_four_journeys() -> None:
    assert list(journeys()) == ["A record", "A fetch", "An assignment", "A commit"]


@pytest.mark.parametrize("title", ["A record", "A fetch", "An assignment", "A commit"])
def test_a_journey_passes_each_file_once(title: str) -> None:
    files = [file for file, _ in journeys()[title]]
    assert len(set(files)) == len(files) <= MOST_FILES
    assert len(files) > 1


def test_the_outcome_of_a_batch_passes_four_files() -> None:
    (steps,) = OUTCOME.values()
    assert len({file for file, _ in steps}) == len(steps) == FILES_OF_AN_OUTCOME


ALL_STEPS = {step for steps in [*journeys().values(), *OUTCOME.values()] for step in steps}


@pytest.mark.parametrize(("file", "name"), sorted(ALL_STEPS))
def test_the_function_of_a_step_exists(file: str, name: str) -> None:
    assert is_defined((ROOT / "kafwire" / file).read_text(), name)


def test_a_function_that_is_gone_is_noticed() -> None:
    source = "class A:\n    def f(self):\n        pass\n\nclass B:\n    async def g(self): ...\n\ndef h(): ...\n"
    assert [is_defined(source, name) for name in ("A.f", "B.g", "h", "A.g", "B.f", "f", "C.f")] == [True] * 3 + [
        False
    ] * 4


def test_the_files_that_the_design_names_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    named = set(re.findall(r"`(\w+/[\w/]+\.(?:pyx?|pxd|[ch]))", text))
    there = [path.as_posix() for top in ("kafwire", "scripts", "tests") for path in (ROOT / top).rglob("*.*")]
    assert {file for file in named if not any(path.endswith(f"/{file}") for path in there)} == set()
