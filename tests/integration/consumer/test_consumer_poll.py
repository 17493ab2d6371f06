"""How much one poll returns."""

import asyncio
import time

import pyarrow as pa
import pytest

from kafwire import AsyncConsumer, Client, Consumer, Producer
from kafwire.consumer.core import POLL_BATCHES
from kafwire.records import Batch
from kafwire.testing.cluster import KafkaCluster

pytestmark = pytest.mark.either_kafka

RECORDS = 40_000
CHUNK = 1 << 20
ENOUGH = 3 << 20


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
    assert max(sum(batch.nbytes for batch in poll) for poll in polls) >= ENOUGH, "there was more than one poll returns"
    # the batch that passes the limit is the last of its poll
    assert all(sum(batch.nbytes for batch in poll[:-1]) < ENOUGH and len(poll) <= POLL_BATCHES for poll in polls)


def test_a_poll_ends_when_enough_is_decoded(cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafwire.sync.batch_reader.POLL_BYTES", ENOUGH)
    polls: list[list[Batch]] = []
    with Consumer(cluster.bootstrap, topics=topic, start="earliest", chunk_bytes=CHUNK) as consumer:
        while not polls or polls[-1][-1].next_offset < RECORDS:
            found = consumer.poll(10)
            assert found
            polls.append(found)
            until = time.monotonic() + 10
            while (state := consumer.metrics()["partitions"][f"{topic}-0"])["buffered_bytes"] < 2 * ENOUGH:
                if state["fetch_position"] == RECORDS:
                    break
                assert time.monotonic() < until
    check(polls)


def test_an_awaited_poll_does_not_pass_it_either(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafwire.aio.consumer.POLL_BYTES", ENOUGH)

    async def read() -> int:
        count = 0
        async with AsyncConsumer(cluster.bootstrap, topics=topic, start="earliest", chunk_bytes=CHUNK) as consumer:
            while count < RECORDS:
                found = await consumer.poll(10)
                assert found
                assert sum(batch.nbytes for batch in found[:-1]) < ENOUGH
                assert found[0].base_offset == count
                count = found[-1].next_offset
        return count

    assert asyncio.run(read()) == RECORDS
