"""`kafwire spark doctor` without a session: driver, options and cluster, and the judgement of executors' reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", exc_type=ImportError)

from kafwire import Client
from kafwire.cli import main
from kafwire.cli.spark_diagnosis import (
    cluster_findings,
    executor_findings,
    failure_of_job,
    java_finding,
    options_findings,
    package_findings,
    traceback_finding,
)
from kafwire.cli.spark_probe import Probe
from kafwire.testing import EmbeddedKafka
from tests.support.broker.scripted_broker import closed_port
from tests.support.spark.checkpoint import write_batch, write_start

PACKAGES = {"kafwire": "0.1", "pyarrow": "26.0", "pyspark": "4.3.0"}


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("a", partitions=1)
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["spark", "doctor", kafka.bootstrap, "--no-executors", *arguments])


def found(result: Result) -> dict[str, dict[str, Any]]:
    return {each["step"]: each for each in map(json.loads, result.stdout.splitlines())}


@pytest.mark.parametrize(
    ("text", "state", "seen"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok", "Java 17 (java)"),
        ('openjdk version "21" 2023-09-19', "ok", "Java 21 (java)"),
        ('java version "1.8.0_401"', "WRONG", "Java 8 (java)"),
        ('openjdk version "11.0.2"', "WRONG", "Java 11 (java)"),
        (None, "WRONG", "java does not exist"),
        ("Picked up JAVA_TOOL_OPTIONS", "?", "java -version printed no version: Picked up JAVA_TOOL_OPTIONS"),
    ],
)
def test_java(text: str | None, state: str, seen: str) -> None:
    finding = java_finding(text, "java")
    assert (finding.state, finding.seen) == (state, seen)
    assert bool(finding.change) == (state == "WRONG")


@pytest.mark.parametrize(
    ("packages", "seen"),
    [
        ({"pyarrow": None}, "no pyarrow"),
        ({"pyspark": "4.1.0"}, "pyspark 4.1.0"),
        ({"kafwire": "0.2"}, "kafwire 0.2, and 0.1 in the driver"),
    ],
)
def test_packages_that_do_not_fit(packages: dict[str, str | None], seen: str) -> None:
    (finding,) = package_findings("executor vm/1", {**PACKAGES, **packages}, PACKAGES)
    assert (finding.state, finding.seen, bool(finding.change)) == ("WRONG", seen, True)


def probe(executor: str, **other: Any) -> dict[str, Any]:
    plain = {"host": executor.partition("/")[0], "executor": executor, "python": "3.11", "packages": PACKAGES}
    return {**plain, "hides_traceback": False, "import_error": "", "reached": [], **other}


def test_executors_without_kafwire_or_without_a_way_to_the_broker_are_named() -> None:
    step = {"server": "k:9092", "step": "connection", "ok": False, "seen": "connection refused", "change": "open it"}
    probes = [
        probe("one/1"),
        probe("one/1"),
        probe("two/2", import_error="ModuleNotFoundError: No module named 'kafwire'"),
        probe("three/3", reached=[step]),
    ]
    wrong = [each for each in executor_findings(probes, 3, PACKAGES) if each.state != "ok"]
    assert [(each.step, each.where) for each in wrong] == [
        ("connection", "executor three/3"),
        ("wheel", "executor two/2"),
    ]
    assert wrong[0].seen == "k:9092: connection refused"
    assert "spark.archives" in wrong[1].change


def test_an_executor_that_ran_no_task_is_not_called_well() -> None:
    first, *_ = executor_findings([probe("one/1")], 2, PACKAGES)
    assert (first.state, first.seen) == ("?", "the check ran in 1 executor(s): one; Spark has 2")
    first, *_ = executor_findings([probe("one/1")], None, PACKAGES)
    assert first.state == "ok"


def test_tracebacks_are_hidden_only_if_they_are_everywhere() -> None:
    assert list(traceback_finding([])) == []
    (finding,) = traceback_finding([probe("one/1", hides_traceback=True), probe("two/2")])
    assert "spark.executorEnv.SPARK_HIDE_TRACEBACK=1" in finding.change
    (finding,) = traceback_finding([probe("one/1", hides_traceback=True)])
    assert not finding.change


def test_a_probe_reaches_the_broker_and_names_this_process(kafka: EmbeddedKafka) -> None:
    host, port = kafka.bootstrap.split(":")
    seen = Probe(((host, int(port)),), {}, 5.0).look()
    assert [step["ok"] for step in seen["reached"]] == [True] * len(seen["reached"])
    assert (seen["import_error"], bool(seen["packages"]["kafwire"])) == ("", True)
    json.dumps(seen)


def test_a_probe_asks_the_next_server_if_one_does_not_respond(kafka: EmbeddedKafka) -> None:
    host, port = kafka.bootstrap.split(":")
    closed = int(closed_port().rpartition(":")[2])
    seen = Probe(((host, closed), (host, int(port)), (host, 1)), {}, 5.0).look()
    assert {step["server"] for step in seen["reached"] if not step["ok"]} == {seen["reached"][0]["server"]}
    assert not [step for step in seen["reached"] if step["server"].endswith(":1")]


def test_a_probe_without_kafwire_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafwire.spark.source", None)
    seen = Probe((("h", 1),), {}, 1.0).look()
    assert "ModuleNotFoundError" in seen["import_error"]
    assert seen["reached"] == []


def test_the_driver_the_options_and_the_cluster_are_checked(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"a": {"0": 4}})
    result = run(
        kafka, "-J", "--option", 'assign={"a": [0]}', "--option", "commitGroup=g", "--checkpoint", str(tmp_path)
    )
    steps = found(result)
    assert set(steps) == {"java", "packages", "options", "checkpoint", "acl", "cluster"}
    assert "WRONG" not in result.stdout
    assert '"where":"topic a","seen":"allowed: Read, Describe"' in result.stdout
    assert steps["checkpoint"]["seen"] == "batch 0 is committed: a-0: 4"
    assert result.exit_code == 0


def test_each_fault_is_reported_with_its_remedy(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    write_start(tmp_path, 0, '{"a":{"0":5}}')
    result = run(kafka, "-J", "--option", "subscribe=none", "--option", "subcribe=a", "--checkpoint", str(tmp_path))
    wrong = {step: each for step, each in found(result).items() if each["state"] == "WRONG"}
    assert set(wrong) == {"options", "checkpoint", "acl"}
    assert "did you mean subscribe?" in wrong["options"]["seen"]
    assert "its start is a-0: 5" in wrong["checkpoint"]["seen"]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in wrong["acl"]["seen"]
    assert result.exit_code == 1


def test_the_limit_of_transactions_is_shown_for_exactly_once(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "--option", "topic=a", "--option", "delivery=exactly-once")
    assert "transaction.max.timeout.ms is 900000" in result.stdout


EXACTLY_ONCE = {"topic": "a", "delivery": "Exactly-Once", "sink": "s"}


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"topic": "a"}, "2 option(s) of a sink"),
        (EXACTLY_ONCE | {"stateTopic": "t", "kafka.transaction.timeout.ms": "60000"}, "6 option(s) of a sink"),
        ({"topic": "a", "delivery": "atomic", "sink": "s"}, "4 option(s) of a batch write"),
        ({"subscribe": "a", "maxBytesPerTrigger": "9", "commitGroup": "g"}, "4 option(s) of a stream"),
        ({"subscribe": "a", "endingOffsets": "latest"}, "3 option(s) of a batch read"),
    ],
)
def test_options_of_sources_and_sinks_are_accepted(options: dict[str, str], seen: str) -> None:
    (finding,) = options_findings({"kafka.bootstrap.servers": "h:1", **options})
    assert (finding.state, finding.seen) == ("ok", seen)


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"topic": "a", "delivery": "exactly-once"}, "option delivery=exactly-once needs the option sink"),
        ({"topic": "a", "sink": "s"}, "option sink needs delivery=exactly-once"),
        (EXACTLY_ONCE | {"sink": "a b"}, "option sink='a b': up to 120 letters"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "option endingOffsets can't be earliest"),
    ],
)
def test_wrong_options_of_sources_and_sinks_are_named(options: dict[str, str], seen: str) -> None:
    (finding,) = options_findings({"kafka.bootstrap.servers": "h:1", **options})
    assert finding.state == "WRONG"
    assert finding.seen.startswith(seen)


def test_a_cluster_that_does_not_respond() -> None:
    arguments = ["spark", "doctor", closed_port(), "--no-executors", "--timeout", "0.5", "-J"]
    result = CliRunner().invoke(main, arguments)
    assert found(result)["cluster"]["state"] == "WRONG"
    assert result.exit_code == 1


class Allowed:
    """A client whose broker allows some operations."""

    def __init__(self, client: Client, bits: int) -> None:
        self._client, self._bits = client, bits

    def call(self, message: Any, **where: Any) -> Any:
        response = self._client.call(message, **where)
        for topic in getattr(response, "topics", ()):
            topic.topic_authorized_operations = self._bits
        for group in getattr(response, "groups", ()):
            group.authorized_operations = self._bits
        return response


def test_operations_that_are_not_allowed_come_with_the_command(kafka: EmbeddedKafka) -> None:
    with Client(kafka.bootstrap) as client:
        some: Any = Allowed(client, 1 << 8)
        topic, group = cluster_findings(some, reads=["a"], group="g")
        assert (topic.state, topic.seen) == ("WRONG", "not allowed: Read")
        assert topic.change == "kafka-acls.sh --add --operation Read --topic a"
        assert (group.state, group.change) == ("WRONG", "kafka-acls.sh --add --operation Read --group g")
        silent: Any = Allowed(client, -(1 << 31))
        assert [each.state for each in cluster_findings(silent, writes=["a"], group="g")] == ["?", "?"]
        everything: Any = Allowed(client, 0x7FFF)
        assert [each.state for each in cluster_findings(everything, writes=["a"], group="g")] == ["ok", "ok"]


def test_the_reason_of_a_failed_job_is_the_worker_s_exception() -> None:
    text = """An error occurred while calling z.
: org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
  File "worker.py", line 1
ModuleNotFoundError: No module named 'pyarrow'

\tat org.apache.spark.api.python
"""
    assert failure_of_job(RuntimeError(text)) == "ModuleNotFoundError: No module named 'pyarrow'"
    text = "An error occurred while calling o372.save.\n: org.apache.spark.SomeException: no such format\n\tat org"
    assert failure_of_job(RuntimeError(text)) == "org.apache.spark.SomeException: no such format"
    assert failure_of_job(RuntimeError("Java gateway process exited\nmore")) == "Java gateway process exited"
