"""How tests are spread over processes and runs.

With `--dist loadgroup`, the tests of a file run in one process, and so do those of several files that share a cluster
that is slow to start. `KAFWIRE_DURATIONS` names a file that gets a line with the seconds of every test, and of one that
failed with its error; `--part 2/5` runs every fifth file, the second of each five; `--in-turn` runs or leaves out the
tests that are too long for every run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

# The files that share a Spark session, or a cluster of three nodes.
TOGETHER = {
    "tests/spark/": "spark",
    "tests/integration/cluster/test_three_": "three nodes",
}
# These groups begin first: begun late, they would keep one process busy when the others have ended.
FIRST = ("spark", "three nodes")

# Tests that commits run in turn, and the everyday run leaves out: clusters that one test starts and strikes, machines
# that judge the tests, and programs whose parts have tests of their own.
IN_TURN = (
    "tests/integration/test_benchmark_programs.py",
    "tests/integration/broker/test_broker_share_groups_compared.py",
    "tests/integration/cluster/test_cluster_parted.py",
    "tests/integration/consumer/test_concealed_aborts.py",
    "tests/integration/outbox/test_database_offsets_postgresql.py",
    "tests/integration/security/test_delegation_tokens.py",
    "tests/integration/cli/test_doctor_on_broker.py",
    "tests/integration/docs/test_examples.py",
    "tests/integration/broker/test_forgetful_broker.py",
    "tests/integration/cluster/test_kafka_cluster",
    "tests/integration/outbox/test_outbox_postgresql",
    "tests/integration/security/test_secrets.py",
    "tests/integration/soak/test_soak_",
    "tests/integration/spark/test_spark_processes.py",
    "tests/integration/cluster/test_three_consumer.py",
    "tests/integration/cluster/test_three_controller.py",
    "tests/integration/cluster/test_three_faults.py",
    "tests/integration/cluster/test_three_nodes.py",
    "tests/integration/cluster/test_three_sink_drivers.py",
    "tests/integration/producer/test_transaction_faults.py",
    "tests/spark/test_spark_read.py",
    "tests/unit/records/test_codec_memory.py",
    "tests/unit/scripts/",
    "tests/unit/test_settings_of_tests.py",
    "tests/unit/testing/fuzzer/test_campaign.py",
    "tests/unit/testing/strategies/",
)


def group(nodeid: str) -> str:
    """Which tests run in the process of this one."""
    file = nodeid.split("::", 1)[0]
    return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addoption("--part", default="1/1", help="k/n: run the files of the kth of n parts (default: all)")
    parser.addoption(
        "--in-turn",
        choices=["with", "without", "only"],
        default="with",
        help="tests that commits run in turn: with the rest (default), left out, or alone",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the part, and put long groups first."""
    part, parts = map(int, str(config.getoption("--part")).split("/"))
    in_turn = config.getoption("--in-turn")
    files = sorted(
        {item.path for item in items if in_turn == "with" or (in_turn == "only") == item.nodeid.startswith(IN_TURN)}
    )
    chosen = set(files[part - 1 :: parts])
    config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
    order = {name: number for number, name in enumerate(FIRST)}
    items[:] = [item for item in items if item.path in chosen]
    items.sort(key=lambda item: order.get(group(item.nodeid), len(order)))


class _Groups(LoadGroupScheduling):  # type: ignore[misc]  # xdist is not typed
    """Groups by names: those by marks need node ids, which pytest 9.2 keeps fixed (xdist 3.8)."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """Spread groups instead of tests, if groups were asked for."""
    return _Groups(config, log) if config.getoption("dist") == "loadgroup" else None


_seconds: dict[str, float] = {}
_errors: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down how long a test took, with what was set up and torn down for it, and the error it failed with."""
    file = os.environ.get("KAFWIRE_DURATIONS")
    if file is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _errors.setdefault(report.nodeid, " ".join(report.longreprtext.splitlines()[-12:]) or "failed")
    if report.when == "teardown":
        with Path(file).open("a") as lines:
            error = " ".join(_errors.pop(report.nodeid, "").split())
            lines.write(f"{_seconds.pop(report.nodeid):.3f}\t{report.nodeid}\t{error}\n")
