"""`kafwire doctor` and `kafwire topics create` on real brokers, well and badly configured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
from kafwire.errors import KafkaTimeoutError
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.complaints import complaints
from tests.support.kafka_versions import CLUSTERS
from tests.support.time_limits import within


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafwire", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, input="x\n")


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_a_broker_that_is_well(fixture: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    with within(20):
        ran = run("doctor", cluster.bootstrap, "-J")
    findings: list[dict[str, Any]] = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.returncode, complaints(ran.stderr)) == (0, "")
    steps = ["name", "connection", "protocol", "versions", "advertised", "topic", "record", "deletion"]
    assert [finding["step"] for finding in findings] == steps
    assert all(finding["ok"] for finding in findings)
    release = {"cluster": "Kafka 4.4", "cluster_431": "Kafka 4.3", "cluster_391": "Kafka 3.9"}[fixture]
    assert release in findings[2]["seen"]
    with kafwire.Client(cluster.bootstrap) as client:
        assert not [topic.name for topic in client.metadata().topics if topic.name.startswith("kafwire-doctor")]


def test_topics_come_and_go(cluster: KafkaCluster, topic_name: str) -> None:
    where = ("-b", cluster.bootstrap)
    options = ("--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=12345")
    made = run("topics", "create", topic_name, *where, *options)
    assert (made.returncode, made.stdout) == (0, f"created {topic_name}: 3 partition(s)\n")
    with kafwire.Client(cluster.bootstrap) as client:
        assert client.topic_config(topic_name)["retention.ms"] == "12345"
    again = run("topics", "create", topic_name, *where)
    assert again.returncode == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    gone = run("topics", "delete", topic_name, "--yes", *where)
    assert (gone.returncode, gone.stdout) == (0, f"deleted {topic_name}\n")
    assert run("topics", "delete", topic_name, "--yes", *where).returncode == 1


@pytest.fixture(scope="module")
def inside() -> Iterator[KafkaCluster]:
    """A broker that sends its clients to a name that only it knows."""
    properties = {"advertised.listeners": "PLAINTEXT://kafka.invalid:9092", "auto.create.topics.enable": "true"}
    with KafkaCluster(properties=properties) as running:
        yield running


@pytest.mark.parametrize(
    "act",
    [
        lambda at: run("doctor", at),
        lambda at: run("produce", "-t", "made", "-b", at, "--timeout", "4"),
        lambda at: run("consume", "made", "-e", "-b", at, "--timeout", "4"),
        lambda at: run("consume", "made", "-b", at, "--timeout", "4"),
    ],
    ids=["doctor", "produce", "consume -e", "consume"],
)
def test_an_address_out_of_a_container(inside: KafkaCluster, act: Callable[[str], Any]) -> None:
    """The newcomer's classic: the bootstrap server responds, and the address that it names cannot be reached."""
    with kafwire.Producer(inside.bootstrap) as producer:
        producer.send("made", b"x")  # has its topic created
        with pytest.raises(KafkaTimeoutError):
            producer.close(0.1)
    with within(20):
        ran = act(inside.bootstrap)
    assert ran.returncode == 1
    reported = ran.stdout + ran.stderr
    for words in (inside.bootstrap, "kafka.invalid:9092", "resolve", "advertised.listeners"):
        assert words in reported
