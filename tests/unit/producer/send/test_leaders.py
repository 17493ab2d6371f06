"""`producer.send.leaders`: partitions that move, connections that must wait, brokers that hang."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from kafwire.testing.simulation.calls import Call
from tests.support.simulated.producer import Work, log_of, values
from tests.support.simulated.world import World


def test_a_partition_that_moved_is_sent_to_its_new_leader() -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", b"1")
        work.flush()
        world.move_leader("t", 0, 2)
        work.send("t", b"2")
        work.flush()
        assert log_of(world).values() == [b"1", b"2"]
        nodes = [call.node for call in world.made("Produce")]
        assert nodes[:2] == [1, 1]
        assert nodes[-1] == 2
        assert len(nodes) < 6


def test_nothing_goes_to_a_new_leader_before_the_old_one_has_responded() -> None:
    async def slow(call: Call) -> None:
        if call.node == 1:
            await asyncio.sleep(0.4)
            settled.append(world.engine.now_ms())

    settled: list[float] = []
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", b"0")
        work.flush()
        world.on("Produce", slow)
        work.send("t", b"1")
        world.pass_time(0.1)
        world.move_leader("t", 0, 2)
        world.run(work.cluster.refresh())
        work.send("t", b"2")
        work.flush()
        first_at_2 = next(call.at_ms for call in world.made("Produce") if call.node == 2)
        assert first_at_2 >= settled[0]
        assert log_of(world).values() == [b"0", b"1", b"2"]


def test_a_throttled_connection_sends_nothing_until_it_may() -> None:
    def throttle(call: Call) -> Any:
        response = world.serve(call)
        response.throttle_time_ms = 2_000
        return response

    with World() as world:
        world.create_topic("t")
        world.on("Produce", throttle)
        work = Work(world, "t")
        for value in values(3):
            work.send("t", value)
            work.flush()
        times = [call.at_ms for call in world.made("Produce")]
        assert all(late - early >= 2_000 for early, late in itertools.pairwise(times))


def test_a_slow_broker_is_not_taken_for_one_that_hangs_since_it_led_an_idle_partition_once() -> None:
    async def slow(call: Call) -> Any:
        response = world.serve(call)
        await asyncio.sleep(2)
        return response

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t", delivery_timeout_ms=60_000)
        work.send("t", b"idle since", partition=0)
        work.flush()
        world.move_leader("t", 0, 2)
        world.run(work.cluster.refresh())
        world.on("Produce", slow)
        delivery = work.send("t", b"slow", partition=2)
        started = world.engine.now_ms()
        work.flush()
        assert delivery.result(0).offset == 0
        assert len([call for call in world.made("Produce") if call.at_ms >= started]) == 1
