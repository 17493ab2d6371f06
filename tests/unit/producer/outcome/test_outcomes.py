"""`producer.outcome.outcomes`: a batch that was refused or got no response goes again, whole or in parts, or fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import (
    BrokerError,
    ErrorCode,
    KafkaConnectionError,
    RecordTooLargeError,
)
from kafwire.producer.buffer._batch import BatchDelivery
from kafwire.producer.outcome.sequencer import Identity
from kafwire.records._arrow_rows import RowsReader
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.producer import Work, errors, log_of, produced, values
from tests.support.simulated.world import World

Kind = protocol.ProduceResponse


def test_a_retried_batch_keeps_its_number_and_is_not_stored_twice() -> None:
    """The response is lost after the broker has stored the batch."""

    def store_and_hang_up(call: Call) -> Any:
        world.serve(call)
        return HANGUP if len(world.made("Produce")) == 1 else None

    with World() as world:
        world.create_topic("t")
        world.on("Produce", store_and_hang_up)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert log_of(world).values() == [b"v"]
        first, second = (produced(call)[0][1] for call in world.made("Produce"))
        assert (first.producer_id, first.base_sequence) == (second.producer_id, second.base_sequence)


def test_retries_wait_longer_each_time() -> None:
    with World() as world:
        world.create_topic("t")
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if len(world.made("Produce")) < 7 else None,
        )
        work = Work(world, "t", retry_backoff_ms=100, retry_backoff_max_ms=800)
        work.send("t", b"v")
        work.flush()
        times = [call.at_ms for call in world.made("Produce")]
        for (early, late), nominal in zip(itertools.pairwise(times), [100, 200, 400, 800, 800, 800], strict=True):
            assert 0.8 * nominal <= late - early <= 1.2 * nominal + 20


def test_an_error_that_no_retry_mends_is_the_deliverys() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", errors(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        with pytest.raises(BrokerError, match=r"1 record\(s\) to t-0 on broker 1 at 10\.0\.0\.1:9092") as caught:
            delivery.result()
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert isinstance(delivery.exception(), BrokerError)
        assert work.used == 0
        assert len(world.made("Produce")) == 1


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
        world.pass_time(0.7)  # the back-off takes 0.8 s at least
        assert (len(world.made("Metadata")) > asked) == (how != "refused"), "it may be too few replicas, but there"
        work.flush()
        assert delivery.exception() is None
        nodes = [call.node for call in world.made("Produce")[before:]]
        tried = [] if how == "not sent" else [leader]
        assert nodes == [*tried, *([leader] if how == "refused" else []), 3 - leader]


def limited(records: int, bad: set[bytes] | None = None) -> Callable[[Any], int]:
    """A broker that takes so many records in a batch, and none of `bad`."""
    return lambda batch: (
        ErrorCode.MESSAGE_TOO_LARGE
        if len(batch) > records or any(record.value in (bad or ()) for record in batch)
        else 0
    )


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_that_is_too_large_goes_on_in_halves(compression: str, *, idempotent: bool) -> None:
    with World() as world:
        world.create_topic("t")
        world.refuse = limited(6)
        options: dict[str, Any] = {} if idempotent else {"enable_idempotence": False}
        work = Work(world, "t", compression_type=compression, **options)
        deliveries = [work.send("t", value) for value in values(20)]
        started = world.engine.now_ms()
        work.flush()
        assert log_of(world).values() == values(20)
        assert [delivery.result().offset for delivery in deliveries] == list(range(20))
        sizes = [len(produced(call)[0][1]) for call in world.made("Produce")]
        assert sizes == ([20, 10, 5, 5, 10, 5, 5] if idempotent else [20, 10, 10, 5, 5, 5, 5])
        assert world.engine.now_ms() - started < 50, "nothing has to be waited for"
        assert work.used == 0
        assert work.core.identity == (Identity(1000, 0) if idempotent else None)


def test_batches_in_flight_behind_one_that_is_too_large_follow_its_halves() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=300)
        work.send("t", b"first")
        work.flush()
        world.refuse = limited(2)
        deliveries = [work.send("t", value) for value in values(60, size=50)]
        work.flush()
        assert log_of(world).values() == [b"first", *values(60, size=50)]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 61))
        assert work.core.identity == Identity(1000, 0)


def test_a_record_that_is_too_large_fails_by_its_name_and_its_neighbours_live() -> None:
    big = values(9)[4]
    with World() as world:
        world.create_topic("t")
        world.refuse = limited(100, {big})
        work = Work(world, "t")
        deliveries = [work.send("t", value, key=b"key of %s" % value[:6]) for value in values(9)]
        work.flush()
        assert log_of(world).values() == [value for value in values(9) if value != big]
        with pytest.raises(
            RecordTooLargeError, match="record with key b'key of 000004' .* to t-0 on broker 1"
        ) as caught:
            deliveries[4].result()
        assert "max.message.bytes" in str(caught.value)
        assert not caught.value.in_doubt
        assert all(delivery.exception() is None for i, delivery in enumerate(deliveries) if i != 4)
        assert work.used == 0


def test_rows_of_a_table_find_their_offsets_in_the_halves() -> None:
    with World() as world:
        world.create_topic("t")
        world.refuse = limited(7)
        work = Work(world, "t")
        parts: list[Any] = []
        for rows in RowsReader(pa.table({"value": values(50)})):
            plan = work.accumulator.plan_rows("t", rows, 0, 0)
            assert plan is not None
            assert work.accumulator.append_rows(plan, parts)
        work.flush()
        assert BatchDelivery(parts).result(0) == [("t", 0, 0, 50)]


@pytest.mark.parametrize("may_read", [True, False])
def test_the_halves_of_a_batch_stored_as_a_whole_are_not_stored_beside_it(*, may_read: bool) -> None:
    """Stored, response lost, then the topic's limit is lowered. A producer that may read finds them in the whole."""

    def lose_the_response(call: Call) -> Any:
        world.serve(call)
        world.off("Produce")
        world.refuse = limited(4)
        return HANGUP

    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", b"first")
        work.flush()
        if not may_read:
            world.unreadable.add("t")
        world.on("Produce", lose_the_response)
        deliveries = [work.send("t", value) for value in values(8)]
        work.flush()
        after = work.send("t", b"after")
        work.flush()
        for delivery in deliveries:
            error = delivery.exception()
            if may_read:
                assert delivery.result().offset == -1
            else:
                assert error.in_doubt
                assert "may or may not be in the log" in str(error)
        assert after.exception() is None
        assert log_of(world).values() == [b"first", *values(8), b"after"]


def complain(named: dict[int, str], world: World, code: int = ErrorCode.INVALID_RECORD) -> Any:
    """A handler that refuses records by their index, once."""

    def respond(call: Call) -> Any:
        world.off("Produce")
        refusal = errors(code)(call)
        part = refusal.responses[0].partition_responses[0]
        part.error_message = "no good"
        part.record_errors = [
            Kind.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in named.items()
        ]
        return refusal

    return respond


@pytest.mark.parametrize("bad", [{0}, {8}, {3, 4}, {0, 2, 8}])
def test_refused_records_fail_by_their_names_and_the_others_are_sent_without_them(bad: set[int]) -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", complain({index: f"field {index}" for index in bad}, world))
        work = Work(world, "t")
        deliveries = [work.send("t", value, key=value[:6]) for value in values(9)]
        work.flush()
        for index, delivery in enumerate(deliveries):
            error = delivery.exception()
            if index in bad:
                assert isinstance(error, BrokerError)
                assert error.code == ErrorCode.INVALID_RECORD
                assert f"record with key b'{index:06}'" in str(error)
                assert f"t-0 on broker 1 at 10.0.0.1:9092: field {index}" in str(error)
                assert not error.in_doubt
            else:
                assert error is None
        assert log_of(world).values() == [value for index, value in enumerate(values(9)) if index not in bad]
        assert work.used == 0


def test_all_records_of_a_batch_may_be_refused() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", complain({0: "a", 1: "b"}, world))
        work = Work(world, "t")
        deliveries = [work.send("t", value) for value in values(2)]
        work.flush()
        for delivery, said in zip(deliveries, "ab", strict=True):
            assert f"at 10.0.0.1:9092: {said}]" in str(delivery.exception())
        assert work.used == 0
        assert work.send("t", b"after")
        work.flush()
        assert log_of(world).values() == [b"after"]


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
def test_a_record_that_is_not_in_the_batch_cannot_be_refused_alone(index: int) -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", complain({index: "what"}, world))
        work = Work(world, "t")
        deliveries = [work.send("t", value) for value in values(2)]
        work.flush()
        assert str(deliveries[0].exception()) == str(deliveries[1].exception())
        assert f"no good (record {index}: what)" in str(deliveries[0].exception())
