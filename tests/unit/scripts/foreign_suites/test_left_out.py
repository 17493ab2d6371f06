"""`left_out`: lists of tests left out, and their stale entries."""

from __future__ import annotations

import pytest

from scripts.foreign_suites.__main__ import LISTS, SUITES, read_list
from scripts.foreign_suites.left_out import LeftOut, LeftOutError, judge, read_left_out
from scripts.foreign_suites.outcomes import Outcome

P, F, S = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def test_a_run_is_judged_by_its_list() -> None:
    outcomes = {"a": P, "b": F, "c": S, "d": F, "e": S, "f": P, "g": F}
    entries = [
        LeftOut("b", "GSSAPI"),
        LeftOut("e", "it hangs", "never"),
        *(LeftOut(x, "chance", "varies") for x in "fg"),
    ]
    verdict = judge(outcomes, entries)
    assert (verdict.passed, verdict.failed, verdict.skipped) == (["a"], ["d"], ["c"])
    assert verdict.left_out == ["b", "e", "f", "g"]
    assert verdict.stale == []
    assert verdict.run == 6
    assert not verdict.ok
    assert judge({**outcomes, "d": P}, entries).ok


def test_a_left_out_test_that_passes_is_stale() -> None:
    verdict = judge({"a": P, "b": P}, [LeftOut("b", "GSSAPI")])
    assert verdict.stale == ["b: it passes; delete its entry"]
    assert not verdict.ok


@pytest.mark.parametrize("run", ["fails", "varies"])
def test_a_left_out_test_that_the_suite_skips_is_stale(run: str) -> None:
    verdict = judge({"a": P, "b": S}, [LeftOut("b", "GSSAPI", run)])  # type: ignore[arg-type]
    assert verdict.stale == ["b: the suite skips it by itself; delete its entry"]
    assert judge({"a": P, "b": S}, [LeftOut("b", "GSSAPI", run)], partial=True).ok  # type: ignore[arg-type]


@pytest.mark.parametrize("run", ["fails", "varies", "never"])
def test_an_entry_without_a_test_is_stale(run: str) -> None:
    entries = [LeftOut("gone", "GSSAPI", run)]  # type: ignore[arg-type]
    verdict = judge({"a": P}, entries)
    assert verdict.stale == ["gone: the suite has no such test"]
    assert not verdict.ok
    assert judge({"a": P}, entries, partial=True).ok


def test_a_star_names_several_tests_each_of_which_must_fail() -> None:
    entry = LeftOut("sasl.py::Test*::test_gssapi[*]", "GSSAPI")
    outcomes = {
        "sasl.py::TestA::test_gssapi[1]": F,
        "sasl.py::TestB::test_gssapi[2]": P,
        "sasl.py::TestA::test_plain[1]": P,
    }
    verdict = judge(outcomes, [entry])
    assert verdict.left_out == ["sasl.py::TestA::test_gssapi[1]", "sasl.py::TestB::test_gssapi[2]"]
    assert verdict.stale == ["sasl.py::TestB::test_gssapi[2]: it passes; delete its entry"]


def test_two_entries_for_one_test_are_stale() -> None:
    verdict = judge({"a": P, "b1": F}, [LeftOut("b*", "GSSAPI"), LeftOut("b1", "GSSAPI")])
    assert verdict.stale == ["b1: b* names b1 too"]


def test_a_run_without_a_passed_test_is_not_ok() -> None:
    assert not judge({"a": S}, []).ok
    assert not judge({}, []).ok


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[test]\n", "kgo.toml: "),
        ('[[tests]]\nname = "a"\n', "unknown keys"),
        ('[[test]]\nname = "a"\n', "entry 'a': name and reason are needed"),
        ('[[test]]\nname = "a"\nreason = ""\n', "not empty"),
        ('[[test]]\nname = "a"\nreason = "b"\nrun = "now"\n', "run is one of fails, varies, never"),
        ('[[test]]\nname = "a"\nreason = "b"\nwhy = "c"\n', "keys are name, reason and run"),
        ('[[test]]\nname = "a"\nreason = 1\n', "each a text"),
        ('[[test]]\nname = "a"\nreason = "b"\n' * 2, "it is there twice"),
    ],
)
def test_a_wrong_list_is_refused(text: str, message: str) -> None:
    with pytest.raises(LeftOutError, match=message):
        read_left_out(text, "kgo.toml")


def test_every_list_is_of_a_suite_and_can_be_read() -> None:
    assert {path.stem for path in LISTS.glob("*")} <= {suite.name for suite in SUITES}
    for suite in SUITES:
        for entry in read_list(suite):
            assert len(entry.reason) >= 10, f"{suite.name}: {entry.name} needs a reason that says more"
