"""`consumer.fetch.broker_fetcher`: sessions and immediate fetches, with the simulated world's brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafwire.calls.consumer import layouts, selection_of
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import end_of_epoch
from kafwire.config import ConsumerConfig
from kafwire.consumer.core import ConsumerCore
from kafwire.types import TopicPartition
from tests.support.simulated.world import World

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Reading:
    """A consumer of two quiet partitions, whose request is parked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.logs = world.create_topic("t", partitions=2).partitions
        config = ConsumerConfig.build({"bootstrap_servers": world.bootstrap})
        selection = selection_of(None, [FIRST, SECOND], "earliest")
        self.core = ConsumerCore(Cluster(world.engine, config), config, selection, layouts(None, None))
        world.run(self.core.start_once())
        world.run(self.core.assignment.ask())
        self.reader = self.core.reader()
        self.rows: list[tuple[int | None, int]] = []
        world.pass_time(3)

    def take(self) -> list[tuple[int | None, int]]:
        """(partition, offset) of all that has come so far."""
        while (batch := self.reader.read(0)) is not None:
            self.rows += [(record.partition, record.offset) for record in batch]
        return self.rows

    def on_engine(self, action: Callable[[], object]) -> None:
        self.world.loop.call_soon(action)

    def pause(self, partition: int, *, paused: bool) -> None:
        fetcher = self.core.fetcher
        self.on_engine(lambda: fetcher.pause(fetcher.cursors["t", partition], paused=paused))
        self.world.pass_time(0.02)

    def in_session(self) -> set[int]:
        """The partitions that the broker reads for the only session there is."""
        (session,) = self.world.sessions(1).sessions.values()
        return {index for _, _, index in session.partitions}


@pytest.fixture
def reading() -> Iterator[Reading]:
    with World() as world:
        it = Reading(world)
        yield it
        it.core.fetcher.stop()


def test_a_partition_assigned_again_is_read_on(reading: Reading) -> None:
    """The partition has another cursor then; the session must not forget it with the old one."""

    async def drop_and_take() -> None:
        await reading.core.assignment.assign([SECOND])
        await reading.core.assignment.assign([FIRST, SECOND])

    reading.logs[0].append_values([b"a"])
    reading.world.pass_time(1)
    assert reading.take() == [(0, 0)]
    reading.world.run(drop_and_take())
    reading.world.pass_time(2)
    assert reading.in_session() == {0, 1}
    reading.logs[0].append_values([b"b"])
    reading.logs[1].append_values([b"c"])
    reading.world.pass_time(1)
    assert sorted(reading.take()) == [(0, 0), (0, 0), (0, 1), (1, 0)]


def test_quiet_partition_that_is_resumed_is_fetched_immediately_now_and_then(reading: Reading) -> None:
    """After the response to the parked request, the partition is requested with the others, in the session."""
    reading.pause(0, paused=True)
    reading.world.pass_time(2)
    assert reading.in_session() == {1}
    before = len(reading.world.made("Fetch"))
    reading.pause(0, paused=False)
    reading.world.pass_time(2)
    assert reading.in_session() == {0, 1}
    made = reading.world.made("Fetch")[before:]
    assert 2 < len(made) < 60, len(made)
    reading.world.pass_time(2)
    assert len(reading.world.made("Fetch")) - before - len(made) <= 5


def test_resumed_partition_does_not_wait_for_the_parked_request(reading: Reading) -> None:
    reading.pause(0, paused=True)
    reading.world.pass_time(2)
    reading.pause(0, paused=False)
    reading.world.pass_time(0.1)
    reading.logs[0].append_values([b"a"])
    reading.world.pass_time(0.025)
    assert reading.take() == [(0, 0)]


def test_end_of_an_epoch_is_asked_of_the_leader_until_it_responds() -> None:
    with World(brokers=2) as world:
        log = world.create_topic("t").partitions[0]
        log.append_values([b"a", b"b"])
        cluster = Cluster(world.engine, ConsumerConfig.build({"bootstrap_servers": world.bootstrap}))
        assert world.run(end_of_epoch(cluster, "t", 0, 0)) == (0, 2)
        world.move_leader("t", 0, 2)
        log.append_values([b"c"])
        assert world.run(end_of_epoch(cluster, "t", 0, 0)) == (0, 2)
        assert world.run(end_of_epoch(cluster, "t", 0, 1)) == (1, 3)
        assert world.run(end_of_epoch(cluster, "t", 0, 2)) == (-1, -1)
        assert [call.node for call in world.made("OffsetForLeaderEpoch")] == [1, 1, 2, 2, 2]


def test_a_fetcher_with_a_full_partition_goes_on_when_it_has_moved() -> None:
    """Each request has all partitions of a broker, or none."""
    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)  # 0 and 2 at broker 1
        options = {"fetch_strategy": "per_node", "max_prefetch_batches": 1}
        config = ConsumerConfig.build({"bootstrap_servers": world.bootstrap, **options})
        selection = selection_of(None, [FIRST, TopicPartition("t", 2)], "earliest")
        core = ConsumerCore(Cluster(world.engine, config), config, selection, layouts(None, None))
        world.run(core.start_once())
        world.run(core.assignment.ask())
        first, _, third = world.topics["t"].partitions
        first.append_values([b"a"])
        world.pass_time(2)
        third.append_values([b"b"])
        world.move_leader("t", 0, 2)
        world.loop.call_soon(core.fetcher.brokers.move, [core.fetcher.cursors["t", 0]])
        world.run(core.cluster.refresh(["t"]))
        world.loop.call_soon(core.fetcher.brokers.move, [core.fetcher.cursors["t", 0]])
        world.pass_time(2)
        reader = core.reader()
        read = []
        while (batch := reader.read(0)) is not None:
            read += [record.value for record in batch]
        assert sorted(filter(None, read)) == [b"a", b"b"]
        core.fetcher.stop()


def test_a_part_without_records_keeps_its_place_in_the_session(reading: Reading) -> None:
    """The response names the partition, as its log begins later now."""
    for log in reversed(reading.logs):
        log.append_values([b"a"])
        reading.world.pass_time(1)
    fetcher = reading.core.fetcher.brokers.fetcher_of(reading.core.fetcher.cursors["t", 0])
    assert fetcher is not None
    assert [cursor.partition for cursor in fetcher.session] == [1, 0]
    reading.logs[1].delete_before(1)
    reading.world.pass_time(2)
    assert [cursor.partition for cursor in fetcher.session] == [1, 0]
