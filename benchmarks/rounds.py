"""Rounds, alternation, medians: how single measurements become figures. No processes, no clock of its own."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.row import Contender, Goal, Row

HIGHER_IS_BETTER = {
    "consume",
    "tls",
    "produce",
    "beside",
    "decode",
    "encode",
    "message",
    "values",
    "group",
    "commit",
    "stream",
    "share",
}


class ContenderError(RuntimeError):
    """A contender did not do its work; the message says why."""


@dataclass(slots=True)
class Figure:
    """The figures of one contender of one row.

    `rounds` are the figures of its rounds in the row's unit, `cpu` its processor time in microseconds per record.
    """

    rounds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    seconds: float = 0.0
    variant: str = ""
    tried: dict[str, float | str] = field(default_factory=dict)
    note: str = ""
    error: str = ""

    @property
    def median(self) -> float | None:
        """The figure to quote; None when the contender failed."""
        return statistics.median(self.rounds) if self.rounds and not self.error else None


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one contender.

    The figure in the row's unit, the timed seconds, a remark of the contender, and the processor time that its process
    took, in microseconds per record.
    """

    figure: float
    seconds: float
    note: str = ""
    cpu: float | None = None


Measure = Callable[[Row, Contender, Mapping[str, str]], Measured]
Progress = Callable[[str], None]


def run_row(
    row: Row, contenders: Sequence[Contender], rounds: int, measure: Measure, progress: Progress
) -> dict[str, Figure]:
    """Measure a row: choose each contender's fastest variant, then let all take turns, a new one first each round.

    A contender that fails once is out, with the reason in its figure.
    """
    figures = {contender.name: Figure() for contender in contenders}
    for contender in contenders:
        _choose_variant(row, contender, figures[contender.name], measure, progress)
    for number in range(rounds):
        first = number % max(len(contenders), 1)
        for contender in [*contenders[first:], *contenders[:first]]:
            figure = figures[contender.name]
            if figure.error:
                continue
            try:
                measured = measure(row, contender, contender.variants[figure.variant])
            except ContenderError as error:
                figure.error = str(error)
                progress(f"{row.name}: {contender.name} FAILED: {error}")
                continue
            figure.rounds.append(measured.figure)
            figure.seconds += measured.seconds
            if measured.cpu is not None:
                figure.cpu.append(measured.cpu)
            figure.note = measured.note
            progress(f"{row.name}: round {number + 1}/{rounds}: {contender.name} {measured.figure:.3f} {row.unit}")
    return figures


def _choose_variant(row: Row, contender: Contender, figure: Figure, measure: Measure, progress: Progress) -> None:
    names = list(contender.variants)
    figure.variant = names[0]
    if len(names) == 1:
        return
    best = None
    for name in names:
        try:
            found = measure(row, contender, contender.variants[name]).figure
        except ContenderError as error:
            figure.tried[name] = f"failed: {error}"
            progress(f"{row.name}: {contender.name} ({name}) FAILED: {error}")
            continue
        figure.tried[name] = found
        progress(f"{row.name}: trying {contender.name} ({name}) {found:.3f} {row.unit}")
        if best is None or (found > best) == (row.kind in HIGHER_IS_BETTER):
            best, figure.variant = found, name
    if best is None:
        figure.error = next(str(reason) for reason in figure.tried.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal held against the figures. `value` is None when a contender of it has no figure."""

    goal: Goal
    value: float | None

    @property
    def met(self) -> bool:
        """True if the goal is reached; without a figure it is not."""
        if self.value is None:
            return False
        return self.value <= self.goal.most if self.goal.most else self.value >= self.goal.least

    def as_text(self, unit: str) -> str:
        """The text for people: `kafwire scan / confluent consume 5.2 x (goal >= 4 x): met`."""
        goal = self.goal
        what = f"{goal.of} / {goal.over}" if goal.over else goal.of
        unit = "x" if goal.over else unit
        bound = f"<= {goal.most:.3g} {unit}" if goal.most else f">= {goal.least:.3g} {unit}"
        if self.value is None:
            found = "no figure"
        else:
            digits = 1 if not goal.over else 3 if self.value < 0.2 else 2
            found = f"{self.value:.{digits}f} {unit}"
        return f"{what} {found} (goal {bound}): {'met' if self.met else 'NOT MET'}"


def judge(row: Row, figures: Mapping[str, Figure]) -> list[Verdict]:
    """Every goal of the row, with what was reached."""
    verdicts = []
    for goal in row.goals:
        own = _median(figures, goal.of)
        if not goal.over:
            verdicts.append(Verdict(goal, own))
            continue
        other = _median(figures, goal.over)
        verdicts.append(Verdict(goal, own / other if own is not None and other else None))
    return verdicts


def _median(figures: Mapping[str, Figure], name: str) -> float | None:
    return figures[name].median if name in figures else None


def as_json(row: Row, figures: Mapping[str, Figure]) -> dict[str, Any]:
    """The row with everything that was measured."""
    return {
        "name": row.name,
        "unit": row.unit,
        "contenders": {
            contender.name: {
                "median": figures[contender.name].median,
                "rounds": figures[contender.name].rounds,
                "seconds": figures[contender.name].seconds,
                "cpu_us_per_record": figures[contender.name].cpu,
                "program": f"{contender.program} {contender.task}",
                "options": dict(contender.options),
                "variant": figures[contender.name].variant,
                "configuration": dict(contender.variants.get(figures[contender.name].variant, {})),
                "variants_tried": figures[contender.name].tried,
                "note": figures[contender.name].note,
                "error": figures[contender.name].error,
            }
            for contender in row.contenders
            if contender.name in figures
        },
        "goals": [
            {
                "of": verdict.goal.of,
                "over": verdict.goal.over or None,
                "at_least": verdict.goal.least or None,
                "at_most": verdict.goal.most or None,
                "value": verdict.value,
                "met": verdict.met,
            }
            for verdict in judge(row, figures)
        ],
    }
