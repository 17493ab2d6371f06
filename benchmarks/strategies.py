"""The strategies of fetching side by side: `python -m benchmarks.strategies`, or `make bench-strategies`.

For each strategy and number of partitions: how much flows, how many requests the broker gets for it and while almost
nothing flows, how many connections are open, and how long a record of a quiet partition takes: alone, while another
partition is flooded, while another one's user is slow. All through the proxy that counts (`counted.py`), so compare
figures within the table only.

A whole run puts its table between the marks of docs/internals/results/consumer.md, its plot beside it; any other run
writes both into the build folder, with the JSON.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.counted import CLIENT_ID, Counted, counted_broker
from benchmarks.environment import describe
from benchmarks.measure import ROOT, converse
from benchmarks.payload import write_pool
from benchmarks.programs import BuildError, build_floor
from benchmarks.rounds import ContenderError
from benchmarks.row import SMALL_BATCH, Topic
from benchmarks.run import BUILD, HEAP, PROPERTIES
from benchmarks.strategies_report import draw, render, update_document
from benchmarks.strategies_rounds import NEED_ANOTHER, PARTITIONS, STRATEGIES, measure
from benchmarks.topics import Topics

VALUE_BYTES = 1000
FLOOD_RECORDS, DEEP_RECORDS = 300_000, 400_000
# More than a client fetches ahead: a client that has fetched up to the end has a request parked there, and a seek waits
# for it.
LAST_RECORDS = 100_000
LEAST_DEEP_RECORDS = 2 * LAST_RECORDS
INTERVAL_US, WARMUP = 5_000, 400
DOCUMENT = ROOT / "docs" / "internals" / "results" / "consumer.md"
PLOT = ROOT / "docs" / "internals" / "results" / "fetching-strategies.png"


@dataclass(frozen=True, slots=True)
class Runner:
    """One broker, its topics, and how to run one scenario on them."""

    broker: Counted
    topics: Topics
    folder: Path
    payload: Path
    seconds: float
    scale: float

    def flood_topic(self, partitions: int) -> tuple[str, int]:
        """A topic that is full, and how many records it holds."""
        return self._filled(partitions, int(FLOOD_RECORDS * self.scale))

    def deep_topic(self) -> tuple[str, int]:
        """A topic of one partition, deep enough to be read for a while."""
        return self._filled(1, max(int(DEEP_RECORDS * self.scale), LEAST_DEEP_RECORDS))

    def quiet_topic(self, partitions: int) -> str:
        """An empty topic; what the trickle of earlier rounds left in its first partition is passed over."""
        name = f"quiet-x{partitions}"
        if not self.topics.exists(name):
            self.topics.create(name, partitions)
        return name

    def run(self, strategy: str, partitions: int, scenario: str) -> Mapping[str, float]:
        """The figures of one round; `ContenderError` when it fails."""
        options: dict[str, object] = {
            "bootstrap": self.broker.bootstrap,
            "report": self.broker.report,
            "seconds": 0,
            "conf.client_id": CLIENT_ID,
            **STRATEGIES[strategy],
        }
        if scenario == "flood":
            topic, records = self.flood_topic(partitions)
            options |= {"topic": topic, "records": records, "seconds": self.seconds}
        else:
            topic = self.quiet_topic(partitions)
            options |= {
                "topic": topic,
                "records": max(int(self.seconds * 1e6 / INTERVAL_US), 100),
                "warmup": WARMUP,
                "interval_us": INTERVAL_US,
                "value_bytes": 100,
                "partitions": 1,  # the trickle's
                "among": partitions,
                "offset": self._end(topic),
            }
        if scenario in NEED_ANOTHER:
            deep, records = self.deep_topic()
            options |= {"deep": deep, "turn_back": records - LAST_RECORDS}
        program = [sys.executable, "-m", "benchmarks.workers.kafwire_strategies", scenario]
        result = converse([*program, *(f"{name}={value}" for name, value in options.items())])
        if scenario == "flood" and any(one["records"] != options["records"] for one in result["passes"]):
            raise ContenderError(f"read {result['passes'][0]['records']} records of {options['records']}")
        names = result["passes"][0]["figures"]
        return {name: statistics.median(one["figures"][name] for one in result["passes"]) for name in names}

    def _filled(self, partitions: int, records: int) -> tuple[str, int]:
        topic = Topic(VALUE_BYTES, "none", SMALL_BATCH, partitions)
        records -= records % partitions
        if not self.topics.exists(self.topics.name(topic, records)):
            self.topics.fill(topic, records, self.payload, self.folder / "unused.bin")
        return self.topics.name(topic, records), records

    def _end(self, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "strategies-harness"})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30.0)
        finally:
            consumer.close()
        return int(end)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write JSON, table and plot; 0 when nothing failed."""
    chosen = _parser().parse_args(arguments)
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    whole = not (chosen.short or chosen.strategy or chosen.partitions)
    if chosen.render:
        record = json.loads(chosen.render.read_text())
    else:
        try:
            record = _measure_all(chosen, folder)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
        output = folder / "strategies.json"
        output.write_text(json.dumps(record, indent=1) + "\n")
        _progress(f"written: {output}")
    tables = render(record)
    print(tables)
    if whole:
        draw(record, PLOT)
        update_document(DOCUMENT, f"![What each strategy costs and gives]({PLOT.name})\n\n{tables}")
    else:
        draw(record, folder / PLOT.name)
        (folder / "strategies.md").write_text(tables)
    return int(any(cell["error"] for cell in record["cells"]))


def _measure_all(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    rounds, seconds, scale = (1, 0.3, 0.05) if chosen.short else (chosen.rounds, chosen.seconds, 1.0)
    partitions = chosen.partitions or (PARTITIONS[:2] if chosen.short else PARTITIONS)
    environment = describe(ROOT)
    with counted_broker(folder, heap=HEAP, properties=PROPERTIES) as broker:
        topics = Topics(broker.bootstrap, build_floor(folder))
        runner = Runner(broker, topics, folder, write_pool(folder, VALUE_BYTES), seconds, scale)
        started = time.monotonic()
        cells = measure(runner.run, chosen.strategy or list(STRATEGIES), partitions, rounds, _progress)
    return {
        "environment": environment,
        "form": {
            "rounds": rounds,
            "seconds": seconds,
            "flood_records": int(FLOOD_RECORDS * scale),
            "value_bytes": VALUE_BYTES,
            "interval_us": INTERVAL_US,
            "took_seconds": round(time.monotonic() - started),
        },
        "cells": cells,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strategies", description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="a smoke test: 1 and 10 partitions, little data, one round"
    )
    parser.add_argument("--strategy", action="append", choices=list(STRATEGIES), help="only this one; repeatable")
    parser.add_argument("--partitions", action="append", type=int, metavar="N", help="only so many; repeatable")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per cell (default: 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="least seconds per round (default: 4)")
    parser.add_argument("--folder", type=Path, default=BUILD, help="for programs, payloads, the JSON")
    parser.add_argument("--render", type=Path, metavar="JSON", help="measure nothing: table and plot of an earlier run")
    return parser


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
