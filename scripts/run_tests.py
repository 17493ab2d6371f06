"""Run all tests, and say which were the slowest, what each part took, and last which failed.

    python -m scripts.run_tests              # the everyday run
    python -m scripts.run_tests --shard 3    # a part of the long run; or all; or commit: one by its number

The everyday run is the same every time: seeds are fixed (tests/support/seeds.py). The long run draws and prints fresh
ones, but for the part that a commit chooses.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from kafwire.broker.profiles import PROFILES
from scripts.other_pythons import interpreters

ROOT = Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 1
SLOWEST = 20
# Characters of an error that are printed once more at the end.
ERROR_LENGTH = 400
FRESH = {"KAFWIRE_SEED": "fresh"}
# Real brokers for tests that the everyday run does on embedded ones (tests/support/broker/either_kafka.py).
ON_KAFKA = {"KAFKA": "real"}
MORE = {**FRESH, "KAFWIRE_EXAMPLES": "10"}
# Suites of other clients: names, or with sources of the user's NAME=FOLDER (scripts/foreign_suites).
FOREIGN = os.environ.get("SUITES", "kafka-python").split()
PYTHON = sys.executable
PYTEST = [PYTHON, "-m", "pytest", "-q"]
UNIT = [*PYTEST, "-n", str(JOBS), "--maxschedchunk=8", "tests/unit"]
# Brokers and Spark wait more than they compute.
SPREAD = [*PYTEST, "-n", str(JOBS + 2), "--dist", "loadgroup", "--ignore=tests/fuzz"]
REAL = [*SPREAD, "--ignore=tests/unit"]
OTHERS = [PYTHON, "scripts/other_pythons.py"]
# Tests that each profile of a server passes in 9 to 21 s (tests/support/broker/server_gaps.py).
ON_SERVERS = [f"tests/integration/{name}" for name in ("admin", "client", "consumer/test_scan_and_batching.py")]
# The tests that commits run in turn (tests/support/parts.py).
WITHOUT, ONLY = "--in-turn=without", "--in-turn=only"


@dataclass(frozen=True)
class Step:
    """A command, and what its environment has besides."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    # The step that runs beside it at a low priority: its output follows.
    beside: Step | None = None


EVERYDAY = [
    Step("unit", [*UNIT, WITHOUT]),
    # Which wait: the cores have time for more.
    Step(
        "brokers, Spark, Java",
        [*REAL, WITHOUT, "tests"],
        beside=Step("the newest other Python", ["nice", *OTHERS, "--boundary"]),
    ),
]


def parted(name: str, parts: int, command: list[str], environment: dict[str, str] = FRESH) -> list[Step]:
    """The steps of a command that runs all files of tests, or every nth."""
    return [
        Step(f"{name}, {part}/{parts}", [*command, f"--part={part}/{parts}"], environment)
        for part in range(1, parts + 1)
    ]


# The steps that the everyday run leaves out: each commit runs one of them.
SHARDS = [
    *parted("clusters that are struck, and machines", 2, [*SPREAD, ONLY, "tests"]),
    *parted("Java's classes", 3, [*REAL, "tests/conformance"], MORE),
    *(Step(f"unit on Python {a}.{b}", [*OTHERS, "--only", f"{a}.{b}"]) for a, b in sorted(interpreters())),
    Step("some clients on profiles of servers", ["make", "test-servers", f"ON_SERVERS={' '.join(ON_SERVERS)}"]),
]
# And what takes longer, on demand.
LONG = [
    *SHARDS,
    *parted("unit, long", 10, [*UNIT, "--long"], MORE),
    *parted(
        "brokers and Spark, long",
        4,
        [*REAL, "--long", "-m", "long", "--ignore=tests/conformance", "tests"],
        FRESH | ON_KAFKA,
    ),
    Step("brokers and Spark, fresh seeds", [*REAL, "--long", "--ignore=tests/conformance", "tests"], FRESH | ON_KAFKA),
    Step("schedules", [*UNIT, "--long", "-k", "schedules or random"], {**FRESH, "KAFWIRE_EXAMPLES": "25"}),
    Step(
        "coverage of Python's lines", [*UNIT, "--cov=kafwire", "--cov-branch", "--cov-report=term-missing:skip-covered"]
    ),
    *(Step(f"clients on the profile {name}", ["make", "test-servers", f"SERVERS={name}"]) for name in PROFILES),
    Step("soak", ["make", "soak", "MINUTES=60"]),
    Step("fuzz", ["make", "fuzz", "SECONDS=1800", "CHAOS=memory threads"]),
    Step("suites of other clients", [PYTHON, "-m", "scripts.foreign_suites", *FOREIGN]),
]


def shards(chosen: str) -> list[Step]:
    """The parts of the long run that were asked for."""
    if chosen == "all":
        return LONG
    if chosen == "commit":
        asked = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        step = SHARDS[int(asked.stdout) % len(SHARDS)]
        # A change is judged by what the change did: the same commit draws the same.
        return [replace(step, environment=step.environment | {"KAFWIRE_SEED": ""})]
    return [LONG[int(chosen) - 1]]


def run(step: Step, durations: Path) -> list[tuple[Step, float, bool]]:
    """Run a step, and the one beside it: each with the seconds that it took, and True if it passed."""
    print(f"=== {step.name}: {shlex.join(step.command)}", flush=True)
    with tempfile.TemporaryFile("w+") as log, ThreadPoolExecutor() as pool:
        other = pool.submit(outcome, step.beside, durations, log) if step.beside else None
        results = [outcome(step, durations)]
        if other is not None and step.beside is not None:
            results.append(other.result())
            print(f"=== {step.beside.name}, beside it: {shlex.join(step.beside.command)}", flush=True)
            log.seek(0)
            shutil.copyfileobj(log, sys.stdout)
    return results


def outcome(step: Step, durations: Path, log: IO[str] | None = None) -> tuple[Step, float, bool]:
    """Run the command of a step, with its output in `log` if there is one."""
    began = time.monotonic()
    environment = {**os.environ, **step.environment, "KAFWIRE_DURATIONS": str(durations)}
    done = subprocess.run(step.command, cwd=ROOT, env=environment, check=False, stdout=log, stderr=log)
    return step, time.monotonic() - began, done.returncode == 0


def outcomes(durations: Path) -> list[tuple[float, str, str]]:
    """The seconds of every test, its name, and its error or nothing (tests/support/parts.py)."""
    rows = [line.split("\t") for line in durations.read_text().splitlines()] if durations.exists() else []
    return [(float(seconds), name, error) for seconds, name, error in rows]


def slowest(tests: list[tuple[float, str, str]]) -> Iterator[str]:
    """Lines about the slowest tests."""
    for seconds, name, _ in sorted(tests, reverse=True)[:SLOWEST]:
        yield f"{seconds:8.1f} s  {name}"


def failed(tests: list[tuple[float, str, str]]) -> Iterator[str]:
    """Lines about the tests that failed, with the ends of their errors."""
    for _, name, error in tests:
        if error:
            yield f"FAILED {name}\n    {error[-ERROR_LENGTH:]}"


def main() -> int:
    """Parse the command line, run the steps, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = [str(number) for number in range(1, len(LONG) + 1)]
    parser.add_argument(
        "--shard", choices=["all", "commit", *numbers], help="; ".join(f"{n}: {s.name}" for n, s in enumerate(LONG, 1))
    )
    options = parser.parse_args()
    steps = shards(options.shard) if options.shard else EVERYDAY
    with tempfile.TemporaryDirectory() as folder:
        durations = Path(folder) / "durations"
        began = time.monotonic()
        results = [result for step in steps for result in run(step, durations)]
        took = time.monotonic() - began
        tests = outcomes(durations)
    print(f"=== the slowest {SLOWEST}", *slowest(tests), sep="\n")
    print("=== time")
    for step, seconds, passed in results:
        print(f"{seconds:8.0f} s  {'passed' if passed else 'FAILED'}  {step.name}")
    print(f"{took:8.0f} s  in all", *failed(tests), sep="\n", flush=True)
    return 0 if all(passed for *_, passed in results) else 1


if __name__ == "__main__":
    sys.exit(main())
