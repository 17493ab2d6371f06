"""`Admin`'s calls about transactions, on real brokers; hanging ones beside Kafka's own tool."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.admin import HangingTransaction
from kafwire.errors import AdminError, BrokerError, ErrorCode, KafkaError, ProtocolError
from kafwire.records import encode_batch
from kafwire.testing import KafkaCluster
from kafwire.testing.cluster.kafka import OLDEST_VERSION, class_path, java
from kafwire.types import TopicPartition
from tests.support.deadlines import until
from tests.support.kafka_versions import CLUSTERS


@pytest.fixture(params=CLUSTERS, ids=str)
def running(request: pytest.FixtureRequest) -> KafkaCluster:
    found: KafkaCluster = request.getfixturevalue(CLUSTERS[request.param])
    return found


@pytest.fixture
def admin(running: KafkaCluster) -> Iterator[kafwire.Admin]:
    with kafwire.Admin(running.bootstrap) as made:
        yield made


def test_a_transaction_from_its_beginning_to_its_end(
    running: KafkaCluster, admin: kafwire.Admin, topic_name: str
) -> None:
    where = TopicPartition(topic_name, 0)
    with kafwire.Client(running.bootstrap) as client:
        client.create_topic(topic_name, partitions=1)
    producer = kafwire.Producer(running.bootstrap, transactional_id=topic_name, linger_ms=0)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic_name, b"v").result(30)
    (state,) = admin.describe_producers([where], broker=1)[where]
    assert (state.start_offset, state.last_sequence) == (0, 0)
    found = admin.describe_transactions([topic_name])[topic_name]
    assert (found.state, found.partitions, found.producer_id) == ("Ongoing", (where,), state.producer_id)
    (listing,) = admin.list_transactions(states=["Ongoing"], prefix=topic_name)
    assert (listing.transactional_id, listing.producer_id) == (topic_name, state.producer_id)
    assert not admin.find_hanging_transactions([topic_name], longer_than_ms=0)
    admin.force_terminate_transaction(topic_name)
    until(lambda: admin.describe_producers([where])[where][0].start_offset is None, "the marker is written")
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    producer.close(0)
    assert admin.fence_producers([topic_name])[topic_name].producer_id >= 0
    assert admin.describe_transactions([topic_name])[topic_name].state == "Empty"
    with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transactions([f"{topic_name}-none"])


def test_filters_that_a_release_lacks(running: KafkaCluster, admin: kafwire.Admin) -> None:
    assert admin.list_transactions(longer_than_ms=10**12, states=["Ongoing"]) == []
    if running.version == OLDEST_VERSION:
        with pytest.raises(ProtocolError, match=r"broker 1 cannot filter by pattern: Kafka 4\.1"):
            admin.list_transactions(pattern="x.*")
    else:
        assert admin.list_transactions(pattern="no such id") == []
        with pytest.raises((BrokerError, AdminError), match="INVALID_REGULAR_EXPRESSION"):
            admin.list_transactions(pattern="(")


@pytest.fixture(scope="module")
def unverified() -> Iterator[KafkaCluster]:
    """A Kafka whose leaders take a batch of a transaction that the coordinator does not know (see KIP-890)."""
    with KafkaCluster(properties={"transaction.partition.verification.enable": False}) as made:
        yield made


def hang(client: kafwire.Client, admin: kafwire.Admin, topic: str) -> TopicPartition:
    """Write a batch of a transaction that its coordinator does not know."""
    client.create_topic(topic, partitions=2)
    producer = admin.fence_producers([topic])[topic]
    data = encode_batch(
        [(None, b"v", time.time_ns() // 1_000_000)],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request: Any = protocol.ProduceRequest
    topics = [
        request.TopicProduceData(name=topic, partition_data=[request.PartitionProduceData(index=1, records=data)])
    ]
    message = request(acks=-1, timeout_ms=10_000, transactional_id=topic, topic_data=topics)
    response = client.call(message, broker=1, version=request.ABORTABLE)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return TopicPartition(topic, 1)


def by_tool(cluster: KafkaCluster, topic: str) -> list[tuple[TopicPartition, int, int, int]]:
    """The hanging transactions by Kafka's tool: partition, producer id, producer epoch, start offset."""
    command = [
        *(java(), "-cp", class_path(cluster.version), "org.apache.kafka.tools.TransactionsCommand"),
        *("--bootstrap-server", cluster.bootstrap, "find-hanging"),
        *("--topic", topic, "--max-transaction-timeout", "0"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    header, *lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert header[:6] == ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"]
    return [(TopicPartition(line[0], int(line[1])), int(line[2]), int(line[3]), int(line[5])) for line in lines]


def test_hanging_transactions_are_those_of_kafkas_tool(unverified: KafkaCluster, topic_name: str) -> None:
    with kafwire.Client(unverified.bootstrap) as client, kafwire.Admin(unverified.bootstrap) as admin:
        where = hang(client, admin, topic_name)
        other = f"{topic_name}-open"
        client.create_topic(other, partitions=1)
        with kafwire.Producer(unverified.bootstrap, transactional_id=other, linger_ms=0) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(other, b"v").result(30)
            found = admin.find_hanging_transactions(longer_than_ms=0)
            producer.abort_transaction()
        (hanging,) = found
        assert isinstance(hanging, HangingTransaction)
        as_shown = (hanging.partition, hanging.producer_id, hanging.producer_epoch, hanging.start_offset)
        assert as_shown == (where, hanging.producer_id, 0, 0)
        assert by_tool(unverified, topic_name) == [as_shown]
        assert not admin.find_hanging_transactions([topic_name]), "it is too young"
        admin.abort_transaction(
            hanging.partition,
            producer_id=hanging.producer_id,
            producer_epoch=hanging.producer_epoch,
            coordinator_epoch=hanging.coordinator_epoch,
        )
        assert not admin.find_hanging_transactions([topic_name], longer_than_ms=0)
        end, stable = (client.offsets([where], "latest", isolation_level=level)[where] for level in LEVELS)
        assert (end, stable) == (2, 2)


LEVELS = ("read_uncommitted", "read_committed")
