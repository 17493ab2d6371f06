"""Tests that are left out of a suite, with reasons, as data; and the judgement of a run by them. Pure.

An entry of `left_out/<suite>.toml` names a test, or several by `*`, the reason, and the outcome of running them:

    [[test]]
    name = "tests/test_sasl.py::TestKafkaSASL::test_sasl_plaintext_gssapi"
    reason = "GSSAPI"
    run = "fails"   # the default; "varies": it passes or fails; "never": it does not run

An entry is stale if the suite has no such test, if a test that must fail passes, or if the suite skips it itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from scripts.foreign_suites.outcomes import Outcome

__all__ = ["LeftOut", "LeftOutError", "Verdict", "judge", "never_run", "read_left_out"]

Run = Literal["fails", "varies", "never"]
_KEYS = {"name", "reason", "run"}


class LeftOutError(ValueError):
    """A list of tests left out is wrong."""


@dataclass(frozen=True)
class LeftOut:
    """One entry: the tests, the reason, and the outcome of running them."""

    name: str
    reason: str
    run: Run = "fails"

    @property
    def pattern(self) -> str:
        """The regular expression of the tests' whole names, for Python and for Go."""
        return ".*".join(map(re.escape, self.name.split("*")))

    def matches(self, test: str) -> bool:
        """Return whether the entry names this test."""
        return re.fullmatch(self.pattern, test, re.DOTALL) is not None


@dataclass
class Verdict:
    """Names of a run's tests by their end. `ok` needs at least one that passed, and neither failed nor stale ones."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether the run is as the list says."""
        return bool(self.passed) and not self.failed and not self.stale

    @property
    def run(self) -> int:
        """Return how many tests count: those that passed, failed or are left out."""
        return len(self.passed) + len(self.failed) + len(self.left_out)


def read_left_out(text: str, source: str) -> list[LeftOut]:
    """Read a list.

    Raises `LeftOutError` with the list's `source` and the entry.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LeftOutError(f"{source}: {error}") from None
    if set(data) - {"test"}:
        raise LeftOutError(f"{source}: unknown keys {sorted(set(data) - {'test'})}; entries begin with [[test]]")
    entries: list[LeftOut] = []
    for each in data.get("test", []):
        where = f"{source}: entry {each.get('name')!r}"
        if set(each) - _KEYS or not all(isinstance(value, str) and value for value in each.values()):
            raise LeftOutError(f"{where}: keys are name, reason and run, each a text that is not empty")
        if not {"name", "reason"} <= set(each):
            raise LeftOutError(f"{where}: name and reason are needed")
        if each.get("run", "fails") not in get_args(Run):
            raise LeftOutError(f"{where}: run is one of {', '.join(get_args(Run))}, not {each['run']!r}")
        if any(entry.name == each["name"] for entry in entries):
            raise LeftOutError(f"{where}: it is there twice")
        entries.append(LeftOut(**each))
    return entries


def never_run(entries: Iterable[LeftOut]) -> list[LeftOut]:
    """Return the entries whose tests must not run."""
    return [entry for entry in entries if entry.run == "never"]


def judge(outcomes: Mapping[str, Outcome], entries: Iterable[LeftOut], *, partial: bool = False) -> Verdict:
    """Judge a run's outcomes. Tests that never ran are in `outcomes` as skipped, since the suite has them.

    After a `partial` run, of some of the suite's tests, an entry about other tests, missing or skipped, is not stale.
    """
    verdict = Verdict()
    owners: dict[str, LeftOut] = {}
    for entry in entries:
        names = [name for name in outcomes if entry.matches(name)]
        if not names and not partial:
            verdict.stale.append(f"{entry.name}: the suite has no such test")
        for name in names:
            owner = owners.setdefault(name, entry)
            if owner is not entry:
                verdict.stale.append(f"{entry.name}: {owner.name} names {name} too")
    for name, outcome in outcomes.items():
        _file(verdict, name, outcome, owners.get(name), partial=partial)
    return verdict


def _file(verdict: Verdict, name: str, outcome: Outcome, entry: LeftOut | None, *, partial: bool) -> None:
    if entry is None:
        {
            Outcome.PASSED: verdict.passed,
            Outcome.FAILED: verdict.failed,
            Outcome.SKIPPED: verdict.skipped,
        }[outcome].append(name)
        return
    verdict.left_out.append(name)
    if entry.run == "fails" and outcome is Outcome.PASSED:
        verdict.stale.append(f"{name}: it passes; delete its entry")
    if entry.run != "never" and outcome is Outcome.SKIPPED and not partial:
        verdict.stale.append(f"{name}: the suite skips it by itself; delete its entry")
