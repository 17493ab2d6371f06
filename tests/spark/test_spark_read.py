"""Batch reads through Spark of what confluent-kafka wrote to a real broker."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import BinaryType, StructType

from kafwire.spark import DataLossError, KafwireDataSource
from kafwire.spark.options import read_options
from kafwire.spark.reader import KafwireReader
from kafwire.spark.schema import full_schema
from kafwire.testing import KafkaCluster
from tests.support import seeds

Make = Callable[..., str]
Produce = Callable[..., None]
Load = Callable[..., DataFrame]

START = 1_357_016_400_000


def numbered(count: int, partitions: int = 1, first: int = 0) -> list[dict[str, Any]]:
    """Records whose value is their number, dealt out to the partitions, a second apart."""
    return [
        {"value": b"%d" % n, "partition": n % partitions, "timestamp": START + 1000 * n}
        for n in range(first, first + count)
    ]


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.partition, row.offset))


@pytest.mark.parametrize("codec", seeds.sampled(["none", "gzip", "snappy", "lz4", "zstd"], "none", "lz4"))
def test_every_column_arrives_with_every_codec(make_topic: Make, produce: Produce, load: Load, codec: str) -> None:
    topic = make_topic(3)
    records: list[dict[str, Any]] = [
        {
            "key": None if n % 5 == 0 else b"key-%d" % n,
            "value": None if n % 7 == 0 else b"v" * (n % 300) + bytes([n % 256]),
            "headers": [("a", b"%d" % n), ("b", None), ("a", b"")][: n % 4],
            "partition": n % 3,
            "timestamp": START + n,
        }
        for n in range(900)
    ]
    produce(topic, records, compression_type=codec)
    rows = in_order(load(subscribe=topic, includeHeaders="true").collect())
    assert len(rows) == len(records)
    for partition in range(3):
        written = [record for record in records if record["partition"] == partition]
        read = [row for row in rows if row.partition == partition]
        assert [row.offset for row in read] == list(range(len(written)))
        for row, record in zip(read, written, strict=True):
            assert (row.key, row.value, row.topic, row.timestampType) == (record["key"], record["value"], topic, 0)
            assert round(row.timestamp.timestamp() * 1000) == record["timestamp"]
            headers = row.headers and [(header.key, header.value) for header in row.headers]
            assert headers == (record["headers"] or None)


def test_the_source_is_found_by_itself_and_declares_sparks_schema(make_topic: Make, load: Load) -> None:
    topic = make_topic()
    assert load(subscribe=topic).schema == full_schema(include_headers=False)
    assert load(subscribe=topic, includeHeaders="true").schema == full_schema(include_headers=True)
    assert load(subscribe=topic).collect() == []


def test_it_can_be_registered(spark: SparkSession, make_topic: Make, produce: Produce, load: Load) -> None:
    spark.dataSource.register(KafwireDataSource)
    topic = make_topic()
    produce(topic, numbered(3))
    assert numbers(load(subscribe=topic)) == [0, 1, 2]


@pytest.mark.parametrize("missing", ["pyspark.sql.datasource", "kafwire.errors", "kafwire.spark.source"])
def test_discovery_never_fails(missing: str) -> None:
    """The module that Spark imports offers no source, and raises nothing, when something it needs is not there."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; import pyspark_kafwire as m; print(hasattr(m, 'DefaultSource'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False"]
    assert "the Spark data source kafwire is not available" in done.stderr


def test_time_of_arrival(make_topic: Make, produce: Produce, load: Load) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = dt.datetime.now().astimezone() - dt.timedelta(seconds=5)
    produce(topic, numbered(2))
    for row in load(subscribe=topic).collect():
        assert row.timestampType == 1
        assert before < row.timestamp.astimezone() < before + dt.timedelta(minutes=5)


@pytest.mark.parametrize(
    "names", seeds.sampled([["value"], ["offset", "key"], ["headers", "timestamp"]], ["headers", "timestamp"])
)
def test_only_the_columns_named_are_read(make_topic: Make, produce: Produce, load: Load, names: list[str]) -> None:
    topic = make_topic()
    produce(topic, [{"key": b"k", "value": b"v", "headers": [("h", b"1")], "timestamp": START}])
    types = {
        "value": "binary",
        "key": "binary",
        "offset": "bigint",
        "timestamp": "timestamp",
        "headers": "array<struct<key:string,value:binary>>",
    }
    frame = load(", ".join(f"{name} {types[name]}" for name in names), subscribe=topic)
    assert frame.columns == names
    everything = load(subscribe=topic, includeHeaders="true").select(*names).collect()
    assert frame.collect() == everything


def test_topics_by_list_pattern_and_partition(make_topic: Make, produce: Produce, load: Load, topic_name: str) -> None:
    first, second, other = make_topic(2, suffix="-a"), make_topic(1, suffix="-b"), make_topic(1, suffix="-x")
    produce(first, numbered(10, 2))
    produce(second, numbered(10, 1, first=10))
    produce(other, numbered(10, 1, first=20))
    assert numbers(load(subscribe=f"{first}, {second}")) == list(range(20))
    assert numbers(load(subscribePattern=re.escape(topic_name) + "-[ab]$")) == list(range(20))
    assert numbers(load(assign=json.dumps({first: [1], other: [0]}))) == [*range(1, 10, 2), *range(20, 30)]


def test_offsets_bound_the_read_exactly(make_topic: Make, produce: Produce, load: Load) -> None:
    topic = make_topic(2)
    produce(topic, numbered(1000, 2))
    start, end = json.dumps({topic: {"0": 7, "1": -2}}), json.dumps({topic: {"0": 11, "1": 3}})
    rows = in_order(load(subscribe=topic, startingOffsets=start, endingOffsets=end).collect())
    assert [(row.partition, row.offset) for row in rows] == [(0, n) for n in range(7, 11)] + [(1, n) for n in range(3)]
    assert load(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 499, "1": 500}})).count() == 1


def test_timestamps_bound_the_read(make_topic: Make, produce: Produce, load: Load) -> None:
    topic = make_topic(2)
    produce(topic, numbered(100, 2))
    since, until = str(START + 9_500), str(START + 20_000)
    assert numbers(load(subscribe=topic, startingTimestamp=since, endingTimestamp=until)) == list(range(10, 20))
    mixed = json.dumps({topic: {"0": START + 90_000, "1": START + 95_000}})
    assert numbers(load(subscribe=topic, startingOffsetsByTimestamp=mixed)) == [90, 92, 94, 95, 96, 97, 98, 99]
    ends = json.dumps({topic: {"0": START + 4_000, "1": START + 10**9}})
    assert numbers(load(subscribe=topic, endingOffsetsByTimestamp=ends)) == sorted([0, 2, *range(1, 100, 2)])
    late = str(START + 99_000)
    with pytest.raises(PySparkException, match=rf"startingTimestamp: {topic}-0 has no record at or after {late} ms"):
        load(subscribe=topic, startingTimestamp=late).collect()
    assert numbers(load(subscribe=topic, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest")) == [99]


def test_partitions_are_cut_as_asked(make_topic: Make, produce: Produce, load: Load) -> None:
    topic = make_topic(2)
    produce(topic, numbered(1000, 2))
    assert load(subscribe=topic).rdd.getNumPartitions() == 2
    for options, parts in (({"minPartitions": "8"}, 8), ({"maxRecordsPerPartition": "100"}, 10)):
        frame = load(subscribe=topic, **options)
        assert frame.rdd.getNumPartitions() == parts
        assert numbers(frame) == list(range(1000))


def test_an_aborted_transaction_is_read_as_isolation_says(cluster: KafkaCluster, make_topic: Make, load: Load) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value, is_committed in ((b"1", True), (b"2", False), (b"3", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        if is_committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert numbers(load(subscribe=topic)) == [1, 2, 3]
    assert numbers(load(subscribe=topic, kafka_isolation_level="read_committed")) == [1, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a read needs exactly one of the options assign, subscribe, subscribePattern; got none"),
        ({"subscribe": "no-such-topic"}, "no such topic: no-such-topic; create it first, or correct the option"),
        ({"subscribePattern": "^no-such-topic$"}, "option subscribePattern='^no-such-topic$' matches none of"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "option startingOffsets can't be latest"),
        ({"subscribe": "a", "endingOffset": "latest"}, "unknown option 'endingoffset': did you mean endingOffsets?"),
        (
            {"subscribe": "a", "kafka_auto_offset_reset": "latest"},
            "option kafka.auto.offset.reset is not supported: set",
        ),
        ({"subscribe": "a", "kafka_isolation_level": "any"}, "option isolation.level='any': allowed: read_uncommitted"),
    ],
)
def test_wrong_options_fail_on_the_driver(load: Load, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=re.escape(said)):
        load(**options).collect()


def test_named_offsets_have_to_cover_the_topic(make_topic: Make, load: Load) -> None:
    topic = make_topic(2)
    with pytest.raises(PySparkException, match=rf"must name every partition that is read: {topic}-1 missing"):
        load(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}})).collect()


def test_a_schema_that_is_not_the_sources_is_refused(make_topic: Make, load: Load) -> None:
    with pytest.raises(PySparkException, match="column value is binary, not string: declare it so and cast it"):
        load("value string", subscribe=make_topic()).collect()


def test_an_unreachable_cluster_fails_in_time(spark: SparkSession) -> None:
    frame = (
        spark.read.format("kafwire")
        .option("kafka.bootstrap.servers", "127.0.0.1:1")
        .option("kafka.default.api.timeout.ms", "1500")
        .option("subscribe", "a")
        .load()
    )
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1"):
        frame.collect()


def make_reader(cluster: KafkaCluster, schema: StructType | None = None, **options: str) -> KafwireReader:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
    return KafwireReader(read_options(given), schema or full_schema(include_headers=False))


def delete_before(cluster: KafkaCluster, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(30)


def test_records_gone_before_the_plan(cluster: KafkaCluster, make_topic: Make, produce: Produce, load: Load) -> None:
    topic = make_topic()
    produce(topic, numbered(100))
    delete_before(cluster, topic, 40)
    assert numbers(load(subscribe=topic)) == list(range(40, 100))
    options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 10}})}
    with pytest.raises(PySparkException, match=re.escape(f"{topic}-0 [10, 100) was asked for, but the topic holds")):
        load(**options).collect()
    assert numbers(load(**options, failOnDataLoss="false")) == list(range(40, 100))


def test_records_gone_between_plan_and_read(
    cluster: KafkaCluster, make_topic: Make, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    produce(topic, numbered(100))
    strict = make_reader(cluster, subscribe=topic)
    lenient = make_reader(cluster, subscribe=topic, failOnDataLoss="false")
    (planned,), (same,) = strict.partitions(), lenient.partitions()
    delete_before(cluster, topic, 60)
    with pytest.raises(
        DataLossError, match=rf"{topic}-0 \[0, 100\) was planned and read up to 0, but the topic holds \[60, 100\) now"
    ):
        list(strict.read(planned))
    offsets = [offset for batch in lenient.read(same) for offset in batch["offset"].to_pylist()]
    assert offsets == list(range(60, 100))
    assert "failOnDataLoss is false" in caplog.text
    assert "but the topic holds [60, 100) now" in caplog.text


def test_batches_are_of_a_good_size_and_exactly_of_the_schema(
    cluster: KafkaCluster, make_topic: Make, produce: Produce
) -> None:
    topic = make_topic()
    count = 120_000
    produce(topic, ({"value": b"%0100d" % n} for n in range(count)), compression_type="lz4")
    reader = make_reader(cluster, subscribe=topic)
    (planned,) = reader.partitions()
    batches = list(reader.read(planned))
    assert sum(batch.num_rows for batch in batches) == count
    assert all(1 << 20 <= batch.nbytes <= 10 << 20 for batch in batches[:-1])
    assert len(batches) >= 2
    narrow = make_reader(cluster, StructType().add("value", BinaryType()), subscribe=topic)
    table = pa.Table.from_batches(narrow.read(planned), pa.schema([("value", pa.binary())]))
    assert table["value"].to_pylist() == [b"%0100d" % n for n in range(count)]
