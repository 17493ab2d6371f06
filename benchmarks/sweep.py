"""`linger_ms`, `batch_size` and requests in flight: `python -m benchmarks.sweep`, or `make bench-sweep`.

For each combination: how many records `send()` gets rid of one by one as fast as it can, and how long a record takes to
its acknowledgement at a steady pace that is far below that. The log gives the number of written records.

A whole run puts its table between the marks of docs/internals/results/producer.md, its plot beside it; any other run
writes both into the build folder, with the JSON.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import describe
from benchmarks.measure import ROOT, converse
from benchmarks.payload import write_pool
from benchmarks.programs import BuildError, build_floor
from benchmarks.rounds import ContenderError
from benchmarks.run import BUILD, HEAP, PROPERTIES
from benchmarks.sweep_report import draw, render, update_document
from benchmarks.topics import Topics
from kafwire.testing.cluster import KafkaCluster

LINGERS_MS = (0, 5, 50)
BATCH_SIZES = (16_384, 131_072, 1_048_576)
IN_FLIGHT = (1, 5)
VALUE_BYTES = 100
FLOOD_RECORDS = 500_000
BURST, INTERVAL_US, WARMUP = 10, 1_000, 1_000
DOCUMENT = ROOT / "docs" / "internals" / "results" / "producer.md"
PLOT = ROOT / "docs" / "internals" / "results" / "producing-sweep.png"

Cell = dict[str, Any]
Run = Callable[[Mapping[str, str]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Runner:
    """One broker, and how to run one combination on it."""

    bootstrap: str
    topics: Topics
    payload: Path
    seconds: float
    scale: float

    def run(self, configuration: Mapping[str, str]) -> Mapping[str, float]:
        """The figures of one round; `ContenderError` when it fails, or not all is in the log."""
        records = int(FLOOD_RECORDS * self.scale)
        flood, stored = self._write("kafwire", "send", configuration, {"records": records, "seconds": self.seconds})
        taken = sum(one["records"] for one in flood["passes"])
        figures = {
            "records_per_second": taken / sum(one["seconds"] for one in flood["passes"]),
            "cpu_us": flood["cpu_seconds"] / taken * 1e6,
            "records_per_batch": taken / stored["batches"],
        }
        records = max(int(self.seconds * 1e6 / INTERVAL_US * BURST), 100)
        steady = {"records": records, "warmup": WARMUP, "burst": BURST, "interval_us": INTERVAL_US, "seconds": 0}
        paced, stored = self._write("kafwire_sweep", "pace", configuration, steady)
        figures |= paced["passes"][0]["figures"]
        return figures | {"paced_records_per_batch": stored["records"] / stored["batches"]}

    def _write(
        self, worker: str, task: str, configuration: Mapping[str, str], options: Mapping[str, object]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        topic = "sweep"
        self.topics.create(topic)
        try:
            given = {"bootstrap": self.bootstrap, "topic": topic, "payload": self.payload, "value_bytes": VALUE_BYTES}
            arguments = [f"{name}={value}" for name, value in {**given, **options, **configuration}.items()]
            result = converse([sys.executable, "-m", f"benchmarks.workers.{worker}", task, *arguments])
            stored = self.topics.inspect(topic)
        finally:
            self.topics.delete(topic)
        claimed = sum(one["records"] for one in result["passes"])
        if claimed != stored["records"]:
            raise ContenderError(f"claims {claimed} records, the broker has {stored['records']}")
        return result, stored


def measure(run: Run, rounds: int, progress: Callable[[str], None]) -> list[Cell]:
    """All combinations, each with the figures of its rounds; one that fails once is out, with the reason.

    A round is one run of each, so that a busy moment of the machine does not meet one of them only.
    """
    cells: list[Cell] = [
        {"linger_ms": linger, "batch_size": size, "in_flight": flying, "rounds": [], "error": ""}
        for linger, size, flying in itertools.product(LINGERS_MS, BATCH_SIZES, IN_FLIGHT)
    ]
    for number in range(rounds):
        first = number * len(cells) // rounds
        for cell in [*cells[first:], *cells[:first]]:
            if cell["error"]:
                continue
            name = f"linger {cell['linger_ms']} ms, batches of {cell['batch_size']}, {cell['in_flight']} in flight"
            configuration = {
                "conf.linger_ms": str(cell["linger_ms"]),
                "conf.batch_size": str(cell["batch_size"]),
                "conf.max_in_flight_requests_per_connection": str(cell["in_flight"]),
            }
            try:
                cell["rounds"].append(dict(run(configuration)))
            except ContenderError as error:
                cell["error"] = str(error)
            found = cell["error"] or ", ".join(f"{figure} {one:.4g}" for figure, one in cell["rounds"][-1].items())
            progress(f"{name}: {found}")
    return cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write JSON, table and plot; 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a smoke test: little data, one round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per combination (default: 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="least seconds per figure (default: 2)")
    parser.add_argument("--folder", type=Path, default=BUILD, help="for programs, payloads, the JSON")
    parser.add_argument("--render", type=Path, metavar="JSON", help="measure nothing: table and plot of an earlier run")
    chosen = parser.parse_args(arguments)
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.render:
        record = json.loads(chosen.render.read_text())
    else:
        try:
            record = _measure_all(chosen, folder)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
        (folder / "sweep.json").write_text(json.dumps(record, indent=1) + "\n")
    tables = render(record)
    print(tables)
    if chosen.short:
        draw(record, folder / PLOT.name)
        (folder / "sweep.md").write_text(tables)
    else:
        draw(record, PLOT)
        update_document(DOCUMENT, f"![Latency against throughput]({PLOT.name})\n\n{tables}")
    return int(any(cell["error"] for cell in record["cells"]))


def _measure_all(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    rounds, seconds, scale = (1, 0.1, 0.02) if chosen.short else (chosen.rounds, chosen.seconds, 1.0)
    environment = describe(ROOT)
    with KafkaCluster(properties=PROPERTIES, heap=HEAP, quick=False) as cluster:
        topics = Topics(cluster.bootstrap, build_floor(folder))
        runner = Runner(cluster.bootstrap, topics, write_pool(folder, VALUE_BYTES), seconds, scale)
        runner.run({"conf.linger_ms": "5"})  # the broker's code is compiled before anything counts
        cells = measure(runner.run, rounds, lambda line: print(line, file=sys.stderr, flush=True))
    form = {
        "rounds": rounds,
        "seconds": seconds,
        "value_bytes": VALUE_BYTES,
        "pace": BURST * 1_000_000 // INTERVAL_US,
        "burst": BURST,
    }
    return {"environment": environment, "form": form, "cells": cells}


if __name__ == "__main__":
    sys.exit(main())
