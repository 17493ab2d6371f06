"""A consumer that its user forgets: it says so, and leaves nothing behind."""

import asyncio
import gc

import pytest

from kafwire import AsyncConsumer, Client, Consumer, Producer
from kafwire.consumer.core import ConsumerCore
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import until

pytestmark = pytest.mark.either_kafka


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str) -> str:
    with Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=2, replication_factor=1)
    with Producer(cluster.bootstrap) as producer:
        for number in range(10):
            producer.send(topic_name, b"%d" % number, partition=number % 2)
    return topic_name


def forget(kept: list[Consumer]) -> None:
    kept.clear()
    gc.collect()


def is_over(core: ConsumerCore) -> bool:
    return core.closed and not any(connection.is_ready for connection in core.cluster.connections)


def test_a_dropped_consumer_closes_its_connections(cluster: KafkaCluster, topic: str) -> None:
    consumer = Consumer(cluster.bootstrap, topics=topic, start="earliest")
    assert repr(consumer) == "<Consumer of 2 partitions>"
    assert consumer.poll(10)
    core = consumer._core
    assert not is_over(core)
    kept = [consumer]
    del consumer
    with pytest.warns(ResourceWarning, match="never closed: <Consumer of 2 partitions>"):
        forget(kept)
    until(lambda: is_over(core))


def test_a_dropped_async_consumer_closes_its_connections(cluster: KafkaCluster, topic: str) -> None:
    async def use() -> ConsumerCore:
        consumer = AsyncConsumer(cluster.bootstrap, topics=topic, start="earliest")
        assert await consumer.poll(10)
        return consumer._core

    cores: list[ConsumerCore] = []

    def use_and_forget() -> None:
        cores.append(asyncio.run(use()))
        gc.collect()

    with pytest.warns(ResourceWarning, match="never closed: <AsyncConsumer of 2 partitions>"):
        use_and_forget()
    until(lambda: is_over(cores[0]))


def test_a_closed_consumer_is_dropped_in_silence(cluster: KafkaCluster, topic: str) -> None:
    consumer = Consumer(cluster.bootstrap, topics=topic)
    consumer.close()
    assert repr(consumer) == "<Consumer of 2 partitions, closed>"
    del consumer
    gc.collect()
    AsyncConsumer(cluster.bootstrap, topics=topic)  # never started: nothing is open
    gc.collect()


def test_an_async_consumer_is_an_arrow_stream_too(cluster: KafkaCluster, topic: str) -> None:
    async def read() -> list[bytes]:
        async with AsyncConsumer(cluster.bootstrap, topics=topic, start="earliest", columns=["value"]) as consumer:
            stream = await consumer.arrow_stream(timeout=2)
            table = await asyncio.to_thread(lambda: stream.to_reader().read_all())
            assert table.column_names == ["value"]
            return list(table["value"].to_pylist())

    assert sorted(asyncio.run(read())) == [b"%d" % number for number in range(10)]
