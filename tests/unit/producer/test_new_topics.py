"""Concurrent sends to topics that do not exist yet, counted by the requests that the embedded broker receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until

SENDS = 30


def wait_for_searches(producer: Any) -> None:
    """Wait until the engine runs the search of each send, while the broker holds the first request for metadata."""
    until(lambda: producer._core.cluster._searches.total() == SENDS)


def send_from_tasks(kafka: EmbeddedKafka, topics: list[str]) -> None:
    async def main() -> None:
        async with kafwire.AsyncProducer(kafka.bootstrap) as producer:
            with kafka.hold("Metadata"):
                sends = [asyncio.ensure_future(producer.send(topic, b"x")) for topic in topics]
                await asyncio.sleep(0)
                await asyncio.to_thread(wait_for_searches, producer)
            await asyncio.gather(*sends)

    asyncio.run(main())


def send_from_threads(kafka: EmbeddedKafka, topics: list[str]) -> None:
    with kafwire.Producer(kafka.bootstrap) as producer, ThreadPoolExecutor(SENDS) as threads:
        with kafka.hold("Metadata"):
            sends = [threads.submit(producer.send, topic, b"x") for topic in topics]
            wait_for_searches(producer)
        for send in sends:
            send.result()


@pytest.mark.parametrize("send", [send_from_tasks, send_from_threads])
@pytest.mark.parametrize("count", [1, SENDS])
def test_concurrent_sends_share_requests(send: Callable[[EmbeddedKafka, list[str]], None], count: int) -> None:
    topics = [f"topic-{number % count}" for number in range(SENDS)]
    with EmbeddedKafka() as kafka:
        send(kafka, topics)
        requests: list[Any] = [seen.message for seen in kafka.requests("Metadata")]
        assert sum(len(kafka.records(topic)) for topic in set(topics)) == SENDS
    creating = [[topic.name for topic in each.topics] for each in requests if each.allow_auto_topic_creation]
    assert sorted(chain(*creating)) == sorted(set(topics))
    assert len(creating) <= 2
    assert len(requests) <= 8
