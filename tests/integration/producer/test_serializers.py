"""Serializers and deserializers of both flavours, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import ConfigError, SerializationError
from kafwire.testing import KafkaCluster
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.known_topics import make_topic
from tests.support.serializers import Tagged, awaited
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka


class Flight(msgspec.Struct):
    """The values that a test sends."""

    to: str


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


@pytest.fixture
def bootstrap(cluster: KafkaCluster) -> str:
    return cluster.bootstrap


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> str:
    return make_topic(bootstrap, topic_name)


def stored(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    with kafwire.scan(bootstrap, topic) as scan:
        return [(record.key, record.value) for batch in scan.batches() for record in batch]


def test_there_and_back(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.producer(bootstrap, key_serializer=str, value_serializer=Flight) as producer, within(30):
        for key, value in (("a", Flight("IAH")), (None, Flight("MIA")), ("a", None)):
            producer.send(topic, value, key=key).result(10)
        with pytest.raises(SerializationError, match="a Flight is needed, not str"):
            producer.send(topic, "IAH")
        with pytest.raises(ConfigError, match="the topic must be a non-empty str"):
            producer.send(5, Flight("IAH"))
    assert stored(bootstrap, topic) == [(b"a", b'{"to":"IAH"}'), (None, b'{"to":"MIA"}'), (b"a", None)]
    options: dict[str, Any] = {"key_deserializer": str, "value_deserializer": Flight}
    with flavour.consumer(bootstrap, topics=topic, start="earliest", **options) as consumer, within(30):
        records = iter(consumer)
        found = [next(records) for _ in range(3)]
        assert [(r.key, r.value) for r in found] == [("a", Flight("IAH")), (None, Flight("MIA")), ("a", None)]
        assert consumer.position(TopicPartition(topic, 0)) == 3
    with flavour.consumer(bootstrap, topics=topic, start="earliest", **options) as consumer, within(30):
        batch = next(iter(consumer.batches(timeout=20)))
        assert batch[0].value == Flight("IAH")
        assert batch.to_arrow()["value"][0].as_py() == b'{"to":"IAH"}'
    with kafwire.scan(bootstrap, topic, value_deserializer="json") as scan:
        assert [record.value for batch in scan.batches() for record in batch] == [{"to": "IAH"}, {"to": "MIA"}, None]


def test_a_bad_record_keeps_its_place_and_is_passed_over_by_seek(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with kafwire.Producer(bootstrap) as producer:
        producer.send_batch(topic, pa.table({"value": [b"a", b"b", b"\xff", b"d"]})).result(10)
    where = TopicPartition(topic, 0)
    deserializer = str if flavour.name == "blocking" else awaited
    with (
        flavour.consumer(
            bootstrap, assign=[where], start="earliest", value_deserializer=deserializer, group_id=topic
        ) as consumer,
        within(30),
    ):
        records = iter(consumer)
        assert [next(records).value, next(records).value] == ["a", "b"]
        for _ in range(2):
            with pytest.raises(SerializationError, match=f"the value of {topic}-0 at offset 2") as caught:
                next(iter(consumer))
            assert consumer.position(where) == 2
        consumer.commit()
        assert consumer.committed()[where] == 2  # up to the last record that was handed out
        consumer.seek(where, caught.value.offset + 1)
        assert next(iter(consumer)).value == "d"
        assert consumer.position(where) == 4


def test_keys_are_placed_as_bytes_and_headers_are_added(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, 5)
    with flavour.producer(bootstrap, key_serializer=str, value_serializer=Tagged()) as producer, within(30):
        mine = [producer.send(topic_name, "v", key=f"{n}", headers=[("a", None)]).result(10) for n in range(20)]
    with flavour.producer(bootstrap) as producer, within(30):
        plain = [producer.send(topic_name, b"v", key=b"%d" % n).result(10) for n in range(20)]
    assert [meta.partition for meta in mine] == [meta.partition for meta in plain]
    with kafwire.scan(bootstrap, topic_name) as scan:
        record = next(iter(next(iter(scan.batches()))))
    assert record.headers == [("a", None), ("tag", topic_name.encode())]


def test_tables_stay_bytes_without_a_form_for_columns(flavour: Flavour, bootstrap: str, topic: str) -> None:
    table = pa.table({"key": ["k", None], "value": ["v", None]})
    with flavour.producer(bootstrap, key_serializer=str, value_serializer=Tagged()) as producer, within(30):
        assert producer.send_batch(topic, table).result(10) == [(topic, 0, 0, 2)]
    assert stored(bootstrap, topic) == [(b"k", f"{topic}/v".encode()), (None, None)]


def test_async_ones(bootstrap: str, topic: str) -> None:
    async def run() -> list[Any]:
        async with kafwire.AsyncProducer(bootstrap, value_serializer=awaited) as producer:
            for value in ("a", None, "b"):
                await (await producer.send(topic, value))
        options: dict[str, Any] = {"value_deserializer": awaited}
        async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", **options) as consumer:
            found = []
            async for record in consumer:
                found.append((record.offset, record.value))
                if len(found) == 3:
                    break
        async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", **options) as consumer:
            async for batch in consumer.batches(timeout=0.5):
                found += [(record.offset, record.value) async for record in batch]
        return found

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [(0, "a"), (1, None), (2, "b")] * 2


def test_a_cancelled_deserializer_leaves_the_record(bootstrap: str, topic: str) -> None:
    with kafwire.Producer(bootstrap) as producer:
        producer.send(topic, b"a").result(10)
    slow = True

    async def deserialize(data: bytes, _topic: str, _headers: Any) -> str:
        await asyncio.sleep(60 if slow else 0)
        return data.decode()

    async def run() -> Any:
        nonlocal slow
        async with kafwire.AsyncConsumer(
            bootstrap, topics=topic, start="earliest", value_deserializer=deserialize
        ) as consumer:
            records = aiter(consumer)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(records), 2)
            assert await consumer.position(TopicPartition(topic, 0)) == 0
            slow = False
            return (await anext(records)).value

    assert asyncio.run(asyncio.wait_for(run(), 30)) == "a"


def test_a_producer_s_subclass_keeps_its_own_send(bootstrap: str, topic: str) -> None:
    class Loud(kafwire.Producer):
        def send(self, topic: str, value: Any = None, **rest: Any) -> Any:
            return super().send(topic, value.upper(), **rest)

    with Loud(bootstrap, value_serializer=str) as producer:
        assert isinstance(producer, Loud)
        producer.send(topic, "a").result(10)
    assert stored(bootstrap, topic) == [(None, b"A")]
