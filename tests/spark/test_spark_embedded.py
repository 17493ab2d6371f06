"""The source and sink of Spark on the embedded broker, in batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafwire.broker.embedded import EmbeddedKafka

COUNT = 500


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("flights", partitions=3)
        for index in range(3):
            running.append("flights", [b"%d %d" % (index, number) for number in range(COUNT)], partition=index)
        yield running


def test_a_batch_read_has_all_records(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    frame = (
        spark.read.format("kafwire")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", "flights")
        .load()
    )
    rows = frame.select("partition", "offset", "value").collect()
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in rows) == sorted(
        (index, number, b"%d %d" % (index, number)) for index in range(3) for number in range(COUNT)
    )


def test_a_batch_write_copies_a_topic(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    kafka.create_topic("copied", partitions=2)
    source = spark.read.format("kafwire").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = source.option("subscribe", "flights").load().select("value")
    target = rows.write.format("kafwire").option("kafka.bootstrap.servers", kafka.bootstrap)
    target.option("topic", "copied").mode("append").save()
    copied = sorted(record.value for record in kafka.records("copied"))
    assert copied == sorted(b"%d %d" % (index, number) for index in range(3) for number in range(COUNT))
