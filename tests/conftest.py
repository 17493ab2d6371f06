"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support import seeds

if TYPE_CHECKING:
    from kafwire.testing import EmbeddedKafka, KafkaCluster

pytest_plugins = ["kafwire.testing.pytest_plugin", "tests.support.parts", "tests.support.broker.server_gaps"]

# Where a test may be skipped, what it says then, and why that is no gap. For any other reason, it has failed; and for
# any at all where $KAFWIRE_NO_SKIPS is set, as what the tests need was installed for them.
MAY_BE_SKIPPED = [
    ("tests/unit/runtime/test_io.py::", "no IPv6 here", "some containers have none"),
    ("tests/unit/runtime/test_io.py::", "lets no user make a network namespace", "some containers forbid it"),
    *(
        (
            where,
            "no MIT Kerberos here|could not import 'gssapi'",
            "Kerberos is an extra, compiled against its libraries",
        )
        for where in (
            "tests/unit/security/sasl/test_gssapi.py",
            "tests/unit/security/test_login.py::test_gssapi",
            "tests/conformance/test_java_kerberos.py",
            "tests/integration/security/test_security_gssapi.py",
        )
    ),
    *(
        (
            f"tests/conformance/test_confluent_{name}.py",
            rf"confluent-kafka\[{extras},schemaregistry\] is not installed",
            "an environment of before has confluent-kafka without its extras",
        )
        for name, extras in (("avro", "avro"), ("protobuf", "protobuf"), ("guids", "avro,protobuf"))
    ),
    (
        "tests/integration/cluster/test_kafka_cluster_gssapi.py",
        "no MIT Kerberos here",
        "a KDC is of Debian's packages, and not in every container",
    ),
    *(
        (
            where,
            "no PostgreSQL here|could not import 'psycopg",
            "a server is of Debian's packages, its drivers an extra",
        )
        for where in (
            "tests/integration/docs/test_docs_django_postgresql",
            "tests/integration/outbox/test_outbox_postgresql",
            "tests/integration/outbox/test_database_offsets_postgresql",
            "tests/integration/spark/test_spark_database_postgresql",
        )
    ),
    (
        "tests/integration/docs/test_dashboard_prometheus.py::",
        "no Prometheus here",
        "it is Debian's package; tests/unit/test_docs_metrics.py compares the names in any case",
    ),
    (
        "tests/integration/docs/test_docs_porting_kcat.py::",
        r"no kcat here|kcat [\d.]+ here",
        "it is Debian's package; what 1.7.1 does is recorded, and compared in any case",
    ),
    *(
        (where, "could not import 'pyspark'|could not import 'matplotlib'", "extras, which the group `unit` leaves out")
        for where in (
            "tests/unit/cli/test_spark_doctor.py",
            "tests/unit/cli/test_spark_run.py",
            "tests/unit/spark/test_job_report.py",
            "tests/unit/spark/test_listener.py",
            "tests/unit/test_docs_troubleshooting.py::test_every_public_error_has_a_section",
        )
    ),
    (
        "tests/conformance/test_apicurio.py::",
        "no Apicurio registry here",
        "not every machine may fetch it; the small registry has the same scenes",
    ),
    *(
        (
            where,
            "could not import 'confluent_kafka",
            "an extra, which the group `unit` leaves out; its bytes are recorded, and Apicurio judges the client too",
        )
        for where in (
            "tests/unit/registry/test_framing.py::test_confluents_own_functions_agree",
            "tests/unit/registry/test_confluent_client.py::",
        )
    ),
    (
        "tests/integration/lake/test_iceberg_",
        "could not import 'pyiceberg'",
        "an environment of before has no pyiceberg",
    ),
    (
        "tests/unit/schemas/test_json_schema.py",
        "could not import '(jsonschema_rs|httpx|confluent_kafka)",
        "an environment of before has neither jsonschema-rs nor confluent-kafka's extras",
    ),
    ("tests/integration/frames/test_dask.py", "could not import 'dask", "an extra, of the group `frames`"),
    ("tests/integration/frames/test_ray.py", "could not import 'ray", "an extra, of the group `frames`"),
    (
        "tests/unit/test_type_checkers.py::",
        "could not import '(mypy|basedpyright)'",
        "other Pythons have no type checkers, and what these report is the same for every Python",
    ),
    (
        "tests/unit/producer/buffer/test_partitioner_hashes.py::",
        "could not import 'confluent_kafka'|does not bring librdkafka",
        "other Pythons have no other clients, and the hashes are the same for every Python",
    ),
]

_frozen_for: Path | None = None
_compared: defaultdict[str, Counter[str]] = defaultdict(Counter)

# Hypothesis draws the same examples in every run, unless KAFWIRE_SEED asks for others.
_FIXED = seeds.GIVEN is None and seeds.DRAWN is None
settings.register_profile(
    "kafwire", deadline=None, print_blob=True, derandomize=_FIXED, database=None, max_examples=seeds.examples(100)
)
settings.load_profile("kafwire")

# A shell that starts a job in the background has it ignore Ctrl-C, and what that starts; here are tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The long run."""
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too, as KAFWIRE_EXAMPLES does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `long` run only in a long run."""
    left_out = [] if seeds.is_long(config) else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _freeze() -> None:
    """Keep all that there is out of the garbage collector's sight: hundreds of tests collect what they dropped."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Some libraries call objects left at the end a leak."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis derives its choices from the same number."""
    config.addinivalue_line("markers", "long: runs only with --long, or when KAFWIRE_EXAMPLES is set")
    config.addinivalue_line(
        "markers", "either_kafka: `cluster` is an embedded broker (KAFKA=redpanda: like Redpanda), unless KAFKA=real"
    )
    if not _FIXED and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(seeds.DRAWN if seeds.GIVEN is None else seeds.GIVEN)


def pytest_report_header() -> str:
    """Which seeds these tests have."""
    return seeds.header()


def _name(item: pytest.Item) -> str:
    """A test's name without what pytest-xdist adds to it."""
    return f"{item.parent.nodeid if item.parent else ''}::{item.name}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds are of the test that runs; what was imported and made for other modules is not its garbage."""
    global _frozen_for
    if item.path != _frozen_for:
        _frozen_for = item.path
        _freeze()
    seeds.begin(_name(item))


@pytest.fixture
def seed() -> int:
    """The seed of this test."""
    return seeds.of_test()


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster | EmbeddedKafka]:
    """The plugin's `cluster`, or an embedded broker where it proves the same (support/broker/either_kafka.py)."""
    from tests.support.broker.either_kafka import IS_REAL, either_kafka

    if IS_REAL or request.node.get_closest_marker("either_kafka") is None:
        yield request.getfixturevalue("cluster")
        return
    with either_kafka() as embedded:
        yield embedded


def _unforeseen(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The text of a skip that no entry of `MAY_BE_SKIPPED` foresees."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if os.environ.get("KAFWIRE_NO_SKIPS"):
        return f"{reason}: a skip, where $KAFWIRE_NO_SKIPS allows none"
    if any(report.nodeid.startswith(where) and re.search(why, reason) for where, why, _ in MAY_BE_SKIPPED):
        return ""
    return f"{reason}: a skip that MAY_BE_SKIPPED in tests/conftest.py does not name"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test says how its choices are repeated; one that is skipped for no reason that is listed has failed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and (problem := _unforeseen(report)):
        report.outcome = "failed"
        report.longrepr = problem
    if report.failed:
        report.sections.append(("Seeds", seeds.header()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that is skipped as a whole is no better."""
    report = yield
    if report.skipped and (problem := _unforeseen(report)):
        report.outcome = "failed"
        report.longrepr = problem
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the tests compared with others, wherever they ran."""
    for name, counts in report.user_properties:
        if name == "compared" and report.when == "teardown":
            for what, count in dict(counts).items():  # type: ignore[call-overload]
                _compared[report.nodeid.partition("::")[0]][what] += count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it."""
    for module, counts in sorted(_compared.items()):
        reported = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"compared by {module}: {reported}")
