"""How much one poll returns."""

import asyncio

import pyarrow as pa
import pytest

from kafwire import AsyncConsumer, Client, Consumer, Producer
from kafwire.net.consumer import POLL_BATCHES, POLL_BYTES
from kafwire.records import Batch
from kafwire.testing.cluster import KafkaCluster

RECORDS = 40_000
CHUNK = 1 << 20


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str) -> str:
    with Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=1, replication_factor=1)
    with Producer(cluster.bootstrap, batch_size=500_000) as producer:
        producer.send_batch(topic_name, pa.table({"value": [b"%01000d" % n for n in range(RECORDS)]}))
    return topic_name


def check(polls: list[list[Batch]]) -> None:
    batches = [batch for poll in polls for batch in poll]
    offsets = [batch.base_offset for batch in batches] + [batches[-1].next_offset]
    assert offsets == [0, *(batch.next_offset for batch in batches)]
    assert offsets[-1] == RECORDS
    sizes = [sum(batch.nbytes for batch in poll) for poll in polls]
    assert max(sizes) >= POLL_BYTES, "there was more than one poll returns"
    # the batch that passes the limit is the last of its poll
    assert all(sum(batch.nbytes for batch in poll[:-1]) < POLL_BYTES and len(poll) <= POLL_BATCHES for poll in polls)


def test_a_poll_ends_when_enough_is_decoded(cluster: KafkaCluster, topic: str) -> None:
    polls: list[list[Batch]] = []
    with Consumer(cluster.bootstrap, topics=topic, start="earliest", chunk_bytes=CHUNK) as consumer:
        while not polls or polls[-1][-1].next_offset < RECORDS:
            found = consumer.poll(10)
            assert found
            polls.append(found)
            while consumer.metrics()["partitions"][next(iter(consumer.assignment))]["buffered_bytes"] < POLL_BYTES:
                if consumer.metrics()["partitions"][next(iter(consumer.assignment))]["fetch_position"] == RECORDS:
                    break
    check(polls)


def test_an_awaited_poll_does_not_pass_it_either(cluster: KafkaCluster, topic: str) -> None:
    async def read() -> int:
        count = 0
        async with AsyncConsumer(cluster.bootstrap, topics=topic, start="earliest", chunk_bytes=CHUNK) as consumer:
            while count < RECORDS:
                found = await consumer.poll(10)
                assert found
                assert sum(batch.nbytes for batch in found[:-1]) < POLL_BYTES
                assert found[0].base_offset == count
                count = found[-1].next_offset
        return count

    assert asyncio.run(read()) == RECORDS
