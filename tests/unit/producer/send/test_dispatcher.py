"""`producer.send.dispatcher`: batches that share a request; each has an outcome, whatever is raised."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaConnectionError
from kafwire.producer.outcome import outcomes
from kafwire.producer.send import dispatcher
from kafwire.protocol import ProduceRequest
from kafwire.testing.simulation.calls import NEVER, Call
from tests.support.simulated.producer import Work, log_of, produced, values
from tests.support.simulated.world import World


@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize("version", range(ProduceRequest.min_version, ProduceRequest.max_version + 1))
def test_every_version_of_produce_is_spoken(version: int, *, topic_ids: bool) -> None:
    with World(topic_ids=topic_ids) as world:
        world.nodes[1].versions["Produce"] = (3, version)
        for topic in "tu":
            world.create_topic(topic, partitions=2)
        work = Work(world, "t", "u")
        sent = {where: work.send(where[0], b"v", partition=where[1]) for where in itertools.product("tu", range(2))}
        work.flush()
        for (topic, partition), delivery in sent.items():
            meta = delivery.result()
            assert (meta.topic, meta.partition, meta.offset) == (topic, partition, 0)
            assert log_of(world, partition, topic).values() == [b"v"]
        (call,) = world.made("Produce")
        assert call.version == (version if topic_ids else min(version, 12))
        assert call.message.acks == -1


def test_partitions_of_a_leader_share_a_request() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=6)
        work = Work(world, "t", linger_ms=10)
        for partition in range(6):
            work.send("t", b"v", partition=partition)
        work.flush()
        requests = [(call.node, sorted(index for index, _ in produced(call))) for call in world.made("Produce")]
        assert sorted(requests) == [(1, [0, 2, 4]), (2, [1, 3, 5])]


def test_a_request_stays_about_max_request_size() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t", max_request_size=1_000, batch_size=600)
        for partition in range(8):
            work.send("t", b"v" * 400, partition=partition)
        work.flush()
        assert all(len(produced(call)) <= 3 for call in world.made("Produce"))


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_at_most_so_many_batches_of_a_partition_are_in_flight(limit: int) -> None:
    async def slow(_: Call) -> None:
        in_flight.append(len(queue.sequencer.in_flight))
        await asyncio.sleep(0.1)

    in_flight: list[int] = []
    with World() as world:
        world.create_topic("t")
        world.on("Produce", slow)
        work = Work(world, "t", batch_size=100, max_in_flight_requests_per_connection=limit)
        queue = work.accumulator.topics["t"].queues[0]
        for value in values(30, size=60):
            work.send("t", value)
        work.flush()
        assert max(in_flight) == limit
        assert log_of(world).values() == values(30, size=60)


@pytest.mark.parametrize("limit", [1, 5])
def test_records_behind_a_blocked_batch_are_sent_in_few_batches(limit: int) -> None:
    """A batch that lingered takes records as long as others are before it: a request carries one of a partition."""

    async def held(_: Call) -> None:
        await gate.wait()

    gate = asyncio.Event()
    with World() as world:
        world.create_topic("t")
        world.on("Produce", held)
        work = Work(world, "t", linger_ms=0, max_in_flight_requests_per_connection=limit)
        for value in values(500):
            work.send("t", value)
            world.run(asyncio.sleep(0.001))
        gate.set()
        world.run(asyncio.sleep(1.0))  # no flush: late batches go by themselves
        assert len(world.made("Produce")) <= limit + 3
        assert log_of(world).values() == values(500)
        assert not work.accumulator.late
        assert not work.used


def test_a_broker_that_moves_while_a_request_hangs_on_it_holds_no_other_up() -> None:
    """Its connection is closed as others are sent to: what comes of that comes after they were."""
    with World(brokers=2) as world:
        world.create_topic("t", partitions=4)
        work = Work(world, "t", linger_ms=0)
        for partition in range(4):
            work.send("t", b"first", partition=partition)
        work.flush()
        world.on("Produce", lambda call: NEVER if call.node == 1 else None)
        hung = work.send("t", b"hung", partition=0)
        world.pass_time(1)
        world.move_broker(1)
        world.off("Produce")
        world.run(work.cluster.refresh())
        started = world.engine.now_ms()
        sent = [work.send("t", b"next", partition=partition) for partition in (1, 2, 3)]
        work.flush()
        assert world.engine.now_ms() - started < 2_000
        for delivery in (hung, *sent):
            assert delivery.exception() is None
        for partition, stored in enumerate([b"hung", b"next", b"next", b"next"]):
            assert log_of(world, partition).values() == [b"first", stored]
        assert work.used == 0


def once(function: Callable[..., Any], turn: int) -> Callable[..., Any]:
    """`function`, but its call number `turn` raises."""
    calls = iter(range(1000))

    def raising(*args: Any, **options: Any) -> Any:
        if next(calls) == turn:
            raise LookupError("a defect")
        return function(*args, **options)

    return raising


def test_a_defect_about_a_batch_that_was_not_sent_loses_no_other_of_its_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*_args: Any, **_options: Any) -> None:
        raise KafkaConnectionError("closed meanwhile")

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t", linger_ms=5)
        for partition in range(3):
            work.send("t", b"first", partition=partition)
        work.flush()
        counters = work.core.sender.counters
        with monkeypatch.context() as patch:
            patch.setattr(counters, "refused", once(counters.refused, 0))
            patch.setattr(BrokerConnection, "send", closed)
            sent = [work.send("t", b"next", partition=partition) for partition in range(3)]
            world.pass_time(0.02)
        work.flush()
        assert [record for record in caplog.records if record.exc_info and record.exc_info[0] is LookupError]
        assert [delivery.exception(0) is None for delivery in sent].count(True) == 2
        for partition in range(3):  # no partition waits for a batch in flight to its old leader
            world.move_leader("t", partition, 2)
        world.run(work.cluster.refresh(at_once=True))
        later = [work.send("t", b"later", partition=partition) for partition in range(3)]
        work.flush()
        assert [delivery.exception(0) for delivery in later] == [None] * 3
        assert work.used == 0


PLACES: dict[str, Callable[[Work], tuple[Any, str]]] = {
    "taking": lambda work: (work.core.sender._backlog.balance, "note"),
    "asking for a connection": lambda work: (work.cluster, "connection"),
    "encoding": lambda _: (dispatcher, "produce_request"),
    "sending": lambda _: (BrokerConnection, "send"),
    "counting sent records": lambda work: (work.core.sender.counters, "sent"),
    "reading a response": lambda _: (outcomes, "read_response"),
    "settling": lambda work: (work.core.sender.counters, "refused"),
    "counting delivered records": lambda work: (work.core.sender.counters, "delivered"),
}


@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("place", PLACES)
def test_a_defect_is_logged_and_loses_nothing(
    place: str, turn: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=4)
        work = Work(world, "t", linger_ms=5, batch_size=100)
        work.send("t", b"first")
        work.flush()
        with monkeypatch.context() as patch:
            where, name = PLACES[place](work)
            patch.setattr(where, name, once(getattr(where, name), turn))
            sent = [(value, i % 4, work.send("t", value, partition=i % 4)) for i, value in enumerate(values(24))]
            work.flush()
        assert [record for record in caplog.records if record.exc_info and record.exc_info[0] is LookupError]
        failed = 0
        for value, partition, delivery in sent:
            if delivery.exception() is None:
                meta = delivery.result()
                assert log_of(world, partition).values()[meta.offset] == value
            else:  # the outcome would have been unknown
                assert delivery.exception().in_doubt
                failed += 1
        assert failed <= 3  # those of one batch
        for partition in range(4):
            stored = log_of(world, partition).values()
            assert len(stored) == len(set(stored)), "stored twice"
        assert work.used == 0
        later = work.send("t", b"later")
        work.flush()
        assert later.exception() is None
