"""`producer.sender`: batches taken for a request have an outcome, whatever happens or is raised in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import ErrorCode, KafkaConnectionError
from kafwire.producer import sender as producer
from kafwire.producer.sequencer import Sequencer
from kafwire.testing.simulation.kafka import HANGUP, NEVER, Call
from tests.support.simulated import World
from tests.support.simulated_producer import Work, errors, log_of, values


def test_a_broker_that_moves_while_a_request_hangs_on_it_holds_nobody_up() -> None:
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


PLACES: dict[str, Callable[[Work], tuple[Any, str]]] = {
    "taking": lambda work: (work.sender._balance, "note"),
    "asking for a connection": lambda work: (work.cluster, "connection"),
    "encoding": lambda _: (producer, "produce_request"),
    "sending": lambda _: (BrokerConnection, "send"),
    "counting what was sent": lambda work: (work.sender.counters, "sent"),
    "reading an answer": lambda _: (producer, "error_of"),
    "settling": lambda work: (work.sender.counters, "refused"),
    "counting what was delivered": lambda work: (work.sender.counters, "delivered"),
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
        told = 0
        for value, partition, delivery in sent:
            if delivery.exception() is None:
                meta = delivery.result()
                assert log_of(world, partition).values()[meta.offset] == value
            else:  # it is not known what would have been told
                assert delivery.exception().in_doubt
                told += 1
        assert told <= 3  # those of one batch
        for partition in range(4):
            stored = log_of(world, partition).values()
            assert len(stored) == len(set(stored)), "stored twice"
        assert work.used == 0
        later = work.send("t", b"later")
        work.flush()
        assert later.exception() is None


def test_closing_tells_of_each_record_once_although_requests_fail_with_it() -> None:
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


def test_a_defect_in_finding_out_what_became_of_a_batch_is_logged_once_and_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(*_: Any, **__: Any) -> Any:
        raise LookupError("a defect")

    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        world.on("Produce", lambda _: HANGUP)
        delivery = work.send("t", b"v")
        with monkeypatch.context() as patch:
            patch.setattr(Sequencer, "consult", raising)
            world.pass_time(0.05)
            world.off("Produce")
            world.pass_time(5)
        work.flush()
        assert delivery.result().offset == 0
        assert len([record for record in caplog.records if record.exc_info and record.exc_info[0] is LookupError]) == 1


@pytest.mark.parametrize("how", ["lost", "not sent", "refused"])
def test_a_batch_that_comes_back_has_its_leader_looked_up_before_it_goes_out_again(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with World(brokers=2) as world:
        world.create_topic("t", replicas=2)
        leader = log_of(world).leader
        work = Work(world, "t", linger_ms=0, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000)
        work.send("t", b"first")
        work.flush()
        world.pass_time(5)

        def move(call: Call | None = None) -> Any:
            world.off("Produce")
            world.move_leader("t", 0, 3 - leader)
            return HANGUP if how == "lost" else None if call is None else errors(ErrorCode.NOT_ENOUGH_REPLICAS)(call)

        if how == "not sent":
            send = BrokerConnection.send

            def closed(*args: Any, **options: Any) -> Any:
                monkeypatch.setattr(BrokerConnection, "send", send)
                move()
                raise KafkaConnectionError("closed meanwhile")

            monkeypatch.setattr(BrokerConnection, "send", closed)
        else:
            world.on("Produce", move)
        before, asked = len(world.made("Produce")), len(world.made("Metadata"))
        delivery = work.send("t", b"second")
        world.pass_time(0.9)
        assert (len(world.made("Metadata")) > asked) == (how != "refused"), "it may be too few replicas, but there"
        work.flush()
        assert delivery.exception() is None
        nodes = [call.node for call in world.made("Produce")[before:]]
        tried = [] if how == "not sent" else [leader]
        assert nodes == [*tried, *([leader] if how == "refused" else []), 3 - leader]
