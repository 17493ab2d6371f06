"""A slow registry does not hold up the event loop of an async client: every door, every format, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.wrappers_pb2 import Int64Value

import kafwire
from kafwire.bad_records import BadRecord
from kafwire.errors import SchemaRegistryError, SerializationError
from kafwire.registry import ConfluentHeader, SchemaRegistry
from kafwire.stream import ConsumerSource, Pipeline
from kafwire.testing.cluster import KafkaCluster
from kafwire.types import TopicPartition
from tests.support.schema_registry import Reply
from tests.support.ticking import TickedRegistry

pytestmark = pytest.mark.either_kafka

AVRO = '{"type": "record", "name": "Leg", "fields": [{"name": "n", "type": "long"}]}'
JSON = '{"title": "Leg", "type": "object", "properties": {"n": {"type": "integer"}}}'

Make = Callable[[SchemaRegistry], Any]
FORMATS: dict[str, tuple[Make, Callable[[int], Any]]] = {
    "avro": (lambda registry: kafwire.Avro(registry, AVRO, register=True), lambda n: {"n": n}),
    "avro-header": (
        lambda registry: kafwire.Avro(registry, AVRO, register=True, framing=ConfluentHeader()),
        lambda n: {"n": n},
    ),
    "avro-latest": (kafwire.Avro, lambda n: {"n": n}),
    "json": (lambda registry: kafwire.JsonSchema(registry, JSON, register=True), lambda n: {"n": n}),
    "protobuf": (lambda registry: kafwire.Protobuf(registry, Int64Value, register=True), lambda n: Int64Value(value=n)),
}


@pytest.fixture
def server() -> Iterator[TickedRegistry]:
    with TickedRegistry() as server:
        yield server


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest, server: TickedRegistry, topic_name: str) -> str:
    if request.param.startswith("avro"):
        server.register(f"{topic_name}-value", AVRO)
    return str(request.param)


def registry_of(server: TickedRegistry) -> SchemaRegistry:
    return SchemaRegistry(server.url, max_retries=0)


def written(cluster: KafkaCluster, server: TickedRegistry, topic: str, kind: str, count: int = 3) -> list[Any]:
    """Write values, and return them. The imports of the packages are done then."""
    make, value_of = FORMATS[kind]
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic, partitions=1)
    values = [value_of(n) for n in range(count)]
    format_ = make(registry_of(server))
    with kafwire.Producer(cluster.bootstrap, value=format_) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    assert [record.value for record in kafwire.scan(cluster.bootstrap, topic, value=format_)] == values
    return values


Door = Callable[[str, str, Any], AsyncIterator[Any]]


async def by_record(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", value=format_) as consumer:
        async for record in consumer:
            yield record.value


async def by_batch(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", value=format_) as consumer:
        async for batch in consumer.batches():
            for record in batch:
                yield record.value


async def by_poll(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", value=format_) as consumer:
        while True:
            for batch in await consumer.poll(10.0):
                for record in batch:
                    yield record.value


async def by_partition(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    where = TopicPartition(topic, 0)
    async with (
        kafwire.AsyncConsumer(bootstrap, assign=[where], start="earliest", value=format_) as consumer,
        consumer.partition_stream(where) as stream,
    ):
        async for batch in stream:
            for record in batch:
                yield record.value


async def by_scan(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncClient(bootstrap) as client, await client.scan(topic, value=format_) as scan:
        async for record in scan:
            yield record.value


async def by_scanned_batch(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncClient(bootstrap) as client, await client.scan(topic, value=format_) as scan:
        async for batch in scan.batches():
            for record in batch:
                yield record.value


async def by_column(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest", value=format_) as consumer:
        async for batch in consumer.batches():
            for value in batch.to_arrow()["value"].to_pylist():
                yield Int64Value(value=value["value"]) if "value" in value else value


async def by_share(bootstrap: str, topic: str, format_: Any) -> AsyncIterator[Any]:
    alter = kafwire.protocol.IncrementalAlterConfigsRequest
    earliest = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    group = alter.AlterConfigsResource(resource_type=32, resource_name=topic, configs=[earliest])
    async with kafwire.AsyncClient(bootstrap) as client:
        await client.call(alter(resources=[group]))
    async with kafwire.AsyncShareConsumer(bootstrap, topics=topic, value=format_, group_id=topic) as consumer:
        async for batch in consumer.batches():
            for record in batch:
                yield record.value


DOORS: list[Door] = [by_record, by_batch, by_poll, by_partition, by_scan, by_scanned_batch, by_column, by_share]


async def taken(source: AsyncIterator[Any], count: int) -> list[Any]:
    found = []
    async for each in source:
        found.append(each)
        if len(found) == count:
            break
    await source.aclose()  # type: ignore[attr-defined] # an async generator
    return found


def in_ticking_loop(server: TickedRegistry, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run `main` beside a ticking task, which no request may hold up."""

    async def run() -> Any:
        async with server.ticking():
            return await main()

    found = asyncio.run(run())
    assert server.held_up == []
    return found


@pytest.mark.parametrize("door", DOORS)
def test_a_slow_registry_does_not_hold_up_a_reader(
    door: Door, kind: str, cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    values = written(cluster, server, topic_name, kind)
    format_ = FORMATS[kind][0](registry_of(server))
    requests = len(server.paths)
    assert in_ticking_loop(server, lambda: taken(door(cluster.bootstrap, topic_name, format_), 3)) == values
    assert len(server.paths) > requests


def test_a_slow_registry_does_not_hold_up_a_sender(
    kind: str, cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    values = written(cluster, server, topic_name, kind, 0) or [FORMATS[kind][1](n) for n in range(20)]
    format_ = FORMATS[kind][0](registry_of(server))

    async def main() -> None:
        async with kafwire.AsyncProducer(cluster.bootstrap, value=format_) as producer:
            await asyncio.gather(*[producer.send(topic_name, value, partition=0) for value in values])

    in_ticking_loop(server, main)
    assert [record.value for record in kafwire.scan(cluster.bootstrap, topic_name, value=format_)] == values


def test_columns_are_sent_without_a_pause_of_the_loop(
    cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    written(cluster, server, topic_name, "avro", 0)
    rows = pa.table({"value": pa.array([{"n": 1}, {"n": 2}])})
    avro = kafwire.Avro(registry_of(server), AVRO, register=True)

    async def main() -> None:
        async with kafwire.AsyncProducer(cluster.bootstrap, value=avro) as producer:
            await (await producer.send_batch(topic_name, rows))

    in_ticking_loop(server, main)
    assert [record.value for record in kafwire.scan(cluster.bootstrap, topic_name, value=avro)] == [{"n": 1}, {"n": 2}]


def test_a_failed_lookup_is_the_error_of_its_record_and_the_next_read_asks_again(
    cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    values = written(cluster, server, topic_name, "avro")
    avro = kafwire.Avro(registry_of(server), AVRO)

    async def main() -> list[Any]:
        async with kafwire.AsyncConsumer(
            cluster.bootstrap, topics=topic_name, start="earliest", value=avro
        ) as consumer:
            server.replies.append(Reply(503))
            with pytest.raises(SerializationError, match="at offset 0 cannot be deserialized") as caught:
                await anext(aiter(consumer))
            assert isinstance(caught.value.__cause__, SchemaRegistryError)
            assert not server.replies
            return await taken_from(consumer, 3)

    assert in_ticking_loop(server, main) == values


async def taken_from(consumer: kafwire.AsyncConsumer, count: int) -> list[Any]:
    records = aiter(consumer)
    return [(await anext(records)).value for _ in range(count)]


def test_a_batch_has_the_error_of_its_lookup_without_another_request(
    cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    written(cluster, server, topic_name, "avro")
    avro = kafwire.Avro(registry_of(server), AVRO)

    async def main() -> None:
        async with kafwire.AsyncConsumer(
            cluster.bootstrap, topics=topic_name, start="earliest", value=avro
        ) as consumer:
            server.replies.append(Reply(503))
            batch = await anext(consumer.batches())
            requests = len(server.paths)
            for _ in range(2):
                with pytest.raises(SerializationError, match="SchemaRegistryError: schema 1: .*503"):
                    list(batch)
            assert len(server.paths) == requests

    in_ticking_loop(server, main)


def test_the_next_attempt_of_a_stream_asks_again(
    cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    values = written(cluster, server, topic_name, "avro")
    avro = kafwire.Avro(registry_of(server), AVRO)
    found: list[Any] = []

    async def main() -> None:
        server.replies.append(Reply(503))
        options: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with kafwire.AsyncConsumer(
            cluster.bootstrap, topics=topic_name, group_id=topic_name, value=avro, **options
        ) as consumer:
            pipeline = Pipeline().map(lambda record: found.append(record.value)).retry(2, backoff_s=0.001)
            await pipeline.run_async(ConsumerSource(consumer, idle_s=0.5))

    in_ticking_loop(server, main)
    assert found == values
    assert not server.replies


def test_bad_records_are_reported_as_in_a_blocking_client(
    cluster: KafkaCluster, server: TickedRegistry, topic_name: str
) -> None:
    (good,) = written(cluster, server, topic_name, "avro", 1)
    with kafwire.Producer(cluster.bootstrap) as producer:
        for value in (b"no prefix", b"\0\0\0\0\x63\2", b"\0\0\0\0\1", b"\0\0\0\0\1\2"):
            producer.send(topic_name, value, partition=0)
    letters: list[BadRecord] = []
    expected: list[BadRecord] = []
    blocking = kafwire.Avro(registry_of(server), AVRO, on_bad=expected.append)
    values = [record.value for record in kafwire.scan(cluster.bootstrap, topic_name, value=blocking)]
    assert values == [good, None, None, None, {"n": 1}]
    avro = kafwire.Avro(registry_of(server), AVRO, on_bad=letters.append)
    assert in_ticking_loop(server, lambda: taken(by_record(cluster.bootstrap, topic_name, avro), 5)) == values
    assert letters == expected
    assert [each.offset for each in letters] == [1, 2, 3]
