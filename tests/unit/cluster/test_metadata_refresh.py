"""Repeated requests for metadata: one backoff for all waiting calls, and none for the first request."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata_refresh import Refresher
from kafwire.config import ClientConfig
from tests.support.simulated.consumer import Consuming
from tests.support.simulated.producer import Work, log_of
from tests.support.simulated.world import World


def make_cluster(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def gaps(world: World, since: int) -> list[float]:
    """Between requests for metadata, in ms."""
    times = [call.at_ms for call in world.made("Metadata")[since:]]
    return [late - early for early, late in itertools.pairwise(times)]


def assert_grows(found: list[float], *, base_ms: float, limit_ms: float) -> None:
    """Twice as long each time, to the limit, a fifth more or less; and no two clients alike."""
    for number, gap in enumerate(found):
        nominal = min(base_ms * 2 ** (number + 1), limit_ms)
        assert 0.79 * nominal <= gap <= 1.21 * nominal + 5, found
    assert len({round(gap) for gap in found[5:]}) > 3


def test_a_partition_without_a_leader_is_waited_for_with_backoff() -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0)
        log_of(world).leader = -1
        world.run(work.cluster.refresh())
        before = len(world.made("Metadata")) - 1
        delivery = work.send("t", b"x")
        world.pass_time(60)
        assert_grows(gaps(world, before)[1:], base_ms=100, limit_ms=1_000)
        assert len(gaps(world, before)) < 80
        world.move_leader("t", 0, 2)
        world.pass_time(1.1)
        assert delivery.result(0).offset == 0


def test_all_waiting_calls_share_requests_and_backoff() -> None:
    with World(brokers=2) as world:
        for number in range(20):
            world.create_topic(f"t{number}")
        topics = sorted(world.topics)
        for name in topics:
            world.topics[name].partitions[0].leader = -1
        work = Work(world, *topics, linger_ms=0, retry_backoff_ms=200, retry_backoff_max_ms=2_000)
        before = len(world.made("Metadata"))
        for name in topics:
            work.send(name, b"x")

        async def wait() -> None:
            waiting.extend(asyncio.ensure_future(work.cluster.leader(name, 0)) for name in topics)
            await asyncio.sleep(40)

        waiting: list[asyncio.Future[int]] = []
        world.run(wait())
        assert len(world.made("Metadata")) - before < 32
        for name in topics:
            world.move_leader(name, 0, 1)
        world.pass_time(4)
        assert [task.result() for task in waiting] == [1] * len(topics)


def test_a_consumer_waits_with_backoff_too() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        consuming = Consuming(world, topics="t")
        consuming.idle(1)
        log_of(world, 1).leader = -1
        before = len(world.made("Metadata"))
        consuming.idle(60)
        assert len(world.made("Metadata")) - before < 80
        consuming.close()


def test_a_topic_that_was_never_requested_does_not_wait() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        for _ in range(8):
            await cluster.refresh()
        waiting = asyncio.ensure_future(cluster.refresh())
        await asyncio.sleep(0.1)
        world.create_topic("u")
        started = world.engine.now_ms()
        assert (await cluster.topic("u")).name == "u"
        assert world.engine.now_ms() - started < 10
        await waiting

    with World() as world:
        world.create_topic("t")
        world.run(scenario(world, make_cluster(world)))


def test_a_topic_made_just_now_is_found_soon_whatever_else_is_waited_for() -> None:
    """The broker that is asked first does not know it yet."""

    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        for _ in range(8):
            await cluster.refresh()
        looking = asyncio.ensure_future(cluster.topic("u"))
        await asyncio.sleep(0.02)
        world.create_topic("u")
        started = world.engine.now_ms()
        await looking
        assert world.engine.now_ms() - started < 130

    with World() as world:
        world.create_topic("t")
        world.run(scenario(world, make_cluster(world)))


def test_a_new_cause_for_a_request_does_not_wait_for_the_backoff_of_others() -> None:
    """The other partition moves while metadata is asked for with the longest backoff."""
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2, replicas=2)
        work = Work(world, "t", linger_ms=0)
        log_of(world, 0).leader = -1
        world.run(work.cluster.refresh())
        work.send("t", b"x")
        world.pass_time(20)
        for turn in range(4):
            world.move_leader("t", 1, turn % 2 + 1)
            moved = work.send("t", b"y", partition=1)
            world.pass_time(0.4)
            assert moved.done()
            world.pass_time(10)


def test_news_end_the_backoff() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        for _ in range(8):
            await cluster.refresh()
        world.move_leader("t", 0, 2)
        await cluster.refresh()
        before = len(world.made("Metadata")) - 1
        for _ in range(2):
            await cluster.refresh()
        first, second = gaps(world, before)
        assert first < 125
        assert second < 245

    with World(brokers=2) as world:
        world.create_topic("t", replicas=2)
        world.run(scenario(world, make_cluster(world)))


def test_closing_ends_the_wait() -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(8):
            await cluster.refresh()
        waiting = asyncio.ensure_future(cluster.refresh())
        await asyncio.sleep(0.01)
        cluster.shut()
        async with asyncio.timeout(0.01):
            await asyncio.wait([waiting])
        assert waiting.exception() is not None

    with World() as world:
        world.run(scenario(make_cluster(world)))


def test_a_request_in_the_turn_of_a_response_waits_for_another_one() -> None:
    """Otherwise a task that asks in a loop while a broker hangs would get results for ever, and no other would run."""
    asked: list[None] = []

    async def ask() -> bool:
        asked.append(None)
        return True

    async def ask_again(refresher: Refresher) -> None:
        first = refresher.begin(at_once=True)
        await asyncio.sleep(0)
        assert first.done()
        for _ in range(3):
            await refresher.refresh(at_once=True)

    with World() as world:
        config = ClientConfig.build({"bootstrap_servers": world.bootstrap})
        world.run(ask_again(Refresher(world.engine, config, ask)))
    assert len(asked) == 4
