"""`producer.send.recreated_topics`: a topic that is deleted and recreated, with fewer partitions or more, in use."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ConfigError, ErrorCode, KafkaError
from kafwire.producer.buffer._batch import BatchDelivery
from kafwire.records import decode_batches
from kafwire.records._arrow_rows import RowsReader
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support.pass_clock import PassClock
from tests.support.simulated.producer import Work, errors, log_of, produced
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting

KEYS = [b"k%d" % i for i in range(40)]


def keyed(work: Work, keys: list[bytes] = KEYS) -> list[Any]:
    return [work.send("t", b"of " + key, key=key, partition=None) for key in keys]


def places(deliveries: list[Any]) -> list[int]:
    return [delivery.result(0).partition for delivery in deliveries]


def places_of_new_producer(world: World) -> list[int]:
    """Where a producer that never saw the old topic puts each of KEYS."""
    work = Work(world, "t", linger_ms=0)
    deliveries = keyed(work)
    work.flush()
    return places(deliveries)


def by_key(world: World) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, partition after partition."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for log in world.topics["t"].partitions:
        for stored in log.batches:
            for batch in decode_batches(stored.data):
                for record in batch:
                    found.setdefault(record.key, []).append(record.value)
    return found


def delivered(world: World, delivery: BatchDelivery) -> list[bytes]:
    """The values at the places that a delivery names, sorted."""
    ranges = delivery.result(0)
    return sorted(log_of(world, p).values()[first + i] or b"" for _, p, first, count in ranges for i in range(count))


def check_stored(world: World, deliveries: list[Any], keys: list[bytes] = KEYS) -> None:
    for key, delivery in zip(keys, deliveries, strict=True):
        meta = delivery.result(0)
        assert log_of(world, meta.partition).values()[meta.offset] == b"of " + key


@pytest.mark.parametrize("topic_ids", [True, False])
@pytest.mark.parametrize(("before", "after"), [(8, 2), (8, 3), (2, 7)])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_records_go_where_a_new_producer_puts_them(
    before: int, after: int, compression: str, *, topic_ids: bool
) -> None:
    with World(topic_ids=topic_ids) as world:
        world.create_topic("t", partitions=before)
        work = Work(world, "t", linger_ms=0, compression_type=compression)
        keyed(work)
        work.flush()
        world.create_topic("t", partitions=after)
        if not topic_ids:  # else a response to Produce says so: more partitions are as if they were added
            world.run(work.cluster.refresh())
            world.pass_time(2)
        started = world.engine.now_ms()
        sent = keyed(work)
        work.flush()
        assert world.engine.now_ms() - started < 5_000
        check_stored(world, sent)
        assert places(sent) == places_of_new_producer(world)
        assert work.used == 0


def test_buffered_records_go_to_their_new_partitions_in_order() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t", linger_ms=60_000, batch_size=300)
        numbered = [(KEYS[i % 7], b"%04d" % i) for i in range(300)]
        world.kill(1)  # nothing can be sent
        early = [work.send("t", value, key=key, partition=None) for key, value in numbered[:200]]
        table = pa.table({"key": [key for key, _ in numbered[200:]], "value": [value for _, value in numbered[200:]]})
        late = send_rows(work, table)
        world.create_topic("t", partitions=3)
        world.nodes[1].down = False
        world.run(work.cluster.refresh())
        work.flush()
        assert by_key(world) == {key: [value for k, value in numbered if k == key] for key in KEYS[:7]}
        for (_, value), delivery in zip(numbered[:200], early, strict=True):
            meta = delivery.result(0)
            assert log_of(world, meta.partition).values()[meta.offset] == value
        assert delivered(world, late) == [value for _, value in numbered[200:]]
        assert len(late) == 100
        assert work.used == 0


def send_rows(work: Work, table: pa.Table, **options: Any) -> BatchDelivery:
    parts: list[Any] = []
    for rows in RowsReader(table):
        plan = work.accumulator.plan_rows("t", rows, options.get("partition"), 0)
        assert plan is not None
        while not work.accumulator.append_rows(plan, parts):
            work.world.pass_time(0.1)
    return BatchDelivery(parts)


def test_a_partition_that_is_gone_is_an_error_at_once() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t", linger_ms=60_000)
        gone, stays = (work.send("t", b"v", partition=partition) for partition in (5, 1))
        rows = send_rows(work, pa.table({"value": [b"1", b"2"], "partition": [0, 7]}))
        world.create_topic("t", partitions=2)
        started = world.engine.now_ms()
        world.run(work.cluster.refresh())
        world.pass_time(1.5)
        work.flush()
        assert world.engine.now_ms() - started < 2_000
        assert stays.result(0).partition == 1
        with pytest.raises(
            KafkaError, match="'t' was recreated, with 2 partitions instead of 8.* partition 5"
        ) as caught:
            gone.result(0)
        assert not caught.value.in_doubt
        with pytest.raises(KafkaError, match="partition 7 no longer exists"):
            rows.result(0)
        with pytest.raises(ConfigError, match="has partitions 0 to 1, not 5"):
            work.send("t", b"v", partition=5)
        assert [log_of(world, p).values() for p in range(2)] == [[b"1"], [b"v"]]
        assert work.used == 0


def test_records_that_kafwire_may_not_have_placed_fail() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t", linger_ms=60_000)
        placed = work.send("t", b"v", key=b"k", partition=None)
        mixed = [placed, work.send("t", b"v", partition=placed.batch.queue.partition)]
        world.create_topic("t", partitions=3)
        world.run(work.cluster.refresh())
        world.pass_time(1.5)
        work.flush()
        for delivery in mixed:
            with pytest.raises(
                KafkaError,
                match="are not in the log, as their partitions were not all chosen by kafwire.*: send them again",
            ) as caught:
                delivery.result(0)
            assert not caught.value.in_doubt
        assert not any(log_of(world, p).values() for p in range(3))


@pytest.mark.parametrize("lost", ["before", "after"])
def test_records_that_may_be_in_the_old_topic_are_in_doubt_and_not_sent_to_the_new_one(lost: str) -> None:
    def lose(call: Call) -> Any:
        if lost == "after":
            world.serve(call)
        return HANGUP

    with World() as world:
        world.create_topic("t", partitions=4)
        world.on("Produce", lose)
        work = Work(world, "t", linger_ms=0)
        delivery = work.send("t", b"v")
        world.pass_time(0.01)
        world.create_topic("t", partitions=2)
        world.off("Produce")
        work.flush()
        with pytest.raises(KafkaError, match="recreated before 1 record.* may or may not be in the log") as caught:
            delivery.result(0)
        assert caught.value.in_doubt
        assert not any(log_of(world, p).values() for p in range(2))
        assert work.used == 0


def test_nothing_goes_to_the_new_topic_before_the_old_one_has_responded() -> None:
    """A batch in flight may be refused, and then comes before what was sent later."""
    with World(brokers=2) as world:
        world.create_topic("t", partitions=4)
        work = Work(world, "t", linger_ms=0, request_timeout_ms=5_000)
        keyed(work)
        work.flush()
        world.create_topic("t", partitions=3)
        world.on("Produce", lambda call: NEVER if call.node == 1 and len(world.made("Produce")) < 6 else None)
        first = keyed(work)
        world.pass_time(0.1)
        world.run(work.cluster.refresh())
        world.pass_time(1.5)
        before = len(world.made("Produce"))
        second = keyed(work)
        world.pass_time(1)
        assert len(world.made("Produce")) == before
        work.flush()
        check_stored(world, second)
        for delivery in first:
            assert delivery.exception(0) is None or delivery.exception(0).in_doubt
        assert work.used == 0


def test_a_leased_partition_is_taken_back() -> None:
    with World() as world:
        world.create_topic("t", partitions=4)
        work = Work(world, "t", linger_ms=0)
        for _ in range(6):
            work.send("t", b"v", partition=3)
            work.flush()
        world.create_topic("t", partitions=2)
        world.run(work.cluster.refresh())
        world.pass_time(1.5)
        assert all(queue.direct_send is None for queue in work.accumulator.topics["t"].queues)
        assert work.send("t", b"v", partition=1)
        work.flush()
        assert log_of(world, 1).values() == [b"v"]


def test_a_broker_that_lags_does_not_bring_the_old_topic_back() -> None:
    with World(brokers=3) as world:
        world.create_topic("t", partitions=6)
        work = Work(world, "t", linger_ms=0)
        keyed(work)
        work.flush()
        world.lag(2)
        world.create_topic("t", partitions=2)
        sent = []
        for _ in range(30):
            sent.append(keyed(work, KEYS[:5]))
            world.run(work.cluster.refresh())
            world.pass_time(0.3)
        world.catch_up(2)
        work.flush()
        for deliveries in sent:
            check_stored(world, deliveries, KEYS[:5])
        assert len(work.accumulator.topics["t"].queues) == 2
        assert work.used == 0


def test_a_topic_that_nothing_is_sent_to_is_replaced_within_a_moment() -> None:
    """The refresh that decides which id is the new one is the cluster's: no turn of the sender follows it."""
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0)
        work.send("t", b"v")
        work.flush()
        world.create_topic("t")
        world.run(work.cluster.refresh())
        world.pass_time(2)
        assert work.cluster.metadata.topics["t"].topic_id == world.topics["t"].topic_id
        assert not work.core.sender._backlog.deleted


def test_rows_that_are_being_added_go_on_where_they_belong_now() -> None:
    """The topic is recreated between two passes without the GIL, and between a pass and its end."""
    with World() as world:
        world.create_topic("t", partitions=8)
        clock = PassClock(world.engine.clock)
        world.engine.clock = clock  # type: ignore[assignment]
        work = Work(world, "t", linger_ms=5, batch_size=400, buffer_memory=100_000)
        keys = [KEYS[i % 11] for i in range(600)]
        table = pa.table({"key": keys, "value": [b"%04d" % i for i in range(600)]})
        passes = itertools.count()

        def recreate() -> None:
            if next(passes) == 2:  # the engine learns of it while the thread is in a pass
                world.create_topic("t", partitions=3)
                world.run(work.cluster.refresh())
                world.pass_time(1.5)
                assert len(work.accumulator.topics["t"].queues) == 3

        with clock.behind_passes(work.accumulator, recreate):
            delivery = send_rows(work, table)
        work.flush()
        assert by_key(world) == {key: [b"%04d" % i for i in range(600) if keys[i] == key] for key in KEYS[:11]}
        assert delivered(world, delivery) == [b"%04d" % i for i in range(600)]
        assert work.used == 0


def test_added_partitions_leave_buffered_records_where_they_are() -> None:
    with World() as world:
        world.create_topic("t", partitions=2)
        work = Work(world, "t", linger_ms=60_000)
        deliveries = keyed(work)
        world.add_partitions("t", 3)
        world.run(work.cluster.refresh())
        work.flush()
        check_stored(world, deliveries)
        assert {partition for call in world.made("Produce") for partition, _ in produced(call)} == {0, 1}
        assert set(places_of_new_producer(world)) > {0, 1}


def learn_that_it_was_recreated(world: World, work: Work) -> None:
    for _ in range(2):
        world.run(work.cluster.refresh())
        world.pass_time(1.5)


def test_a_leader_of_the_deleted_topic_is_not_taken_for_the_leader_of_the_new_one() -> None:
    """A late response names a leader (KIP-951) in an epoch that is higher than those of the new topic."""

    async def moved(call: Call) -> Any:
        await asyncio.sleep(5)
        response = errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call)
        leader = response.responses[0].partition_responses[0].current_leader
        leader.leader_id, leader.leader_epoch = 2, 7
        response.node_endpoints = [response.NodeEndpoint(node_id=2, host=world.nodes[2].host, port=world.nodes[2].port)]
        return response

    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t", delivery_timeout_ms=60_000)
        world.on("Produce", moved)
        work.send("t", b"before")
        world.pass_time(0.1)
        world.create_topic("t")
        learn_that_it_was_recreated(world, work)
        world.pass_time(5)
        world.off("Produce")
        after = work.send("t", b"after")
        work.flush()
        assert after.result(0).offset == 0
        assert log_of(world).values() == [b"after"]


def test_a_search_in_the_topic_that_was_is_not_in_the_way_of_one_in_the_new_topic() -> None:
    def store_and_forget(call: Call) -> Any:
        world.serve(call)
        world.forget_producers(call.node, 0)
        world.off("Produce")
        return HANGUP

    with World(brokers=2) as world:
        world.create_topic("t")
        world.on("Fetch", lambda call: NEVER if call.node == 1 else None)
        work = Work(world, "t")
        work.send("t", b"first")
        work.flush()
        world.on("Produce", store_and_forget)
        work.send("t", b"searched for in vain")
        world.pass_time(2)
        assert world.made("Fetch")
        world.create_topic("t")
        world.move_leader("t", 0, 2)
        learn_that_it_was_recreated(world, work)
        work.send("t", b"1")
        world.pass_time(1)
        world.on("Produce", store_and_forget)
        found = work.send("t", b"2")
        started = world.engine.now_ms()
        work.flush()
        assert found.result(0).offset == 1
        assert log_of(world).values() == [b"1", b"2"]
        assert world.engine.now_ms() - started < 5_000


def test_metrics_count_records_to_a_partition_that_was_gone_before_anything_was_sent_to_it() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t", linger_ms=60_000)
        gone = work.send("t", b"v", partition=5)
        world.create_topic("t", partitions=2)
        learn_that_it_was_recreated(world, work)
        work.flush()
        assert gone.exception(0) is not None
        partitions = work.core.metrics()["partitions"]
        assert partitions["t-5"]["records_failed"] == 1
        assert partitions["t-5"]["batches_in_flight"] == 0


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_transaction_that_loses_a_batch_with_its_partition_has_a_new_epoch_if_it_was_numbered(attempts: int) -> None:
    with World() as world:
        world.transaction_version = 1
        world.create_topic("t", partitions=4)
        work = Transacting(world, linger_ms=0 if attempts else 60_000)
        work.transact(b"first")
        work.begin()

        async def refuse_late(call: Call) -> Any:
            await asyncio.sleep(5)
            return errors(ErrorCode.NOT_ENOUGH_REPLICAS)(call)

        world.on("Produce", refuse_late)
        delivery = work.send("t", b"v", partition=3)
        world.pass_time(1)
        assert len(world.made("Produce")) == 1 + attempts
        world.create_topic("t", partitions=2)
        world.off("Produce")
        for _ in range(2):  # it is believed when brokers have returned it for a second
            world.run(work.cluster.refresh())
            world.pass_time(1.1)
        work.flush()
        with pytest.raises(KafkaError, match="recreated"):
            delivery.result(0)
        before = len(world.made("InitProducerId"))
        work.abort()
        work.transact(b"next")
        assert len(world.made("InitProducerId")) - before == attempts
        assert b"next" in work.seen
