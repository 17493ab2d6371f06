"""Batches and exactly-once streams on several processes of Spark, with executors killed in the middle of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import kafwire
from kafwire.testing import KafkaCluster, Security
from tests.support.real_topics import committed_at
from tests.support.spark.application import Settings
from tests.support.spark.open_transactions import open_transactions
from tests.support.spark.processes import LONGEST_S, connect, run, standalone

COUNT = 120
PLAIN: Mapping[str, str] = {}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.multiplier": "1.1",
}
pytestmark = pytest.mark.timeout(6 * LONGEST_S)


def copy(
    cluster: KafkaCluster,
    folder: Path,
    topic: str,
    master: str,
    faults: tuple[str, ...],
    *,
    conf: Mapping[str, str] = PLAIN,
    options: Mapping[str, str] = PLAIN,
) -> None:
    """Run the application with these faults, and compare its copies with the topic."""
    with kafwire.Client(cluster.direct) as client:
        for suffix in ("", "-batch", *(f"-{fault}" for fault in faults)):
            client.create_topic(f"{topic}{suffix}", partitions=2, replication_factor=1)
    with kafwire.Producer(cluster.direct) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, partition=number % 2)
    kafka = options or {"kafka.bootstrap.servers": cluster.bootstrap}
    run(Settings(master, kafka, topic, str(folder), faults, conf))
    for suffix in ("batch", *faults):
        assert sorted(map(int, committed_at(cluster.direct, f"{topic}-{suffix}"))) == list(range(COUNT)), suffix
    for fault in faults:
        lost = written(cluster, f"{topic}-{fault}") - COUNT
        assert fault == "none" or ((folder / f"{fault}.struck").read_text() and lost >= 5), (fault, lost)
    assert not open_transactions(cluster.direct, topic)


def written(cluster: KafkaCluster, topic: str) -> int:
    """The number of rows in a topic, those of aborted transactions included."""
    with kafwire.scan(cluster.direct, topic, isolation_level="read_uncommitted") as scan:
        return sum(len(batch) for batch in scan.batches())


def test_a_local_cluster_whose_executors_are_killed(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    copy(cluster, tmp_path, topic_name, "local-cluster[2,1,1024]", ("kill", "stage"))


@pytest.mark.long
def test_standalone_workers_with_speculation_over_sasl_ssl(topic_name: str, tmp_path: Path) -> None:
    security = Security("SASL_SSL", users={"alice": "secret"})
    with KafkaCluster(security=security) as cluster, standalone(tmp_path) as master:
        options = {
            f"kafka.{name}": value
            for name, value in cluster.client_options("alice", "SCRAM-SHA-512", dialect="java").items()
        }
        faults = ("kill", "speculate")
        copy(cluster, tmp_path, topic_name, master, faults, conf=SPECULATION, options=options)


@pytest.mark.long
def test_a_connect_server_whose_workers_are_killed(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with connect(tmp_path) as server:
        copy(cluster, tmp_path, topic_name, server, ("none", "worker"))
