"""The stream reader on a real broker: partitions added, a transaction, a topic recreated, a group's commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
from kafwire.spark import DataLossError
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.schema import schema_of
from kafwire.spark.stream_options import stream_options
from kafwire.spark.stream_reader import KafwireStreamReader
from kafwire.testing import KafkaCluster
from kafwire.types import TopicPartition

Make = Callable[..., KafwireStreamReader]


@pytest.fixture
def make(cluster: KafkaCluster) -> Iterator[Make]:
    made = []

    def reader(**options: str) -> KafwireStreamReader:
        usual = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "50"}
        given = {"kafka.bootstrap.servers": cluster.bootstrap, **usual, **options}
        made.append(KafwireStreamReader(stream_options(given), schema_of(["value"])))
        return made[-1]

    yield reader
    for each in made:
        each.stop()


def latest(reader: KafwireStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return found


def read(reader: KafwireStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    batches = [batch for piece in reader.partitions(start, end) for batch in reader.read(piece)]
    return sorted(value for batch in batches for value in batch["value"].to_pylist())


def send(cluster: KafkaCluster, topic: str, values: list[bytes], partition: int = 0) -> None:
    with kafwire.Producer(cluster.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)


def test_partitions_are_added_and_transactions_leave_holes(cluster: KafkaCluster, make: Make, topic_name: str) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, [b"0", b"1"])
        reader = make(subscribe=topic_name, maxBytesPerTrigger="1000000", **{"kafka.isolation.level": "read_committed"})
        start = reader.initialOffset()
        end = latest(reader, start)
        assert read(reader, start, end) == [b"0", b"1"]
        request: Any = kafwire.protocol.CreatePartitionsRequest
        topics = [request.CreatePartitionsTopic(name=topic_name, count=2, assignments=None)]
        client.call(request(topics=topics, timeout_ms=10_000))
        with kafwire.Producer(cluster.bootstrap, transactional_id=topic_name) as producer, producer.transaction():
            producer.send(topic_name, b"2", partition=1)
        after = latest(reader, end)
        assert after == {topic_name: {"0": 2, "1": 2}}
        assert read(reader, end, after) == [b"2"]
        assert latest(reader, after) == after


def test_a_recreated_topic_is_a_loss_by_its_id(cluster: KafkaCluster, make: Make, topic_name: str) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, [b"old"])
        strict, lenient = make(subscribe=topic_name), make(subscribe=topic_name, failOnDataLoss="false")
        end = latest(strict, strict.initialOffset())
        assert latest(lenient, lenient.initialOffset()) == end
        client.delete_topic(topic_name)
        client.create_topic(topic_name)
    send(cluster, topic_name, [b"new", b"newer"])
    with pytest.raises(DataLossError, match=f"PARTITIONS_RECREATED. topic {topic_name} was deleted and created again"):
        latest(strict, end)
    pinned = latest(lenient, end)
    assert read(lenient, end, pinned) == []
    assert read(lenient, pinned, latest(lenient, pinned)) == [b"new", b"newer"]


def test_a_group_gives_the_start_and_gets_completed_offsets(cluster: KafkaCluster, make: Make, topic_name: str) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    send(cluster, topic_name, [b"0", b"1", b"2"])
    place = TopicPartition(topic_name, 0)
    group = GroupCommits(topic_name, {"bootstrap_servers": cluster.bootstrap})
    try:
        assert group.committed([place]) == {}
        group.commit({place: 1})
        reader = make(subscribe=topic_name, startingOffsets=f"group:{topic_name}", commitGroup=topic_name)
        start = reader.initialOffset()
        assert start == latest(reader, start) == {topic_name: {"0": 1}}
        end = latest(reader, start)
        assert read(reader, start, end) == [b"1", b"2"]
        assert group.committed([place]) == {place: 1}
        latest(reader, end)
        assert group.committed([place]) == {place: 3}
    finally:
        group.close()
