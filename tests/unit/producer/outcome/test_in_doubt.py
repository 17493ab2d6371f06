"""`producer.outcome.in_doubt`: batches in doubt are settled by requests and by reading the log."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire._codec import crc32c_of
from kafwire.errors import ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.producer.outcome.sequencer import Identity, Sequencer
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import DROPPED, HANGUP, Call
from tests.support.simulated.producer import Work, log_of, numbers, started, values
from tests.support.simulated.world import World


def store_and_drop(world: World) -> Any:
    """A handler that stores the records, and whose responses are lost."""

    def handler(call: Call) -> Any:
        world.serve(call)
        return DROPPED

    return handler


def send_without_response(world: World, work: Work, count: int, *, partition: int = 0) -> list[Any]:
    """Send `count` records, each in a batch of its own, which is stored without a response."""
    world.on("Produce", store_and_drop(world))
    deliveries = [work.send("t", value, partition=partition) for value in values(count, size=60)]
    world.pass_time(0.1)
    world.off("Produce")
    return deliveries


def restart(world: World, node: int, *, kept: int) -> None:
    """A broker comes back at once, and remembers so many batches of each producer."""
    world.forget_producers(node, kept)
    world.break_connections(node)


def offsets(deliveries: list[Any]) -> list[int]:
    return [delivery.result().offset for delivery in deliveries]


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 5])
def test_a_broker_that_forgets_stored_batches_stores_none_twice(kept: int) -> None:
    """One batch after a clean stop, up to five after a crash, none of a producer that has expired."""
    with World() as world:
        work = started(world)
        deliveries = send_without_response(world, work, 3)
        restart(world, 1, kept=kept)
        after = work.send("t", b"after")
        work.flush()
        assert log_of(world).values() == [b"first", *values(3, size=60), b"after"]
        assert offsets([*deliveries, after]) == [1, 2, 3, 4]
        if kept:  # with nothing remembered the next batch fits as well
            assert work.core.identity == Identity(1000, 0)


def test_batches_that_were_not_stored_are_sent_again() -> None:
    """Two of five batches in flight were stored; the broker remembers the last of them."""
    with World() as world:
        work = started(world)
        stored = 0

        def two(call: Call) -> Any:
            nonlocal stored
            if stored < 2:
                world.serve(call)
            stored += 1
            return DROPPED

        world.on("Produce", two)
        deliveries = [work.send("t", value) for value in values(5, size=60)]
        world.pass_time(0.1)
        assert stored == 5
        world.off("Produce")
        restart(world, 1, kept=1)
        work.flush()
        assert log_of(world).values() == [b"first", *values(5, size=60)]
        assert offsets(deliveries) == list(range(1, 6))


@pytest.mark.parametrize("stored", [True, False])
def test_the_very_first_batch_is_found_by_its_time(*, stored: bool) -> None:
    """Nothing was acknowledged before, and others write into the same log."""
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=100)
        for _ in range(3):
            log_of(world).append(encode_batch([{"value": b"old", "timestamp_ms": 1_000}]))
        world.on("Produce", store_and_drop(world) if stored else lambda _: DROPPED)
        delivery = work.send("t", b"v")
        world.pass_time(0.1)
        world.off("Produce")
        log_of(world).append(encode_batch([{"value": b"other", "timestamp_ms": 2**42}]))
        restart(world, 1, kept=0)
        work.flush()
        assert delivery.result().offset == (3 if stored else 4)
        assert log_of(world).values().count(b"v") == 1
        (search,) = world.made("Fetch")
        assert search.message.topics[0].partitions[0].fetch_offset == 3


def test_where_it_lies_in_a_topic_with_append_times() -> None:
    with World() as world:
        work = started(world)
        log = log_of(world)

        def store(call: Call) -> Any:
            batch = bytes(call.message.topic_data[0].partition_data[0].records)
            log.append(with_append_time(batch, 123_456))
            return DROPPED

        world.on("Produce", store)
        delivery = work.send("t", b"v")
        world.pass_time(0.1)
        world.off("Produce")
        restart(world, 1, kept=0)
        work.flush()
        assert (delivery.result().offset, delivery.result().timestamp_ms) == (1, 123_456)


def with_append_time(batch: bytes, time_ms: int) -> bytes:
    """Rewrite a batch as a broker does for `message.timestamp.type=LogAppendTime`."""
    attributes = int.from_bytes(batch[21:23], "big") | 0x08
    covered = attributes.to_bytes(2, "big") + batch[23:35] + time_ms.to_bytes(8, "big") + batch[43:]
    return batch[:17] + crc32c_of(covered).to_bytes(4, "big") + covered


def test_without_permission_to_read_a_batch_out_of_order_is_in_doubt_and_not_sent_again() -> None:
    with World() as world:
        work = started(world)
        world.unreadable.add("t")
        deliveries = send_without_response(world, work, 3)
        restart(world, 1, kept=1)
        after = work.send("t", b"after")
        work.flush()
        assert log_of(world).values() == [b"first", *values(3, size=60), b"after"]
        for delivery in deliveries[:2]:
            error = delivery.exception()
            assert isinstance(error, KafkaError)
            assert error.in_doubt
            assert "may or may not be in the log: TOPIC_AUTHORIZATION_FAILED" in str(error)
        assert offsets([deliveries[2], after]) == [3, 4]


@pytest.mark.parametrize("how", ["retention", "compaction"])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_span_of_the_log_that_cannot_be_read(how: str, kept: int) -> None:
    """A broker that remembers a later number says that it was stored, if not where; else it is in doubt."""
    with World() as world:
        work = started(world)
        deliveries = send_without_response(world, work, 2)
        log_of(world).append_values([b"other"])
        if how == "retention":
            log_of(world).delete_before(3)
        else:
            kept_batches = log_of(world).batches
            log_of(world).batches = [kept_batches[0], *kept_batches[3:]]
        restart(world, 1, kept=kept)
        after = work.send("t", b"after")
        work.flush()
        assert log_of(world).values()[-2:] == [b"other", b"after"]
        assert after.result().offset == 4
        if kept:
            assert offsets(deliveries) == [-1, 2]
        else:
            assert [delivery.exception().in_doubt for delivery in deliveries] == [True, True]
        assert len(numbers(world)) == 1 + 2 + (2 if kept else 0) + 1


def test_a_search_waits_for_unreplicated_records() -> None:
    with World() as world:
        work = started(world)
        log = log_of(world)
        log.held_at = 1
        (delivery,) = send_without_response(world, work, 1)
        restart(world, 1, kept=0)
        world.pass_time(5)
        assert not delivery.done()
        log.held_at = None
        work.flush()
        assert delivery.result().offset == 1
        assert log.values() == [b"first", *values(1, size=60)]


def test_a_leader_that_is_not_found_leaves_it_in_doubt_when_time_runs_out() -> None:
    with World() as world:
        work = started(world, delivery_timeout_ms=5_000, request_timeout_ms=1_000)
        (delivery,) = send_without_response(world, work, 1)
        world.on("DescribeProducers", lambda _: HANGUP)
        world.on("Fetch", lambda _: HANGUP)
        restart(world, 1, kept=0)
        work.flush()
        error = delivery.exception()
        assert isinstance(error, KafkaTimeoutError)
        assert error.in_doubt
        world.off("DescribeProducers")
        after = work.send("t", b"after")
        work.flush()
        assert after.result().offset == 2


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_follower_that_has_restarted_leads(kept: int) -> None:
    with World(brokers=2) as world:
        work = started(world)
        deliveries = send_without_response(world, work, 3)
        leader = log_of(world).leader
        world.forget_producers(3 - leader, kept)
        world.move_leader("t", 0, 3 - leader)
        world.break_connections(leader)
        work.flush()
        assert log_of(world).values() == [b"first", *values(3, size=60)]
        assert offsets(deliveries) == [1, 2, 3]


def test_a_search_does_not_begin_at_an_acknowledged_offset_that_was_truncated() -> None:
    """An unclean election cut the log below the last acknowledged offset; then it grew beyond that (KIP-320)."""
    with World(brokers=2) as world:
        work = started(world)
        for value in values(4):
            work.send("t", value)
            work.flush()
        log = log_of(world)
        world.lose_records("t", 0, 3 - log.leader, 2)
        world.run(work.cluster.refresh(["t"]))
        log.producers.entries.clear()
        (delivery,) = send_without_response(world, work, 1)
        for _ in range(5):
            log.append_values([b"other"])
        restart(world, log.leader, kept=0)
        work.flush()
        assert delivery.result().offset == 2
        assert log.values().count(values(1, size=60)[0]) == 1


def test_one_request_asks_for_all_partitions_of_a_lost_connection() -> None:
    with World() as world:
        world.create_topic("t", partitions=8)
        work = Work(world, "t")
        for partition in range(8):
            work.send("t", b"first", partition=partition)
        work.flush()
        assert not world.made("DescribeProducers")
        world.on("Produce", store_and_drop(world))
        deliveries = [work.send("t", b"v", partition=partition) for partition in range(8)]
        world.pass_time(0.1)
        world.off("Produce")
        restart(world, 1, kept=1)
        work.flush()
        assert offsets(deliveries) == [1] * 8
        assert [log_of(world, partition).values() for partition in range(8)] == [[b"first", b"v"]] * 8
        assert len(world.made("DescribeProducers")) == 1
        assert not world.made("Fetch"), "a batch that a broker remembers need not be searched"


def test_a_broker_that_does_not_know_the_question_is_not_asked() -> None:
    """DescribeProducers came with Kafka 2.8 (KIP-664); the log can be read all the same."""
    with World() as world:

        def without(call: Call) -> Any:
            response = world.serve(call)
            key = protocol.DescribeProducersRequest.api_key
            response.api_keys = [known for known in response.api_keys if known.api_key != key]
            return response

        world.on("ApiVersions", without)
        work = started(world)
        deliveries = send_without_response(world, work, 3)
        restart(world, 1, kept=1)
        work.flush()
        assert log_of(world).values() == [b"first", *values(3, size=60)]
        assert offsets(deliveries) == [1, 2, 3]
        assert not world.made("DescribeProducers")


def test_errors_of_a_leader_that_moves_decide_nothing() -> None:
    with World() as world:
        work = started(world)
        deliveries = send_without_response(world, work, 3)
        codes = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, 3, 0])

        def moving(call: Call) -> Any:
            code = next(codes, 0)
            if not code:
                return None
            kind = protocol.DescribeProducersResponse
            part = kind.PartitionResponse(partition_index=0, error_code=code)
            return kind(topics=[kind.TopicResponse(name="t", partitions=[part])])

        world.on("DescribeProducers", moving)
        restart(world, 1, kept=0)
        work.flush()
        assert offsets(deliveries) == [1, 2, 3]
        assert log_of(world).values() == [b"first", *values(3, size=60)]


def test_a_leader_that_leaves_a_partition_out_of_its_response_is_not_asked_without_pause() -> None:
    with World() as world:
        work = started(world)
        world.on("DescribeProducers", lambda _: protocol.DescribeProducersResponse())
        (delivery,) = send_without_response(world, work, 1)
        world.break_connections(1)
        world.pass_time(10)
        assert not delivery.done()
        assert len(world.made("DescribeProducers")) < 30
        world.off("DescribeProducers")
        work.flush()
        assert delivery.result().offset == 1


def test_a_defect_in_the_search_for_a_batch_is_logged_once_and_retried(
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
