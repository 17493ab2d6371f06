"""Faults that an idempotent producer must survive, one by one; numbers are those of librdkafka's tests."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafwire.errors import ErrorCode, KafkaTimeoutError
from kafwire.producer.outcome.sequencer import LAST_EPOCH, Identity
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support.simulated.producer import ONE_EACH, Work, errors, log_of, numbers, produced, started, values
from tests.support.simulated.world import World


def store_and(world: World, response: Any) -> Any:
    """A handler that stores the records, and returns another response."""

    def handler(call: Call) -> Any:
        world.serve(call)
        return response(call) if callable(response) else response

    return handler


def once(world: World, handler: Any, *, at: int = 1) -> None:
    """Let `handler` serve the `at`th produce request from now on, and no other."""
    count = itertools.count(1)
    world.on("Produce", lambda call: handler(call) if next(count) == at else None)


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("stored", [True, False])
def test_0076_disconnects(at: int, *, stored: bool) -> None:
    """Five batches are in flight, and the connection breaks in place of one response."""
    with World() as world:
        work = started(world)
        once(world, store_and(world, HANGUP) if stored else lambda _: HANGUP, at=at)
        deliveries = [work.send("t", value) for value in values(12, size=60)]
        work.flush()
        assert log_of(world).values() == [b"first", *values(12, size=60)]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 13))
        assert {number[:2] for number in numbers(world)} == {(1000, 0)}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
    ],
)
def test_0076_retries(code: int) -> None:
    """AFTER_APPEND, TIMED_OUT, and NOT_LEADER of a leader that loses its office, come after the batch was stored."""
    stored = code in (
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    with World() as world:
        work = started(world)
        for at in (2, 3, 9):
            once(world, store_and(world, errors(code)) if stored else errors(code), at=at)
        deliveries = [work.send("t", value) for value in values(12, size=60)]
        work.flush()
        assert log_of(world).values() == [b"first", *values(12, size=60)]
        assert all(delivery.exception() is None for delivery in deliveries)
        assert {number[:2] for number in numbers(world)} == {(1000, 0)}
        assert len(world.made("InitProducerId")) == 1


def test_0076_duplicates_are_acknowledged() -> None:
    """A broker that knows only that it has the batch does not say where."""
    with World() as world:
        work = started(world)
        once(world, store_and(world, HANGUP))
        once(world, errors(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), at=2)
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == -1
        assert work.send("t", b"w")
        work.flush()
        assert log_of(world).values() == [b"first", b"v", b"w"]
        assert work.core.identity == Identity(1000, 0)


def test_0090_a_lost_response_is_an_implicit_acknowledgement() -> None:
    """The very first batch is so acknowledged, too, before the broker has shown that it knows the producer."""
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", **ONE_EACH)
        once(world, store_and(world, HANGUP))
        deliveries = [work.send("t", value) for value in values(4, size=60)]
        work.flush()
        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2, 3]
        assert log_of(world).values() == values(4, size=60)
        assert numbers(world)[:2] == [(1000, 0, 0), (1000, 0, 0)]


@pytest.mark.parametrize("stored", [True, False])
def test_0094_a_delivery_times_out_in_flight(*, stored: bool) -> None:
    """The delivery fails within request_timeout_ms after its time, and later records are delivered."""
    with World() as world:
        work = started(world, request_timeout_ms=2_000, delivery_timeout_ms=5_000)
        world.on("Produce", store_and(world, NEVER) if stored else lambda _: NEVER)
        began = world.engine.now_ms()
        late = [work.send("t", value) for value in values(3, size=60)]
        while not all(delivery.done() for delivery in late):
            world.pass_time(0.1)
        assert 5_000 <= world.engine.now_ms() - began <= 5_000 + 2_000 + 600
        for delivery in late:
            error = delivery.exception()
            assert isinstance(error, KafkaTimeoutError)
            assert error.in_doubt
        world.off("Produce")
        after = [work.send("t", value) for value in values(9, size=60)[3:]]
        work.flush()
        assert all(delivery.exception() is None for delivery in after)
        found = log_of(world).values()
        # A broker takes the next request of a connection when it has responded to the last.
        assert found == [b"first", *(values(1, size=60) if stored else []), *values(9, size=60)[3:]]


@pytest.mark.parametrize(
    ("code", "stored"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
        (ErrorCode.REQUEST_TIMED_OUT, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS, False),
        (ErrorCode.CORRUPT_MESSAGE, False),
    ],
)
def test_a_batch_refused_until_it_expired_is_in_doubt_if_it_may_be_stored(code: int, *, stored: bool) -> None:
    with World() as world:
        work = started(world, request_timeout_ms=2_000, delivery_timeout_ms=4_000)
        world.on("Produce", store_and(world, errors(code)) if stored else errors(code))
        delivery = work.send("t", b"v")
        work.flush()
        error = delivery.exception()
        assert isinstance(error, KafkaTimeoutError)
        assert len(world.made("Produce")) > 3
        assert error.in_doubt is stored
        assert (b"v" in log_of(world).values()) is stored


def test_0144_success_after_possibly_persisted() -> None:
    """A batch that was given up turns out to be stored when the next batch is: nothing fatal, nothing twice."""

    with World() as world:
        work = started(world, request_timeout_ms=2_000, delivery_timeout_ms=4_000)
        world.on("Produce", store_and(world, HANGUP))
        lost = work.send("t", b"lost")
        work.flush()
        assert isinstance(lost.exception(), KafkaTimeoutError)
        assert log_of(world).values() == [b"first", b"lost"]
        world.off("Produce")
        deliveries = [work.send("t", value) for value in values(8, size=60)]
        work.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(2, 10))
        assert numbers(world)[-1][:2] == (1000, 1)


@pytest.mark.parametrize("how", ["omitted", "no leader"])
def test_sequences_survive_metadata_that_lacks_the_topic_for_a_while(how: str) -> None:
    """If the counter restarted, a broker would take a new batch for an old one: lost, and acknowledged."""
    with World() as world:
        work = started(world)
        for value in values(3, size=60):
            work.send("t", value)
            work.flush()
        topic, leader = world.topics["t"], log_of(world).leader
        if how == "omitted":
            world.topics.pop("t")
        else:
            topic.partitions[0].leader = -1
        world.run(work.cluster.refresh(["t"]))
        waiting = [work.send("t", value) for value in values(6, size=60)[3:]]
        world.pass_time(10)
        assert not any(delivery.done() for delivery in waiting)
        world.topics["t"] = topic
        topic.partitions[0].leader = leader
        work.flush()
        assert log_of(world).values() == [b"first", *values(6, size=60)]
        assert all(delivery.exception() is None for delivery in waiting)
        assert sorted(set(numbers(world))) == [(1000, 0, sequence) for sequence in range(7)]


def test_a_recreated_topic_knows_nothing_of_the_producer() -> None:
    """The new topic would take the second of two batches for the first; so the first goes alone."""
    with World() as world:
        work = started(world)
        work.send("t", b"old")
        work.flush()
        world.create_topic("t", partitions=2)  # with another id
        world.run(work.cluster.refresh(["t"]))
        once(world, errors(ErrorCode.NOT_ENOUGH_REPLICAS))
        for value in values(5, size=60):
            work.send("t", value)
        work.flush()
        assert log_of(world).values() == values(5, size=60)


def test_out_of_order_sequence_after_an_unclean_election() -> None:
    """The broker lost what it had acknowledged; what follows is not lost, and not twice (KIP-360)."""
    with World() as world:
        work = started(world)
        for value in values(2, size=60):
            work.send("t", value)
            work.flush()
        log = log_of(world)
        world.lose_records("t", 0, 1, 2)
        deliveries = [work.send("t", value) for value in values(7, size=60)[2:]]
        other = work.send("t", b"other", partition=1)
        work.flush()
        assert log.values() == [b"first", values(1, size=60)[0], *values(7, size=60)[2:]]
        assert [delivery.result().offset for delivery in deliveries] == list(range(2, 7))
        assert other.exception() is None
        assert work.core.identity == Identity(1000, 1)


def test_unknown_producer_id() -> None:
    """Retention has deleted all that the broker had of the producer, and an old broker says so (KIP-360)."""
    with World() as world:
        work = started(world)
        log_of(world).producers.entries.clear()
        old = errors(ErrorCode.UNKNOWN_PRODUCER_ID)
        world.on("Produce", lambda call: None if produced(call)[0][1].producer_epoch else old(call))
        deliveries = [work.send("t", value) for value in values(3, size=60)]
        work.flush()
        assert log_of(world).values() == [b"first", *values(3, size=60)]
        assert all(delivery.exception() is None for delivery in deliveries)
        assert numbers(world)[-1] == (1000, 1, 2)


def test_an_epoch_bump_waits_for_batches_in_doubt_and_renumbers_the_rest() -> None:
    """KIP-360: batch 2 is given up for good while the response to batch 1 is lost; only partition 0 is renumbered."""
    with World() as world:
        work = started(world)
        work.send("t", b"other", partition=1)
        work.flush()
        count = itertools.count(1)

        def trouble(call: Call) -> Any:
            number = next(count)
            if number == 1:
                return store_and(world, errors(ErrorCode.REQUEST_TIMED_OUT))(call)
            return errors(29)(call) if number == 2 else None

        world.on("Produce", trouble)
        deliveries = [work.send("t", value) for value in values(4, size=60)]
        work.flush()
        assert [delivery.exception() is None for delivery in deliveries] == [True, False, True, True]
        assert log_of(world).values() == [b"first", *[v for i, v in enumerate(values(4, size=60)) if i != 1]]
        sent = numbers(world)
        assert sent.count((1000, 0, 1)) == 2, "it was sent once more under its old number"
        assert sent[-2:] == [(1000, 1, 0), (1000, 1, 1)]
        work.send("t", b"more", partition=1)
        work.flush()
        assert numbers(world, 1) == [(1000, 0, 0), (1000, 1, 0)]


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_epochs_run_out(code: int) -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", **ONE_EACH)
        work.core.identity = Identity(5, LAST_EPOCH)
        work.send("t", b"first")
        work.flush()
        once(world, errors(code))
        deliveries = [work.send("t", value) for value in values(3, size=60)]
        work.flush()
        assert all(delivery.exception() is None for delivery in deliveries)
        assert work.core.identity == Identity(1000, 0)
        assert numbers(world)[-1] == (1000, 0, 2)


def test_invalid_producer_epoch_takes_a_new_producer_id() -> None:
    with World() as world:
        work = started(world)
        log_of(world).producers.entries[1000].epoch = 7
        deliveries = [work.send("t", value) for value in values(4, size=60)]
        work.flush()
        assert log_of(world).values() == [b"first", *values(4, size=60)]
        assert all(delivery.exception() is None for delivery in deliveries)
        assert work.core.identity == Identity(1001, 0)
        assert len(world.made("InitProducerId")) == 2


def test_a_damaged_request_costs_neither_an_epoch_nor_a_producer_id() -> None:
    """CORRUPT_MESSAGE says that nothing was stored: it is sent again as it was."""
    with World() as world:
        work = started(world)
        count = itertools.count()
        world.on("Produce", lambda call: errors(ErrorCode.CORRUPT_MESSAGE)(call) if next(count) % 3 == 0 else None)
        deliveries = [work.send("t", value) for value in values(20, size=60)]
        work.flush()
        assert all(delivery.exception() is None for delivery in deliveries)
        assert log_of(world).values() == [b"first", *values(20, size=60)]
        assert len(world.made("InitProducerId")) == 1
        assert work.core.identity == Identity(1000, 0)


def test_a_batch_that_was_always_refused_is_not_in_doubt() -> None:
    with World() as world:
        work = started(world, delivery_timeout_ms=5_000, request_timeout_ms=1_000)
        world.on("Produce", errors(ErrorCode.NOT_ENOUGH_REPLICAS))
        delivery = work.send("t", b"v")
        work.flush()
        error = delivery.exception()
        assert isinstance(error, KafkaTimeoutError)
        assert not error.in_doubt
        assert "they are not in the log; last: NOT_ENOUGH_REPLICAS" in str(error)
