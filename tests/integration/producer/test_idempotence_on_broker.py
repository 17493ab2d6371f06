"""Cases of idempotence that can be made to happen on a real broker: the records stored once, and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, KafkaTimeoutError, RecordTooLargeError
from kafwire.records import decode_batches
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.faults import BlackHole, Corrupt, DropResponse, FaultProxy, Hold, Reset, Rule
from tests.support.deadlines import until
from tests.support.known_topics import make_topic
from tests.support.time_limits import within

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100, "reconnect_backoff_ms": 10}


@pytest.fixture(scope="module")
def proxied() -> Iterator[KafkaCluster]:
    with KafkaCluster(proxies=True) as running:
        with kafwire.Client(running.direct) as client:  # a broker that has just started may have no ids to give yet
            init = kafwire.protocol.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
            until(lambda: not client.call(init).error_code)
        yield running


@pytest.fixture
def proxy(proxied: KafkaCluster) -> Iterator[FaultProxy]:
    proxied.proxy.restart()
    print("seed", proxied.proxy.seed)
    yield proxied.proxy
    proxied.proxy.restart()


def values(cluster: KafkaCluster, topic: str) -> list[bytes]:
    return list(pa.table(kafwire.scan(cluster.direct, topic, columns=["value"]))["value"].to_pylist())


def identities(cluster: KafkaCluster, topic: str) -> set[tuple[int, int]]:
    """The (producer id, epoch) of all batches in the log."""
    with kafwire.Client(cluster.direct) as client:
        fetch = kafwire.protocol.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            topics=[
                kafwire.protocol.FetchRequest.FetchTopic(
                    topic_id=client.topic(topic).topic_id,
                    partitions=[kafwire.protocol.FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 24)],
                )
            ],
        )
        records = bytes(client.call(fetch, broker=1).responses[0].partitions[0].records)
    return {(batch.producer_id, batch.producer_epoch) for batch in decode_batches(records)}


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("fault", [Reset(), DropResponse(), Hold(0.3), Corrupt("request", spot=0.95)], ids=repr)
def test_faults_that_cost_neither_an_epoch_nor_a_producer_id(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str, fault: Any
) -> None:
    """0076, 0090: five batches in flight, several of which meet the fault; CORRUPT_MESSAGE among them."""
    make_topic(proxied.direct, topic_name)
    with kafwire.Producer(proxied.bootstrap, **QUICK, linger_ms=0, batch_size=1) as producer, within(60):
        producer.send(topic_name, b"0").result(20)
        proxy.add(Rule(fault, api="Produce", skip=2, count=4, probability=0.5))
        deliveries = [producer.send(topic_name, value) for value in numbers(60)[1:]]
        assert [delivery.result(40).offset for delivery in deliveries] == list(range(1, 60))
    assert values(proxied, topic_name) == numbers(60)
    assert len(proxy.events) >= 2
    assert proxy.requests[1, "kafwire", "InitProducerId"] == 1
    ((_, epoch),) = identities(proxied, topic_name)
    assert epoch == 0


def test_0094_and_0144_a_delivery_times_out_in_flight_and_was_stored(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str
) -> None:
    make_topic(proxied.direct, topic_name)
    options = QUICK | {"linger_ms": 0, "request_timeout_ms": 500, "delivery_timeout_ms": 1_500}
    with kafwire.Producer(proxied.bootstrap, **options) as producer:
        producer.send(topic_name, b"first").result(20)
        hole = Rule(BlackHole("response"), api="Produce")
        proxy.add(hole)
        lost = producer.send(topic_name, b"lost")
        with within(20, at_least=1.0):
            error = lost.exception(20)
        assert isinstance(error, KafkaTimeoutError)
        assert error.in_doubt
        proxy.heal()
        proxy.restart()
        assert producer.send(topic_name, b"after").result(20).offset == 2
    assert values(proxied, topic_name) == [b"first", b"lost", b"after"]
    assert {epoch for _, epoch in identities(proxied, topic_name)} == {0, 1}


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_that_is_too_large_for_the_topic_goes_on_in_parts(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str, compression: Any
) -> None:
    """Its only record that is too large by itself fails, by its name."""
    del proxy
    make_topic(proxied.direct, topic_name, config={"max.message.bytes": "20000"})
    noise = pa.array([b"%05d" % n + bytes((n * n * i) % 251 for i in range(495)) for n in range(400)])
    big = bytes((i * i * 7 + i // 3) % 253 for i in range(30_000))
    with kafwire.Producer(proxied.bootstrap, **QUICK, compression_type=compression) as producer, within(60):
        rows = producer.send_batch(topic_name, pa.table({"value": noise}), partition=0)
        assert rows.result(40) == [(topic_name, 0, 0, 400)]
        if compression == "none":
            neighbours = [producer.send(topic_name, value) for value in numbers(3)]
            large = producer.send(topic_name, big, key=b"big")
            neighbours += [producer.send(topic_name, value) for value in numbers(3)]
            with pytest.raises(RecordTooLargeError, match=r"record with key b'big' .*max\.message\.bytes"):
                large.result(40)
            assert all(delivery.exception(40) is None for delivery in neighbours)
    assert values(proxied, topic_name)[:400] == noise.to_pylist()


def test_a_record_that_the_broker_refuses_is_named_and_its_neighbours_are_stored(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str
) -> None:
    """KIP-467: a compacted topic takes no records without a key."""
    del proxy
    make_topic(proxied.direct, topic_name, config={"cleanup.policy": "compact"})
    with kafwire.Producer(proxied.bootstrap, **QUICK, linger_ms=50) as producer, within(60):
        deliveries = [producer.send(topic_name, b"%d" % n, key=b"k" if n != 2 else None) for n in range(5)]
        with pytest.raises(BrokerError, match="INVALID_RECORD.*record with key None"):
            deliveries[2].result(40)
        assert [n for n, delivery in enumerate(deliveries) if delivery.exception(40) is None] == [0, 1, 3, 4]
    assert values(proxied, topic_name) == [b"0", b"1", b"3", b"4"]
