"""A reader that is stopped while it claims a partition leaves it to others."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest

from kafwire import AsyncConsumer, Consumer, TopicPartition
from kafwire.runtime.interfaces import Engine
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.known_topics import fill, make_topic

pytestmark = pytest.mark.either_kafka

EACH = 10


@pytest.fixture
def where(cluster: KafkaCluster, topic_name: str) -> TopicPartition:
    make_topic(cluster.bootstrap, topic_name)
    fill(cluster.bootstrap, topic_name, 1, EACH)
    return TopicPartition(topic_name, 0)


def between_step_and_outcome(engine: Engine, work: Callable[[], object]) -> None:
    """Call `work` on the engine after the first step of the next call there, and before its caller resumes."""

    def before_step() -> None:
        asyncio.get_running_loop().call_soon(work)

    engine.start(lambda: asyncio.get_running_loop().call_soon(before_step))


def test_a_cancelled_stream_leaves_its_partition_to_others(cluster: KafkaCluster, where: TopicPartition) -> None:
    async def use() -> None:
        async with AsyncConsumer(cluster.bootstrap, topics=where.topic, start="earliest") as consumer:
            stream = consumer.partition_stream(where)
            task = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            time.sleep(0.1)  # noqa: ASYNC251 # the loop is busy: the claim is taken before the task resumes
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            count = 0
            async for batch in consumer.batches(timeout=10):
                count += len(batch)
                if count == EACH:
                    break
            assert count == EACH

    asyncio.run(use())


def test_streams_cancelled_at_any_time_lose_nothing(cluster: KafkaCluster, where: TopicPartition) -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)

    async def use() -> None:
        async with AsyncConsumer(cluster.bootstrap, topics=where.topic, start="earliest") as consumer:
            for _ in range(EACH):
                await consumer.seek(where, 0)
                got = 0
                for _ in range(20):
                    stream = consumer.partition_stream(where, timeout=10)
                    task = asyncio.ensure_future(anext(stream))
                    for _ in range(chance.randrange(3)):
                        await asyncio.sleep(chance.random() * 0.001)
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        got += len(await task)
                    await stream.aclose()
                while got < EACH:
                    got += len(await anext(consumer.batches(timeout=10)))
                assert got == EACH

    asyncio.run(use())


def test_an_interrupted_stream_leaves_its_partition_to_others(cluster: KafkaCluster, where: TopicPartition) -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.1)  # the main thread gets that first

    with Consumer(cluster.bootstrap, topics=where.topic, start="earliest") as consumer:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):  # on a busy machine it may come before the claim
                between_step_and_outcome(consumer._engine, interrupt)
                consumer.partition_stream(where)
        assert sum(map(len, consumer.batches(timeout=1))) == EACH
        assert sum(map(len, consumer.partition_stream(where, timeout=0.1))) == 0
