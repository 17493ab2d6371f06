"""Transactions on real brokers: of version 2 (4.3.1, KIP-890) and before that (3.9.1)."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import ProducerFencedError, TransactionAbortedError, TransactionStateError
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import DEFAULT_VERSION
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS
from tests.support.real_topics import committed, create, offset_of


@pytest.fixture(params=seeds.sampled(CLUSTERS, DEFAULT_VERSION))
def broker(request: pytest.FixtureRequest) -> KafkaCluster:
    found: KafkaCluster = request.getfixturevalue(CLUSTERS[request.param])
    return found


@pytest.fixture
def topic(broker: KafkaCluster, topic_name: str) -> str:
    create(broker, topic_name, 2)
    return topic_name


def test_a_scan_begun_at_once_reads_the_outcome_of_transactions(broker: KafkaCluster, topic: str) -> None:
    """Up to the offsets of the deliveries: a commit returns before its markers are written."""
    wanted: list[bytes] = []
    with producer_of(broker) as producer, kafwire.Client(broker.bootstrap) as client:
        producer.init_transactions()
        for number in range(seeds.examples(4)):
            values = [b"%d %d" % (number, i) for i in range(4)]
            producer.begin_transaction()
            sent = [producer.send(topic, value, partition=i % 2) for i, value in enumerate(values)]
            producer.flush()
            if number % 2:
                producer.commit_transaction()
                wanted += values
            else:
                producer.abort_transaction()
            end = {TopicPartition(topic, i % 2): delivery.result(10).offset + 1 for i, delivery in enumerate(sent)}
            with client.scan(topic, end=end, isolation_level="read_committed") as found:
                assert sorted(pa.table(found)["value"].to_pylist()) == sorted(wanted), number


def producer_of(cluster: KafkaCluster, transactional_id: str = "", **options: Any) -> kafwire.Producer:
    return kafwire.Producer(cluster.bootstrap, transactional_id=transactional_id or uuid.uuid4().hex, **options)


def test_a_block_is_committed_as_a_whole(broker: KafkaCluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    group = uuid.uuid4().hex
    with producer_of(broker) as producer:
        for number in range(5):
            with producer.transaction():
                sent = [producer.send(topic, b"%d" % (10 * number + i), partition=i % 2) for i in range(10)]
                producer.send_offsets({where: number + 1}, group)
            assert all(delivery.done() for delivery in sent)
    assert committed(broker, topic) == sorted(b"%d" % i for i in range(50))
    assert offset_of(broker, group, where) == 5


def test_a_table_for_several_topics_is_committed_as_a_whole(broker: KafkaCluster, topic: str) -> None:
    names = [topic, f"{topic}-2"]
    create(broker, names[1], 1)
    table = pa.table({"topic": names * 50, "value": [b"%02d" % n for n in range(100)]})
    with producer_of(broker) as producer:
        with pytest.raises(LookupError), producer.transaction():
            producer.send_batch(None, table)
            raise LookupError
        with producer.transaction():
            producer.send_batch(None, table)
    for number, name in enumerate(names):
        assert committed(broker, name) == [b"%02d" % n for n in range(number, 100, 2)]


def test_an_exception_aborts(broker: KafkaCluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    group = uuid.uuid4().hex
    with producer_of(broker, linger_ms=60_000) as producer:
        with producer.transaction():
            producer.send(topic, b"seen")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            stored = producer.send(topic, b"stored", partition=0)
            producer.flush()
            producer.send_offsets({where: 7}, group)
            unsent = producer.send(topic, b"unsent", partition=0)
            _ = 1 // 0
        assert stored.result(0).offset >= 0
        assert isinstance(unsent.exception(), TransactionAbortedError)
        with producer.transaction():
            producer.send_batch(topic, pa.table({"value": [b"too", b"and this"]}))
    assert committed(broker, topic) == [b"and this", b"seen", b"too"]
    assert offset_of(broker, group, where) is None


def test_nothing_is_sent_outside_a_transaction(broker: KafkaCluster, topic: str) -> None:
    with producer_of(broker) as producer:
        with pytest.raises(TransactionStateError, match=r"not initialized; call init_transactions\(\) first"):
            producer.send(topic, b"v")
        with producer.transaction():
            pass
        with pytest.raises(TransactionStateError, match="begin a transaction first"):
            producer.send(topic, b"v")
        with pytest.raises(TransactionStateError, match="begin a transaction first"):
            producer.send_batch(topic, pa.table({"value": [b"v"]}))
    assert committed(broker, topic) == []


def test_a_second_producer_fences_the_first(broker: KafkaCluster, topic: str) -> None:
    name = uuid.uuid4().hex
    with producer_of(broker, name) as first, producer_of(broker, name) as second:
        first.begin_transaction()
        first.send(topic, b"first")
        first.flush()
        second.init_transactions()
        with pytest.raises(ProducerFencedError, match="another producer uses transactional_id"):
            first.commit_transaction()
        with second.transaction():
            second.send(topic, b"second")
    assert committed(broker, topic) == [b"second"]
