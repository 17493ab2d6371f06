"""`producer.send.sender`: batches reach their leaders once and in order, whatever brokers and connections do."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest

from kafwire.errors import BrokerError, ErrorCode, KafkaError
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support import seeds
from tests.support.simulated.producer import Work, errors, log_of, produced, values
from tests.support.simulated.world import World


def test_a_delivery_resets_the_back_off_of_tasks() -> None:
    async def fail() -> None:
        raise KafkaError("a task failed")

    async def fail_often(work: Work) -> None:
        for number in range(5):
            work.core.sender.run(number, fail())
        await asyncio.sleep(0.001)

    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", b"1")
        work.flush()  # the connection is open
        world.run(fail_often(work))
        assert work.core.sender._turns._failures == 5
        work.send("t", b"2")
        work.flush()
        assert work.core.sender._turns._failures == 0


def test_a_response_after_the_end_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        world.on("Produce", lambda _: NEVER)
        work.send("t", b"1")
        world.pass_time(0.1)
        handled: list[bool] = []
        monkeypatch.setattr(work.core.sender, "on_outcomes", lambda *, is_well: handled.append(is_well))
        assert work.close(0) == {"t-0": 1}
        world.pass_time(5)
        assert not handled, "the end of the connection is an error of the request"


def test_a_batch_waits_for_linger_and_takes_later_records() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=500)
        world.run(work.core.flush())
        started = world.engine.now_ms()
        work.send("t", b"1")
        world.pass_time(0.3)
        work.send("t", b"2")
        world.pass_time(1)
        (call,) = world.made("Produce")
        assert 500 <= call.at_ms - started <= 510
        assert log_of(world).values() == [b"1", b"2"]
        work.send("t", b"3")
        world.pass_time(0.4)
        assert len(world.made("Produce")) == 1
        world.pass_time(0.2)
        assert len(world.made("Produce")) == 2


def test_a_full_batch_does_not_wait() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=60_000, batch_size=200)
        for value in values(20, size=50):
            work.send("t", value)
        world.pass_time(1)
        sizes = [len(bytes(call.message.topic_data[0].partition_data[0].records)) for call in world.made("Produce")]
        assert len(sizes) >= 6
        assert all(size <= 200 for size in sizes)
        assert work.used > 0, "the last batch is not full"
        work.flush()
        assert log_of(world).values() == values(20, size=50)


def test_a_lingered_batch_behind_a_full_one_is_sent_right_after_it() -> None:
    """Nothing else wakes the sender for it: no timer, no outcome, no flush."""
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0, batch_size=150)
        work.send("t", b"first")
        work.flush()
        full, behind = (work.send("t", value) for value in values(2, size=100))
        world.pass_time(0.05)
        assert full.done()
        assert behind.done()
        assert log_of(world).values() == [b"first", *values(2, size=100)]
        first, second = world.made("Produce")[1:]
        assert second.at_ms - first.at_ms < 2, "they fly together"


def test_sequences_go_on_from_batch_to_batch() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=150)
        for value in values(12, size=20):
            work.send("t", value)
        work.flush()
        batches = [batch for call in world.made("Produce") for _, batch in produced(call)]
        assert len(batches) > 3
        expected = 0
        for batch in batches:
            assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1000, 0, expected)
            expected += len(batch)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_acks_1_has_no_producer_id_and_keeps_the_order_with_one_in_flight(in_flight: int) -> None:
    with World() as world:
        world.create_topic("t")
        world.on(
            "Produce",
            lambda call: (
                errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if len(world.made("Produce")) in (2, 5) else None
            ),
        )
        work = Work(world, "t", acks=1, batch_size=100, max_in_flight_requests_per_connection=in_flight)
        for value in values(20, size=50):
            work.send("t", value)
        work.flush()
        assert world.made("Produce")[0].message.acks == 1
        assert not world.made("InitProducerId")
        stored = log_of(world).values()
        assert (stored if in_flight == 1 else sorted(stored)) == values(20, size=50)  # type: ignore[type-var]


def test_closing_sends_the_rest() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=60_000)
        delivery = work.send("t", b"v")
        assert work.close() == {}
        assert delivery.result().offset == 0
        with pytest.raises(KafkaError, match="this producer is closed"):
            work.send("t", b"w")
        assert all(connection.closed for connection in world.connections)


@pytest.mark.parametrize("sent", [True, False])
def test_closing_gives_up_records_that_are_not_acknowledged_in_time(*, sent: bool) -> None:
    with World() as world:
        world.create_topic("t", partitions=2)
        work = Work(world, "t")
        if sent:
            world.on("Produce", lambda _: NEVER)
        else:
            world.kill(1)
        deliveries = [work.send("t", value, partition=i % 2) for i, value in enumerate(values(7))]
        assert work.close(2.0) == {"t-0": 4, "t-1": 3}
        assert world.engine.now_ms() < 1_000_000 + 3_000
        for delivery in deliveries:
            with pytest.raises(KafkaError, match="the producer was closed before .* record"):
                delivery.result()
        assert work.used == 0


def test_closing_twice_is_allowed() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        assert work.close() == {}
        assert work.close() == {}


def test_callbacks_run_once_each_with_their_delivery() -> None:
    seen: list[tuple[Any, bool]] = []
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        deliveries = [work.send("t", value) for value in values(4)]
        for delivery in deliveries:
            delivery.add_done_callback(lambda d: seen.append((d, d.done())))
        work.flush()
        assert seen == [(delivery, True) for delivery in deliveries]
        deliveries[0].add_done_callback(lambda d: seen.append((d, d.done())))
        assert seen[-1] == (deliveries[0], True)


def ranges(offsets: Iterable[int]) -> bool:
    """True if they rise by one."""
    return all(late == early + 1 for early, late in itertools.pairwise(offsets))


@seeds.several(30)
def test_nothing_is_lost_doubled_or_out_of_order_whatever_happens(seed: int) -> None:
    """Responses lost before and after storing, leaders that move, errors, time-outs, batches refused for good."""
    chance = random.Random(seed)

    def trouble(call: Call) -> Any:
        if world.engine.now_ms() > 1_000_000 + 60_000:
            return None
        event = chance.random()
        if event < 0.10:
            return HANGUP
        if event < 0.20:
            world.serve(call)
            return HANGUP
        if event < 0.30:
            return errors(chance.choice([ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 19, 56]))(call)
        if event < 0.36:
            partition = produced(call)[0][0]
            world.move_leader("t", partition, chance.randint(1, 3))
            return HANGUP if chance.random() < 0.5 else None
        if event < 0.38:
            return NEVER
        return None

    bad = set(chance.sample(values(60), chance.choice([0, 0, 3, 10])))
    with World(brokers=3, seed=seed) as world:
        world.create_topic("t", partitions=3)
        world.refuse = lambda batch: ErrorCode.MESSAGE_TOO_LARGE if any(record.value in bad for record in batch) else 0
        world.on("Produce", trouble)
        work = Work(
            world,
            "t",
            batch_size=chance.choice([1, 100, 200]),
            linger_ms=chance.choice([0, 5]),
            request_timeout_ms=2_000,
            delivery_timeout_ms=10_000_000,
        )
        sent: dict[int, list[tuple[bytes, Any]]] = {0: [], 1: [], 2: []}
        for value in values(60):
            partition = chance.randrange(3)
            sent[partition].append((value, work.send("t", value, partition=partition)))
            if chance.random() < 0.3:
                world.pass_time(chance.choice([0.001, 0.01, 0.5]))
        work.flush()
        for partition, records in sent.items():
            assert all(delivery.done() for _, delivery in records)
            stored = [value for value, delivery in records if delivery.exception() is None]
            assert log_of(world, partition).values() == stored
            assert ranges([delivery.result().offset for _, delivery in records if delivery.exception() is None])
            assert bad or len(stored) == len(records)
            assert not bad & set(stored)
        assert work.used == 0
        assert not work.core.sender.outcomes.sent
        assert all(isinstance(d.exception(), (BrokerError, type(None))) for r in sent.values() for _, d in r)


def test_closing_ends_each_record_once_although_requests_fail_with_it() -> None:
    heard: list[str] = []

    def silent(_: Call) -> Any:
        return NEVER

    with World() as world:
        world.create_topic("t")
        world.on("Produce", silent)
        work = Work(world, "t", linger_ms=0)
        delivery = work.send("t", b"v")
        delivery.add_done_callback(lambda d: heard.append(str(d.exception())))
        world.pass_time(1)
        assert work.close(1.0) == {"t-0": 1}
        world.pass_time(1)
        assert len(heard) == 1
        assert "they may or may not be in the log" in heard[0]
