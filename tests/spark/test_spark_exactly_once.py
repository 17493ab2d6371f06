"""The exactly-once sink of streams and the atomic batch write, through Spark on the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import kafwire
from kafwire.broker.embedded import EmbeddedKafka

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


def test_another_driver_in_mid_batch_fails_the_query_and_repeats_nothing(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 40)
    at = {"kafka.bootstrap.servers": kafka.bootstrap}
    mark, bootstrap = f"{tmp_path}/overtaken", kafka.bootstrap
    given = {"delivery": "exactly-once", "sink": topic, "topic": f"{topic}-copy"}

    def run() -> StreamingQuery:
        frame = spark.readStream.format("kafwire").options(**at, subscribe=topic, startingOffsets="earliest").load()
        overtaken = frame.select("value").mapInArrow(
            lambda batches: overtake(batches, mark, bootstrap, topic), "value binary"
        )
        writer = overtaken.writeStream.format("kafwire").options(**at, **given)
        return writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match=f"another driver took over the sink {topic} while batch 0 ran"):
        ended(run())
    assert committed(kafka, f"{topic}-copy") == []
    ended(run())
    assert committed(kafka, f"{topic}-copy") == list(range(40))
    assert not ongoing(kafka)


def overtake(batches: Any, mark: str, bootstrap: str, sink: str) -> Any:
    """The rows of a task; the first task takes over the sink, as a second driver does."""
    from kafwire.spark.exactly_once import sinks
    from kafwire.spark.options import write_options

    for batch in batches:
        try:
            Path(mark).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            given = {"kafka.bootstrap.servers": bootstrap, "delivery": "exactly-once", "sink": sink}
            sinks.run(write_options(given, is_stream=True), lambda taken: taken.plan())
        yield batch


def test_a_failed_task_leaves_nothing_visible(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 40)
    at = {"kafka.bootstrap.servers": kafka.bootstrap}
    given = {"delivery": "exactly-once", "sink": topic, "topic": f"{topic}-copy"}

    def run(divisor: str) -> StreamingQuery:
        frame = spark.readStream.format("kafwire").options(**at, subscribe=topic, startingOffsets="earliest").load()
        rows = frame.selectExpr("value", f"assert_true(int(string(value)) % {divisor} != 39) checked").where(
            "checked is null"
        )
        writer = rows.select("value").writeStream.format("kafwire").options(**at, **given)
        return writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException):
        ended(run("40"))
    assert committed(kafka, f"{topic}-copy") == []
    ended(run("39"))
    assert committed(kafka, f"{topic}-copy") == list(range(40))
    assert not ongoing(kafka)


def test_an_atomic_batch_is_visible_in_whole_or_not_at_all(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str
) -> None:
    at = {"kafka.bootstrap.servers": kafka.bootstrap, "delivery": "atomic", "sink": topic, "topic": f"{topic}-copy"}

    def save(frame: DataFrame) -> None:
        frame.write.format("kafwire").options(**at).mode("append").save()

    rows = spark.range(0, 60, numPartitions=3)
    save(rows.selectExpr("string(id) value", "timestamp_millis(1700000000000 + id) timestamp"))
    assert committed(kafka, f"{topic}-copy") == list(range(60))
    with kafwire.scan(kafka.bootstrap, f"{topic}-copy") as scan:
        times = {int(record.value): record.timestamp_ms for batch in scan.batches() for record in batch}
    assert times == {number: 1_700_000_000_000 + number for number in range(60)}
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION|not true"):
        save(
            rows.selectExpr("string(id) value", "assert_true(id != 59) checked")
            .where("checked is null")
            .select("value")
        )
    assert committed(kafka, f"{topic}-copy") == list(range(60))
    save(spark.range(60, 70).selectExpr("string(id) value"))  # takes over, and aborts the strays
    assert committed(kafka, f"{topic}-copy") == list(range(70))
    assert not ongoing(kafka)


def test_a_stream_writes_at_least_once_by_default(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 20)
    at = {"kafka.bootstrap.servers": kafka.bootstrap}
    frame = spark.readStream.format("kafwire").options(**at, subscribe=topic, startingOffsets="earliest").load()
    writer = frame.select("value").writeStream.format("kafwire").options(**at, topic=f"{topic}-copy")
    ended(writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start())
    assert committed(kafka, f"{topic}-copy") == list(range(20))


def test_a_query_that_cannot_be_exactly_once_is_refused(topic: str, copy: Start) -> None:
    refused: list[tuple[dict[str, str], str]] = [
        ({"sink": "a b"}, "option sink='a b'"),
        ({"kafka.transaction.timeout.ms": "900001"}, "option kafka.transaction.timeout.ms=900001 is above"),
    ]
    for options, said in refused:
        with pytest.raises(StreamingQueryException, match=said):
            ended(copy(**options))
