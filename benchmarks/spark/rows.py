"""The rows, their contenders, and the goals that the figures are held against. Data only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.spark import memory, queries
from benchmarks.spark.queries import Figures
from benchmarks.spark.stage import Sizes, Stage

Measure = Callable[[Stage], Figures]
CONNECTOR, KAFWIRE, READY = "kafka", "kafwire", "ready"
ONCE = "kafwire, exactly once"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of `of` is at least `least` times, or at most `most` times and `plus`, the same figure of `over`.

    Without `over` the bounds are in the row's unit. `at` is the quantile of the figure's values.
    """

    of: str
    figure: str
    over: str = ""
    least: float | None = None
    most: float | None = None
    plus: float = 0.0
    at: float = 0.5

    def judge(self, found: Mapping[str, Figures]) -> tuple[float, float, bool] | None:
        """The figure, its bound, and whether the goal is met; None without figures."""
        own = found.get(self.of, {}).get(self.figure)
        other = found.get(self.over, {}).get(self.figure) if self.over else [1.0]
        if not own or not other:
            return None
        value, base = quantile(own, self.at), quantile(other, self.at)
        bound = base * (self.least if self.least is not None else self.most or 1.0) + self.plus
        return value, bound, value >= bound if self.least is not None else value <= bound

    def as_text(self) -> str:
        """The text for people: `kafwire noop >= 0.85 x ready`."""
        sign, factor = (">=", self.least) if self.least is not None else ("<=", self.most)
        what = f"{self.of}, {self.figure}" + (f" p{self.at * 100:.0f}" if self.at != 0.5 else "")
        bound = f"{factor:g} x {self.over}" if self.over else f"{factor:g}"
        return f"{what} {sign} {bound}" + (f" + {self.plus:g}" if self.plus else "")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its contenders take turns. `most_rounds` bounds the rounds of a long row; `is_short`: see `choose`."""

    name: str
    unit: str
    contenders: Mapping[str, Measure]
    goals: Sequence[Goal] = ()
    most_rounds: int = 100
    is_warmed: bool = True
    is_short: bool = False
    at: Sequence[float] = (0.5,)


def quantile(values: Sequence[float], at: float) -> float:
    """The median, or the smallest value that at least the share `at` of all values does not exceed."""
    if at == 0.5:
        return statistics.median(values)
    return sorted(values)[min(len(values) - 1, int(at * len(values)))]


def _rows(sizes: Sizes, value_bytes: int, tasks: int) -> int:
    return {1: sizes.one_task, 8: sizes.eight_tasks, 100: sizes.hundred_tasks}[tasks][value_bytes]


def _read(value_bytes: int, codec: str, tasks: int, *, value_only: bool = False) -> Row:
    def measure(source: str, stage: Stage) -> Figures:
        shape = queries.Shape(value_bytes, codec, tasks, _rows(stage.sizes, value_bytes, tasks))
        return queries.read(stage, source, shape, value_only=value_only)

    is_long = tasks == 100
    return Row(
        f"read-{value_bytes}-{codec}-x{tasks}{'-value' if value_only else ''}",
        "M rows/s",
        {source: partial(measure, source) for source in (CONNECTOR, KAFWIRE, READY)},
        [Goal(KAFWIRE, figure, READY, least=0.85) for figure in (["sum"] if value_only else ["noop", "sum"])],
        most_rounds=3 if is_long else 100,
        is_warmed=not is_long,
        is_short=(value_bytes, codec, tasks) == (100, "lz4", 8),
    )


def _available_now(value_bytes: int, codec: str, goal: Goal) -> Row:
    def measure(source: str, stage: Stage) -> Figures:
        shape = queries.Shape(value_bytes, codec, queries.PARTITIONS, stage.sizes.available_now[value_bytes])
        return queries.available_now(stage, source, shape)

    return Row(
        f"available-now-{value_bytes}-{codec}",
        "M rows/s (start: s)",
        {source: partial(measure, source) for source in (CONNECTOR, KAFWIRE, READY)},
        [goal, Goal(KAFWIRE, "start", READY, most=1.0, plus=0.1)],
        most_rounds=3,
        is_short=value_bytes == 100,
    )


def _write(value_bytes: int, goals: Sequence[Goal]) -> Row:
    return Row(
        f"write-{value_bytes}",
        "M rows/s",
        {sink: partial(queries.write, sink=sink, value_bytes=value_bytes) for sink in (CONNECTOR, KAFWIRE, READY)},
        [*goals, Goal(KAFWIRE, "rate", READY, least=0.7)],
        is_short=value_bytes == 100,
    )


def _micro(tasks: int) -> Row:
    figure = "triggerExecution"
    contenders: dict[str, Measure] = {
        CONNECTOR: lambda stage: queries.micro_batches(stage, CONNECTOR, CONNECTOR, tasks),
        KAFWIRE: lambda stage: queries.micro_batches(stage, KAFWIRE, KAFWIRE, tasks),
        READY: lambda stage: queries.micro_batches(stage, READY, READY, tasks),
        ONCE: lambda stage: queries.micro_batches(stage, KAFWIRE, KAFWIRE, tasks, "exactly-once"),
    }
    return Row(
        f"micro-batch-x{tasks}",
        "ms",
        contenders,
        [
            Goal(name, figure, READY, most=factor, plus=plus, at=at)
            for name, plus in ((KAFWIRE, 15.0), (ONCE, 60.0))
            for factor, at in ((1.0, 0.5), (1.1, 0.99))
        ],
        most_rounds=3,
        is_warmed=False,
        is_short=tasks > 1,
        at=(0.5, 0.99),
    )


SHAPES = ((100, "lz4"), (1000, "lz4"), (1000, "none"))
ROWS: Sequence[Row] = [
    *[_read(value_bytes, codec, tasks) for value_bytes, codec in SHAPES for tasks in (1, 8)],
    *[_read(value_bytes, codec, 8, value_only=True) for value_bytes, codec in SHAPES],
    *[_read(value_bytes, "lz4", 100) for value_bytes in (100, 1000)],
    Row(
        "task-cost",
        "ms",
        {source: partial(queries.task_cost, source=source) for source in (CONNECTOR, KAFWIRE, READY)},
        [Goal(KAFWIRE, "ms", READY, most=1.0, plus=30.0)],
    ),
    _available_now(100, "lz4", Goal(KAFWIRE, "rate", CONNECTOR, least=3.0)),
    *[_available_now(1000, codec, Goal(KAFWIRE, "rate", READY, least=0.85)) for codec in ("lz4", "none")],
    _write(100, [Goal(KAFWIRE, "rate", CONNECTOR, least=2.0)]),
    _write(1000, []),
    *[_micro(tasks) for tasks in (1, 8)],
    Row(
        "memory",
        "MiB",
        {source: partial(memory.reading_worker, source=source) for source in (KAFWIRE, READY)},
        [Goal(KAFWIRE, "peak", READY, most=1.0, plus=40.0)],
        most_rounds=3,
        is_warmed=False,
        is_short=True,
    ),
    Row(
        "avro",
        "M records/s",
        {KAFWIRE: lambda _stage: queries.avro()},
        [Goal(KAFWIRE, "rate", least=1.0)],
        is_warmed=False,
        is_short=True,
    ),
    Row(
        "flat",
        "MiB",
        {ONCE: memory.flatness},
        [Goal(ONCE, "growth", most=2.0)],
        most_rounds=1,
        is_warmed=False,
        is_short=True,
    ),
]


def choose(names: Sequence[str], *, short: bool) -> list[Row]:
    """The rows with these names or beginnings of names.

    Without names all but `flat`, which is long; or those of the short form, one of each kind.
    """
    if not names:
        return [row for row in ROWS if (row.is_short if short else row.name != "flat")]
    chosen = [row for row in ROWS if any(row.name.startswith(name) for name in names)]
    if unknown := [name for name in names if not any(row.name.startswith(name) for row in ROWS)]:
        raise ValueError(f"no row {unknown[0]}: choose from {', '.join(row.name for row in ROWS)}")
    return chosen
