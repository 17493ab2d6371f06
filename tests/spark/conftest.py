"""One Spark session with two worker processes for the whole folder; confluent-kafka is the other side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from kafwire.testing import KafkaCluster
from tests.support.deadlines import until

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pyspark's own warnings pass: they say nothing about kafwire."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed .*socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that finds the data source by itself, as nothing registers it."""
    with pytest.MonkeyPatch.context() as patch:
        # The interpreter of the tests and this tree, in every worker.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = _session()
        yield session
        session.stop()


def _session() -> SparkSession:
    session = (
        SparkSession.builder.master("local[2]")
        .appName("kafwire tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.driver.memory", "1g")
        .config("spark.python.authenticate.socketTimeout", "120s")  # a worker's first imports, on a busy machine
        # The quick compiler alone: the session is over before optimised code would have paid.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture
def make_topic(cluster: KafkaCluster, topic_name: str) -> Callable[..., str]:
    """Makes topics named after the test, and waits until the broker has them: `make_topic(partitions, config, suffix)`.

    A controller responds before its broker has read the news.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def make(partitions: int = 1, config: dict[str, str] | None = None, suffix: str = "") -> str:
        name = topic_name + suffix
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        admin.create_topics([topic])[name].result(30)
        until(lambda: name in admin.list_topics(timeout=30).topics, f"{name} is known")
        return name

    return make


@pytest.fixture
def produce(cluster: KafkaCluster) -> Callable[..., None]:
    """Writes records with confluent-kafka: `produce(topic, [{"value": ..., "partition": ...}], **producer_options)`."""

    def write(topic: str, records: Iterable[dict[str, Any]], **options: Any) -> None:
        producer = Producer(
            # Idempotent: a batch that is sent again, to a leader that is too new, keeps its place.
            {"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True}
            | {name.replace("_", "."): value for name, value in options.items()}
        )
        problems: list[Any] = []

        def delivered(error: Any, _: Message) -> None:
            if error is not None:
                problems.append(error)

        for record in records:
            while True:
                try:
                    producer.produce(topic, on_delivery=delivered, **record)
                    break
                except BufferError:  # its queue is full
                    producer.poll(1)
            producer.poll(0)
        assert producer.flush(30) == 0
        assert not problems

    return write


@pytest.fixture
def consume(cluster: KafkaCluster) -> Callable[..., list[Message]]:
    """Reads a topic from end to end with confluent-kafka, in the order of partition and offset."""

    def read(topic: str, **options: Any) -> list[Message]:
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False, **options}
        )
        try:
            partitions = sorted(consumer.list_topics(topic, 30).topics[topic].partitions)
            messages = []
            for partition in partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
                consumer.assign([TopicPartition(topic, partition, low)])
                while low < high:
                    message = consumer.poll(30)
                    assert message is not None, f"{topic}-{partition} ended at {low} of {high}"
                    assert message.error() is None, message.error()
                    messages.append(message)
                    low += 1
                    assert message.offset() == low - 1
            return messages
        finally:
            consumer.close()

    return read


@pytest.fixture
def load(spark: SparkSession, cluster: KafkaCluster) -> Callable[..., DataFrame]:
    """A DataFrame over Kafka: `load(schema, subscribe=..., kafka_client_id=...)`; underscores stand for dots."""

    def make(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("kafwire").option("kafka.bootstrap.servers", cluster.bootstrap)
        for name, value in options.items():
            reader = reader.option(name.replace("_", "."), value)
        return (reader if schema is None else reader.schema(schema)).load()

    return make


@pytest.fixture
def save(cluster: KafkaCluster) -> Callable[..., None]:
    """Writes a DataFrame to Kafka: `save(frame, topic=..., kafka_linger_ms=...)`."""

    def write(frame: DataFrame, *, mode: str | None = "append", **options: str) -> None:
        writer = frame.write.format("kafwire").option("kafka.bootstrap.servers", cluster.bootstrap)
        for name, value in options.items():
            writer = writer.option(name.replace("_", "."), value)
        (writer if mode is None else writer.mode(mode)).save()

    return write
