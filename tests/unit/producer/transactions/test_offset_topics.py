"""`producer.transactions.offset_topics`: a transaction commits the offsets of topics by their ids (KIP-1319)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pytest

from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.cluster.transaction_member import TransactionMember
from kafwire.errors import ErrorCode, TransactionAbortableError
from kafwire.testing.simulation.calls import Call
from kafwire.types import ConsumerGroupMetadata
from tests.support.simulated.world import World
from tests.support.transactional_producer import IN, Transacting, refusal, refuse


@pytest.fixture
def world() -> Iterator[World]:
    with World(brokers=3) as it:
        for topic in ("t", "in"):
            it.create_topic(topic, partitions=1)
        yield it


def sent(world: World) -> list[tuple[int, str, uuid.UUID]]:
    """Version, name and id of each TxnOffsetCommit."""
    calls = world.made("TxnOffsetCommit")
    return [(call.version, topic.name, topic.topic_id) for call in calls for topic in call.message.topics]


def test_offsets_go_by_topic_id(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send_offsets(7)
    work.commit()
    world.pass_time(1)
    assert work.offset == 7
    assert sent(world) == [(6, "", world.topics["in"].topic_id)]


def test_older_coordinators_and_version_1_get_names(world: World) -> None:
    for node in world.nodes.values():
        node.versions["TxnOffsetCommit"] = (0, 5)
    work = Transacting(world)
    work.begin()
    work.send_offsets(7)
    world.transaction_version = 1
    for node in world.nodes.values():
        node.versions.clear()
    older = Transacting(world, "y")
    older.begin()
    older.send_offsets(8)
    assert sent(world) == [(5, "in", NO_TOPIC_ID), (4, "in", NO_TOPIC_ID)]


def test_a_cluster_without_topic_ids_gets_names() -> None:
    with World(topic_ids=False) as world:
        for topic in ("t", "in"):
            world.create_topic(topic, partitions=1)
        work = Transacting(world)
        work.begin()
        work.send_offsets(7)
        work.commit()
        world.pass_time(1)
        assert work.offset == 7
        assert sent(world) == [(5, "in", NO_TOPIC_ID)]


def test_a_coordinator_that_lags_is_asked_again(world: World) -> None:
    work = Transacting(world)
    refuse(world, "TxnOffsetCommit", ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)
    work.begin()
    work.send_offsets(7)
    work.commit()
    world.pass_time(1)
    assert work.offset == 7
    assert len(world.made("TxnOffsetCommit")) == 3


def test_offsets_of_a_deleted_topic_do_not_go_to_the_next_of_its_name(world: World) -> None:
    work = Transacting(world)
    work.begin()

    def replace(call: Call) -> object:
        if len(world.made("TxnOffsetCommit")) > 1:
            return None
        world.create_topic("in", partitions=1)  # in place of the old one
        return refusal(call, ErrorCode.UNKNOWN_TOPIC_ID)

    world.on("TxnOffsetCommit", replace)
    with pytest.raises(TransactionAbortableError, match="topic 'in' was deleted and created again"):
        work.send_offsets(7)
    work.abort()
    world.pass_time(1)
    assert work.offset is None


class Guard:
    """A consumer that owns all, and reads one topic."""

    def __init__(self, topic_id: uuid.UUID) -> None:
        self.topic_id = topic_id

    def went(self, named: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        del named
        return []

    def topic_ids(self, named: Iterable[tuple[str, int]]) -> dict[str, uuid.UUID]:
        return {topic: self.topic_id for topic, _ in named}

    def before(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g")


def test_the_consumer_knows_a_recreated_topic_before_the_producer_does(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send_offsets(7)
    work.commit()
    world.create_topic("in", partitions=1)  # in place of the old one, which the producer's metadata have
    recreated = world.topics["in"].topic_id
    work.begin()
    member = TransactionMember.of(ConsumerGroupMetadata("g"), Guard(recreated))
    world.run(work.transactions.send_offsets({IN: 1}, member, None))
    work.commit()
    world.pass_time(1)
    assert sent(world)[1:] == [(6, "", recreated)]
    assert work.offset == 1


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_member_that_lost_its_place_aborts(world: World, code: ErrorCode) -> None:
    work = Transacting(world)
    refuse(world, "TxnOffsetCommit", code)
    work.begin()
    with pytest.raises(TransactionAbortableError, match=code.name):
        work.send_offsets(7)
    work.abort()
    work.transact(b"next")
    assert work.seen == [b"next"]
