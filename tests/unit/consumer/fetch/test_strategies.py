"""`consumer.fetch.strategies`: one set of scenarios for all, in the simulated world.

The rules for all of them, and, where they differ, the rule of each.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch.strategies import FETCH_STRATEGIES, FetchStrategy, strategy_of
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, log_of, write
from tests.support.simulated.world import World

BATCH = 1_000
every = pytest.mark.parametrize(
    "strategy", [*STRATEGIES, {"fetch_strategy": "per_node", "single_socket": True}], ids=str
)


def made_of(strategy: dict[str, Any]) -> FetchStrategy:
    return strategy_of(strategy.get("fetch_strategy", "hybrid"), single_socket=strategy.get("single_socket", False))


def roles(cluster: Cluster, node: int = 1) -> set[str]:
    """The roles of the connections to a broker that fetches may be made over."""
    return {connection.role for connection in cluster.connections if connection.node == node} - {"control"}


def test_every_strategy_that_the_option_allows_is_there() -> None:
    for name in FETCH_STRATEGIES:
        options = {"bootstrap_servers": "h:1", "fetch_strategy": name}
        assert ConsumerConfig.build(options).fetch_strategy == name
    assert {strategy["fetch_strategy"] for strategy in STRATEGIES if "fetch_strategy" in strategy} == set(
        FETCH_STRATEGIES
    )


def test_strategies_differ_as_documented() -> None:
    """docs/guide/reading.md: the shared requests, the effect of a full partition, and how long a request is parked."""
    assert made_of({"fetch_strategy": "hybrid"}) == FetchStrategy(immediate_fetches=True)
    assert made_of({"fetch_strategy": "per_partition"}) == FetchStrategy(connection_per_partition=True)
    assert made_of({"fetch_strategy": "per_node"}) == FetchStrategy(all_or_none=True)
    assert made_of({"single_socket": True}) == FetchStrategy(role="control", longest_wait_ms=100)
    both = {"fetch_strategy": "per_node", "single_socket": True}
    assert made_of(both) == FetchStrategy(role="control", longest_wait_ms=100, all_or_none=True)


@every
def test_everything_is_read_once_and_in_order(strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = {**fill(world, "a", partitions=5), **fill(world, "b", partitions=2, batches=1)}
        with Consuming(world, topics=["a", "b"], **strategy) as consuming:
            consuming.until_read(rows)


@every
def test_partitions_share_the_connections_and_requests_that_the_strategy_says(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            its = made_of(strategy)
            names = [TopicPartition("t", number) for number in range(3)]
            if its.connection_per_partition:
                assert roles(consuming.cluster) == {f"fetch:t-{where.partition}" for where in names}
            elif its.role == "control":
                assert roles(consuming.cluster) == set()
            else:
                assert "fetch" in roles(consuming.cluster)
                assert roles(consuming.cluster) <= {"fetch", "fetch-immediate"}
            opening = [call for call in consuming.fetches() if call.message.session_epoch == 0]
            together = [sorted(consuming.asked(call)) for call in opening]
            assert sorted(together) == ([[0], [1], [2]] if its.connection_per_partition else [[0, 1, 2]])


@every
def test_requests_are_parked_for_as_long_as_the_strategy_allows(strategy: dict[str, Any]) -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=0)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.idle(3)
            its = made_of(strategy)
            assert {call.message.max_wait_ms for call in consuming.fetches()} == {its.wait_ms(500)}
            assert its.wait_ms(20) == 20


@every
def test_new_demand_is_fetched_at_once_or_with_the_next_request(strategy: dict[str, Any]) -> None:
    """A partition is resumed while a request for another one is parked at the broker."""
    with World() as world:
        fill(world, "t", partitions=2, batches=0)
        with Consuming(world, topics="t", fetch_max_wait_ms=5_000, **strategy) as consuming:
            consuming.pause(0)
            consuming.idle(11)
            expected = write(world, "t", 0)
            begin = world.loop.time()
            consuming.resume(0)
            consuming.until(lambda: consuming.rows.get(("t", 0)) == expected)
            its = made_of(strategy)
            waited_ms = 1000 * (world.loop.time() - begin)
            if its.immediate_fetches or its.connection_per_partition:
                assert waited_ms < 100
            else:
                assert waited_ms <= its.wait_ms(5_000) + 20
            if its.longest_wait_ms is None and its.all_or_none:
                assert waited_ms > 1_000
            assert ("fetch-immediate" in roles(consuming.cluster)) == its.immediate_fetches


@every
def test_full_buffer_stops_the_others_only_where_a_request_names_all_or_none(strategy: dict[str, Any]) -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=20, size=BATCH)
        options: dict[str, Any] = {"max_prefetch_batches": 1, "max_partition_fetch_bytes": BATCH}
        with Consuming(world, topics="t", **options, **strategy) as consuming:
            mine = consuming.stream(1)
            consuming.idle(2)
            before = consuming.cursor(number=1).position

            def read_on() -> bool:
                consuming.take(mine)
                return consuming.cursor(number=1).position >= 60

            if made_of(strategy).all_or_none:
                for _ in range(30):
                    read_on()
                    consuming.idle(0.2)
                assert before <= consuming.cursor(number=1).position <= before + 3
            else:
                consuming.until(read_on, reads=False)
            assert consuming.queue.queued(consuming.cursor(number=0).number)[0] > 0


@every
def test_partition_that_moves_is_read_on_at_its_new_leader(strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=4, batches=10)
        with Consuming(world, topics="t", fetch_max_bytes=300, **strategy) as consuming:

            def move(call: Call) -> None:
                if len(consuming.fetches()) == 6:
                    for number in range(4):
                        world.move_leader("t", number, call.node % 3 + 1)

            world.on("Fetch", move)
            consuming.until_read(rows)


@every
def test_lost_connection_is_opened_again(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            world.break_connections(1)
            for number in range(3):
                rows["t", number] += write(world, "t", number)
            consuming.until_read(rows)


@every
def test_partition_that_is_dropped_leaves_nothing_behind(strategy: dict[str, Any]) -> None:
    """Neither a connection of its own, nor a request that waits for its reader."""
    with World() as world:
        fill(world, "t", partitions=2, batches=4, size=BATCH)
        names = [("t", 0), ("t", 1)]
        options: dict[str, Any] = {"max_prefetch_batches": 1, "max_partition_fetch_bytes": BATCH}
        with Consuming(world, assign=names, **options, **strategy) as consuming:
            consuming.idle(2)
            world.run(consuming.core.assignment.assign([TopicPartition("t", 1)]))
            consuming.until(lambda: consuming.cursor(number=1).position == log_of(world, "t", 1).end)
            consuming.idle(2)
            if made_of(strategy).connection_per_partition:
                assert roles(consuming.cluster) == {"fetch:t-1"}
            consuming.drain()
