"""Requests for the controller on Kafka 3.9.1 with ZooKeeper, whose other brokers refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire import protocol
from kafwire.errors import KafkaConnectionError
from tests.support.broker.zookeeper_kafka import zookeeper_kafka
from tests.support.deadlines import until

pytestmark = pytest.mark.long

START_S = 90


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with zookeeper_kafka(Path(tmp_path_factory.mktemp("zookeeper"))) as addresses:

        def are_there() -> bool:
            try:
                with kafwire.Client(",".join(addresses), default_api_timeout_ms=5_000) as client:
                    return len(client.metadata([]).brokers) == len(addresses)
            except KafkaConnectionError:
                return False

        until(are_there, "both brokers start", START_S)
        yield addresses


@pytest.mark.parametrize("first", [0, 1])
def test_topics_are_made_and_deleted_by_whichever_broker_is_the_controller(
    brokers: tuple[str, str], first: int
) -> None:
    name = f"made-{first}"
    with kafwire.Client(brokers[first]) as client:
        client.create_topic(name, partitions=2)
        request = protocol.CreatePartitionsRequest
        grown = request.CreatePartitionsTopic(name=name, count=3, assignments=None)
        (result,) = client.call(request(topics=[grown], timeout_ms=30_000)).results
        assert result.error_code == 0
        client.delete_topic(name)


def test_records_are_sent_and_read(brokers: tuple[str, str]) -> None:
    with kafwire.Client(brokers[0]) as client:
        client.create_topic("records", partitions=2)
    with kafwire.Producer(brokers[0]) as producer:
        for number in range(10):
            producer.send("records", b"%d" % number, partition=number % 2)
    with kafwire.Consumer(brokers[1], topics=["records"], start="earliest") as consumer:
        read: list[bytes | None] = []
        for batch in consumer.batches(timeout=20.0):
            read += [record.value for record in batch]
            if len(read) == 10:
                break
    assert sorted(read, key=str) == [b"%d" % number for number in range(10)]
