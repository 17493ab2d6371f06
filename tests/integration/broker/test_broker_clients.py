"""Java's client, librdkafka, aiokafka and kafwire on the embedded broker: each reads what each of the others wrote.

All of them write idempotently with acks=all; partition and offset of a record are known beforehand, so readers are
compared with what was written.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioPartition

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from tests.support import seeds
from tests.support.java.client import JavaClient, Seen, Written
from tests.support.java.interop import (
    CODECS,
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

PARTITIONS = 3


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    # The records are old: they would be deleted.
    with EmbeddedKafka(configs={"log.retention.ms": -1}) as running:
        yield running


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    with JavaClient() as client:
        yield client


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    kafka.create_topic(topic_name, partitions=PARTITIONS)
    return topic_name


def send_by_aiokafka(bootstrap: str, topic: str, records: Sequence[Written], shape: Shape) -> None:
    async def send() -> None:
        codec = None if shape.codec == "none" else shape.codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", compression_type=codec, linger_ms=50
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic, each.value, each.key, each.partition, each.timestamp_ms, headers=list(each.headers)
                )
                for each in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), 60))


def read_by_aiokafka(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Seen]:
    async def read() -> list[Seen]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False)
        await consumer.start()
        try:
            places = [AioPartition(topic, index) for index in range(PARTITIONS)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            ends = await consumer.end_offsets(places)
            seen: list[Seen] = []
            while any([await consumer.position(place) < ends[place] for place in places]):
                for found in (await consumer.getmany(timeout_ms=200)).values():
                    seen += [
                        Seen(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
                        for r in found
                    ]
            return sorted(seen, key=lambda record: record[:2])
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), 60))


def writers(java: JavaClient) -> dict[str, Writer]:
    def by_java(bootstrap: str, topic: str, records: Any, shape: Shape) -> None:
        java.produce(bootstrap, topic, records, enable_idempotence=True, acks="all", **shape.java())

    return {
        "kafwire": send_by_kafwire,
        "kafwire batch": send_batch_by_kafwire,
        "confluent": send_by_confluent,
        "aiokafka": send_by_aiokafka,
        "java": by_java,
    }


def readers(java: JavaClient) -> dict[str, Reader]:
    return {
        "kafwire": read_by_kafwire,
        "kafwire Arrow": read_by_kafwire_as_arrow,
        "confluent": read_by_confluent,
        "aiokafka": read_by_aiokafka,
        "java": java.consume,
    }


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", ["kafwire", "kafwire batch", "confluent", "aiokafka", "java"])
def test_each_client_reads_the_records_of_each_other(
    kafka: EmbeddedKafka, java: JavaClient, topic: str, writer: str, codec: str
) -> None:
    records = sample(200, PARTITIONS, seeds.of_test())
    if writer == "aiokafka":  # it wants a key or a value, and no header without value
        records = [
            each._replace(
                key=b"" if each.value is None else each.key,
                headers=tuple((name, value) for name, value in each.headers if value is not None),
            )
            for each in records
        ]
    writers(java)[writer](kafka.bootstrap, topic, records, Shape(codec))
    for name, read in readers(java).items():
        assert read(kafka.bootstrap, topic) == expected(records), name


@pytest.mark.parametrize("writer", ["kafwire", "confluent", "java"])
def test_large_batches(kafka: EmbeddedKafka, java: JavaClient, topic: str, writer: str) -> None:
    chance = random.Random(seeds.of_test())
    records = [Written(0, NOW_MS + number, None, chance.randbytes(1000), ()) for number in range(3000)]
    writers(java)[writer](kafka.bootstrap, topic, records, Shape())
    for name, read in readers(java).items():
        assert read(kafka.bootstrap, topic) == expected(records), name


def transact_by_confluent(bootstrap: str, topic: str, values: list[bytes], end: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-confluent", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    producer.commit_transaction(30) if end == "commit" else producer.abort_transaction(30)


def transact_by_kafwire(bootstrap: str, topic: str, values: list[bytes], end: str) -> None:
    with kafwire.Producer(bootstrap, transactional_id=f"{topic}-kafwire") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()
        producer.commit_transaction() if end == "commit" else producer.abort_transaction()


def transact_by_aiokafka(bootstrap: str, topic: str, values: list[bytes], end: str) -> None:
    async def transact() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-aiokafka")
        await producer.start()
        try:
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(topic, value, partition=0)
            await (producer.commit_transaction() if end == "commit" else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(transact(), 60))


def committed_by_confluent(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                return found
            found.append(message.value())
    finally:
        consumer.close()


def test_transactions_of_all_are_read_committed_by_all(kafka: EmbeddedKafka, java: JavaClient, topic: str) -> None:
    def by_java(bootstrap: str, topic: str, values: list[bytes], end: str) -> None:
        records = [Written(0, NOW_MS, None, value, ()) for value in values]
        java.produce(bootstrap, topic, records, transactional_id=f"{topic}-java", end=end)

    transact: dict[str, Callable[[str, str, list[bytes], str], None]] = {
        "confluent": transact_by_confluent,
        "kafwire": transact_by_kafwire,
        "aiokafka": transact_by_aiokafka,
        "java": by_java,
    }
    wanted = []
    for turn, end in enumerate(["commit", "abort", "commit", "abort"]):
        for name, write in transact.items():
            values = [f"{name} {turn} {number} {end}".encode() for number in range(5)]
            write(kafka.bootstrap, topic, values, end)
            wanted += values if end == "commit" else []
    seen = {
        "java": [each.value for each in java.consume(kafka.bootstrap, topic, isolation_level="read_committed")],
        "aiokafka": [each.value for each in read_by_aiokafka(kafka.bootstrap, topic, "read_committed")],
        "confluent": committed_by_confluent(kafka.bootstrap, topic),
        "kafwire": [
            record.value
            for batch in kafwire.scan(kafka.bootstrap, topic, isolation_level="read_committed").batches()
            for record in batch
        ],
    }
    assert seen == dict.fromkeys(seen, wanted)
    assert len(java.consume(kafka.bootstrap, topic)) == 2 * len(wanted)


def test_offsets_for_times(kafka: EmbeddedKafka, topic: str) -> None:
    records = [Written(0, NOW_MS + 10 * number, None, b"v", ()) for number in range(100)]
    send_by_confluent(kafka.bootstrap, topic, records, Shape(one_record_batches=True))
    times = {NOW_MS - 1: 0, NOW_MS: 0, NOW_MS + 1: 1, NOW_MS + 500: 50, NOW_MS + 990: 99, NOW_MS + 991: None}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused"})

    async def by_aiokafka() -> dict[int, int | None]:
        consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
        await consumer.start()
        try:
            place, found = AioPartition(topic, 0), {}
            for timestamp in times:
                reported = (await consumer.offsets_for_times({place: timestamp}))[place]
                found[timestamp] = None if reported is None else reported.offset
            return found
        finally:
            await consumer.stop()

    try:
        for timestamp, offset in times.items():
            reported = consumer.offsets_for_times([confluent_kafka.TopicPartition(topic, 0, timestamp)], 20)[0].offset
            assert (None if reported == confluent_kafka.OFFSET_END else reported) == offset
    finally:
        consumer.close()
    assert asyncio.run(asyncio.wait_for(by_aiokafka(), 30)) == times
