"""A group's offsets without membership, with real coordinators; another client reads and writes the same ones."""

from __future__ import annotations

import asyncio
from typing import Any

import confluent_kafka as ck
import pytest

import kafwire
from kafwire.cluster.group_offsets import Committed, OffsetToCommit
from kafwire.errors import BrokerError, KafkaTimeoutError
from tests.support import seeds
from tests.support.group.real_group_offsets import offsets_of
from tests.support.kafka_versions import CLUSTERS
from tests.support.time_limits import within


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap)


@pytest.fixture
def topic(bootstrap: str, topic_name: str) -> str:
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic_name, partitions=3)
    return topic_name


def confluent(bootstrap: str, group_id: str, **options: Any) -> ck.Consumer:
    known = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False, "log_level": 0}
    return ck.Consumer({**known, **options})


def test_another_client_sees_committed_offsets_and_the_reverse(bootstrap: str, topic: str) -> None:
    # librdkafka stores the zero byte that ends a text in C, and reads a text without one past its end.
    other = confluent(bootstrap, topic)
    with offsets_of(bootstrap, topic) as ours:
        assert ours.fetch((topic, 0), (topic, 1)) == [None, None]
        ours.commit({(topic, 0): OffsetToCommit(7, 0, "text\0"), (topic, 2): OffsetToCommit(1 << 40)})
        seen = other.committed([ck.TopicPartition(topic, number) for number in range(3)], 20)
        assert [each.offset for each in seen] == [7, ck.OFFSET_INVALID, 1 << 40]
        assert seen[0].metadata == "text"
        assert seen[0].leader_epoch == 0
        other.commit(offsets=[ck.TopicPartition(topic, 1, 9, "theirs")], asynchronous=False)
        assert ours.fetch((topic, 2), (topic, 1), (topic, 0)) == [
            Committed(1 << 40, -1, ""),
            Committed(9, -1, "theirs\0"),
            Committed(7, 0, "text\0"),
        ]
    other.close()


def test_a_missing_partition_is_an_error_soon(bootstrap: str, topic: str) -> None:
    with offsets_of(bootstrap, topic) as ours, within(10):
        with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_OR_PARTITION.*{topic}-3"):
            ours.commit({(topic, 0): OffsetToCommit(1), (topic, 3): OffsetToCommit(1)})
        assert ours.fetch((topic, 0)) == [Committed(1, -1, "")]
        with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_OR_PARTITION.*{topic}-never"):
            ours.commit({(f"{topic}-never", 0): OffsetToCommit(1)})


def test_a_text_that_is_too_long_is_an_error_with_its_partition(bootstrap: str, topic: str) -> None:
    with offsets_of(bootstrap, topic) as ours:
        with pytest.raises(BrokerError, match=rf"OFFSET_METADATA_TOO_LARGE.*committing {topic}-1 of group"):
            ours.commit({(topic, 0): OffsetToCommit(5), (topic, 1): OffsetToCommit(5, -1, "x" * 10_000)})
        assert ours.fetch((topic, 0), (topic, 1)) == [Committed(5, -1, ""), None]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_only_members_commit_while_there_are_any(
    request: pytest.FixtureRequest, topic_name: str, protocol: str
) -> None:
    bootstrap = request.getfixturevalue("cluster").bootstrap
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic_name)
    member = confluent(bootstrap, topic_name, **{"group.protocol": protocol})
    member.subscribe([topic_name])
    with within(60):
        while not member.assignment():
            member.poll(0.1)
    with offsets_of(bootstrap, topic_name) as ours:
        with pytest.raises(BrokerError, match=r"the group has members, and only they may commit.*another group_id"):
            ours.commit({(topic_name, 0): OffsetToCommit(5)})
        assert ours.fetch((topic_name, 0)) == [None]
        member.close()
        ours.commit({(topic_name, 0): OffsetToCommit(5)})
        assert ours.fetch((topic_name, 0)) == [Committed(5, -1, "")]


def test_stable_offsets_wait_for_an_open_transaction(bootstrap: str, topic: str) -> None:
    member = confluent(bootstrap, topic)
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([ck.TopicPartition(topic, 0, 5)], member.consumer_group_metadata(), 60)
    with offsets_of(bootstrap, topic) as stable:
        assert stable.fetch((topic, 1)) == [None]
        with pytest.raises(KafkaTimeoutError, match=rf"within 1 s: UNSTABLE_OFFSET_COMMIT.*{topic}-0"):
            stable.fetch((topic, 0), (topic, 1), timeout_ms=1_000)
        producer.commit_transaction(60)
        assert stable.fetch((topic, 0), (topic, 1)) == [Committed(5, -1, ""), None]
    member.close()


def test_an_epoch_that_no_broker_knows_does_not_reset_the_position(bootstrap: str, topic: str) -> None:
    """The cluster may have been restored: reading goes on at the offset, and commits name the existing epoch."""
    where = kafwire.TopicPartition(topic, 0)
    with kafwire.Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with offsets_of(bootstrap, topic) as offsets:
        offsets.commit({(topic, 0): OffsetToCommit(8, leader_epoch=3)})
        with kafwire.Consumer(bootstrap, assign=[where], default_api_timeout_ms=3_000, **options) as consumer:
            batches = consumer.batches(timeout=30.0)
            batch = next(batches)
            assert [record.value for record in batch] == [b"8", b"9"]
            consumer.commit(batch)
            assert offsets.fetch((topic, 0)) == [Committed(10, 0, "")]

        async def read_on() -> None:
            consumer = kafwire.AsyncConsumer(bootstrap, assign=[where], start={where: 4}, **options)
            async with consumer:
                async for batch in consumer.batches():
                    await consumer.commit(batch)
                    return

        asyncio.run(read_on())
        assert offsets.fetch((topic, 0)) == [Committed(10, 0, "")]


def test_a_topic_made_again_does_not_take_the_old_ones_offsets(request: pytest.FixtureRequest, topic_name: str) -> None:
    bootstrap = request.getfixturevalue("cluster").bootstrap
    with kafwire.Client(bootstrap) as client, offsets_of(bootstrap, topic_name) as ours:
        client.create_topic(topic_name)
        ours.commit({(topic_name, 0): OffsetToCommit(5)})
        client.delete_topic(topic_name)
        client.create_topic(topic_name)
        with pytest.raises(kafwire.KafkaError, match=f"topic '{topic_name}' was deleted and recreated"):
            ours.commit({(topic_name, 0): OffsetToCommit(6)})
        assert ours.fetch((topic_name, 0)) == [None]
