"""Batch writes through Spark to a real broker, read back by confluent-kafka."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, pmod

from kafwire.testing import KafkaCluster
from tests.support import seeds

Make = Callable[..., str]
Save = Callable[..., None]
Consume = Callable[..., list[Message]]
Load = Callable[..., DataFrame]

ROW = "key binary, value binary, partition int, headers array<struct<key:string,value:binary>>"


def test_every_column_is_written(spark: SparkSession, make_topic: Make, save: Save, consume: Consume) -> None:
    topic = make_topic(3)
    rows: list[Any] = [
        (
            None if n % 5 == 0 else b"k%d" % n,
            None if n % 7 == 0 else b"v" * n,
            n % 3,
            None if n % 4 == 0 else [("a", b"%d" % n), ("b", None)][: n % 4 - 1],
        )
        for n in range(300)
    ]
    save(spark.createDataFrame(rows, ROW).coalesce(1), topic=topic, kafka_compression_type="zstd")
    messages = consume(topic)
    expected = sorted(rows, key=lambda row: row[2])
    assert [(m.key(), m.value(), m.partition(), m.headers() or []) for m in messages] == [
        (key, value, partition, headers or []) for key, value, partition, headers in expected
    ]


@pytest.mark.parametrize("codec", seeds.sampled(["none", "gzip", "snappy", "lz4", "zstd"], "none", "lz4"))
def test_counts_and_bytes_are_kept(
    spark: SparkSession, make_topic: Make, save: Save, consume: Consume, load: Load, codec: str
) -> None:
    topic = make_topic(4)
    count = 20_000
    frame = spark.range(0, count, 1, 3).select(
        expr("cast(id as string)").alias("key"), expr("repeat(cast(id as string), 1 + id % 20)").alias("value")
    )
    save(frame, topic=topic, kafka_compression_type=codec)
    expected = sorted((b"%d" % n, b"%d" % n * (1 + n % 20)) for n in range(count))
    assert sorted((m.key(), m.value()) for m in consume(topic)) == expected
    assert sorted((row.key, row.value) for row in load(subscribe=topic).collect()) == expected


def test_keys_go_where_java_puts_them(
    cluster: KafkaCluster, spark: SparkSession, make_topic: Make, save: Save, consume: Consume
) -> None:
    ours, theirs = make_topic(7, suffix="-a"), make_topic(7, suffix="-b")
    keys = [b"key-%d" % n for n in range(500)]
    save(spark.createDataFrame([(key, b"x") for key in keys], "key binary, value binary"), topic=ours)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(theirs, b"x", key)
    assert producer.flush(30) == 0
    places = [{m.key(): m.partition() for m in consume(topic)} for topic in (ours, theirs)]
    assert places[0] == places[1]
    assert len(places[0]) == len(keys)


def test_rows_go_to_the_topic_of_their_column(
    spark: SparkSession, make_topic: Make, save: Save, consume: Consume
) -> None:
    topics = [make_topic(1, suffix=f"-{n}") for n in range(3)]
    names = ", ".join(f"'{topic}'" for topic in topics)
    frame = spark.range(0, 3000, 1, 2).select(
        expr("cast(id as string)").alias("value"), expr(f"array({names})[id % 3]").alias("topic"), col("id")
    )
    save(frame)
    for number, topic in enumerate(topics):
        assert sorted(int(m.value() or b"") for m in consume(topic)) == list(range(number, 3000, 3))
    one = make_topic(1, suffix="-one")
    save(frame, topic=one)
    assert len(consume(one)) == 3000


def test_an_empty_partition_column_leaves_the_choice(
    spark: SparkSession, make_topic: Make, save: Save, consume: Consume
) -> None:
    topic = make_topic(2)
    save(spark.createDataFrame([("a", 1), ("b", None)], "value string, partition int").coalesce(1), topic=topic)
    assert {m.value(): m.partition() for m in consume(topic)}[b"a"] == 1
    assert len(consume(topic)) == 2


def test_rows_that_were_read_can_be_written_back(
    spark: SparkSession, make_topic: Make, save: Save, consume: Consume, load: Load
) -> None:
    source, copy = make_topic(2, suffix="-a"), make_topic(2, suffix="-b")
    frame = spark.range(2000).select(
        expr("cast(id as string)").alias("value"),
        pmod(col("id"), expr("2")).cast("int").alias("partition"),
        expr("array(struct('n', cast(cast(id as string) as binary)))")
        .cast("array<struct<key:string,value:binary>>")
        .alias("headers"),
    )
    save(frame.coalesce(1), topic=source)
    save(load(subscribe=source, includeHeaders="true"), topic=copy)
    contents = [
        [(m.partition(), m.offset(), m.key(), m.value(), m.headers()) for m in consume(topic)]
        for topic in (source, copy)
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) == 2000


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("id as value", {"topic": "t"}, "column value is bigint; it has to be string or binary: cast it"),
        ("cast(id as string) as text", {"topic": "t"}, "a column named value is needed, string or binary"),
        ("cast(id as string) as value", {}, "no topic to write to: set the option topic, or add a string column"),
        ("cast(id as string) as value", {"topic": "t", "mode": "overwrite"}, "a topic cannot be overwritten"),
        ("cast(id as string) as value", {"topic": "t", "kafka_acks": "7"}, "option acks='7': allowed"),
        (
            "cast(id as string) as value",
            {"topic": "t", "kafka_value_serializer": "X"},
            "option kafka.value.serializer is not supported",
        ),
        ("cast(id as string) as value; cast(null as string) as topic", {}, "row 0: its topic is null: fill the column"),
        ("cast(id as string) as value", {"topic": "no-such-topic", "kafka_max_block_ms": "1500"}, "no-such-topic"),
        (
            "cast(id as string) as value; 9 as partition",
            {"topic": "{topic}", "kafka_max_block_ms": "1500"},
            "{topic}",
        ),
        ("repeat('x', 3000000) as value", {"topic": "{topic}"}, "while writing to topic {topic}"),
    ],
)
def test_rows_that_cannot_be_written_are_named(
    spark: SparkSession, make_topic: Make, save: Save, columns: str, options: dict[str, str], said: str
) -> None:
    topic = make_topic()
    options = {name: value.replace("{topic}", topic) for name, value in options.items()}
    frame = spark.range(10).coalesce(1).selectExpr(*columns.split("; "))
    with pytest.raises(PySparkException, match=re.escape(said.replace("{topic}", topic))):
        save(frame, **options)


def test_the_worker_goes_on_after_a_failed_write(
    spark: SparkSession, make_topic: Make, save: Save, consume: Consume
) -> None:
    topic = make_topic()
    frame = spark.range(100).coalesce(1).selectExpr("if(id = 99, repeat('x', 3000000), 'a') as value")
    with pytest.raises(PySparkException, match=topic):
        save(frame, topic=topic)
    before = len(consume(topic))
    save(spark.range(10).selectExpr("'b' as value"), topic=topic)
    values = [m.value() for m in consume(topic)]
    assert values.count(b"b") == 10
    assert values.count(b"a") == before < 100


def test_workers_are_other_processes(spark: SparkSession) -> None:
    tasks = spark.sparkContext.parallelize(range(2), 2).barrier()
    pids = set(tasks.mapPartitions(lambda _: [os.getpid()]).collect())
    assert len(pids) == 2
    assert os.getpid() not in pids
