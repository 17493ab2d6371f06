"""Java's share consumer on the embedded broker: it gets each record, gives records back, and is killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.testing.broker.embedded import EmbeddedKafka
from tests.support.share_members import QUICK, JavaShareMembers


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(configs={**QUICK, "group.share.record.lock.duration.ms": 2000}) as running:
        yield running


@pytest.fixture(scope="module")
def java() -> Iterator[JavaShareMembers]:
    with JavaShareMembers() as members:
        yield members


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    kafka.create_topic(topic_name, partitions=2)
    kafka.state.group_configs[topic_name] = {"share.auto.offset.reset": "earliest"}
    return topic_name


def write(kafka: EmbeddedKafka, topic: str, count: int, partition: int = 0) -> None:
    for number in range(count):
        kafka.state.topics.by_name[topic].partitions[partition].append_values([b"value %d" % number])


def test_each_record_is_read_once(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str) -> None:
    write(kafka, topic, 10)
    write(kafka, topic, 5, partition=1)
    member = java.member(kafka.bootstrap, topic, topic, [topic])
    found = member.read(15)
    assert sorted((each.partition, each.offset) for each in found) == [
        *((0, offset) for offset in range(10)),
        *((1, offset) for offset in range(5)),
    ]
    assert {each.deliveries for each in found} == {1}
    assert member.commit() == []
    assert member.poll() == []
    member.close()
