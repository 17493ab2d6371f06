"""`producer.send.sender` and room: a full buffer is sent at once, and batches stay large."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest

from kafwire.records._arrow_rows import RowsReader
from kafwire.testing.simulation.calls import NEVER, Call
from tests.support.deadlines import ended
from tests.support.simulated.producer import Work, log_of, produced
from tests.support.simulated.world import World

LONG_MS = 60_000


def fill(work: Work, *, partitions: int = 1, size: int = 1_000) -> int:
    """Send until there is no room; how many records that took."""
    count = 0
    while work.accumulator.append("t", b"v" * size, None, None, None, count % partitions) is not None:
        count += 1
    return count


@pytest.mark.parametrize("partitions", [1, 40])
def test_a_full_buffer_is_sent_although_nothing_has_lingered_long_enough(partitions: int) -> None:
    with World() as world:
        world.create_topic("t", partitions=partitions)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=100_000, batch_size=1 << 20)
        count = fill(work, partitions=partitions)
        assert count > 40
        world.pass_time(0.1)
        assert work.accumulator.budget.has_room()
        assert work.used <= 60_000, "half of it has room again"
        assert work.send("t", b"more")
        work.flush()
        assert sum(len(log_of(world, p).values()) for p in range(partitions)) == count + 1


def test_a_full_buffer_of_rows_is_sent_too() -> None:
    with World() as world:
        world.create_topic("t", partitions=2)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=100_000, batch_size=50_000, max_request_size=50_000)
        parts: list[Any] = []
        rounds = 0
        for number in range(30):
            for rows in RowsReader(pa.table({"value": [b"v" * 1_000] * 10})):
                plan = work.accumulator.plan_rows("t", rows, number % 2, 0)
                assert plan is not None
                while not work.accumulator.append_rows(plan, parts):
                    rounds += 1
                    world.pass_time(0.1)
        assert rounds > 2
        assert world.engine.now_ms() < 1_000_000 + LONG_MS
        work.flush()
        assert len(log_of(world, 0).values()) + len(log_of(world, 1).values()) == 300


def test_a_wait_for_much_room_is_not_prolonged_by_others_small_batches() -> None:
    """A waiting thread does not ask again; what others open meanwhile must not linger in its way."""
    with World() as world:
        world.create_topic("t", partitions=30)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=100_000, batch_size=90_000, max_request_size=90_000)
        fill(work, partitions=30)
        woken: list[bool] = []
        (rows,) = RowsReader(pa.table({"value": [b"v" * 1_000] * 200}))
        plan = work.accumulator.plan_rows("t", rows, 0, 0)
        assert plan is not None
        parts: list[Any] = []
        assert not work.accumulator.append_rows(plan, parts)
        waiter = threading.Thread(target=lambda: woken.append(work.accumulator.budget.wait(3600)), daemon=True)
        waiter.start()
        for number in range(200):
            world.pass_time(0.05)
            if woken:
                break
            work.accumulator.append("t", b"small", None, None, None, number % 30)
        ended(waiter)
        assert woken == [True]
        assert world.engine.now_ms() < 1_000_000 + LONG_MS


def test_a_wait_for_more_room_than_is_on_its_way_closes_the_open_batches_too() -> None:
    """More than half was on its way when the sender asked; when that has arrived, there is still too little room."""

    async def slow(_: Call) -> None:
        await asyncio.sleep(0.5)

    with World() as world:
        world.create_topic("t", partitions=4)
        world.on("Produce", slow)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=110_000, batch_size=90_000, max_request_size=90_000)
        for number in range(60):
            work.send("t", b"v" * 1_000, partition=number % 2)
        world.loop.call_soon(lambda: work.core.sender.pump(everything=True))
        world.pass_time(0.1)
        for _ in range(40):
            work.send("t", b"v" * 1_000, partition=2)
        (rows,) = RowsReader(pa.table({"value": [b"v" * 1_000] * 10}))
        plan = work.accumulator.plan_rows("t", rows, 3, 0)
        assert plan is not None
        assert not work.accumulator.append_rows(plan, [])
        budget = work.accumulator.budget
        waiter = threading.Thread(target=lambda: woken.append(budget.wait(3600)), daemon=True)
        woken: list[bool] = []
        waiter.start()
        while not budget.waiting:
            pass
        world.pass_time(3)
        ended(waiter)
        assert woken == [True]


def test_batches_are_not_made_small_while_room_is_on_its_way() -> None:
    """A broker slower than the sender: only half of the memory is closed early, the rest goes on filling."""
    with World() as world:
        world.create_topic("t", partitions=20)
        world.on("Produce", lambda _: NEVER)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=200_000, batch_size=1 << 20)
        fill(work, partitions=20)
        world.pass_time(0.05)
        for _ in range(20):
            fill(work, partitions=20)
            world.pass_time(0.05)
        sent = [batch for call in world.made("Produce") for _, batch in produced(call)]
        closed = sum(len(queue.fresh) + len(queue.sealed) for queue in work.accumulator.topics["t"].queues)
        assert 8 <= len(sent) + closed <= 12
        work.close(0.0)
