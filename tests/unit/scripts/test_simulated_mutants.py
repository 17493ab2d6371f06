"""Mistakes that are planted for the simulated world: where they are, how they get there, and that runs find them."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.mutants.reached import Reach, lines_of
from scripts.mutants.simulated import AREAS, ROOT, Mistake, Planter, Trial, advance, planted, seeds_of, table
from tests.support.group.plan import THEMES, Plan

MISTAKES = [mistake for path in AREAS.values() for mistake in planted(path)]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{n}: {each.what}" for n, each in enumerate(MISTAKES)])
def test_a_mistake_has_one_place_and_can_be_compiled(mistake: Mistake) -> None:
    source = (ROOT / mistake.file).read_text()
    wrong = mistake.plant(source)
    assert wrong != source
    compile(wrong, mistake.file, "exec")


def test_mistakes_differ_in_their_text() -> None:
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES)


def test_a_text_that_is_not_there_once_is_refused() -> None:
    mistake = Mistake("a.py", before="x", after="y", what="")
    for source in ("", "x x"):
        with pytest.raises(ValueError, match="not one"):
            mistake.plant(source)


def test_the_hook_changes_one_module_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "planted_sample"
    package.mkdir()
    for name in ("__init__", "right", "wrong"):
        (package / f"{name}.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    mistake = Mistake("planted_sample/wrong.py", before="= 1", after="= 2", what="")
    monkeypatch.setattr(sys, "meta_path", [Planter(mistake), *sys.meta_path])
    assert importlib.import_module("planted_sample.wrong").VALUE == 2
    assert importlib.import_module("planted_sample.right").VALUE == 1
    assert (package / "wrong.py").read_text() == "VALUE = 1\n"
    assert not list(package.glob("**/wrong*.pyc"))


def test_the_first_runs_find_a_mistake_that_they_meet() -> None:
    (mistake,) = [each for each in MISTAKES if each.what == "the position advances one record too far"]
    trial = advance(Trial(mistake), range(3), limit_s=20)
    assert trial.seed is not None
    assert trial.by


def test_combined_schedules_find_a_mistake_of_groups() -> None:
    what = "auto_offset_reset decides the start of a topic that appears later"
    (mistake,) = [each for each in MISTAKES if each.what == what]
    trial = advance(Trial(mistake), seeds_of(mistake.theme, 1), limit_s=20)
    assert trial.seed is not None
    assert trial.by.startswith("no result")


def test_each_theme_has_seeds_of_its_own() -> None:
    assert {mistake.theme for mistake in planted(AREAS["groups"])} <= {*THEMES, "share"}
    assert [Plan(seed).theme_name for seed in seeds_of("hung", 3)] == ["hung"] * 3
    assert seeds_of("", 3) == [0, 1, 2]


def test_a_mistake_that_nothing_can_be_imported_with_is_found() -> None:
    mistake = Mistake(
        "kafwire/cluster/backoff.py", before="from kafwire.lazy_dataclass import", after="from nowhere import", what=""
    )
    trial = advance(Trial(mistake), [5], limit_s=20)
    assert (trial.seed, trial.tried) == (5, 1)
    assert "nowhere" in trial.by


def test_the_table_shows_found_and_missed_mistakes() -> None:
    by = "acked=3 failed=0\nlost=1\nlost a | b:  gone\n    1 s"
    trials = [
        Trial(Mistake("kafwire/a/b.py", "", "", "one"), [0, 1, 5], tried=2, seed=1, by=by),
        Trial(Mistake("kafwire/c.py", "", "", "two"), [0, 1], tried=2),
        Trial(Mistake("kafwire/c.py", "", "", "three"), [0, 1], tried=1),
        Trial(Mistake("kafwire/c.py", "", "", "four")),
    ]
    text = table(trials, "All is well.")
    assert "1 of 4 mistakes found; 1 are met by no run. All is well." in text
    assert "| one | `a/b` | 3 | seed 1 | lost a / b: gone |" in text
    assert "| two | `c` | 2 | no |  |" in text
    assert "| three | `c` | 2 | not in 1 |  |" in text
    assert "| four | `c` | 0 | no |  |" in text


def test_a_run_finds_only_mistakes_in_lines_that_it_executes() -> None:
    source = "LIMIT = 1\n\ndef f(x):\n    if x > LIMIT:\n        return 2\n    return (\n        3\n    )\n"
    inside = Mistake("a.py", before="        return 2\n", after="        return 4\n", what="")
    spread = Mistake("a.py", before="        3\n", after="        5\n", what="")
    guard = Mistake("a.py", before="x > LIMIT:\n        return 2", after="x >= LIMIT:\n        return 2", what="")
    top = Mistake("a.py", before="LIMIT = 1", after="LIMIT = 2", what="")
    lines = [lines_of(each, source) for each in (inside, spread, guard, top)]
    assert lines == [{5}, {6, 7, 8}, {4, 5}, set()]
    space: dict[str, Any] = {}
    exec(compile(source, "a.py", "exec"), space)
    reach = Reach([("a.py", each) for each in lines])
    with reach.watch():
        space["f"](1)
    assert reach.reached == [1, 2, 3]
    with reach.watch():
        space["f"](2)
    assert reach.reached == [0, 2, 3]
