"""Share consumers of Java and librdkafka on the embedded broker: each record comes, some come again, some never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import confluent_kafka
import pytest

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from tests.support import deadlines as waiting
from tests.support.share.members import QUICK, Delivered, JavaShareMember, JavaShareMembers

LOCK_MS = 1000


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(configs={**QUICK, "group.share.record.lock.duration.ms": LOCK_MS}) as running:
        yield running


@pytest.fixture(scope="module")
def java() -> Iterator[JavaShareMembers]:
    with JavaShareMembers() as members:
        yield members


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    """A topic, and a group of its name that reads all of it."""
    kafka.create_topic(topic_name)
    kafka.state.group_configs[topic_name] = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "3"}
    return topic_name


def write(kafka: EmbeddedKafka, topic: str, count: int, partition: int = 0) -> None:
    for number in range(count):
        kafka.state.topics.by_name[topic].partitions[partition].append_values([b"value %d" % number])


def explicit(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str, name: str = "") -> JavaShareMember:
    """A member that says of each record what becomes of it."""
    return java.member(kafka.bootstrap, topic + name, topic, [topic], share_acknowledgement_mode="explicit")


def offsets(records: Sequence[Delivered]) -> list[int]:
    return sorted(each.offset for each in records)


def test_each_record_is_read_once(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str) -> None:
    kafka.state.topics.add_partitions(kafka.state.topics.by_name[topic], 1)
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


def test_released_records_come_again_and_rejected_ones_do_not(
    kafka: EmbeddedKafka, java: JavaShareMembers, topic: str
) -> None:
    write(kafka, topic, 6)
    member = explicit(kafka, java, topic)
    found = sorted(member.read(6), key=lambda each: each.offset)
    member.say(found[:2], "ACCEPT")
    member.say(found[2:4], "RELEASE")
    member.say(found[4:], "REJECT")
    assert member.commit() == []
    again = member.read(2)
    assert [(each.offset, each.deliveries) for each in again] == [(2, 2), (3, 2)]
    member.say(again, "RELEASE")
    assert member.commit() == []
    last = member.read(1)  # it is the last try: records come alone
    assert [(each.offset, each.deliveries) for each in last] == [(2, 3)]
    member.say(last, "RELEASE")
    assert member.commit() == []
    last = member.read(1)
    assert [(each.offset, each.deliveries) for each in last] == [(3, 3)]
    member.say(last, "ACCEPT")
    assert member.commit() == []
    write(kafka, topic, 1)
    assert offsets(member.read(1)) == [6]
    member.close()


def test_a_lock_ends_and_can_be_renewed(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str) -> None:
    write(kafka, topic, 2)
    slow = explicit(kafka, java, topic)
    found = sorted(slow.read(2), key=lambda each: each.offset)
    slow.say(found[1:], "RENEW")
    assert slow.commit() == []
    other = explicit(kafka, java, topic, "-other")
    assert [(each.offset, each.deliveries) for each in other.read(1)] == [(0, 2)]
    slow.close()
    other.close()


def test_a_killed_member_loses_its_records(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str) -> None:
    write(kafka, topic, 4)
    kafka.state.group_configs[topic]["share.record.lock.duration.ms"] = "60000"  # it is not the lock that ends
    with JavaShareMembers() as doomed:
        member = explicit(kafka, doomed, topic)
        other = explicit(kafka, java, topic, "-other")
        assert offsets(member.read(4)) == [0, 1, 2, 3]
        doomed.kill()
        assert [(each.offset, each.deliveries) for each in other.read(4)] == [(offset, 2) for offset in range(4)]
        other.close()


def test_aborted_records_are_not_delivered(kafka: EmbeddedKafka, java: JavaShareMembers, topic: str) -> None:
    kafka.state.group_configs[topic]["share.isolation.level"] = "read_committed"
    with kafwire.Producer(kafka.bootstrap, transactional_id=topic) as producer:
        for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 2):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(topic, b"%d" % number, partition=0)
            ends()
    member = java.member(kafka.bootstrap, topic, topic, [topic])
    assert [each.value for each in member.read(6)] == ["0"] * 3 + ["2"] * 3
    assert member.commit() == []
    assert member.poll() == []
    member.close()


def test_librdkafkas_share_consumer_reads_each_record(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.state.topics.add_partitions(kafka.state.topics.by_name[topic], 1)
    write(kafka, topic, 5)
    write(kafka, topic, 5, partition=1)
    member = confluent_kafka.ShareConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic})
    member.subscribe([topic])
    found: list[tuple[int | None, int | None]] = []

    def are_there() -> bool:
        found.extend((each.partition(), each.offset()) for each in member.poll(0.2) if each.error() is None)
        return len(found) >= 10

    waiting.until(are_there, "all records are there")
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(5)]
    member.close()
