"""Lines and table rows (docs/broker.md) of a suite's run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from scripts.foreign_suites.left_out import Verdict

__all__ = ["report", "row"]


def report(name: str, verdict: Verdict) -> Iterator[str]:
    """Lines about a run, those to act on first."""
    for test in verdict.failed:
        yield f"FAILED {test}"
    for text in verdict.stale:
        yield f"STALE {text}"
    if not verdict.passed:
        yield f"{name}: no test passed"
    yield (
        f"{name}: {len(verdict.passed)} passed, {len(verdict.failed)} failed, {len(verdict.left_out)} left out,"
        f" {len(verdict.skipped)} skipped by the suite"
    )


def row(name: str, version: str, verdict: Verdict, day: date) -> str:
    """The row of a run: suite, version, tests run, passed, left out, date."""
    cells = [name, version, str(verdict.run), str(len(verdict.passed)), str(len(verdict.left_out)), day.isoformat()]
    return f"| {' | '.join(cells)} |"
