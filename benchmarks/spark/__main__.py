"""The command line: `python -m benchmarks.spark [ROW ...] [--short]`, into docs/internals/results/spark.md by hand."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException

from benchmarks.environment import describe
from benchmarks.measure import ROOT
from benchmarks.rounds import ContenderError
from benchmarks.spark.queries import Figures
from benchmarks.spark.rows import ROWS, SHAPES, Row, choose, quantile
from benchmarks.spark.stage import CONNECTOR, CORES, Sizes, Stage, open_stage
from kafwire.testing import KafkaCluster

BUILD = ROOT / "build" / "benchmarks"
PROPERTIES = {"log.segment.delete.delay.ms": "0", "log.cleaner.enable": "false"}
HEAP = "2g"


def main() -> int:
    """Measure, print each row with its goals, write JSON. 0 when every contender did its work."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a row, or how rows begin (default: all but flat)")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--short", action="store_true", help="small topics and one round: a smoke test")
    parser.add_argument("--fill", action="store_true", help="fill the topics of the rows, and measure nothing")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per contender (default: 5)")
    parser.add_argument("--bootstrap", help="a single broker that runs already (default: one is started)")
    parser.add_argument("--folder", type=Path, default=BUILD, help="for programs and payloads")
    parser.add_argument("--output", type=Path, help="the JSON file; rows that it has and that do not run again stay")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    try:
        rows = choose(chosen.rows, short=chosen.short)
    except ValueError as error:
        parser.error(str(error))
    rounds = 1 if chosen.short else chosen.rounds
    sizes = Sizes.short() if chosen.short else Sizes()
    with _broker(chosen.bootstrap) as bootstrap, open_stage(bootstrap, chosen.folder, sizes) as stage:
        if chosen.fill:
            fill(stage)
            return 0
        output = chosen.output or chosen.folder / "spark.json"
        failed = [row.name for row in rows if not _measure(row, stage, rounds, output)]
    if chosen.short:
        print("The short form shows that everything works; its figures are those of small topics and one round.")
    return int(bool(failed))


def fill(stage: Stage) -> None:
    """Fill all topics that rows read."""
    sizes = stage.sizes
    for size, codec in SHAPES:
        counts = {(1, sizes.one_task[size]), (8, sizes.eight_tasks[size]), (8, sizes.available_now[size])}
        counts |= {(100, sizes.hundred_tasks[size])} if codec == "lz4" else set()
        counts |= {(8, sizes.few), (100, sizes.few)} if size == 100 else set()
        for partitions, records in sorted(counts):
            print(stage.topic(size, partitions, records, codec), file=sys.stderr, flush=True)


def run_row(row: Row, stage: Stage, rounds: int) -> tuple[dict[str, dict[str, list[float]]], dict[str, str]]:
    """The figures of each contender, and the reasons of those that failed. Each round begins with another one.

    One round comes before, and does not count: it compiles the JVM's code and warms the page cache.
    """
    found: dict[str, dict[str, list[float]]] = {name: {} for name in row.contenders}
    errors: dict[str, str] = {}
    names = list(row.contenders)
    turns = min(rounds, row.most_rounds)
    for turn in range(-1 if row.is_warmed and turns > 1 else 0, turns):
        first = turn % len(names)
        for name in [*names[first:], *names[:first]]:
            if name in errors:
                continue
            stage.use_workers_of(name)
            try:
                figures = row.contenders[name](stage)
            except (ContenderError, PySparkException) as error:
                errors[name] = str(error).splitlines()[0]
                continue
            if turn >= 0:
                for figure, values in figures.items():
                    found[name].setdefault(figure, []).extend(values)
    return found, errors


def _measure(row: Row, stage: Stage, rounds: int, output: Path) -> bool:
    before = os.getloadavg()[0]
    begun = time.monotonic()
    found, errors = run_row(row, stage, rounds)
    load = [round(each, 1) for each in (before, os.getloadavg()[0])]
    print(f"\n{row.name} ({row.unit}; load {load[0]} to {load[1]}, {time.monotonic() - begun:.0f} s)")
    for line in lines(row, found):
        print(f"  {line}")
    for name, reason in errors.items():
        print(f"  {name} FAILED: {reason}")
    sys.stdout.flush()
    _keep(output, row, found, load, rounds)
    return not errors


def lines(row: Row, found: Mapping[str, Figures]) -> Iterator[str]:
    """A line for each contender, and one for each goal."""
    for name, figures in found.items():
        texts = []
        for figure, values in figures.items():
            if values:
                quantiles = " / ".join(f"{quantile(values, at):.3g}" for at in row.at)
                texts.append(f"{figure} {quantiles} ({min(values):.3g} to {max(values):.3g})")
        yield f"{name:22} {', '.join(texts)}"
    for goal in row.goals:
        judged = goal.judge(found)
        if judged is None:
            yield f"goal {goal.as_text()}: no figure"
            continue
        value, bound, is_met = judged
        share = f", {value / bound * goal.least:.2f} x" if goal.least is not None and goal.over else ""
        yield f"goal {goal.as_text()}: {value:.3g} beside {bound:.3g}{share}: {'met' if is_met else 'NOT MET'}"


def _keep(output: Path, row: Row, found: Mapping[str, Figures], load: Sequence[float], rounds: int) -> None:
    """Write the row into the file, beside the rows that it has."""
    kept: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {"rows": {}}
    kept["environment"] = environment()
    kept["rows"][row.name] = {
        "unit": row.unit,
        "when": kept["environment"]["when"],
        "commit": kept["environment"]["commit"],
        "load_average": load,
        "rounds": min(rounds, row.most_rounds),
        "contenders": found,
        "goals": [
            {
                "goal": goal.as_text(),
                "value": judged and judged[0],
                "bound": judged and judged[1],
                "met": judged and judged[2],
            }
            for goal in row.goals
            for judged in (goal.judge(found),)
        ],
    }
    output.write_text(json.dumps(kept, indent=1) + "\n")


def environment() -> dict[str, Any]:
    """The machine, the programs and their versions."""
    conditions = describe(ROOT)
    conditions["packages"]["pyspark"] = pyspark.__version__
    conditions["connector"] = CONNECTOR
    conditions["spark"] = f"local[{CORES}]"
    return conditions


@contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with KafkaCluster(properties=PROPERTIES, heap=HEAP, quick=False) as cluster:
        yield cluster.bootstrap


if __name__ == "__main__":
    sys.exit(main())
