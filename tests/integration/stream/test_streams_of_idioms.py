"""Streams with serializers in other clients' idioms, text in headers, and few records at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import kafwire
from kafwire.stream import ConsumerSource, Message, Pipeline, StreamSummary, TopicSink
from kafwire.testing import EmbeddedKafka

ORDERS = 25


class OfContext:
    """A serializer with the call of confluent-kafka's."""

    def __call__(self, obj: Any, ctx: Any = None) -> str:
        return json.dumps({ctx.field: obj, "topic": ctx.topic})


class OfTopic:
    """A serializer with the call of kafka-python's."""

    def serialize(self, topic: str, headers: Any, data: Any) -> bytes:
        return json.dumps([data, topic, len(headers)]).encode()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_records_go_through_by_each_signature(kafka: EmbeddedKafka, guarantee: Any) -> None:
    for topic in ("orders", "bills"):
        kafka.create_topic(topic)
    kafka.append("orders", [{"key": b"7", "value": b'{"books": %d}' % n} for n in range(ORDERS)])

    def bill(books: list[dict[str, int]]) -> Message:
        return Message([each["books"] for each in books], key="k", headers=[("source", "grün")])

    async def main() -> StreamSummary:
        consumer = kafwire.AsyncConsumer(
            kafka.bootstrap,
            assign=[kafwire.TopicPartition("orders", 0)],
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            value_deserializer=lambda data: json.loads(data.decode()),
            key_deserializer=bytes.decode,
            max_poll_records=4,
        )
        given: dict[str, Any] = {} if guarantee == "at_least_once" else {"transactional_id": "billing"}
        async with kafwire.AsyncProducer(
            kafka.bootstrap, key_serializer=OfContext(), value_serializer=OfTopic(), **given
        ) as producer:
            read, sink = ConsumerSource(consumer, idle_s=0.2), TopicSink(producer, "bills")
            pipeline = Pipeline().map(lambda record: record.value).batch(5).map(bill)
            return await pipeline.run_async(read, sink, guarantee=guarantee)

    asyncio.run(main())
    bills = kafka.records("bills", committed=True)
    assert [books for record in bills for books in json.loads(record.value or b"")[0]] == list(range(ORDERS))
    assert {record.key for record in bills} == {b'{"key": "k", "topic": "bills"}'}
    assert {json.loads(record.value or b"")[1] for record in bills} == {"bills"}
    assert all(record.headers == [("source", "grün".encode())] for record in bills)
    assert kafka.committed("billing") == {("orders", 0): ORDERS}
