"""`kafwire groups` beside Kafka's own tools: groups of both protocols with members of another client, share groups."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

import kafwire
from kafwire import TopicPartition, protocol
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.deadlines import until
from tests.support.known_topics import fill, make_topic

SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def topic(cluster: KafkaCluster) -> str:
    name = make_topic(cluster.bootstrap, "cli-groups", partitions=2)
    fill(cluster.bootstrap, name, 2, 40, singly=True)
    return name


def ours(cluster: KafkaCluster, *arguments: str) -> list[list[str]]:
    first, *rest = arguments
    command = [sys.executable, "-m", "kafwire", "groups", first, "-b", cluster.bootstrap, *rest]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stderr == ""
    return [line.split() for line in ran.stdout.splitlines()]


def theirs(cluster: KafkaCluster, *arguments: str, tool: str = TOOL) -> list[list[str]]:
    command = [java(), "-cp", class_path(), tool, "--bootstrap-server", cluster.bootstrap, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split() for line in ran.stdout.splitlines() if line.strip() and not line.startswith("20")]


@contextmanager
def member(cluster: KafkaCluster, topic: str, group: str, protocol: str) -> Iterator[None]:
    """A consumer of confluent-kafka's that has all partitions, and has committed what it was given."""
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(options)
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is not None, "it gets a record", 60)
        until(lambda: len(consumer.assignment()) == 2, "it has both partitions", 60)
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 7)], asynchronous=False)
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_shown_as_by_kafka(cluster: KafkaCluster, topic: str, protocol: str) -> None:
    group = f"{topic}-{protocol}"
    with member(cluster, topic, group, protocol):
        (row,) = [row for row in ours(cluster, "list") if row[0] == group]
        assert row[1:4] == [protocol, "Stable", "consumer"]
        header, row = ours(cluster, "members", group)
        reported = dict(zip([name for name in header if name != "INSTANCE"], row, strict=True))
        rows = theirs(cluster, "--describe", "--group", group)
        known = {int(line[2]): line for line in rows[1:]}
        assert reported["PARTITIONS"] == f"{topic}:0-1"
        assert {line[6] for line in known.values()} == {reported["MEMBER"]}
        for _, _, number, *numbers in [line[:6] for line in ours(cluster, "lag", group)[1:-1]]:
            its = known[int(number)]
            if number == "0":
                assert numbers == its[3:6]
            else:
                assert its[3] == "-"  # nothing is committed
                assert numbers[0] == its[4]


@pytest.mark.parametrize(
    ("how", "kafkas"),
    [
        (["--to-earliest"], ["--to-earliest"]),
        (["--to-latest"], ["--to-latest"]),
        (["--by", "-5"], ["--shift-by", "-5"]),
        (["--by", "500"], ["--shift-by", "500"]),
        (["--to-offset", "3"], ["--to-offset", "3"]),
    ],
    ids=" ".join,
)
def test_offsets_are_set_as_by_kafka(cluster: KafkaCluster, topic: str, how: list[str], kafkas: list[str]) -> None:
    places = [TopicPartition(topic, number) for number in range(2)]
    group = f"{topic}-reset"
    with kafwire.Consumer(cluster.bootstrap, assign=places, group_id=group) as consumer:
        consumer.commit(dict.fromkeys(places, 9))
    plan = theirs(cluster, "--reset-offsets", "--group", group, "--all-topics", "--dry-run", *kafkas)
    expected = {int(row[2]): row[3] for row in plan if row[0] == group}
    assert {int(row[2]): row[4] for row in ours(cluster, "reset-offsets", group, *how, "--execute")[1:]} == expected
    with kafwire.Consumer(cluster.bootstrap, assign=places, group_id=group) as consumer:
        assert {where.partition: str(at) for where, at in consumer.committed().items()} == expected


def test_a_share_group_is_shown_and_set_as_by_kafka(cluster: KafkaCluster, topic: str) -> None:
    group = f"{topic}-share"
    alter: Any = protocol.IncrementalAlterConfigsRequest
    setting = alter.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    asked = alter(resources=[alter.AlterConfigsResource(resource_type=32, resource_name=group, configs=[setting])])
    with kafwire.Client(cluster.bootstrap) as client:
        assert not client.call(asked).responses[0].error_code
    with kafwire.ShareConsumer(cluster.bootstrap, topics=[topic], group_id=group) as consumer:
        read: set[int | None] = set()

        def reads_both() -> bool:
            read.update(record.partition for record in consumer.poll(timeout=0.5))
            return len(read) == 2

        until(reads_both, "it has records of both partitions", 60)
        (row,) = ours(cluster, "describe", group)[1:]
        assert row == [group, "share", "Stable", "simple", "1", "1"]
        (member_row,) = theirs(cluster, "--describe", "--members", "--group", group, tool=SHARE_TOOL)[1:]
        header, row = ours(cluster, "members", group)
        shown = dict(zip([name for name in header if name != "INSTANCE"], row, strict=True))
        assert shown["MEMBER"] in member_row
        assert shown["PARTITIONS"] == f"{topic}:0-1"
    kafkas = theirs(cluster, "--describe", "--offsets", "--group", group, tool=SHARE_TOOL)
    expected = {int(line[2]): (line[3], line[4]) for line in kafkas if line[0] == group}
    rows = ours(cluster, "lag", group)[1:-1]
    assert {int(line[2]): (line[3], line[5]) for line in rows} == expected
    way = ["--to-earliest", "--topic", topic]
    plan = theirs(cluster, "--reset-offsets", "--group", group, *way, "--dry-run", tool=SHARE_TOOL)
    planned = {int(line[2]): line[3] for line in plan if line[0] == group}
    assert {int(line[2]): line[4] for line in ours(cluster, "reset-offsets", group, *way, "--execute")[1:]} == planned
    after = theirs(cluster, "--describe", "--offsets", "--group", group, tool=SHARE_TOOL)
    assert {int(line[2]): line[3] for line in after if line[0] == group} == planned
    assert ours(cluster, "delete", group, "--yes") == [["deleted", group]]
