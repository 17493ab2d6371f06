"""`producer.sender` and time and room: a full buffer, flushes and closes that end, what they say is left."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ErrorCode, KafkaTimeoutError
from kafwire.producer.sender import undelivered
from kafwire.records._arrow_rows import RowsReader
from kafwire.testing.simulation.kafka import NEVER, Call
from tests.support import seeds
from tests.support.deadlines import ended
from tests.support.simulated import World
from tests.support.simulated_producer import Work, errors, log_of, produced, values

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


def test_who_waits_for_much_room_is_not_kept_waiting_by_others_small_batches() -> None:
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


def test_who_waits_for_more_than_what_is_on_its_way_gets_the_open_batches_too() -> None:
    """More than half was on its way when the sender asked; when that has arrived, there is still too little room."""

    async def slow(_: Call) -> None:
        await asyncio.sleep(0.5)

    with World() as world:
        world.create_topic("t", partitions=4)
        world.on("Produce", slow)
        work = Work(world, "t", linger_ms=LONG_MS, buffer_memory=110_000, batch_size=90_000, max_request_size=90_000)
        for number in range(60):
            work.send("t", b"v" * 1_000, partition=number % 2)
        world.loop.call_soon(lambda: work.sender._pump(everything=True))
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


def test_flush_says_where_records_are_left() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=9)
        world.on("Produce", lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if call.node == 2 else None)
        work = Work(world, "t")
        for index, value in enumerate(values(27)):
            work.send("t", value, partition=index % 9)
        with pytest.raises(
            KafkaTimeoutError, match=r"within 2 s; it is still tried: 12 record\(s\) \(3 to t-\d, 3 to t-\d"
        ) as caught:
            world.run(work.sender.flush(2.0))
        assert all(f"t-{p}" not in str(caught.value) for p in (0, 2, 4, 6, 8))
        assert work.close(0.5) == {f"t-{p}": 3 for p in (1, 3, 5, 7)}
        assert work.used == 0


def test_many_partitions_are_counted_and_not_named() -> None:
    counts = {f"t-{n}": n + 1 for n in range(8)}
    assert undelivered(counts) == (
        "36 record(s) (1 to t-0, 2 to t-1, 3 to t-2, 4 to t-3, 5 to t-4, and to 3 more partitions)"
    )
    assert undelivered({"t-3": 4}) == "4 record(s) to t-3"


@seeds.several(20)
def test_flush_ends_by_delivery_timeout_whatever_the_broker_does(seed: int) -> None:
    """And every delivery has its outcome then, with nothing left of the memory."""
    chance = random.Random(seed)
    with World(brokers=2, seed=seed) as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t", delivery_timeout_ms=8_000, request_timeout_ms=3_000, linger_ms=chance.choice([0, 500]))
        if chance.random() < 0.5:
            work.send("t", b"first")
            work.flush()
        fault = chance.choice(["never", "dead", "silent", "unknown", "no leader", "no id"])
        if fault == "never":
            world.on("Produce", lambda _: NEVER)
        elif fault in ("dead", "silent"):
            for node in world.nodes.values():
                node.down, node.silent = fault == "dead", fault == "silent"
                world.break_connections(node.number)
        elif fault == "unknown":
            world.delete_topic("t")
        elif fault == "no leader":
            for log in world.topics["t"].partitions:
                log.leader = -1
        else:
            world.on("InitProducerId", lambda _: NEVER)
            world.on("Produce", errors(7))
        began = world.engine.now_ms()
        deliveries = [work.send("t", value, partition=i % 3) for i, value in enumerate(values(30))]
        work.flush()
        assert world.engine.now_ms() - began <= 8_000 + 3_000 + 600
        for delivery in deliveries:
            assert delivery.done()
            error = delivery.exception()
            assert isinstance(error, KafkaTimeoutError)
            assert "delivery_timeout_ms (8000)" in str(error)
            assert f"t-{deliveries.index(delivery) % 3}" in str(error)
        assert work.used == 0
        assert work.close(10.0) == {}


def test_a_slow_broker_is_not_taken_for_one_that_hangs_since_it_led_an_idle_partition_once() -> None:
    async def slow(call: Call) -> Any:
        answer = world._on_Produce(call)
        await asyncio.sleep(2)
        return answer

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
