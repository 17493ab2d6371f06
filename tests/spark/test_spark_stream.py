"""Streams through Spark on the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import Row

from kafwire.testing.broker.embedded import EmbeddedKafka

LONGEST_S = 60
Stream = Callable[..., DataFrame]
Run = Callable[..., StreamingQuery]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").replace("]", "")
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


def test_a_stream_from_earliest_reads_all_and_goes_on_from_its_checkpoint(
    kafka: EmbeddedKafka, spark: SparkSession, topic: str, stream: Stream, run: Run, tmp_path: Path
) -> None:
    fill(kafka, topic, 0, 100)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    query = run(stream(**options))
    assert values(spark, tmp_path) == list(range(100))
    progress = query.recentProgress
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [30, 30, 30, 10]
    assert progress[0]["sources"][0]["endOffset"] == {topic: {"0": 15, "1": 15}}
    assert progress[0]["sources"][0]["latestOffset"] == {topic: {"0": 50, "1": 50}}
    fill(kafka, topic, 100, 150)
    run(stream(**options))
    assert values(spark, tmp_path) == list(range(150))
