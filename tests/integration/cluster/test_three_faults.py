"""Real brokers that die, hang or refuse while records are written and read: all of them arrive, once and in order."""

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import KafkaTimeoutError, RecordTooLargeError
from kafwire.producer.buffer._batch import Delivery
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import ended, until
from tests.support.real_topics import committed, offset_of
from tests.support.time_limits import within

PARTITIONS = 6
SOON: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "request_timeout_ms": 10_000}


def make_topic(cluster: KafkaCluster, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=partitions, config=config)


def leader_of(cluster: KafkaCluster, topic: str, partition: int) -> int:
    with kafwire.Client(cluster.bootstrap) as client:
        return int(client.topic(topic).partitions[partition].leader)


def by_partition(cluster: KafkaCluster, topic: str, **options: Any) -> dict[int, list[bytes]]:
    """The values of each partition, in order."""
    table = pa.table(kafwire.scan(cluster.bootstrap, topic, columns=["partition", "offset", "value"], **options))
    found: dict[int, list[bytes]] = {}
    offsets: dict[int, int] = {}
    for row in table.to_pylist():
        assert row["offset"] > offsets.get(row["partition"], -1)
        offsets[row["partition"]] = row["offset"]
        found.setdefault(row["partition"], []).append(row["value"])
    return found


def test_a_leader_dies_while_records_are_sent_and_read(three: KafkaCluster, topic_name: str) -> None:
    """One thread sends throughout; the leader of partition 0 is killed in the middle, and later comes back."""
    make_topic(three, topic_name, PARTITIONS)
    sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    deliveries: list[Delivery] = []
    enough = threading.Event()

    def send() -> None:
        number = 0
        while not enough.is_set():
            for partition in range(PARTITIONS):
                value = b"%d-%d" % (partition, number)
                deliveries.append(producer.send(topic_name, value, partition=partition))
                sent[partition].append(value)
            number += 1

    def acknowledged() -> int:
        return 20 * len([delivery for delivery in deliveries[::20] if delivery.done()])

    def wait_for(count: int) -> None:
        until(lambda: acknowledged() >= count, f"{count} acknowledged")

    options = SOON | {"batch_size": 4000, "linger_ms": 1, "buffer_memory": 100_000}
    with within(60), kafwire.Producer(three.bootstrap, **options) as producer:
        thread = threading.Thread(target=send)
        thread.start()
        try:
            wait_for(1000)
            victim = three.node(leader_of(three, topic_name, 0))
            victim.kill()
            wait_for(acknowledged() + 3000)
            victim.start(wait=False)
            wait_for(acknowledged() + 1000)
        finally:
            enough.set()
            ended(thread)
        producer.flush(30)
        for delivery in deliveries:
            delivery.result(0)
        victim.wait_ready()
    found = by_partition(three, topic_name)
    assert found == dict(enumerate(sent))


def test_a_leader_dies_while_a_scan_reads(three: KafkaCluster, topic_name: str) -> None:
    make_topic(three, topic_name, PARTITIONS)
    rows = 30_000
    table = pa.table(
        {
            "value": [b"%08d" % number + bytes(92) for number in range(rows)],
            "partition": [number % PARTITIONS for number in range(rows)],
        }
    )
    with kafwire.Producer(three.bootstrap, batch_size=20_000) as producer:
        producer.send_batch(topic_name, table).result(30)
    found: dict[int | None, list[bytes | None]] = {}
    victim = three.node(leader_of(three, topic_name, 0))
    options = SOON | {"fetch_max_bytes": 40_000, "fetch_memory": 80_000}
    with within(60), kafwire.scan(three.bootstrap, topic_name, columns=["value"], **options) as scan:
        for number, batch in enumerate(scan.batches()):
            found.setdefault(batch.partition, []).extend(record.value for record in batch)
            if number == 3:
                victim.kill()
    victim.start()
    for partition in range(PARTITIONS):
        assert found[partition] == [b"%08d" % number + bytes(92) for number in range(partition, rows, PARTITIONS)]


@pytest.mark.parametrize(
    ("ends", "aborts"),
    [
        pytest.param(True, False, marks=pytest.mark.long),
        (False, False),
        pytest.param(False, True, marks=pytest.mark.long),
    ],
    ids=["before the commit", "in the middle", "before the abort"],
)
def test_the_coordinator_of_a_transaction_dies(
    three: KafkaCluster, topic_name: str, *, ends: bool, aborts: bool
) -> None:
    """Its successor knows of the transaction: what comes after the death belongs to it, and the next one works too."""
    make_topic(three, topic_name, 2)
    where, group = TopicPartition(topic_name, 0), uuid.uuid4().hex
    expected: list[bytes] = []
    with within(60), kafwire.Producer(three.bootstrap, transactional_id=topic_name, **SOON) as producer:
        producer.init_transactions()
        transactions = producer._core.transactions
        assert transactions is not None
        coordinator = transactions._coordinator
        first = coordinator.node
        assert first is not None
        victim = three.node(first)
        try:
            for number in range(3):
                try:
                    with producer.transaction():
                        producer.send(topic_name, b"%d" % number, partition=0)
                        if number == 1 and not ends:
                            producer.flush(10)
                            victim.kill()
                        producer.send(topic_name, b"%d" % number, partition=1)
                        producer.send_offsets({where: number}, group)
                        producer.flush(30)
                        if number == 1 and ends:
                            victim.kill()
                        if number == 1 and aborts:
                            raise LookupError
                except LookupError:
                    continue
                expected += [b"%d" % number] * 2
            assert coordinator.node not in (None, first)
        finally:
            if victim.pid is None:
                victim.start()
    assert committed(three, topic_name) == expected
    assert offset_of(three, group, where) == 2


def test_a_frozen_broker_fills_the_buffer_and_nothing_more(three: KafkaCluster, topic_name: str) -> None:
    """SIGSTOP of the leader: `send` blocks for max_block_ms and raises, memory stays, and after SIGCONT all arrive."""
    make_topic(three, topic_name, 1)
    buffer_memory = 4 << 20
    options = SOON | {"buffer_memory": buffer_memory, "max_block_ms": 500, "request_timeout_ms": 30_000}
    with within(60), kafwire.Producer(three.bootstrap, **options) as producer:
        values = [b"first"]
        deliveries = [producer.send(topic_name, b"first")]
        deliveries[0].result(10)
        leader = three.node(leader_of(three, topic_name, 0))
        process = psutil.Process()
        leader.pause()
        try:
            before = process.memory_info().rss
            with within(10, at_least=0.5), pytest.raises(KafkaTimeoutError, match=r"max_block_ms \(500\)"):
                while True:
                    value = b"%d" % len(values) + bytes(1000)
                    deliveries.append(producer.send(topic_name, value))
                    values.append(value)
            with within(10, at_least=0.5), pytest.raises(KafkaTimeoutError, match="buffer_memory"):
                producer.send_batch(topic_name, pa.table({"value": [bytes(1000)] * 10}))
            assert len(values) * 1000 < buffer_memory
            assert process.memory_info().rss - before < 3 * buffer_memory
            assert not any(delivery.done() for delivery in deliveries[1:])
        finally:
            leader.resume()
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(len(values)))
    assert by_partition(three, topic_name)[0][: len(values)] == values


def test_a_frozen_broker_does_not_hold_the_others_back(three: KafkaCluster, topic_name: str) -> None:
    make_topic(three, topic_name, PARTITIONS)
    with within(60), kafwire.Producer(three.bootstrap, **SOON, linger_ms=0) as producer:
        for partition in range(PARTITIONS):
            producer.send(topic_name, b"first", partition=partition).result(20)
        leaders = {partition: leader_of(three, topic_name, partition) for partition in range(PARTITIONS)}
        frozen = three.node(leaders[0])
        frozen.pause()
        try:
            stuck = producer.send(topic_name, b"second", partition=0)
            # The others' in-sync replicas shrink first where the frozen node was one of them.
            for partition in (p for p, node in leaders.items() if node != leaders[0]):
                producer.send(topic_name, b"second", partition=partition).result(40)
        finally:
            frozen.resume()
        stuck.result(40)
    expected = {partition: [b"first", b"second"] for partition in leaders} | {
        partition: [b"first"] for partition, node in leaders.items() if node == leaders[0] and partition
    }
    # Until it learns of its successor, the node that was frozen responds as the leader that it was.
    until(lambda: by_partition(three, topic_name) == expected, "the log of the new leaders")


def test_a_record_that_the_topic_is_too_small_for(cluster: KafkaCluster, topic_name: str) -> None:
    """Only that record fails: records sent before and after it arrive, in order, in its partition and in others."""
    make_topic(cluster, topic_name, 2, {"max.message.bytes": "5000"})
    with within(30), kafwire.Producer(cluster.bootstrap, batch_size=1000, linger_ms=0) as producer:
        deliveries = [
            producer.send(topic_name, b"%04d" % number * (6000 if number == 10 else 10), partition=partition)
            for number in range(30)
            for partition in range(2)
        ]
        errors = [delivery.exception(20) for delivery in deliveries]
        assert [number for number, error in enumerate(errors) if error is not None] == [20, 21]
        for error in errors[20:22]:
            assert isinstance(error, RecordTooLargeError)
            assert "max.message.bytes" in str(error)
            assert topic_name in str(error)
    expected = [b"%04d" % number * 10 for number in range(30) if number != 10]
    assert by_partition(cluster, topic_name) == {0: expected, 1: expected}


def test_rows_that_the_topic_is_too_small_for(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, 1, {"max.message.bytes": "5000"})
    values = [b"%d" % number for number in range(20)]
    values[7] = bytes(6000)
    with within(30), kafwire.Producer(cluster.bootstrap, batch_size=1000, linger_ms=0) as producer:
        before = producer.send_batch(topic_name, pa.table({"value": [b"before"]}))
        bad = producer.send_batch(topic_name, pa.table({"value": values}))
        after = producer.send_batch(topic_name, pa.table({"value": [b"after"]}))
        assert before.result(20) == [(topic_name, 0, 0, 1)]
        with pytest.raises(RecordTooLargeError, match=topic_name):
            bad.result(20)
        after.result(20)
    assert by_partition(cluster, topic_name) == {0: [b"before", *values[:7], *values[8:], b"after"]}


def test_a_topic_that_is_not_there_is_named(cluster: KafkaCluster, topic_name: str) -> None:
    with kafwire.Producer(cluster.bootstrap) as producer, kafwire.Client(cluster.bootstrap) as client:
        calls: list[Callable[[], object]] = [
            lambda: producer.send(topic_name, b"x"),
            lambda: producer.send_batch(topic_name, pa.table({"value": [b"x"]})),
            lambda: kafwire.scan(cluster.bootstrap, topic_name),
            lambda: client.topic(topic_name),
            lambda: client.offsets([kafwire.TopicPartition(topic_name, 0)]),
        ]
        with within(10), ThreadPoolExecutor(len(calls)) as threads:  # each takes 3 s
            for asked in [threads.submit(call) for call in calls]:
                with pytest.raises(kafwire.errors.BrokerError, match=f"'{topic_name}' does not exist on 127"):
                    asked.result(30)
        for call in (lambda: client.delete_topic(topic_name), lambda: client.topic_config(topic_name)):
            with within(5), pytest.raises(kafwire.errors.BrokerError, match=f"UNKNOWN_TOPIC.*{topic_name}"):
                call()
        with within(5), pytest.raises(kafwire.errors.BrokerError, match="INVALID_TOPIC.*'no good!'"):
            client.create_topic("no good!")
        client.create_topic(topic_name, partitions=1)
        with within(5), pytest.raises(kafwire.errors.BrokerError, match=f"TOPIC_ALREADY_EXISTS.*{topic_name}"):
            client.create_topic(topic_name, partitions=1)


def test_a_topic_deleted_under_a_producer(cluster: KafkaCluster, topic_name: str) -> None:
    """Its records can never arrive: the delivery says so when delivery_timeout_ms is over, and the rest goes on."""
    make_topic(cluster, topic_name, 1)
    make_topic(cluster, topic_name + "-other", 1)
    options: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 500, "delivery_timeout_ms": 1500}
    with within(30), kafwire.Producer(cluster.bootstrap, **options) as producer:
        producer.send(topic_name, b"x").result(10)
        with kafwire.Client(cluster.bootstrap) as client:
            client.delete_topic(topic_name)
        orphan = producer.send(topic_name, b"y")
        with within(10), pytest.raises(kafwire.KafkaError, match=f"{topic_name}-0.*UNKNOWN_TOPIC"):
            orphan.result(10)
        assert producer.send(topic_name + "-other", b"z").result(10).offset == 0
