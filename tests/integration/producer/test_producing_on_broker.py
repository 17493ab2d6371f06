"""`kafwire produce` and `AsyncProducer` on a real broker: what the scripted one cannot judge."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import uuid
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import TransactionAbortedError
from kafwire.runtime.engine import default_engine
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.complaints import complaints
from tests.support.deadlines import comes
from tests.support.real_topics import committed

pytestmark = pytest.mark.either_kafka

COMMAND = [sys.executable, "-m", "kafwire"]


def run(cluster: KafkaCluster, *arguments: str, data: bytes = b"") -> bytes:
    environment = {**os.environ, "KAFWIRE_BROKERS": cluster.bootstrap}
    ran = subprocess.run(
        [*COMMAND, *arguments], input=data, capture_output=True, check=False, timeout=60, env=environment
    )
    assert (ran.returncode, complaints(ran.stderr)) == (0, b"")
    return ran.stdout


def read(cluster: KafkaCluster, topic: str) -> list[kafwire.Record]:
    with kafwire.scan(cluster.bootstrap, topic) as found:
        return [record for batch in found.batches() for record in batch]


@pytest.fixture
def topics(cluster: KafkaCluster, topic_name: str) -> tuple[str, str]:
    with kafwire.Client(cluster.bootstrap) as client:
        for end in "ab":
            client.create_topic(topic_name + end, partitions=1)
    return topic_name + "a", topic_name + "b"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_produce_reads_the_output_of_consume(cluster: KafkaCluster, topics: tuple[str, str], codec: str) -> None:
    """Any bytes, nulls and headers, by delimiters that are not in them."""
    chance = random.Random(seeds.of_test())
    there, back = topics

    def some(size: int) -> bytes | None:
        return None if chance.random() < 0.1 else bytes(b for b in chance.randbytes(size) if b > 2 and b not in b",=")

    with kafwire.Producer(cluster.bootstrap) as producer:
        for _ in range(500):
            headers = [(f"h{n}", some(5)) for n in range(chance.choice([0, 0, 1, 3]))]
            value = some(chance.choice([0, 1, 50, 5000]))
            producer.send(there, value, key=some(chance.choice([0, 8])), headers=headers)
    form = ["-f", "%h\\x01%k\\x02%s\\0", "--null", "nil"]
    printed = run(cluster, "consume", there, "-e", *form)
    reading = ["--headers", "\\x01", "-K", "\\x02", "-D", "\\0", "--null", "nil", "--empty", "-z", codec]
    run(cluster, "produce", "-t", back, *reading, data=printed)
    first, second = ([(r.key, r.value, list(r.headers)) for r in read(cluster, topic)] for topic in (there, back))
    assert [(k, v, [(n, h) for n, h in hs]) for k, v, hs in first] == second


def test_produced_records_are_printed(cluster: KafkaCluster, topics: tuple[str, str]) -> None:
    """Enough of it for the road by tables, with a key and a header on every line."""
    lines = b"".join(b"%d %s\n" % (n, b"\xff" * (n % 30)) for n in range(50_000))
    run(cluster, "produce", "-t", topics[0], "-k", "key", "-H", "h=1", "-z", "lz4", data=lines)
    assert run(cluster, "consume", topics[0], "-e") == lines
    assert run(cluster, "consume", topics[0], "-e", "-c", "1", "-f", "%k|%h") == b"key|h=1"


def test_an_async_producer(cluster: KafkaCluster, topics: tuple[str, str]) -> None:
    async def body() -> None:
        async with kafwire.AsyncProducer(cluster.bootstrap, linger_ms=0) as producer:
            first = await (await producer.send(topics[0], b"0", key=b"k"))
            assert first.offset == 0
            sent = [await producer.send(topics[0], b"%d" % n) for n in range(1, 100)]
            assert [meta.offset for meta in await asyncio.gather(*sent)] == list(range(1, 100))
            table = pa.table({"value": [b"%d" % n for n in range(100, 100_000)]})
            assert await (await producer.send_batch(topics[0], table)) == [(topics[0], 0, 100, 99_900)]

    asyncio.run(body())
    assert [record.value for record in read(cluster, topics[0])] == [b"%d" % n for n in range(100_000)]


def test_transactions_awaited(cluster: KafkaCluster, topics: tuple[str, str]) -> None:
    """Committed, aborted by an error, and aborted by a cancellation."""
    topic = topics[0]

    async def body() -> None:
        identity = uuid.uuid4().hex
        async with kafwire.AsyncProducer(cluster.bootstrap, transactional_id=identity, linger_ms=60_000) as producer:
            async with producer.transaction():
                await producer.send(topic, b"committed")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    lost = await producer.send(topic, b"dropped")
                    raise ZeroDivisionError
            with pytest.raises(TransactionAbortedError):
                await lost
            async with asyncio.timeout(30):

                async def interrupted() -> None:
                    async with producer.transaction():
                        await producer.send(topic, b"cancelled")
                        begun.set()
                        await asyncio.sleep(60)

                begun = asyncio.Event()
                task = asyncio.ensure_future(interrupted())
                await comes(begun)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await producer.begin_transaction()
            await producer.send_offsets({kafwire.TopicPartition(topic, 0): 1}, identity)
            sent = await producer.send_batch(topic, pa.table({"value": [b"last"]}))
            await producer.commit_transaction()
            assert len(await sent) == 1

    asyncio.run(body())
    assert committed(cluster, topic) == [b"committed", b"last"]


@pytest.mark.parametrize("acks", ["all", 1])
def test_records_that_are_waited_for_go_past_the_engine(
    cluster: KafkaCluster, topics: tuple[str, str], acks: Any
) -> None:
    """Kafka's good news look as they are expected, byte by byte: the engine is not woken for them."""
    topic, _ = topics
    values = [b"%d" % number for number in range(300)]
    with kafwire.Producer(cluster.bootstrap, acks=acks, linger_ms=0) as producer:
        for value in values[:10]:
            producer.send(topic, value).result(30)
        before = default_engine().native.statistics()["notifications"]
        found = [producer.send(topic, value).result(30).offset for value in values[10:]]
        direct = producer._accumulator.topics[topic].queues[0].direct_send
        assert direct is not None
        assert direct.sent >= len(found)
        assert default_engine().native.statistics()["notifications"] - before < len(found) / 4
    assert found == list(range(10, 300))
    assert [record.value for record in read(cluster, topic)] == values
