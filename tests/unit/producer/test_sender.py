"""`producer.sender`: batches reach their leaders once and in order, whatever brokers and connections do."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import BrokerError, ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.producer.sequencer import Identity
from kafwire.testing.simulation.kafka import HANGUP, NEVER, Call, Log
from tests.support import seeds
from tests.support.simulated import World
from tests.support.simulated_producer import Work, errors, log_of, produced, values


@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize("version", range(3, 14))
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


def test_a_batch_waits_for_linger_and_takes_what_comes_meanwhile() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=500)
        world.run(work.sender.flush())
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
        with pytest.raises(KafkaTimeoutError, match=r"within 1 s; it is still tried: 1 record\(s\) to t-0"):
            world.run(work.sender.flush(1.0))
        assert not delivery.done()
        work.flush()
        assert delivery.result().offset == 0


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
def test_what_comes_while_a_partition_stands_still_goes_out_in_few_batches(limit: int) -> None:
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
        world.run(asyncio.sleep(1.0))  # nobody flushes: what is late goes by itself
        assert len(world.made("Produce")) <= limit + 3
        assert log_of(world).values() == values(500)
        assert not work.accumulator.late
        assert not work.used


def test_what_lingered_behind_a_full_batch_goes_as_soon_as_that_has_gone() -> None:
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


def test_a_retried_batch_keeps_its_number_and_is_not_stored_twice() -> None:
    """The answer is lost after the broker has stored the batch."""

    def store_and_hang_up(call: Call) -> Any:
        world._on_Produce(call)
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


def test_nothing_goes_to_a_new_leader_before_the_old_one_has_answered() -> None:
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
        answer = world._on_Produce(call)
        answer.throttle_time_ms = 2_000
        return answer

    with World() as world:
        world.create_topic("t")
        world.on("Produce", throttle)
        work = Work(world, "t")
        for value in values(3):
            work.send("t", value)
            work.flush()
        times = [call.at_ms for call in world.made("Produce")]
        assert all(late - early >= 2_000 for early, late in itertools.pairwise(times))


def test_acks_0_ends_with_the_sending() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", acks=0, batch_size=100)
        deliveries = [work.send("t", value) for value in values(10, size=50)]
        work.flush()
        assert {delivery.result().offset for delivery in deliveries} == {-1}
        world.pass_time(1)
        assert log_of(world).values() == values(10, size=50)
        assert not world.made("InitProducerId")
        assert work.used == 0
        batch = produced(world.made("Produce")[0])[0][1]
        assert (batch.producer_id, batch.base_sequence) == (-1, -1)


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


@pytest.mark.parametrize("code", [14, 15, -1])
def test_a_producer_id_is_asked_for_until_there_is_one(code: int) -> None:
    refusal = protocol.InitProducerIdResponse(error_code=code)
    with World() as world:
        world.create_topic("t")
        world.on("InitProducerId", lambda _: refusal if len(world.made("InitProducerId")) < 4 else None)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert len(world.made("InitProducerId")) == 4


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


def test_what_the_broker_says_of_single_records_is_told() -> None:
    def complain(call: Call) -> Any:
        answer = errors(ErrorCode.INVALID_RECORD)(call)
        part = answer.responses[0].partition_responses[0]
        part.error_message = "no such field"
        part.record_errors = [
            protocol.ProduceResponse.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="bad")
        ]
        return answer

    with World() as world:
        world.create_topic("t")
        world.on("Produce", complain)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert "no such field (record 1: bad)" in str(delivery.exception())


def test_after_a_lost_number_the_partition_goes_on_in_the_next_epoch() -> None:
    """Batch 1 of three in flight is refused for good: the numbers after it may never follow."""
    with World() as world:
        world.create_topic("t", partitions=2)
        world.refuse = lambda batch: (
            ErrorCode.MESSAGE_TOO_LARGE if any(r.value == values(2, size=60)[1] for r in batch) else 0
        )
        work = Work(world, "t", batch_size=100)
        deliveries = [work.send("t", value) for value in values(6, size=60)]
        other = work.send("t", b"other", partition=1)
        work.flush()
        assert isinstance(deliveries[1].exception(), BrokerError)
        assert log_of(world).values() == [v for i, v in enumerate(values(6, size=60)) if i != 1]
        assert work.sender.identity == Identity(1000, 1)
        assert other.result().offset == 0
        last = produced(world.made("Produce")[-1])[0][1]
        assert last.producer_epoch == 1
        work.send("t", b"later", partition=1)
        work.flush()
        assert log_of(world, 1).values() == [b"other", b"later"]


def test_when_epochs_run_out_a_new_producer_id_is_taken() -> None:
    with World() as world:
        world.create_topic("t")
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.MESSAGE_TOO_LARGE)(call) if len(world.made("Produce")) == 1 else None,
        )
        work = Work(world, "t")
        work.sender.identity = Identity(5, 2**15 - 1)
        refused = work.send("t", b"1")
        work.flush()
        delivery = work.send("t", b"2")
        work.flush()
        assert isinstance(refused.exception(), BrokerError)
        assert delivery.result().offset == 0
        assert work.sender.identity == Identity(1000, 0)


def test_an_answer_that_cannot_be_read_is_an_unknown_fate() -> None:
    def garble(call: Call) -> Any:
        world._on_Produce(call)
        return b"\0\xff\xff" if len(world.made("Produce")) == 1 else None

    with World() as world:
        world.create_topic("t")
        world.on("Produce", garble)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert log_of(world).values() == [b"v"]
        assert world.connections[world.made("Produce")[0].connection].closed


def test_an_answer_that_leaves_a_partition_out_is_an_unknown_fate() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: protocol.ProduceResponse() if len(world.made("Produce")) == 1 else None)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0


def test_what_cannot_be_sent_expires() -> None:
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


def test_what_was_sent_and_never_acknowledged_expires_as_maybe_stored() -> None:
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
        assert work.sender.identity == Identity(1000, 1)


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


def test_closing_sends_what_is_left() -> None:
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
def test_closing_gives_up_what_is_not_acknowledged_in_time(*, sent: bool) -> None:
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


def test_new_partitions_are_used_once_they_are_known() -> None:
    with World() as world:
        topic = world.create_topic("t")
        work = Work(world, "t")
        topic.partitions.append(Log(leader=1))
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if len(world.made("Produce")) == 1 else None,
        )
        work.send("t", b"v")
        work.flush()
        world.pass_time(1)
        assert len(work.accumulator.topics["t"].queues) == 2


def ranges(offsets: Iterable[int]) -> bool:
    """Whether they rise by one."""
    return all(late == early + 1 for early, late in itertools.pairwise(offsets))


@seeds.several(30)
def test_nothing_is_lost_doubled_or_out_of_order_whatever_happens(seed: int) -> None:
    """Answers lost before and after storing, leaders that move, errors, time-outs, batches refused for good."""
    chance = random.Random(seed)

    def trouble(call: Call) -> Any:
        if world.engine.now_ms() > 1_000_000 + 60_000:
            return None
        event = chance.random()
        if event < 0.10:
            return HANGUP
        if event < 0.20:
            world._on_Produce(call)
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
        assert not work.sender._unfinished
        assert all(isinstance(d.exception(), (BrokerError, type(None))) for r in sent.values() for _, d in r)


@seeds.several(30)
def test_what_expires_is_told_truly_and_never_stored_twice(seed: int) -> None:
    """Brokers die and hang for longer than `delivery_timeout_ms`: what is said of each record has to be what is so."""
    chance = random.Random(seed)

    def trouble(call: Call) -> Any:
        if world.engine.now_ms() > 1_000_000 + 40_000:
            return None
        event = chance.random()
        if event < 0.15:
            return HANGUP
        if event < 0.30:
            world._on_Produce(call)
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
