"""This tree beside another commit: ratios of pairs of rounds, their spread, and the rows that are slower. Pure."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.rounds import HIGHER_IS_BETTER, ContenderError, Measure, Progress, run_row
from benchmarks.row import Contender, Row

THIS, BASE = "this tree", "base"
LEAST = 0.97
Verdict = Literal["ok", "slower", "not in the base", "failed"]
# How the last line of a worker's traceback begins if its library lacks something.
_LACKS = {"ImportError", "ModuleNotFoundError", "AttributeError"}


@dataclass(slots=True)
class Comparison:
    """One contender of one row on both trees: the figures of each pair of rounds, in the row's unit.

    `this_cpu` and `base_cpu` are the processor time of the worker per record: other work on the machine moves it less.
    """

    row: Row
    contender: str
    this: list[float] = field(default_factory=list)
    base: list[float] = field(default_factory=list)
    this_cpu: list[float] = field(default_factory=list)
    base_cpu: list[float] = field(default_factory=list)
    this_error: str = ""
    base_error: str = ""

    @property
    def ratios(self) -> list[float]:
        """The speed of this tree by that of the base, one for each pair: below 1, this tree is slower."""
        higher = self.row.kind in HIGHER_IS_BETTER
        pairs = zip(self.this, self.base, strict=False)
        return [this / base if higher else base / this for this, base in pairs if this and base]

    @property
    def median(self) -> float | None:
        """The median ratio; None without a pair."""
        ratios = self.ratios
        return statistics.median(ratios) if ratios and not (self.this_error or self.base_error) else None

    @property
    def cpu(self) -> float | None:
        """The median ratio of processor times: below 1, this tree takes more. None where there is no such figure."""
        pairs = zip(self.this_cpu, self.base_cpu, strict=False)
        ratios = [base / this for this, base in pairs if this and base]
        return statistics.median(ratios) if ratios else None

    def verdict(self, least: float = LEAST) -> Verdict:
        """Slower, if the median ratio falls below `least`."""
        if self.this_error:
            return "failed"
        if self.base_error:
            return "not in the base" if is_lacking(self.base_error) else "failed"
        return "ok" if self.median is not None and self.median >= least else "slower"


def is_lacking(error: str) -> bool:
    """True if a worker failed for a name that its library does not have."""
    reason = error.partition(": ")[2]  # after the exit code
    name, _, text = reason.partition(": ")
    if name == "TypeError":
        return "unexpected keyword argument" in text
    if name == "kafwire.errors.ConfigError":
        return text.startswith("unknown option")
    return name in _LACKS


def own_contenders(row: Row, *, context: bool, only: Sequence[str] | None) -> list[Contender]:
    """The contenders of a row that measure this project's library."""
    return [
        one
        for one in row.contenders
        if one.is_kafwire
        and (context or not one.context)
        and (not only or any(one.name.startswith(name) for name in only))
    ]


def compare(
    row: Row, contender: Contender, rounds: int, measure: Measure, progress: Progress, folders: tuple[Path, Path]
) -> Comparison:
    """Measure pairs of rounds: this tree and the base take turns, and the other one begins each next pair.

    One pair comes before that and does not count: it warms the broker up, and writes the compiled files.
    """
    sides = [replace(contender, name=name, folder=folder) for name, folder in zip((THIS, BASE), folders, strict=True)]
    found = Comparison(row, contender.name)
    for side, is_this in ((sides[0], True), (sides[1], False)):
        try:
            measure(row, side, next(iter(side.variants.values())))
        except ContenderError as error:
            progress(f"{row.name}: {contender.name}, {side.name}: {error}")
            if is_this:
                found.this_error = str(error)
            else:
                found.base_error = str(error)
    if found.this_error or found.base_error:
        return found

    def tell(line: str) -> None:
        progress(f"{contender.name}: {line}")

    figures = run_row(row, sides, rounds, measure, tell)
    found.this, found.base = figures[THIS].rounds, figures[BASE].rounds
    found.this_cpu, found.base_cpu = figures[THIS].cpu, figures[BASE].cpu
    found.this_error, found.base_error = figures[THIS].error, figures[BASE].error
    return found


def render(comparisons: Sequence[Comparison], least: float = LEAST) -> str:
    """A line for each row and contender, and the list of those that are slower."""
    lines = [
        "| row | contender | this tree | base | ratio, median (min-max, pairs) | ratio of processor time | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    lines += [_line(one, least) for one in comparisons]
    slower = _names(comparisons, lambda one: one.verdict(least) == "slower")
    failed = _names(comparisons, lambda one: one.verdict(least) == "failed")
    lines += ["", f"below {least:.0%} of the base: {', '.join(slower) or 'none'}"]
    if failed:
        lines.append(f"failed: {', '.join(failed)}")
    lines += [f"- {one.row.name}, {one.contender}: {_reason(one)}" for one in comparisons if _reason(one)]
    return "\n".join(lines) + "\n"


def as_json(comparisons: Sequence[Comparison], least: float = LEAST) -> list[dict[str, Any]]:
    """Everything that was measured."""
    return [
        {
            "row": one.row.name,
            "contender": one.contender,
            "unit": one.row.unit,
            "higher_is_better": one.row.kind in HIGHER_IS_BETTER,
            "this": one.this,
            "base": one.base,
            "ratios": one.ratios,
            "median": one.median,
            "this_cpu_us_per_record": one.this_cpu,
            "base_cpu_us_per_record": one.base_cpu,
            "cpu_median": one.cpu,
            "verdict": one.verdict(least),
            "error": _reason(one),
        }
        for one in comparisons
    ]


def _line(one: Comparison, least: float) -> str:
    verdict = one.verdict(least)
    spread = ""
    if one.median is not None:
        ratios = one.ratios
        spread = f"{one.median:.3f} ({min(ratios):.3f}-{max(ratios):.3f}, {len(ratios)})"
        if verdict == "slower" and max(ratios) >= 1:
            spread += ", pairs disagree"
    shown = {"ok": "", "slower": "SLOWER", "failed": "FAILED"}.get(verdict, verdict)
    cpu = "" if one.cpu is None else f"{one.cpu:.3f}"
    this, base = _rate(one.this, one.row.unit), _rate(one.base, one.row.unit)
    return f"| {one.row.name} | {one.contender} | {this} | {base} | {spread} | {cpu} | {shown} |"


def _rate(figures: Sequence[float], unit: str) -> str:
    return f"{statistics.median(figures):.4g} {unit}" if figures else ""


def _reason(one: Comparison) -> str:
    return one.this_error or one.base_error


def _names(comparisons: Sequence[Comparison], chosen: Callable[[Comparison], bool]) -> list[str]:
    return [f"{one.row.name} ({one.contender})" for one in comparisons if chosen(one)]
