"""The command line: `python -m benchmarks [ROW ...] [--short] [--all]`. See README.md in this folder."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.counted import counted_broker
from benchmarks.environment import describe
from benchmarks.measure import ROOT, WRITES, Bench
from benchmarks.payload import write_pool
from benchmarks.programs import BuildError, build_floor
from benchmarks.readme_figure import update_project_readme
from benchmarks.replayed import replay_server
from benchmarks.report import render, update_readme
from benchmarks.rounds import Figure, as_json, run_row
from benchmarks.row import Row, Topic
from benchmarks.rows import ROWS, choose
from benchmarks.topics import Topics
from kafwire.broker.security.certificates import Certificates, make_certificates

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "benchmarks"
HEAP = "2g"
# Topics that are written to go at once when deleted, and nothing else happens on its own during a round.
PROPERTIES = {"log.segment.delete.delay.ms": "0", "log.cleaner.enable": "false"}
# A join is as long as the clients make it, not as the broker's defaults do.
PROPERTIES |= {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
}

READ_RECORDS = {100: 2_500_000, 1000: 400_000}
READS = {"consume", "tls", "beside", "cpu", "memory", "decode", "group", "rebalance", "commit", "share"}
MEMORY_ROUNDS = 2  # a high-water mark hardly varies
WRITE_RECORDS = {100: 2_000_000, 1000: 300_000}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON. 0 when every contender did its work; goals are shown, not enforced."""
    chosen = _parser().parse_args(arguments)
    if chosen.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    try:
        rows = choose(chosen.rows, short=chosen.short)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    rounds, seconds, scale = (1, 0.2, 0.1) if chosen.short else (chosen.rounds, chosen.seconds, 1.0)
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.profile:
        chosen.profile.mkdir(parents=True, exist_ok=True)
    environment = describe(ROOT)
    environment["form"] = {"rounds": rounds, "seconds": seconds, "short": chosen.short}
    try:
        with open_bench(rows, folder, seconds, scale, chosen.bootstrap) as opened:
            environment["broker"] = opened.broker
            bench = opened.bench
            bench.perf_folder = chosen.profile.absolute() if chosen.profile else None
            results = _measure(rows, bench, rounds, short=chosen.short, context=chosen.all, only=chosen.contender)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return _finish(chosen, results, opened.topics, environment)


class OpenBench(NamedTuple):
    """A bench with its broker running, the topics that its rows read, and a description of the broker."""

    bench: Bench
    topics: dict[str, Any]
    broker: dict[str, Any]


@contextmanager
def open_bench(
    rows: Sequence[Row], folder: Path, seconds: float, scale: float, bootstrap: str | None
) -> Iterator[OpenBench]:
    """Start a broker, unless one is given, and prepare what the rows need. All ends with the block."""
    certificates = _certificates(folder)
    with _broker(bootstrap, certificates) as broker, ExitStack() as stack:
        bench, topics = _prepare(rows, broker.bootstrap, folder, seconds, scale)
        bench.broker_pid = broker.pid
        bench.secured, bench.ca_pem = broker.secured, certificates.ca_pem
        bench.open_replay = lambda topic: stack.enter_context(
            replay_server(
                folder,
                topic,
                bench.read_records[topic.value_bytes],
                bench.payloads[topic.value_bytes],
                certificates.server_pem,
            )
        )
        if not bootstrap:
            bench.open_counted = lambda: stack.enter_context(counted_broker(folder, heap=HEAP, properties=PROPERTIES))
        yield OpenBench(bench, topics, broker.conditions)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a row, how rows begin, or a pattern (default: all)")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--short", action="store_true", help="small topics, one round, fewer rows: a smoke test")
    parser.add_argument("--all", action="store_true", help="with contenders that are shown for context only")
    parser.add_argument("--contender", action="append", metavar="NAME", help="only contenders whose name starts so")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per contender (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="least seconds per round (default: 2)")
    parser.add_argument("--bootstrap", help="a single broker that runs already (default: one is started)")
    parser.add_argument("--folder", type=Path, default=BUILD, help="for programs, payloads, partial results")
    parser.add_argument("--output", type=Path, help="the JSON file")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="run every contender under `perf record`")
    return parser


class _Broker(NamedTuple):
    """The broker of the rounds; `secured` is its listener with TLS, if it has one."""

    bootstrap: str
    secured: str | None
    pid: int | None
    conditions: dict[str, Any]


def _certificates(folder: Path) -> Certificates:
    """New ones for each run, of the broker and of the server that replays."""
    own = folder / "certificates"
    own.mkdir(mode=0o700, exist_ok=True)
    return make_certificates(own)


@contextmanager
def _broker(bootstrap: str | None, certificates: Certificates) -> Iterator[_Broker]:
    if bootstrap:
        yield _Broker(bootstrap, None, None, {"given": "a broker that ran already"})
        return
    from kafwire.testing import KafkaCluster, Security  # not needed with --bootstrap

    listener = Security("SSL", server_pem=certificates.server_pem)
    with KafkaCluster(properties=PROPERTIES, heap=HEAP, quick=False, security=listener) as cluster:
        conditions = {"kafka": cluster.version, "nodes": 1, "heap": HEAP, **PROPERTIES}
        yield _Broker(cluster.direct, cluster.bootstrap, cluster.node(1).pid, conditions)


def _prepare(
    rows: Sequence[Row], bootstrap: str, folder: Path, seconds: float, scale: float
) -> tuple[Bench, dict[str, Any]]:
    """Payloads, programs, and the topics that the rows read."""
    floor = build_floor(folder)
    topics = Topics(bootstrap, floor)
    payloads = {size: write_pool(folder, size) for size in READ_RECORDS}
    read_records = {size: int(count * scale) for size, count in READ_RECORDS.items()}
    write_records = {size: int(count * scale) for size, count in WRITE_RECORDS.items()}
    sources: dict[Topic, str] = {}
    blobs: dict[Topic, Path] = {}
    found: dict[str, Any] = {}
    for topic in dict.fromkeys(row.topic for row in rows if _reads(row)):
        size = topic.value_bytes
        blobs[topic] = folder / f"batches-{topic.name}.bin"
        sources[topic], found[topic.name] = topics.fill(topic, read_records[size], payloads[size], blobs[topic])
        tell(f"filled {topic.name}: {found[topic.name]}")
    return (
        Bench(bootstrap, topics, floor, folder, seconds, read_records, write_records, payloads, sources, blobs),
        found,
    )


def _reads(row: Row) -> bool:
    """True if a row reads a topic that is filled before the rounds."""
    if row.kind == "stream":
        return any("guarantee" in one.options for one in row.contenders)
    return row.kind in READS and not row.replayed and any(one.task not in WRITES for one in row.contenders)


def _measure(
    rows: Sequence[Row], bench: Bench, rounds: int, *, short: bool, context: bool, only: Sequence[str] | None
) -> list[tuple[Row, Mapping[str, Figure]]]:
    results: list[tuple[Row, Mapping[str, Figure]]] = []
    for row in rows:
        contenders = [
            one
            for one in row.contenders
            if (context or not one.context) and (not only or any(one.name.startswith(name) for name in only))
        ]
        if short:
            contenders = [replace(one, variants=dict(list(one.variants.items())[:1])) for one in contenders]
        turns = min(rounds, MEMORY_ROUNDS) if row.kind in {"memory", "pressure"} else rounds
        try:
            results.append((row, run_row(row, contenders, turns, bench.measure, tell)))
        except KeyboardInterrupt:
            tell("interrupted: what was measured so far follows")
            break
    return results


def _finish(
    chosen: argparse.Namespace,
    results: Sequence[tuple[Row, Mapping[str, Figure]]],
    topics: Mapping[str, Any],
    environment: Mapping[str, Any],
) -> int:
    """Print, write, and say by the exit code whether all is well."""
    tables = render(results, topics, environment)
    print(tables)
    if chosen.short:
        print("The short form shows that everything works; its figures are those of small topics and one round.")
    records = {"environment": environment, "topics": topics, "rows": [as_json(row, found) for row, found in results]}
    # Only a whole long run on a broker of its own replaces the figures that are kept in the repository.
    partial = chosen.rows or chosen.contender or chosen.short or chosen.bootstrap or chosen.profile
    whole = not partial and len(results) == len(ROWS)
    output: Path = chosen.output or (HERE / "results.json" if whole else chosen.folder / "results.json")
    output.write_text(json.dumps(records, indent=1) + "\n")
    if whole and not chosen.output:
        update_readme(HERE / "README.md", tables)
        update_project_readme(HERE.parent / "README.md", records)
    tell(f"written: {output}")
    failed = any(figure.error for _, found in results for figure in found.values())
    return int(failed)


def tell(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
