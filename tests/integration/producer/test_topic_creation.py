"""Topics that a broker creates on request, and those that it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, KafkaError
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.broker.either_kafka import CONFIGS, either_kafka
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka


@pytest.fixture(scope="module")
def creating() -> Iterator[KafkaCluster | EmbeddedKafka]:
    """A broker that creates topics, as Kafka's own default is."""
    with either_kafka({"auto.create.topics.enable": True, "num.partitions": 3}) as running:
        yield running


def names(cluster: KafkaCluster) -> set[str]:
    with kafwire.Client(cluster.bootstrap) as client:
        return {topic.name for topic in client.metadata().topics}


def test_a_send_creates_its_topic(creating: KafkaCluster, topic_name: str) -> None:
    one, rows, first, second, awaited = (f"{topic_name}-{n}" for n in range(5))
    with kafwire.Producer(creating.bootstrap) as producer:
        assert producer.send(one, b"x").result(30).topic == one
        producer.send_batch(rows, pa.table({"value": [b"x"] * 9}))
        producer.send_batch(None, pa.table({"topic": [first, second], "value": [b"x", b"y"]}))

    async def send() -> None:
        async with kafwire.AsyncProducer(creating.bootstrap) as producer:
            await (await producer.send(awaited, b"x"))

    asyncio.run(send())
    assert {one, rows, first, second, awaited} <= names(creating)
    assert pa.table(kafwire.scan(creating.bootstrap, rows)).num_rows == 9


def test_a_topic_deleted_under_a_running_producer_stays_deleted(creating: KafkaCluster, topic_name: str) -> None:
    options: Any = {
        "metadata_max_age_ms": 200,
        "linger_ms": 0,
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": 2_500,
    }
    with kafwire.Client(creating.bootstrap) as client, kafwire.Producer(creating.bootstrap, **options) as producer:
        producer.send(topic_name, b"x").result(30)
        client.delete_topic(topic_name)
        lost = [producer.send(topic_name, b"y")]
        until = time.monotonic() + 5
        while time.monotonic() < until:
            lost.append(producer.send(topic_name, b"y"))
            time.sleep(0.2)
        assert isinstance(lost[-1].exception(10), KafkaError)
        assert topic_name not in names(creating)


def test_reading_creates_no_topic_unless_an_option_allows_it(creating: KafkaCluster, topic_name: str) -> None:
    with within(20):
        with pytest.raises(BrokerError, match="does not exist"):
            kafwire.scan(creating.bootstrap, topic_name)
        with (
            pytest.raises(BrokerError, match="does not exist"),
            kafwire.Consumer(creating.bootstrap, topics=[topic_name]) as consumer,
        ):
            consumer.poll(1)
    assert topic_name not in names(creating)
    with kafwire.Consumer(creating.bootstrap, topics=[topic_name], allow_auto_create_topics=True) as consumer:
        consumer.poll(0.1)
        assert len(consumer.assignment) == 3
    assert topic_name in names(creating)


def test_a_broker_that_creates_no_topics_says_so(cluster: KafkaCluster, topic_name: str) -> None:
    with kafwire.Producer(cluster.bootstrap) as producer, within(10), pytest.raises(BrokerError) as caught:
        producer.send(topic_name, b"x")
    for words in (
        f"topic '{topic_name}' does not exist on {cluster.bootstrap}",
        "brokers do not create topics (auto.create.topics.enable=false): create it",
    ):
        assert words in str(caught.value)
    assert topic_name not in names(cluster)


def test_threads_share_the_question_whether_a_broker_creates_topics(topic_name: str) -> None:
    with EmbeddedKafka(configs=CONFIGS) as kafka, kafwire.Producer(kafka.bootstrap) as producer:

        def send(_: int) -> BaseException | None:
            try:
                return producer.send(topic_name, b"x").exception(30)
            except BrokerError as error:
                return error

        with ThreadPoolExecutor(30) as threads:
            errors = list(threads.map(send, range(30)))
        assert all("brokers do not create topics" in str(error) for error in errors), errors
        assert len(kafka.requests("DescribeConfigs")) == 1
