"""A broker that takes connections and requests and sends no response: partitions of others must not wait for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.broker_connection import ALIVE_MS
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import GroupOffsets, OffsetToCommit
from kafwire.config import ClientConfig
from kafwire.testing.simulation.calls import NEVER, Call
from tests.support import seeds
from tests.support.simulated.consumer import Consuming, fill
from tests.support.simulated.consumer import write as write_to
from tests.support.simulated.producer import Work, log_of
from tests.support.simulated.scan import Scanning
from tests.support.simulated.world import World

SEEDS = 20
# Until the controller takes its partitions away.
FENCED_S = 9.0
LATE_S = 1.1


def hang(world: World, node: int) -> None:
    """Let `node` send no response from now on, on old connections and new ones."""
    world.nodes[node].receive = lambda connection, data, on_response: None  # type: ignore[method-assign]


async def open_all(cluster: Cluster, role: str = "control") -> None:
    """Open all connections, like a program that has been running for a while."""
    await cluster.refresh()
    for node in cluster.metadata.brokers:
        await cluster.connection(node, role).open()


def make_cluster(world: World, bootstrap: str | None = None, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": bootstrap or world.bootstrap, **options}))


@seeds.several(SEEDS)
def test_a_partition_that_moved_away_is_read_on(seed: int) -> None:
    with World(brokers=3, seed=seed) as world:
        world.create_topic("t", partitions=3, replicas=3)
        for number in range(3):
            write_to(world, "t", number)
        with Consuming(world, topics="t") as consuming:
            world.run(open_all(consuming.cluster))
            consuming.until(lambda: sum(map(len, consuming.rows.values())) == 3)
            hang(world, 1)
            started = world.loop.time()
            world.pass_time(FENCED_S)
            world.move_leader("t", 0, 2)
            write_to(world, "t", 0)
            consuming.until(lambda: len(consuming.rows["t", 0]) == 2, limit_s=300)
            assert world.loop.time() - started < FENCED_S + LATE_S


@seeds.several(SEEDS)
def test_a_scan_of_a_partition_that_moved_away_ends(seed: int) -> None:
    with World(brokers=3, seed=seed) as world:
        rows = fill(world, "t", partitions=3, replicas=3)
        read = Scanning(world, "t")
        world.run(open_all(read.cluster, "fetch"))
        hang(world, 1)
        started = world.loop.time()
        world.loop.call_later(FENCED_S, world.move_leader, "t", 0, 2)
        assert read.all() == rows
        assert world.loop.time() - started < FENCED_S + 2 * LATE_S


@seeds.several(SEEDS)
@pytest.mark.parametrize("waiting", [True, False])
def test_records_for_a_partition_that_moved_away_are_delivered(seed: int, *, waiting: bool) -> None:
    """Also if all records are in flight."""
    with World(brokers=3, seed=seed) as world:
        world.create_topic("t", partitions=3, replicas=3)
        work = Work(world, "t", linger_ms=0)
        work.send("t", b"0")
        work.flush()
        world.run(open_all(work.cluster))
        hang(world, 1)
        deliveries = [work.send("t", b"1")]
        world.pass_time(FENCED_S)
        if waiting:
            deliveries.append(work.send("t", b"2"))
        world.move_leader("t", 0, 2)
        world.pass_time(LATE_S)
        assert all(delivery.done() for delivery in deliveries)
        assert log_of(world).values() == [b"0", b"1", b"2"][: 1 + len(deliveries)]


@seeds.several(SEEDS)
def test_a_coordinator_is_found(seed: int) -> None:
    with World(brokers=3, seed=seed) as world:
        world.create_topic("t", partitions=3)
        world.move_coordinator("g", 3)
        cluster = make_cluster(world)
        world.run(open_all(cluster))
        hang(world, 1)
        world.pass_time(60)
        started = world.loop.time()
        world.run(GroupOffsets(cluster, "g").commit({("t", 1): OffsetToCommit(1)}))
        assert world.loop.time() - started < 1


@seeds.several(SEEDS)
@pytest.mark.parametrize("idle_s", [0.0, 2 * ALIVE_MS / 1000])
def test_a_request_that_any_broker_can_serve_goes_to_another_one(seed: int, idle_s: float) -> None:
    """A request that changes something is sent once."""

    def delete(_: Call) -> Any:
        return protocol.DeleteTopicsResponse()

    with World(brokers=3, seed=seed) as world:
        cluster = make_cluster(world)
        world.on("DeleteTopics", delete)
        world.run(open_all(cluster))
        hang(world, 1)
        world.pass_time(max(idle_s, ALIVE_MS / 1000 + 0.1))
        started = world.loop.time()
        world.run(cluster.call(protocol.MetadataRequest(topics=[])))
        world.run(cluster.call(protocol.DeleteTopicsRequest()))
        assert world.loop.time() - started < 1
        assert len(world.made("DeleteTopics")) == 1


def test_a_client_begins_with_whichever_bootstrap_server_responds() -> None:
    with World(brokers=4) as world:
        for number in (1, 2):
            hang(world, number)
        world.nodes[3].silent = True
        cluster = make_cluster(world)
        started = world.loop.time()
        world.run(cluster.refresh())
        assert world.loop.time() - started < 1.2


def test_a_broker_that_owes_a_response_for_long_is_asked_last() -> None:
    async def scenario(cluster: Cluster) -> None:
        await open_all(cluster)
        await open_all(cluster, "fetch")
        busy = asyncio.ensure_future(cluster.connection(1, "fetch").call(protocol.ListGroupsRequest()))
        await asyncio.sleep(5)
        for _ in range(20):
            assert cluster.known()[-1].node == 1
        assert {cluster.known()[0].node for _ in range(40)} == {2, 3}
        busy.cancel()

    with World(brokers=3) as world:
        world.on("ListGroups", lambda _: NEVER)
        world.run(scenario(make_cluster(world)))
