"""librdkafka's suite: its `test-runner`, which the sources' own Makefiles compile."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafwire.testing.cluster.kafka import DEFAULT_VERSION as KAFKA_VERSION
from scripts.foreign_suites.kafka_tools import write_tools
from scripts.foreign_suites.left_out import never_run
from scripts.foreign_suites.outcomes import Outcome, read_librdkafka
from scripts.foreign_suites.running import SuiteError, broker, run
from scripts.foreign_suites.suite import Request, Suite, read_report, version_in

__all__ = ["LIBRDKAFKA"]

_BUILD_SECONDS = 1800
_AT_ONCE = 6
_NO_TEST = "none"  # a number without tests: the report then has the names of all
# -L: no test without a broker. -E: none with an emulated bad network, which takes over libc's sockets.
_OPTIONS = ["-L", "-E", "-p1"]
_PATIENCE = 3  # times a test's own limit
# As in the suite's tests/scenarios/default.json and tests/cluster_testing.py, and Kafka's own delay of rebalances.
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "3000",
    "num.partitions": "4",
    "default.replication.factor": "3",
    "auto.create.topics.enable": "true",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.share.min.record.lock.duration.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def _version(folder: Path) -> str:
    number = int(version_in(folder, "src/rdkafka.h", r"^#define RD_KAFKA_VERSION\s+(0x[0-9a-f]+)"), 16)
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8))


def _compiled(request: Request) -> Path:
    """Compile the library and the runner, if they are not; the folder of tests."""
    tests = request.sources / "tests"
    if (tests / "test-runner").exists():
        return tests
    log = request.folder / "build.txt"
    with log.open("wb") as out:
        for command in (["./configure", "--disable-curl"], ["make", "libs"], ["make", "-C", "tests", "build"]):
            try:
                done = subprocess.run(
                    command, cwd=request.sources, stdout=out, stderr=out, check=False, timeout=_BUILD_SECONDS
                )
            except (FileNotFoundError, subprocess.TimeoutExpired) as error:
                raise SuiteError(f"librdkafka does not compile: {error}") from None
            if done.returncode:
                end = log.read_text(errors="replace")[-2000:]
                raise SuiteError(f"librdkafka does not compile: {' '.join(command)} failed\n{end}")
    return tests


def _run_librdkafka(request: Request) -> tuple[dict[str, Outcome], bool]:
    """Run each number's tests by a process of their own: a test that hangs ends its runner, and no other."""
    tests = _compiled(request)
    conf = request.folder / "test.conf"
    deadline = time.monotonic() + request.limit_seconds
    options = [f"--property={name}={value}" for name, value in _PROPERTIES.items()]
    with broker(request.folder, "--nodes", "3", *options) as bootstrap:
        conf.write_text(
            f"metadata.broker.list={bootstrap}\ntest.topic.random=true\ntest.timeout.multiplier={_PATIENCE}\n"
        )
        environment = {
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "RDKAFKA_TEST_CONF": str(conf),
            "BROKERS": bootstrap,
            "KAFKA_PATH": str(write_tools(request.folder / "kafka")),
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
        }

        def outcomes_of(name: str, selection: Mapping[str, str]) -> tuple[dict[str, Outcome], bool]:
            report, output = request.folder / f"{name}.json", request.folder / f"{name}.txt"
            ended = run(
                ["./test-runner", *_OPTIONS],
                cwd=tests,
                limit_seconds=max(deadline - time.monotonic(), 1),
                environment={**environment, **selection, "TEST_REPORT": str(report)},
                output=output,
            )
            return read_report(report, read_librdkafka, output), ended

        known = outcomes_of(_NO_TEST, {"TESTS": _NO_TEST})[0]
        numbers = list(dict.fromkeys(map(_number, known)))

        def outcomes_of_number(number: str, name: str = "") -> tuple[dict[str, Outcome], bool]:
            # TESTS=number runs tests that are manual, too.
            return outcomes_of(name or number, {"TESTS_SKIP": ",".join(each for each in numbers if each != number)})

        def once_more(number: str) -> tuple[dict[str, Outcome], bool]:
            return outcomes_of_number(number, f"{number}-again")

        found, ended = dict(known), True
        chosen = _chosen(request, numbers)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for number, (outcomes, in_time) in _each(pool, outcomes_of_number, chosen):
                found |= _of_number(number, known, outcomes)
                ended = ended and in_time
        # Many tests measure times: one that fails beside others runs once more, alone.
        with ThreadPoolExecutor(1) as pool:
            for number, (outcomes, in_time) in _each(pool, once_more, _failed(request, found)):
                found |= _of_number(number, known, outcomes)
                ended = ended and in_time
    return found, ended


def _each(
    pool: ThreadPoolExecutor, function: Callable[[str], tuple[dict[str, Outcome], bool]], numbers: Sequence[str]
) -> Iterator[tuple[str, tuple[dict[str, Outcome], bool]]]:
    """The results by number; a runner that crashes has no report, and its tests no outcomes."""
    for number, future in [(number, pool.submit(function, number)) for number in numbers]:
        try:
            yield number, future.result()
        except SuiteError as error:
            print(f"librdkafka {number}: {error}", flush=True)
            yield number, ({}, True)


def _number(name: str) -> str:
    return name.partition("_")[0]


def _of_number(number: str, names: Iterable[str], outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    return {name: outcomes.get(name, Outcome.FAILED) for name in names if _number(name) == number}


def _failed(request: Request, outcomes: Mapping[str, Outcome]) -> list[str]:
    """The numbers with a failed test that is not left out."""
    failed = [name for name, outcome in outcomes.items() if outcome is Outcome.FAILED]
    return list(dict.fromkeys(_number(n) for n in failed if not any(entry.matches(n) for entry in request.left_out)))


def _chosen(request: Request, numbers: Iterable[str]) -> list[str]:
    """The numbers to run: higher ones first, as their tests take longer."""
    never = {_number(entry.name) for entry in never_run(request.left_out)}
    return sorted((each for each in numbers if each not in never and each in (request.only or each)), reverse=True)


LIBRDKAFKA = Suite("librdkafka", _version, _run_librdkafka, 3600)
