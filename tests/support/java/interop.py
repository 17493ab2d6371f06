"""Records written and read by kafwire and confluent-kafka, in the shapes in which tests compare clients."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

import kafwire
from tests.support.java.client import Seen, Written
from tests.support.real_topics import watching

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


NOW_MS = 1_760_000_000_000


CREATE_TIME, LOG_APPEND_TIME = 0, 1


Writer = Callable[[str, str, Sequence[Written], "Shape"], None]


Reader = Callable[[str, str], list[Seen]]


class Shape(NamedTuple):
    """How the records come to lie in batches; each client has its own options for it."""

    codec: str = "none"
    one_record_batches: bool = False
    stamped_by_broker: bool = False

    def kafwire(self) -> dict[str, Any]:
        common: dict[str, object] = {"compression_type": self.codec, "linger_ms": 1000}
        return common | ({"batch_size": 1, "linger_ms": 0} if self.one_record_batches else {"batch_size": 1_000_000})

    def java(self) -> dict[str, object]:
        common: dict[str, object] = {
            "compression_type": self.codec,
            "linger_ms": 1000,
            "delivery_timeout_ms": 60_000,
            "request_timeout_ms": 20_000,
        }
        return common | ({"batch_size": 0, "linger_ms": 0} if self.one_record_batches else {"batch_size": 1_000_000})

    def librdkafka(self) -> dict[str, object]:
        common = {"compression.type": self.codec, "linger.ms": 1000, "batch.size": 1_000_000}
        return common | ({"batch.num.messages": 1, "linger.ms": 0} if self.one_record_batches else {})


def sample(count: int, partitions: int, seed: int) -> list[Written]:
    """Records with everything that may be absent, empty or odd."""
    chance = random.Random(seed)
    texts = [b"", b"k", b"\x00\xff" * 40, "schlüssel".encode(), b"a longer text that compresses well " * 30]
    names = ["", "h", "same", "same", "größe", "n" * 200]

    def maybe(choices: Sequence[bytes]) -> bytes | None:
        return None if chance.random() < 0.2 else chance.choice(choices)

    return [
        Written(
            partition=chance.randrange(partitions),
            timestamp_ms=NOW_MS + chance.randrange(-100_000, 100_000),
            key=maybe(texts),
            value=maybe([*texts, chance.randbytes(chance.randrange(2000))]),
            headers=tuple((chance.choice(names), maybe(texts)) for _ in range(chance.choice([0, 0, 1, 2, 5]))),
        )
        for _ in range(count)
    ]


def expected(records: Sequence[Written]) -> list[Seen]:
    """The records that a reader must see: those of each partition in the order in which they were written."""
    ends: dict[int, int] = {}
    seen = []
    for partition, timestamp_ms, key, value, headers in records:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        seen.append(Seen(partition, offset, timestamp_ms, CREATE_TIME, key, value, headers))
    return sorted(seen, key=lambda record: record[:2])


def send_by_kafwire(bootstrap: str, topic: str, records: Sequence[Written], shape: Shape) -> None:
    with kafwire.Producer(bootstrap, **shape.kafwire()) as producer:
        deliveries = [
            producer.send(
                topic,
                record.value,
                key=record.key,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms,
                partition=record.partition,
            )
            for record in records
        ]
        producer.flush()
        reported = [delivery.result(timeout=30) for delivery in deliveries]
    counts: dict[int, int] = {}
    for record, meta in zip(records, reported, strict=True):
        assert meta[:3] == (topic, record.partition, counts.get(record.partition, 0))
        assert shape.stamped_by_broker == (meta.timestamp_ms != record.timestamp_ms)
        counts[record.partition] = meta.offset + 1


def send_batch_by_kafwire(bootstrap: str, topic: str, records: Sequence[Written], shape: Shape) -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.array([record.value for record in records], pa.binary()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "partition": pa.array([record.partition for record in records], pa.int32()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", "UTC")),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in record.headers] for record in records], headers
            ),
        }
    )
    with kafwire.Producer(bootstrap, **shape.kafwire()) as producer:
        delivery = producer.send_batch(topic, table)
        producer.flush()
        ranges = delivery.result(timeout=30)
    written = [(partition, first + at) for _, partition, first, count in ranges for at in range(count)]
    assert sorted(written) == [record[:2] for record in expected(records)]


def send_by_confluent(bootstrap: str, topic: str, records: Sequence[Written], shape: Shape) -> None:
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True, **shape.librdkafka()}
    )
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=delivered,
        )
    assert producer.flush(60) == 0
    assert not failed


def read_by_kafwire(bootstrap: str, topic: str) -> list[Seen]:
    seen = []
    for batch in kafwire.scan(bootstrap, topic).batches():
        for record in batch:
            where, stamp = (record.partition, record.offset), (record.timestamp_ms, record.timestamp_type)
            assert where[0] is not None
            assert stamp[0] is not None
            assert stamp[1] is not None
            seen.append(Seen(where[0], where[1], stamp[0], stamp[1], record.key, record.value, tuple(record.headers)))
    return sorted(seen, key=lambda record: record[:2])


def read_by_kafwire_as_arrow(bootstrap: str, topic: str) -> list[Seen]:
    table = pa.table(kafwire.scan(bootstrap, topic))
    assert set(table["topic"].to_pylist()) <= {topic}
    columns = [
        table["partition"].to_pylist(),
        table["offset"].to_pylist(),
        table["timestamp"].cast(pa.int64()).to_pylist(),
        table["timestamp_type"].to_pylist(),
        table["key"].to_pylist(),
        table["value"].to_pylist(),
        [tuple((header["key"], header["value"]) for header in row) for row in table["headers"].to_pylist()],
    ]
    return sorted((Seen(*row) for row in zip(*columns, strict=True)), key=lambda record: record[:2])


def read_by_confluent(bootstrap: str, topic: str) -> list[Seen]:
    with watching(bootstrap) as consumer:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {part: consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=30)[1] for part in partitions}
        consumer.assign([TopicPartition(topic, part, 0) for part in partitions])
        seen: list[Seen] = []
        deadline = time.monotonic() + 60
        while len(seen) < sum(ends.values()):
            assert time.monotonic() < deadline
            for message in consumer.consume(10_000, 0.1):
                if message.error():
                    raise KafkaException(message.error())
                partition, offset, headers = message.partition(), message.offset(), message.headers() or []
                assert partition is not None
                assert offset is not None
                assert isinstance(headers, list)
                kind, timestamp_ms = message.timestamp()
                kind -= 1  # librdkafka counts from "not available"
                seen.append(
                    Seen(partition, offset, timestamp_ms, kind, message.key(), message.value(), _pairs(headers))
                )
    return sorted(seen, key=lambda record: record[:2])


def _pairs(headers: Sequence[tuple[str, str | bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    """librdkafka's headers, whose values are typed as text too, which they never are."""
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)
