"""Streams through Spark on the embedded broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import Row

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.spark import read, read_stream
from tests.support.deadlines import until

LONGEST_S = 100
pytestmark = pytest.mark.timeout(4 * LONGEST_S)  # the first stream starts the session and its workers
Stream = Callable[..., DataFrame]
Run = Callable[..., StreamingQuery]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    kafka.create_topic(name, partitions=2)
    return name


@pytest.fixture
def stream(kafka: EmbeddedKafka, spark: SparkSession) -> Stream:
    def make(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.readStream.format("kafwire").option("kafka.bootstrap.servers", kafka.bootstrap)
        reader = reader.options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    return make


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Runs a stream into Parquet files until it ends; `rows` reads them."""

    def start(frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{tmp_path}/checkpoint")
        query = writer.option("path", f"{tmp_path}/rows").trigger(**(trigger or {"availableNow": True})).start()
        assert query.awaitTermination(LONGEST_S), f"the stream did not end: {query.lastProgress}"
        return query

    return start


def rows(spark: SparkSession, folder: Path) -> list[Row]:
    return spark.read.parquet(f"{folder}/rows").collect()


def values(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(bytes(row.value)) for row in rows(spark, folder))


def fill(kafka: EmbeddedKafka, topic: str, first: int, end: int) -> None:
    for number in range(first, end):
        kafka.append(topic, [b"%d" % number], partition=number % 2)


def add_partition(kafka: EmbeddedKafka, topic: str) -> None:
    with kafwire.Client(kafka.bootstrap) as client:
        request: Any = kafwire.protocol.CreatePartitionsRequest
        count = len(client.partitions_for(topic)) + 1
        topics = [request.CreatePartitionsTopic(name=topic, count=count, assignments=None)]
        client.call(request(topics=topics, timeout_ms=10_000))


def offset(query: StreamingQuery, batch: int, which: str) -> Any:
    return json.loads(query.recentProgress[batch]["sources"][0][which])


def test_a_stream_from_earliest_reads_all_and_goes_on_from_its_checkpoint(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, stream: Stream, run: Run, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 100)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30", "commitGroup": topic}
    query = run(stream(**options))
    assert values(spark, tmp_path) == list(range(100))
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [30, 30, 30, 10]
    assert offset(query, 0, "endOffset") == {topic: {"0": 15, "1": 15}}
    assert offset(query, 0, "latestOffset") == {topic: {"0": 50, "1": 50}}
    assert kafka.committed(topic) == {(topic, 0): 50, (topic, 1): 50}
    fill(kafka, topic, 100, 150)
    add_partition(kafka, topic)
    kafka.append(topic, [b"150", b"151"], partition=2)
    run(stream(**options))
    assert values(spark, tmp_path) == list(range(152))


def test_a_stream_from_latest_loses_nothing_while_records_arrive(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, stream: Stream, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 10)
    writer = stream("offset bigint, value binary", subscribe=topic).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").option("path", f"{tmp_path}/rows")
    query = writer.start()
    sent = 10
    try:

        def reads() -> bool:
            nonlocal sent
            fill(kafka, topic, sent, sent + 2)
            sent += 2
            return query.lastProgress is not None and query.lastProgress["batchId"] >= 2

        until(reads, "two batches after the empty one", LONGEST_S)
        query.processAllAvailable()
        first = offset(query, 0, "endOffset")[topic]
        assert query.recentProgress[0]["numInputRows"] == 0
    finally:
        query.stop()
    read = rows(spark, tmp_path)
    assert sorted(int(bytes(row.value)) for row in read) == list(range(2 * first["0"], sent))


def test_a_topic_recreated_under_a_running_stream_fails_it(
    kafka: EmbeddedKafka, topic: str, stream: Stream, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 10)
    frame = stream(subscribe=topic, startingOffsets="earliest", **{"fetchOffset.retryIntervalMs": "10"})
    query = frame.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/checkpoint").start()
    try:
        query.processAllAvailable()
        kafka.delete_topic(topic)
        kafka.create_topic(topic, partitions=2)
        fill(kafka, topic, 0, 40)
        with pytest.raises(StreamingQueryException, match=f"PARTITIONS_RECREATED. topic {topic} was deleted and"):
            query.awaitTermination(LONGEST_S)
    finally:
        query.stop()


def test_the_trigger_once_ignores_limits(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, stream: Stream, run: Run, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 60)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    query = run(stream(**options), once=True)
    assert [each["numInputRows"] for each in query.recentProgress] == [60]
    assert values(spark, tmp_path) == list(range(60))


def test_columns_are_chosen_by_name_for_batches_and_streams(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, run: Run, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 10)
    at = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
    frame = read(spark, columns=["offset", "value"]).options(**at).load()
    assert frame.columns == ["offset", "value"]
    assert frame.count() == 10
    run(read_stream(spark, columns=["value"]).options(**at).option("startingOffsets", "earliest").load())
    assert [len(row) for row in rows(spark, tmp_path)] == [1] * 10


def test_a_wrong_option_of_a_stream_is_the_error_of_its_query(topic: str, stream: Stream, run: Run) -> None:
    with pytest.raises(StreamingQueryException, match="option endingOffsets: a stream has no end") as caught:
        run(stream(subscribe=topic, endingOffsets="latest"))
    assert "UnboundLocalError" not in str(caught.value)  # pyspark's own, after an error of `streamReader`


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 minutes"}])
def test_spark_refuses_triggers_that_python_sources_do_not_have(
    topic: str, stream: Stream, tmp_path: Path, trigger: dict[str, str]
) -> None:
    writer = stream(subscribe=topic).writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/checkpoint")
    if "realTime" in trigger:
        writer = writer.outputMode("update")
    with pytest.raises(Exception, match=r"[Cc]ontinuous processing|STREAMING_REAL_TIME_MODE"):
        writer.trigger(**trigger).start().awaitTermination(LONGEST_S)


def test_spark_s_reports_have_no_metrics_of_a_python_source(
    kafka: EmbeddedKafka, topic: str, stream: Stream, run: Run
) -> None:
    fill(kafka, topic, 0, 10)
    progress = run(stream(subscribe=topic, startingOffsets="earliest")).lastProgress
    assert progress is not None
    assert progress["numInputRows"] == 10
    assert progress["sources"][0]["metrics"] == {}
