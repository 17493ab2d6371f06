"""`producer.send.expiry`: records whose time is over fail, and say truly whether they may be in the log."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafwire.errors import ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support import seeds
from tests.support.simulated.producer import Work, errors, log_of, values
from tests.support.simulated.world import World


def test_unsent_records_expire() -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t", delivery_timeout_ms=10_000, request_timeout_ms=2_000)
        world.kill(1)
        started = world.engine.now_ms()
        deliveries = [work.send("t", value) for value in values(3)]
        work.flush()
        assert 9_999 <= world.engine.now_ms() - started <= 12_000  # a batch's age is in whole milliseconds
        for delivery in deliveries:
            with pytest.raises(
                KafkaTimeoutError, match=r"3 record\(s\) to t-0 could not be sent within delivery_timeout"
            ):
                delivery.result()
        assert work.used == 0


def test_sent_records_without_a_response_expire_as_maybe_stored() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: HANGUP)
        work = Work(world, "t", delivery_timeout_ms=10_000, request_timeout_ms=2_000)
        delivery = work.send("t", b"v")
        started = world.engine.now_ms()
        work.flush()
        assert 9_999 <= world.engine.now_ms() - started <= 12_000  # a batch's age is in whole milliseconds
        with pytest.raises(KafkaTimeoutError, match="they may or may not be in the log; last: .*reset by the broker"):
            delivery.result()


def test_a_partition_goes_on_after_a_batch_expired() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: HANGUP)
        work = Work(world, "t", delivery_timeout_ms=10_000, request_timeout_ms=2_000)
        lost = work.send("t", b"1")
        work.flush()
        world.off("Produce")
        delivery = work.send("t", b"2")
        work.flush()
        assert isinstance(lost.exception(), KafkaTimeoutError)
        assert delivery.result().offset == 0
        assert work.core.identity == Identity(1000, 1)


def test_a_topic_that_vanishes_is_named_when_its_records_expire() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", delivery_timeout_ms=10_000, request_timeout_ms=2_000)
        del world.topics["t"]
        delivery = work.send("t", b"v")
        work.flush()
        assert isinstance(delivery.exception(), KafkaError)
        assert "UNKNOWN_TOPIC" in str(delivery.exception())


def test_a_broker_that_hangs_delays_only_until_its_requests_time_out() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: NEVER if len(world.made("Produce")) == 1 else None)
        work = Work(world, "t", request_timeout_ms=3_000)
        started = world.engine.now_ms()
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert 3_000 <= world.engine.now_ms() - started <= 4_000


@seeds.several(30)
def test_the_outcome_of_an_expired_record_is_true_and_it_is_never_stored_twice(seed: int) -> None:
    """Brokers die and hang for longer than `delivery_timeout_ms`: the outcome of each record has to be true."""
    chance = random.Random(seed)

    def trouble(call: Call) -> Any:
        if world.engine.now_ms() > 1_000_000 + 40_000:
            return None
        event = chance.random()
        if event < 0.15:
            return HANGUP
        if event < 0.30:
            world.serve(call)
            return HANGUP if chance.random() < 0.7 else NEVER
        if event < 0.40:
            return NEVER
        if event < 0.50:
            return errors(chance.choice([ErrorCode.NOT_LEADER_OR_FOLLOWER, 19]))(call)
        return None

    with World(brokers=2, seed=seed) as world:
        world.create_topic("t", partitions=2)
        world.on("Produce", trouble)
        options = {"batch_size": chance.choice([1, 100]), "request_timeout_ms": 1_000, "delivery_timeout_ms": 3_000}
        work = Work(world, "t", **options)
        sent: dict[int, list[tuple[bytes, Any]]] = {0: [], 1: []}
        for value in values(50):
            partition = chance.randrange(2)
            sent[partition].append((value, work.send("t", value, partition=partition)))
            if chance.random() < 0.4:
                world.pass_time(chance.choice([0.01, 0.3, 2.0]))
            if chance.random() < 0.03:
                world.kill(chance.randint(1, 2))
            elif chance.random() < 0.3:
                for node in world.nodes.values():
                    node.down = False
        for node in world.nodes.values():
            node.down = False
        work.flush()
        for partition, records in sent.items():
            log = log_of(world, partition).values()
            assert len(set(log)) == len(log), "stored twice"
            assert log == [value for value, _ in records if value in log], "out of order"
            for value, delivery in records:
                error = delivery.exception()
                if error is None:
                    assert log[delivery.result().offset] == value
                else:
                    assert isinstance(error, KafkaTimeoutError)
                    assert error.in_doubt == ("may or may not be in the log" in str(error))
                    assert error.in_doubt or value not in log
        assert work.used == 0
