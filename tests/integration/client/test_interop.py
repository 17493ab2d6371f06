"""kafwire, confluent-kafka and Kafka's Java client read what each of them wrote, record by record.

Every record goes to a partition chosen here, so partition and offset are known beforehand, and all readers are compared
with what was written, not with one another.
"""

import random
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import DEFAULT_VERSION
from tests.support import seeds
from tests.support.java.client import JavaClient, Seen, Written
from tests.support.java.interop import (
    CODECS,
    LOG_APPEND_TIME,
    NOW_MS,
    Reader,
    Shape,
    Writer,
    expected,
    read_by_confluent,
    read_by_kafwire,
    read_by_kafwire_as_arrow,
    sample,
    send_batch_by_kafwire,
    send_by_confluent,
    send_by_kafwire,
)
from tests.support.kafka_versions import CLUSTERS
from tests.support.real_topics import create


class Stored(NamedTuple):
    """A batch as it lies in the broker's log."""

    codec: int
    records: int
    size: int


@pytest.fixture(params=seeds.sampled(CLUSTERS, DEFAULT_VERSION))
def broker(request: pytest.FixtureRequest) -> KafkaCluster:
    found: KafkaCluster = request.getfixturevalue(CLUSTERS[request.param])
    return found


@pytest.fixture(scope="session")
def java_client() -> Iterator[JavaClient]:
    with JavaClient() as client:
        yield client


@pytest.fixture(params=["kafwire.send", "kafwire.send_batch", "confluent", "java"])
def writer(request: pytest.FixtureRequest) -> tuple[str, Writer]:
    def java(bootstrap: str, topic: str, records: Sequence[Written], shape: Shape) -> None:
        client: JavaClient = request.getfixturevalue("java_client")
        client.produce(bootstrap, topic, records, **shape.java())

    return request.param, {
        "kafwire.send": send_by_kafwire,
        "kafwire.send_batch": send_batch_by_kafwire,
        "confluent": send_by_confluent,
        "java": java,
    }[request.param]


@pytest.fixture
def readers(java_client: JavaClient) -> dict[str, Reader]:
    return {
        "kafwire records": read_by_kafwire,
        "kafwire Arrow": read_by_kafwire_as_arrow,
        "confluent": read_by_confluent,
        "java": java_client.consume,
    }


def stored_batches(cluster: KafkaCluster, topic: str, partition: int) -> list[Stored]:
    """The batches of a partition, from their headers in the broker's own file."""
    data = (cluster.node(1).data / f"{topic}-{partition}" / "00000000000000000000.log").read_bytes()
    batches, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        (attributes,) = struct.unpack_from(">h", data, at + 21)
        (count,) = struct.unpack_from(">i", data, at + 57)
        batches.append(Stored(attributes & 7, count, 12 + length))
        at += 12 + length
    return batches


def check(readers: dict[str, Reader], bootstrap: str, topic: str, wanted: list[Seen]) -> None:
    for name, read in readers.items():
        assert read(bootstrap, topic) == wanted, name


@pytest.mark.parametrize("codec", CODECS)
def test_every_reader_reads_every_codec(
    broker: KafkaCluster, codec: str, writer: tuple[str, Writer], readers: dict[str, Reader], topic_name: str
) -> None:
    seed = seeds.of_test()
    records = sample(300, 3, seed)
    create(broker, topic_name, 3)
    writer[1](broker.bootstrap, topic_name, records, Shape(codec))
    check(readers, broker.bootstrap, topic_name, expected(records))
    for partition in range(3):
        assert {stored.codec for stored in stored_batches(broker, topic_name, partition)} == {CODECS[codec]}


@pytest.mark.parametrize("writer", ["kafwire.send", "confluent", "java"], indirect=True)
def test_every_reader_reads_batches_of_one_record(
    broker: KafkaCluster, writer: tuple[str, Writer], readers: dict[str, Reader], topic_name: str
) -> None:
    name, write = writer
    records = sample(200, 2, 1)
    create(broker, topic_name, 2)
    write(broker.bootstrap, topic_name, records, Shape("lz4", one_record_batches=True))
    check(readers, broker.bootstrap, topic_name, expected(records))
    sizes = {stored.records for part in range(2) for stored in stored_batches(broker, topic_name, part)}
    assert sizes <= ({1, 2} if name == "java" else {1})  # Java puts a tiny record beside another


def test_every_reader_reads_batches_of_a_megabyte(
    broker: KafkaCluster, writer: tuple[str, Writer], readers: dict[str, Reader], topic_name: str
) -> None:
    chance = random.Random(2)
    records = [Written(0, NOW_MS + number, None, chance.randbytes(1000), ()) for number in range(3000)]
    create(broker, topic_name, 1)
    writer[1](broker.bootstrap, topic_name, records, Shape())
    check(readers, broker.bootstrap, topic_name, expected(records))
    assert max(stored.size for stored in stored_batches(broker, topic_name, 0)) > 900_000


def test_every_reader_reads_a_hundred_partitions(
    broker: KafkaCluster, writer: tuple[str, Writer], readers: dict[str, Reader], topic_name: str
) -> None:
    records = sample(2000, 100, 3)
    create(broker, topic_name, 100)
    writer[1](broker.bootstrap, topic_name, records, Shape("zstd"))
    check(readers, broker.bootstrap, topic_name, expected(records))


def test_every_reader_sees_the_broker_s_timestamps(
    broker: KafkaCluster, writer: tuple[str, Writer], readers: dict[str, Reader], topic_name: str
) -> None:
    records = sample(50, 1, 4)
    create(broker, topic_name, 1, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    writer[1](broker.bootstrap, topic_name, records, Shape(stamped_by_broker=True))
    after = int(time.time() * 1000) + 1
    wanted = expected(records)
    for name, read in readers.items():
        seen = read(broker.bootstrap, topic_name)
        assert {record.timestamp_type for record in seen} == {LOG_APPEND_TIME}, name
        assert all(before <= record.timestamp_ms <= after for record in seen), name
        assert [record._replace(timestamp_ms=0, timestamp_type=0) for record in seen] == [
            record._replace(timestamp_ms=0) for record in wanted
        ], name


def test_pipelined_batches_keep_their_order_in_a_topic_just_made(broker: KafkaCluster, topic_name: str) -> None:
    """The first batch is often refused there, because the broker is still making the partition."""
    records = [Written(0, NOW_MS, None, str(number).encode(), ()) for number in range(50)]
    for number in range(15):
        topic = f"{topic_name}-{number}"
        create(broker, topic, 1, settled=False)
        send_by_kafwire(broker.bootstrap, topic, records, Shape(one_record_batches=True))
        assert read_by_kafwire(broker.bootstrap, topic) == expected(records)
