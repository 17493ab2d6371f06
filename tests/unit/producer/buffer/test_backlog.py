"""`producer.buffer.backlog` and where records go: leaders that come and go, slow brokers, options."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import ErrorCode
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.core import ProducerCore
from kafwire.testing.simulation.calls import NEVER, Call
from tests.support.java.reference_partitions import partition_of
from tests.support.simulated.producer import errors
from tests.support.simulated.world import World

BATCH = 1_000  # eight records of 100 bytes


class Work:
    """A producer's engine side that sends to topic t."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        settings = {"bootstrap_servers": world.bootstrap, "batch_size": BATCH, "max_request_size": BATCH * 100}
        self.cluster = Cluster(world.engine, ProducerConfig.build({**settings, **options}))
        self.core = ProducerCore(self.cluster, self.cluster.config)  # type: ignore[arg-type]
        world.run(self.core.ensure_metadata(["t"], 60_000))
        self.topic = self.core.accumulator.topics["t"]

    def send(self, *, key: bytes | None = None, value: bytes = b"." * 100) -> Any:
        delivery = self.core.accumulator.append("t", value, key, None, None, None)
        assert delivery is not None, "no room"
        return delivery

    def send_for(self, seconds: float, *, pace: float = 0.001) -> Counter[int]:
        """Send a batch's worth each `pace` seconds; how many records stuck to each partition."""
        places: Counter[int] = Counter()
        for _ in range(round(seconds / pace)):
            for _ in range(8):
                self.send()
                places[self.topic.sticky] += 1
            self.world.pass_time(pace)
        return places

    def take_only(self, partition: int) -> None:
        """Let records stick to a partition until weights change."""
        self.core.accumulator.set_weights("t", PartitionWeights([partition], [1]))

    def refresh(self) -> None:
        self.world.run(self.cluster.refresh(["t"]))

    def flush(self) -> None:
        self.world.run(self.core.flush(300.0))

    @property
    def shared(self) -> list[int]:
        """The partitions that have a share."""
        return list(self.topic.weights.ids)

    @property
    def are_weights_even(self) -> bool:
        weights = self.topic.weights
        return (
            [weights.pick(number) for number in range(len(weights.ids))]
            == list(weights.ids)
            == [weights.pick(number) for number in range(len(weights.ids), 2 * len(weights.ids))]
        )


def slow(world: World, node: int, seconds: float) -> None:
    async def handler(call: Call) -> None:
        if call.node == node:
            await asyncio.sleep(seconds)

    world.on("Produce", handler)


# ---- leaders


def test_records_without_a_key_go_where_there_is_a_leader() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=5).partitions[1].leader = -1
        work = Work(world)
        places = work.send_for(0.1)
        work.flush()
        assert set(places) == {0, 2, 3, 4}


def test_without_any_leader_they_wait_for_one() -> None:
    with World(brokers=2) as world:
        topic = world.create_topic("t", partitions=3)
        for log in topic.partitions:
            log.leader = -1
        work = Work(world)
        assert work.shared == [0, 1, 2]
        deliveries = [work.send() for _ in range(30)]
        world.pass_time(1)
        for log in topic.partitions:
            log.lead(1, 1)
        work.flush()
        assert all(delivery.result().offset >= 0 for delivery in deliveries)


def test_keys_wait_for_the_leader_of_their_partition() -> None:
    with World(brokers=2) as world:
        topic = world.create_topic("t", partitions=3)
        topic.partitions[1].leader = -1
        work = Work(world)
        keys = [b"%d" % i for i in range(30)]
        deliveries = [work.send(key=key) for key in keys]
        world.pass_time(1)
        assert [delivery.done() for delivery in deliveries] == [partition_of(key, 3) != 1 for key in keys]
        topic.partitions[1].lead(2, 1)
        work.flush()
        assert [delivery.result().partition for delivery in deliveries] == [partition_of(key, 3) for key in keys]


def test_a_partition_that_loses_its_leader_is_left_and_comes_back_with_the_next() -> None:
    with World(brokers=2) as world:
        topic = world.create_topic("t", partitions=3)
        work = Work(world, linger_ms=60_000, batch_size=1_000_000, max_request_size=1_000_000)
        work.send()
        left = work.topic.sticky
        topic.partitions[left].lead(-1, 1)
        work.refresh()
        assert work.topic.sticky == -1
        assert left not in work.topic.weights.ids
        for _ in range(20):
            work.send()
        assert work.topic.sticky != left
        topic.partitions[left].lead(1, 2)
        work.refresh()
        assert work.shared == [0, 1, 2]
        work.flush()


def test_a_partition_whose_leader_is_no_broker_any_more_is_left() -> None:
    """Metadata may still name it."""
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        work = Work(world)
        world.nodes[2].down = True
        work.take_only(1)
        work.send()
        world.pass_time(5)
        assert work.shared == [0, 2]
        assert work.topic.sticky == -1
        world.nodes[2].down = False
        work.flush()
        assert work.shared == [0, 1, 2]


def test_producers_do_not_all_draw_the_same() -> None:
    with World() as world:
        world.create_topic("t", partitions=1_000)
        works = [Work(world) for _ in range(5)]
        for work in works:
            work.send()
        assert len({work.topic.sticky for work in works}) > 1
        for work in works:
            work.flush()


def test_added_partitions_have_a_share() -> None:
    with World() as world:
        topic = world.create_topic("t", partitions=1)
        work = Work(world)
        assert set(work.send_for(0.02)) == {0}
        world.add_partitions(topic.name, 1)
        work.refresh()
        assert set(work.send_for(0.05)) == {0, 1}
        work.flush()


# ---- slow brokers (KIP-794)


def test_a_slow_broker_gets_less() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        slow(world, 3, 0.2)
        work = Work(world, buffer_memory=1 << 24)
        places = work.send_for(2.0)
        assert places[2] < 0.1 * places.total()
        assert 0.35 < places[0] / places.total() < 0.65
        assert list(work.core.sender._backlog.balance.uneven) == ["t"]
        world.off("Produce")
        work.flush()
        world.pass_time(1)
        assert work.are_weights_even, "nothing waits any more"
        work.flush()


def test_a_slow_broker_keeps_its_share_without_adaptive_partitioning() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        slow(world, 3, 0.2)
        work = Work(world, buffer_memory=1 << 26, partitioner_adaptive_partitioning_enable=False)
        places = work.send_for(2.0)
        assert 0.25 < places[2] / places.total() < 0.42
        assert work.are_weights_even
        work.flush()


def test_batches_that_wait_to_be_sent_again_count() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        work = Work(world, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000)
        world.on("Produce", lambda call: errors(ErrorCode.NOT_ENOUGH_REPLICAS)(call) if call.node == 2 else None)
        work.take_only(1)
        work.send()
        world.pass_time(0.1)
        assert work.core.sender._backlog.balance._uneven == {"t": ({1: 1}, frozenset())}
        world.off("Produce")
        work.flush()
        world.pass_time(1)
        assert work.are_weights_even


def test_a_broker_that_dies_gets_less() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        work = Work(world, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000)
        work.send_for(0.02)
        work.flush()
        world.kill(2)
        work.send()
        while work.topic.sticky != 1:
            work.send()
        world.pass_time(0.1)
        assert work.core.sender._backlog.balance.uneven
        world.nodes[2].down = False
        work.flush()
        world.pass_time(1)
        assert work.are_weights_even


def test_a_broker_that_takes_nothing_gets_nothing_after_a_while_and_comes_back() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        hangs = True
        world.on("Produce", lambda call: NEVER if hangs and call.node == 3 else None)
        work = Work(world, partitioner_availability_timeout_ms=200, buffer_memory=1 << 26, request_timeout_ms=5_000)
        assert work.send_for(0.1)[2]
        work.send_for(0.3)
        assert work.shared == [0, 1]
        assert set(work.send_for(1.0)) == {0, 1}
        hangs = False
        world.pass_time(10)  # the request in vain times out, and all is sent again
        assert work.are_weights_even
        assert work.shared == [0, 1, 2]
        assert work.send_for(0.1)[2]
        work.flush()


def test_a_broker_that_is_behind_but_takes_something_stays_available() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        slow(world, 3, 0.05)
        work = Work(world, partitioner_availability_timeout_ms=400, buffer_memory=1 << 26)
        for _ in range(20):
            assert work.send_for(0.1).total()
            assert work.shared == [0, 1, 2]
        assert work.core.sender._backlog.balance.uneven
        work.flush()


def test_a_broker_that_cannot_be_connected_to_gets_nothing_after_a_while() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        world.nodes[3].silent = True
        work = Work(world, partitioner_availability_timeout_ms=200, buffer_memory=1 << 26)
        work.take_only(2)
        work.send_for(0.5)
        assert work.shared == [0, 1]
        world.nodes[3].silent = False
        world.pass_time(30)
        assert work.shared == [0, 1, 2]
        work.flush()


def test_a_broker_that_throttles_gets_nothing_after_a_while() -> None:
    def throttle(call: Call) -> Any:
        if call.node != 3:
            return None
        response: Any = world.serve(call)
        response.throttle_time_ms = 5_000
        return response

    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        world.on("Produce", throttle)
        work = Work(world, partitioner_availability_timeout_ms=200, buffer_memory=1 << 26)
        work.take_only(2)
        work.send()
        work.flush()
        work.take_only(2)
        work.send_for(0.5)
        assert work.shared == [0, 1]
        world.off("Produce")
        world.pass_time(6)
        assert work.shared == [0, 1, 2]
        work.flush()


def test_a_slow_broker_stays_so_while_no_record_is_sent() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        world.on("Produce", lambda call: NEVER if call.node == 3 else None)
        work = Work(world, partitioner_availability_timeout_ms=200)
        work.take_only(2)
        for _ in range(24):
            work.send()
        world.pass_time(2)
        assert work.topic.sticky == -1
        assert work.shared == [0, 1]
        world.pass_time(5)
        assert work.shared == [0, 1]


def test_without_the_time_out_it_keeps_a_small_share() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=3)
        world.on("Produce", lambda call: NEVER if call.node == 3 else None)
        work = Work(world, buffer_memory=1 << 26)
        places = work.send_for(1.0)
        assert work.shared == [0, 1, 2]
        assert 0 < places[2] < 0.1 * places.total()


def test_where_all_brokers_hang_all_partitions_stay_available() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        world.on("Produce", lambda _: NEVER)
        work = Work(world, partitioner_availability_timeout_ms=50, buffer_memory=1 << 26)
        work.send_for(0.5)
        assert work.shared == [0, 1]
        assert set(work.send_for(0.2)) == {0, 1}


def test_topics_with_keys_alone_are_not_weighed() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=4)
        slow(world, 1, 1.0)
        work = Work(world)
        for i in range(200):
            work.send(key=b"%d" % i)
        world.pass_time(0.1)
        assert any(len(queue.fresh) for queue in work.topic.queues)
        assert not work.core.sender._backlog.balance.uneven
        work.flush()


# ---- options


@pytest.mark.parametrize("partitioner", ["round_robin", lambda _topic, _key, _partitions, available: available[0]])
def test_turns_and_functions_know_the_partitions_with_a_leader(partitioner: Any) -> None:
    with World() as world:
        world.create_topic("t", partitions=4).partitions[0].leader = -1
        work = Work(world, partitioner=partitioner)
        deliveries = [work.send(key=b"k") for _ in range(6)]
        work.flush()
        found = [delivery.result().partition for delivery in deliveries]
        assert found == ([1, 2, 3, 1, 2, 3] if partitioner == "round_robin" else [1] * 6)


def test_keys_can_be_ignored() -> None:
    with World() as world:
        world.create_topic("t", partitions=100)
        work = Work(world, partitioner_ignore_keys=True)
        deliveries = [work.send(key=b"%d" % i, value=b"") for i in range(8)]
        work.flush()
        assert len({delivery.result().partition for delivery in deliveries}) == 1
