"""The exactly-once sink of streams and the atomic batch write, through Spark on the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import kafwire
from kafwire.testing.broker.embedded import EmbeddedKafka

LONGEST_S = 100
pytestmark = pytest.mark.timeout(4 * LONGEST_S)  # the first stream starts the session and its workers
Start = Callable[..., StreamingQuery]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    kafka.create_topic(name, partitions=4)
    kafka.create_topic(f"{name}-copy", partitions=2)
    return name


@pytest.fixture
def copy(kafka: EmbeddedKafka, spark: SparkSession, topic: str, tmp_path: Path) -> Start:
    """Starts a stream from `topic` to `topic-copy`."""

    def start(checkpoint: str = "checkpoint", **options: str) -> StreamingQuery:
        at = {"kafka.bootstrap.servers": kafka.bootstrap}
        frame = spark.readStream.format("kafwire").options(**at, subscribe=topic, startingOffsets="earliest")
        given: dict[str, Any] = {"delivery": "exactly-once", "sink": topic[:100], "topic": f"{topic}-copy"} | options
        writer = frame.load().select("key", "value", "timestamp").writeStream.format("kafwire").options(**at, **given)
        return writer.option("checkpointLocation", f"{tmp_path}/{checkpoint}").trigger(availableNow=True).start()

    return start


def fill(kafka: EmbeddedKafka, topic: str, first: int, end: int) -> None:
    for number in range(first, end):
        kafka.append(topic, [b"%d" % number], partition=number % 4)


def ended(query: StreamingQuery) -> StreamingQuery:
    assert query.awaitTermination(LONGEST_S), f"the stream did not end: {query.lastProgress}"
    return query


def committed(kafka: EmbeddedKafka, topic: str) -> list[int]:
    with kafwire.scan(kafka.bootstrap, topic, isolation_level="read_committed") as scan:
        return sorted(int(record.value) for batch in scan.batches() for record in batch)


def ongoing(kafka: EmbeddedKafka) -> list[str]:
    with kafwire.Client(kafka.bootstrap) as client:
        request = kafwire.protocol.ListTransactionsRequest(state_filters=["Ongoing"])
        return [each.transactional_id for each in client.call(request, broker=1).transaction_states]


def test_a_stream_is_copied_once_over_restarts(kafka: EmbeddedKafka, topic: str, copy: Start) -> None:
    fill(kafka, topic, 0, 100)
    ended(copy())
    assert committed(kafka, f"{topic}-copy") == list(range(100))
    fill(kafka, topic, 100, 150)
    ended(copy(minPartitions="1"))
    assert committed(kafka, f"{topic}-copy") == list(range(150))
    assert not ongoing(kafka)
