"""`producer.send.flush`: waits end, and name the records that are left."""

from __future__ import annotations

import random

import pytest

from kafwire.errors import ErrorCode, KafkaTimeoutError
from kafwire.producer.send.flush import undelivered
from kafwire.testing.simulation.calls import NEVER
from tests.support import seeds
from tests.support.simulated.producer import Work, errors, values
from tests.support.simulated.world import World


def test_flush_sends_at_once_and_waits_for_the_outcome() -> None:
    with World() as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t", linger_ms=60_000)
        deliveries = [work.send("t", b"v", partition=p % 3) for p in range(10)]
        started = world.engine.now_ms()
        work.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert world.engine.now_ms() - started < 100
        assert work.used == 0
        work.flush()  # of nothing


def test_a_flush_that_times_out_says_so_and_the_records_are_still_tried() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: NEVER if len(world.made("Produce")) == 1 else None)
        work = Work(world, "t", request_timeout_ms=3_000)
        delivery = work.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"within 1 s; kafwire still tries to send: 1 record\(s\) to t-0"):
            world.run(work.core.flush(1.0))
        assert not delivery.done()
        work.flush()
        assert delivery.result().offset == 0


def test_flush_says_where_records_are_left() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=9)
        world.on("Produce", lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if call.node == 2 else None)
        work = Work(world, "t")
        for index, value in enumerate(values(27)):
            work.send("t", value, partition=index % 9)
        with pytest.raises(
            KafkaTimeoutError, match=r"within 2 s; kafwire still tries to send: 12 record\(s\) \(3 to t-\d, 3 to t-\d"
        ) as caught:
            world.run(work.core.flush(2.0))
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
    """Every delivery has its outcome then, and no memory is left in use."""
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
