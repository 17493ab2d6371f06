"""Producers with several transactional ids on one cluster's connections, which stay open when a producer is closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.producer.core import ProducerCore
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting


@pytest.fixture
def world() -> Iterator[World]:
    with World(brokers=3) as it:
        it.create_topic("t", partitions=3)
        yield it


class Sharing(Transacting):
    """A producer on the connections of a cluster."""

    def __init__(self, world: World, cluster: Cluster, transactional_id: str) -> None:
        self.world = world
        self.config = ProducerConfig.build(
            {"bootstrap_servers": world.bootstrap, "transactional_id": transactional_id, "linger_ms": 0}
        )
        self.cluster = cluster
        self.core = ProducerCore(cluster, self.config, is_shared=True)
        self.accumulator = self.core.accumulator
        world.run(self.core.ensure_metadata(["t"], 60_000))


def opened(cluster: Cluster) -> int:
    """The number of times that a connection was opened."""
    return sum(node.blame.openings for node in cluster._nodes.values())


def test_later_producers_open_no_connection(world: World) -> None:
    cluster = Cluster(world.engine, ProducerConfig.build({"bootstrap_servers": world.bootstrap}))
    counts = []
    for number in range(4):
        work = Sharing(world, cluster, "x")
        work.transact(b"%d" % number)
        work.close()
        counts.append(opened(cluster))
    assert counts == [counts[0]] * 4
    assert work.seen == [b"0", b"1", b"2", b"3"]
    assert len(world.made("FindCoordinator")) == 1
    world.run(cluster.close())


def test_two_producers_at_the_same_time_do_not_end_each_other(world: World) -> None:
    cluster = Cluster(world.engine, ProducerConfig.build({"bootstrap_servers": world.bootstrap}))
    one, other = Sharing(world, cluster, "x"), Sharing(world, cluster, "y")
    one.begin()
    other.begin()
    one.send("t", b"one")
    other.send("t", b"other")
    one.commit()
    one.close()
    other.commit()
    assert sorted(filter(None, other.seen)) == [b"one", b"other"]
    listeners = len(cluster._listeners), len(cluster._on_overdue)
    other.close()
    assert (len(cluster._listeners), len(cluster._on_overdue)) == tuple(count - 1 for count in listeners)
    world.run(cluster.close())


def test_a_new_coordinator_is_found_by_the_next_producer(world: World) -> None:
    cluster = Cluster(world.engine, ProducerConfig.build({"bootstrap_servers": world.bootstrap}))
    for number in range(3):
        world.move_coordinator("x", number + 1)
        work = Sharing(world, cluster, "x")
        work.transact(b"%d" % number)
        work.close()
    assert work.seen == [b"0", b"1", b"2"]
    world.run(cluster.close())
