"""Transactions on real brokers behind proxies that break, and programs that are killed: all or nothing, and once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import BrokerError, ProducerFencedError, TransactionAbortableError
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.faults import Corrupt, Delay, DropResponse, Hold, Reset, Rule
from tests.support import seeds
from tests.support.deadlines import until
from tests.support.java.client import JavaClient, Written
from tests.support.real_topics import committed, create, offset_of

IN = TopicPartition("in", 0)
HELD_S = 2.0  # longer than a transaction takes on a busy machine
APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn")
QUICK: dict[str, Any] = {
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 10,
    "linger_ms": 0,
}


class Direct:
    """A cluster past its proxies, for the checks."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.bootstrap = cluster.direct


@pytest.fixture(
    scope="module", params=seeds.sampled(["4.4.0", "4.4.0 with version 1", "4.3.1", "3.9.1"], "4.4.0", "3.9.1")
)
def proxied(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    version, _, older = request.param.partition(" ")
    features = ("--feature", "transaction.version=1") if older else ()
    with KafkaCluster(version=version, proxies=True, format_options=features) as running:
        create(Direct(running), "in", 1)  # type: ignore[arg-type]
        yield running


@pytest.fixture(scope="module")
def java_client() -> Iterator[JavaClient]:
    with JavaClient() as client:
        yield client


@pytest.fixture
def broken(proxied: KafkaCluster) -> Iterator[KafkaCluster]:
    proxied.proxy.restart()
    print("seed", proxied.proxy.seed)
    yield proxied
    proxied.proxy.restart()


def test_every_response_is_lost_once(broken: KafkaCluster, topic_name: str) -> None:
    create(Direct(broken), topic_name, 2)  # type: ignore[arg-type]
    group = uuid.uuid4().hex
    with kafwire.Producer(broken.bootstrap, transactional_id=topic_name, **QUICK) as producer:
        for api in APIS:
            broken.proxy.add(Rule(DropResponse(), api=api, count=1, skip=0 if api == "InitProducerId" else 1))
        for number in range(8):
            with producer.transaction():
                for partition in (0, 1):
                    producer.send(topic_name, b"%d" % number, partition=partition)
                producer.send_offsets({IN: number}, group)
    met = {event.api for event in broken.proxy.events}
    assert {"InitProducerId", "TxnOffsetCommit", "Produce", "EndTxn"} <= met
    assert committed(Direct(broken), topic_name) == sorted(b"%d" % number for number in range(8) for _ in "ab")  # type: ignore[arg-type]
    assert offset_of(Direct(broken), group, IN) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", seeds.sampled([Hold(HELD_S), Delay(HELD_S), DropResponse()], Hold(HELD_S)), ids=repr)
def test_a_slow_end_does_not_decide_a_later_transaction(broken: KafkaCluster, topic_name: str, fault: Any) -> None:
    """KAFKA-17754 on a real broker: the first EndTxn is given up, and arrives while the next transaction is open."""
    create(Direct(broken), topic_name, 2)  # type: ignore[arg-type]
    with kafwire.Producer(broken.bootstrap, transactional_id=topic_name, request_timeout_ms=300, **QUICK) as producer:
        producer.init_transactions()
        broken.proxy.add(Rule(fault, api="EndTxn", count=1))
        with producer.transaction():
            producer.send(topic_name, b"first", partition=0)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(topic_name, b"torn", partition=0)
            producer.flush()
            time.sleep(HELD_S + 0.3)
            producer.send(topic_name, b"torn", partition=1)
            producer.flush()
            _ = 1 // 0
    assert broken.proxy.events
    assert committed(Direct(broken), topic_name) == [b"first"]  # type: ignore[arg-type]


def judge(seen: list[bytes], offset: int | None, reported: dict[int, bool | None], copies: int) -> None:
    """Compare the records that readers see with each transaction's outcome: committed, aborted, or (None) neither."""
    found = Counter(map(int, seen))
    assert set(found) <= set(reported), "records that no producer sent"
    for number, committed_ in reported.items():
        if committed_ is None:
            assert found[number] in (0, copies), f"{number} is torn: {found[number]} of {copies}"
        else:
            assert found[number] == copies * committed_, f"{number}: reported {committed_}, {found[number]} are there"
    assert offset == max(found, default=None), "the group's offset is not that of the last committed transaction"


def test_a_storm(broken: KafkaCluster, topic_name: str) -> None:
    """Everything breaks now and then: records reported as committed are there, once, and nothing of the rest."""
    create(Direct(broken), topic_name, 3)  # type: ignore[arg-type]
    group = uuid.uuid4().hex
    chance = random.Random(broken.proxy.seed)
    for fault in (DropResponse(), Reset()):
        broken.proxy.add(Rule(fault, api=APIS, probability=0.08))
    reported: dict[int, bool | None] = {}
    fenced = 0
    producer = kafwire.Producer(broken.bootstrap, transactional_id=topic_name, **QUICK)
    for number in range(60):
        fails = chance.random() < 0.2
        reported[number] = False  # until a commit was asked for
        try:
            with producer.transaction():
                for partition in range(3):
                    producer.send(topic_name, b"%d" % number, partition=partition)
                producer.send_offsets({IN: number}, group)
                if fails:
                    raise LookupError
                reported[number] = None
            reported[number] = True
        except LookupError:
            pass
        except TransactionAbortableError:
            reported[number] = False
        except ProducerFencedError:  # by its own late request: nothing is torn, but it needs a new producer
            fenced += 1
            producer.close()
            producer = kafwire.Producer(broken.bootstrap, transactional_id=topic_name, **QUICK)
            producer.init_transactions()
    producer.close()
    print(len(broken.proxy.events), "faults,", fenced, "fenced", reported)
    assert fenced <= 5
    assert list(reported.values()).count(None) <= fenced
    assert True in reported.values()
    judge(committed(Direct(broken), topic_name), offset_of(Direct(broken), group, IN), reported, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kill_after", seeds.sampled([1, 7], 7))
def test_a_program_that_is_killed_processes_each_record_once(
    broken: KafkaCluster, topic_name: str, kill_after: int
) -> None:
    """I4: the output is all there, once, and the group's offset is that of the last committed transaction's input."""
    source, target, count = f"{topic_name}-in", f"{topic_name}-out", 200
    direct: Any = Direct(broken)
    create(direct, source, 2)
    create(direct, target, 3)
    with kafwire.Producer(broken.direct) as producer:
        for number in range(1, count + 1):
            producer.send(source, b"%d" % number, partition=number % 2)
    broken.proxy.add(Rule(DropResponse(), api=APIS, probability=0.03))
    command = [
        sys.executable,
        "-m",
        "tests.support.stream.transform_program",
        broken.bootstrap,
        topic_name,
        source,
        target,
        "2",
        "5",
    ]
    chance = random.Random(broken.proxy.seed)
    kills = 0
    for _ in range(60):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if kills < 8:
                for _ in range(kill_after):
                    process.stdout.readline()
                time.sleep(chance.random() * 0.02)  # somewhere in a transaction
                kills += process.poll() is None
                process.kill()
            process.stdout.read()
        if process.returncode == 0:
            break
        assert process.returncode == -9
    assert process.returncode == 0
    assert kills >= 3
    expected = sorted(b"%d" % -number for number in range(1, count + 1) for _ in "ab")
    assert committed(direct, target) == expected
    assert sorted(read_by_confluent(broken.direct, target, 3)) == expected
    for partition in range(2):
        assert offset_of(direct, topic_name, TopicPartition(source, partition)) == count // 2


def read_by_confluent(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """The committed records that librdkafka sees, up to the ends."""
    options = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
    consumer = ck.Consumer(
        {**options, "auto.offset.reset": "earliest", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    found: list[bytes] = []
    try:
        consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(partitions)])
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(20)
            assert message is not None, "librdkafka is stuck"
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            else:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                ended.add(message.partition() or 0)
    finally:
        consumer.close()
    return found


def test_clients_read_the_transactions_of_others(
    broken: KafkaCluster, topic_name: str, java_client: JavaClient
) -> None:
    create(Direct(broken), topic_name, 2)  # type: ignore[arg-type]
    theirs = ck.Producer({"bootstrap.servers": broken.direct, "transactional.id": f"{topic_name}-ck", "linger.ms": 0})
    theirs.init_transactions(30)
    expected = []
    for end in ("commit", "abort"):
        value = end.encode()
        java_client.produce(
            broken.direct, topic_name, [Written(0, 1, None, value, ())], transactional_id=f"{topic_name}-java", end=end
        )
        expected += [value] * (end == "commit")
    with kafwire.Producer(broken.direct, transactional_id=topic_name, compression_type="lz4", **QUICK) as ours:
        for number in range(12):
            keep = number % 3 != 1
            value = b"%d" % number
            if number % 2:
                theirs.begin_transaction()
                for partition in (0, 1):
                    theirs.produce(topic_name, value, partition=partition)
                theirs.commit_transaction(30) if keep else theirs.abort_transaction(30)
            else:
                ours.begin_transaction()
                ours.send_batch(topic_name, pa.table({"value": [value, value], "partition": [0, 1]}))
                ours.flush()
                ours.commit_transaction() if keep else ours.abort_transaction()
            expected += [value] * (2 * keep)
    assert committed(Direct(broken), topic_name) == sorted(expected)  # type: ignore[arg-type]
    assert sorted(read_by_confluent(broken.direct, topic_name, 2)) == sorted(expected)
    by_java = java_client.consume(broken.direct, topic_name, isolation_level="read_committed")
    assert sorted(seen.value or b"" for seen in by_java) == sorted(expected)


# Of a batch with one small record: the bytes that its checksum covers, and the header fields of the producer and of the
# value.
COVERED, PRODUCER_ID, EPOCH, SEQUENCE, VALUE = 54, range(22, 30), range(30, 32), range(32, 36), range(46, 53)


def damage(at: int, *, partitions: int = 1, mask: int = 1) -> Rule:
    """Changes a byte of the first batch of the next request, of so many batches with one small record."""
    return Rule(Corrupt("request", spot=(at + 0.5) / (partitions * COVERED), mask=mask), api="Produce", count=1)


def is_refusal(error: BaseException | None) -> bool:
    """Return whether a broker refused the producer id, or the epoch, on which the coordinator has the last word."""
    if isinstance(error, TransactionAbortableError):
        return "INVALID_PRODUCER_EPOCH" in str(error) and not error.in_doubt
    return isinstance(error, BrokerError) and error.name == "INVALID_PRODUCER_ID_MAPPING" and not error.in_doubt


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("at", [PRODUCER_ID[-1], EPOCH[0], EPOCH[1]])
def test_a_producer_that_is_damaged_on_its_way_is_refused_and_not_recognised(
    broken: KafkaCluster, topic_name: str, at: int, partitions: int
) -> None:
    """Brokers look at the producer id before they look at the checksum: damage there is no CORRUPT_MESSAGE to them.

    It may as well be true: so the user gets an error, and the transaction can only be aborted. The next one can be
    committed.
    """
    create(Direct(broken), topic_name, 2)  # type: ignore[arg-type]
    with kafwire.Producer(broken.bootstrap, transactional_id=topic_name, **QUICK | {"linger_ms": 50}) as producer:
        producer.init_transactions()
        broken.proxy.add(damage(at, partitions=partitions))
        producer.begin_transaction()
        deliveries = [producer.send(topic_name, b"damaged", partition=number) for number in range(partitions)]
        errors = [delivery.exception(30) for delivery in deliveries]
        assert all(is_refusal(error) for error in errors), errors
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic_name, b"next", partition=0)
    assert [event.kind for event in broken.proxy.events] == ["Corrupt"]
    assert committed(Direct(broken), topic_name) == [b"next"]  # type: ignore[arg-type]


@pytest.mark.parametrize(("at", "mask"), [(0, 255), (1, 16), (SEQUENCE[0], 128), (SEQUENCE[3], 1), (VALUE[0], 1)])
def test_other_damaged_requests_are_sent_again(broken: KafkaCluster, topic_name: str, at: int, mask: int) -> None:
    create(Direct(broken), topic_name, 1)  # type: ignore[arg-type]
    with kafwire.Producer(broken.bootstrap, transactional_id=topic_name, **QUICK) as producer:
        producer.init_transactions()
        broken.proxy.add(damage(at, mask=mask))
        with producer.transaction():
            producer.send(topic_name, b"damaged", partition=0)
    assert [event.kind for event in broken.proxy.events] == ["Corrupt"]
    assert committed(Direct(broken), topic_name) == [b"damaged"]  # type: ignore[arg-type]


def test_a_producer_of_another_client_is_fenced(broken: KafkaCluster, topic_name: str) -> None:
    create(Direct(broken), topic_name, 1)  # type: ignore[arg-type]
    theirs = ck.Producer({"bootstrap.servers": broken.direct, "transactional.id": topic_name, "linger.ms": 0})
    theirs.init_transactions(30)
    theirs.begin_transaction()
    theirs.produce(topic_name, b"theirs")
    theirs.flush(30)
    with kafwire.Producer(broken.direct, transactional_id=topic_name, **QUICK) as ours:
        with ours.transaction():
            ours.send(topic_name, b"ours")
        with pytest.raises(ck.KafkaException, match="(?i)fenced|epoch"):
            theirs.commit_transaction(30)
    assert committed(Direct(broken), topic_name) == [b"ours"]  # type: ignore[arg-type]


def test_a_transaction_that_takes_too_long(
    broken: KafkaCluster, topic_name: str, request: pytest.FixtureRequest
) -> None:
    """The coordinator aborts it. With version 1 the producer gets a fencing error, and a new one goes on."""
    create(Direct(broken), topic_name, 1)  # type: ignore[arg-type]
    options: dict[str, Any] = {"transactional_id": topic_name, "transaction_timeout_ms": 500, **QUICK}
    with kafwire.Producer(broken.direct, **options) as producer:
        producer.begin_transaction()
        producer.send(topic_name, b"late")
        producer.flush()
        with kafwire.Consumer(broken.direct, topics=topic_name, isolation_level="read_committed") as reader:
            where = TopicPartition(topic_name, 0)
            until(lambda: reader.end_offsets()[where] >= 2, "the record and the marker")
        if request.node.callspec.params["proxied"] in ("4.4.0", "4.3.1"):  # transactions of version 2
            with pytest.raises(TransactionAbortableError, match="did it take longer than transaction_timeout_ms"):
                producer.commit_transaction()
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic_name, b"next")
        else:
            with pytest.raises(ProducerFencedError, match="took longer than transaction_timeout_ms"):
                producer.commit_transaction()
            with kafwire.Producer(broken.direct, **options) as another, another.transaction():
                another.send(topic_name, b"next")
    assert committed(Direct(broken), topic_name) == [b"next"]  # type: ignore[arg-type]
