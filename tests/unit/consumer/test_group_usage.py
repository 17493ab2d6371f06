"""Usage of groups: wrong arguments, handlers that return early, streams and poll intervals, metrics."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import kafwire
from kafwire.errors import AuthorizationError, CommitFailedError, ConfigError, KafkaError, PollIntervalError
from kafwire.testing import EmbeddedKafka
from kafwire.types import TopicPartition
from tests.support.group.consumers import PROTOCOLS, GroupWorld

OPTIONS: dict[str, Any] = {"topics": "t", "group_id": "g", "auto_offset_reset": "earliest"}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


@contextmanager
def kafka_with(records: int, partitions: int = 1) -> Iterator[EmbeddedKafka]:
    """A broker with a topic `t`."""
    with EmbeddedKafka(configs={"group.initial.rebalance.delay.ms": "0"}) as kafka:
        kafka.create_topic("t", partitions)
        for partition in range(partitions if records else 0):
            kafka.append("t", [b"%d" % number for number in range(records)], partition=partition)
        yield kafka


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group_id": "g", "pattern": "a("}, "no regular expression"),
        ({"group_id": "g", "pattern": ""}, "a regular expression is needed"),
        ({"group_id": "g", "pattern": 5}, "a regular expression is needed"),
        ({"group_id": "", "pattern": "a"}, "no group that a consumer can be a member of"),
        ({"group_id": "", "topics": "t"}, "no group that a consumer can be a member of"),
    ],
)
def test_arguments_are_refused_before_anything_is_asked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        kafwire.AsyncConsumer("nowhere:1", **options)


def test_a_group_without_a_name_is_for_commits_from_outside() -> None:
    with kafka_with(1) as kafka:
        where = TopicPartition("t", 0)
        with kafwire.Consumer(kafka.bootstrap, assign=[where], group_id="", enable_auto_commit=False) as consumer:
            with pytest.raises(ConfigError, match="no group that a consumer can be a member of"):
                consumer.subscribe("t")
            for arguments in ({}, {"topics": "t", "pattern": "t"}):
                with pytest.raises(ConfigError, match="either topics or pattern is needed"):
                    consumer.subscribe(**arguments)
            with pytest.raises(ConfigError, match="no regular expression"):
                consumer.subscribe(pattern="t[")


@pytest.mark.parametrize("name", ["CONSUMER", "consumer", "CLASSIC", "classic", "auto"])
def test_javas_spelling_of_protocols(name: str) -> None:
    consumer = kafwire.AsyncConsumer.from_config(
        {"bootstrap.servers": "nowhere:1", "group.id": "g", "topics": "t", "group.protocol": name}
    )
    assert consumer._core.config.group_protocol == name.lower()


def test_errors_of_members_travel_between_processes() -> None:
    for error in (CommitFailedError("lost", partitions=(("t", 0),)), PollIntervalError("late")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("name", "api", "operation"),
    [
        ("consumer", "FindCoordinator", "Describe"),
        ("consumer", "ConsumerGroupHeartbeat", "Read"),
        ("classic", "FindCoordinator", "Describe"),
        ("classic", "JoinGroup", "Read"),
    ],
)
def test_a_denied_member_gets_an_error_and_the_next_call_joins(name: str, api: str, operation: str) -> None:
    with kafka_with(3) as kafka:
        kafka.fail_next(api, "GROUP_AUTHORIZATION_FAILED")
        with kafwire.Consumer(kafka.bootstrap, **OPTIONS | {"group_protocol": name}) as consumer:
            with pytest.raises(AuthorizationError, match=f"permits {operation} on Group 'g'"):
                consumer.poll(30.0)
            assert [len(batch) for batch in consumer.poll(30.0)] == [3]


@pytest.mark.parametrize("what", [["t"], "t", 5, {"t": 1}, {5: 1}, {TopicPartition("t", 0): "1"}])
def test_arguments_that_commit_refuses(what: Any) -> None:
    with kafka_with(1) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:
        assert consumer.poll(30.0)
        with pytest.raises(ConfigError, match="TopicPartition|a batch, or offsets|a number from 0"):
            consumer.commit(what)


# --- handlers -------------------------------------------------------------------------------------------------------


def test_a_handler_may_close_the_consumer_and_gets_each_partition_once(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            reported: list[TopicPartition] = []

            async def revoked(partitions: list[TopicPartition]) -> None:
                reported.extend(partitions)
                await member.consumer.close()

            member = group.member(**protocol, on_assigned=lambda _: None, on_revoked=revoked)
            await member.start()
            await group.balanced([member], 2)
            (other,) = await group.add(**protocol)
            await group.balanced([other], 2)
            await member.leave()
            assert sorted(reported) == [TopicPartition("t", 0), TopicPartition("t", 1)]

        group.world.run(main())


@pytest.mark.parametrize("call", ["close", "unsubscribe"])
def test_a_handler_may_make_the_call_that_runs_it(call: str) -> None:
    with kafka_with(1) as kafka:
        reported: list[list[TopicPartition]] = []

        def revoked(partitions: list[TopicPartition]) -> None:
            reported.append(partitions)
            getattr(consumer, call)()

        with kafwire.Consumer(kafka.bootstrap, **OPTIONS, on_revoked=revoked) as consumer:
            assert consumer.poll(30.0)
            getattr(consumer, call)()
        assert reported == [[TopicPartition("t", 0)]]


def test_a_partition_that_a_handler_pauses_stays_paused(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            first, second = TopicPartition("t", 0), TopicPartition("t", 1)

            async def assigned(partitions: list[TopicPartition]) -> None:
                assert member.consumer.paused == set()
                await member.consumer.pause(*partitions)
                await member.consumer.resume(second)
                assert member.consumer.paused == {first}

            member = group.member(**protocol, on_assigned=assigned)
            async with group.producing(20, pause_s=0.0):
                pass
            await member.start()
            await group.balanced([member], 2)
            await asyncio.sleep(60.0)
            assert set(group.seen.by_partition) == {second}
            assert member.consumer.paused == {first}
            await member.consumer.resume(first)
            await group.until(lambda: group.seen.total() == 20)

        group.world.run(main())


def test_an_unreported_partition_is_not_revoked(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            reported: list[list[TopicPartition]] = []
            handlers: dict[str, Any] = {"on_assigned": reported.append, "on_revoked": reported.append}
            member = group.member(**protocol, **handlers)
            await member.consumer.start()
            await group.balanced([member], 2)
            await member.consumer.close()  # before any read
            assert reported == []

        group.world.run(main())


def test_a_partition_lost_when_the_consumer_is_closed_is_reported(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            lost: list[TopicPartition] = []
            revoked: list[TopicPartition] = []
            (member,) = await group.add(**protocol, on_lost=lost.extend, on_revoked=revoked.extend)
            await group.balanced([member], 2)
            await member._stop_reading()
            group.world.link(1).is_refusing = True  # until the group goes on without it
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            await asyncio.sleep(20.0)
            assert (await member.consumer.metrics())["group"]["lost_partitions"] == 2
            await group.balanced([member], 2)
            await member.consumer.close()
            assert len(lost) == len(revoked) == 2

        group.world.run(main())


def test_assigning_partitions_by_hand_gives_up_those_of_the_group(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            revoked: list[TopicPartition] = []
            (member,) = await group.add(**protocol, on_revoked=revoked.extend)
            await group.balanced([member], 2)
            await member._stop_reading()
            await member.consumer.assign([TopicPartition("t", 0)])
            assert len(revoked) == 2

        group.world.run(main())


# --- streams --------------------------------------------------------------------------------------------------------


def test_complete_is_for_explicit_streams_and_delivered_records() -> None:
    with kafka_with(3) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:
        stream = next(consumer.partitions())
        with pytest.raises(KafkaError, match="explicit=True"):
            stream.complete(0, 1)
        stream.close()
        stream = consumer.partition_stream(TopicPartition("t", 0), explicit=True)
        assert next(stream).next_offset == 3
        with pytest.raises(ValueError, match="cannot end before it begins"):
            stream.complete(2, 1)
        stream.complete(5, 9)
        stream.complete(0, 9)
        stream.commit()
        assert kafka.committed("g") == {("t", 0): 3}


def test_another_stream_does_not_hide_incomplete_records_of_the_first() -> None:
    with kafka_with(10) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS, enable_auto_commit=False) as consumer:
        first = next(consumer.partitions(explicit=True))
        batch = next(first)
        first.complete(5, 10)
        first.close()
        kafka.append("t", [b"more"])
        second = consumer.partition_stream(TopicPartition("t", 0), explicit=True)
        assert next(second).base_offset == 10
        second.complete(10, 11)
        second.commit()
        assert kafka.committed("g").get(("t", 0), 0) == 0
        first.complete(batch.base_offset, 5)
        second.commit()
        assert kafka.committed("g") == {("t", 0): 11}


def test_batches_after_an_explicit_stream_count_as_ever() -> None:
    with kafka_with(10) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS, enable_auto_commit=False) as consumer:
        stream = next(consumer.partitions(explicit=True))
        assert next(stream).next_offset == 10
        stream.complete(0, 4)
        stream.close()
        kafka.append("t", [b"more"])
        assert [batch.next_offset for batch in consumer.batches(timeout=1.0)] == [11]
        consumer.commit()
        assert kafka.committed("g") == {("t", 0): 4}
        stream.complete(4, 10)
        consumer.commit()
        assert kafka.committed("g") == {("t", 0): 11}
        kafka.append("t", [b"more"])
        assert [batch.next_offset for batch in consumer.batches(timeout=1.0)] == [12]
        consumer.commit()
        assert kafka.committed("g") == {("t", 0): 12}


@pytest.mark.parametrize("explicit", [False, True])
def test_a_stream_commits_the_batch_in_hand(explicit: bool) -> None:
    with kafka_with(3) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:
        stream = next(consumer.partitions(explicit=explicit))
        batch = next(stream)
        consumer.commit()
        assert kafka.committed("g") == {("t", 0): 0}
        stream.commit()
        assert kafka.committed("g") == {("t", 0): 0 if explicit else 3}
        stream.commit(batch)
        assert kafka.committed("g") == {("t", 0): 3}


def test_commit_in_a_handler_leaves_out_records_in_hand() -> None:
    with kafka_with(3) as kafka:
        consumer = kafwire.Consumer(
            kafka.bootstrap, **OPTIONS, enable_auto_commit=False, on_revoked=lambda _: consumer.commit()
        )
        with consumer:
            assert len(consumer.poll(10)) == 1
        assert kafka.committed("g") == {("t", 0): 0}


def test_a_stream_without_a_group_names_the_missing_option() -> None:
    with (
        kafka_with(1) as kafka,
        kafwire.Consumer(kafka.bootstrap, topics="t", start="earliest") as consumer,
        pytest.raises(ConfigError, match="group_id"),
    ):
        next(consumer.partitions()).commit()


def test_a_handler_that_returns_early_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with kafka_with(3) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:
        returned = threading.Event()

        def handle(stream: kafwire.PartitionStream) -> None:
            next(stream)
            returned.set()

        def stop() -> None:
            returned.wait(30)
            consumer.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        consumer.for_each_partition(handle)
        stopper.join(30)
    assert "handler of t-0 returned before its stream ended" in caplog.text


def test_a_handler_that_returns_after_a_stop_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with kafka_with(3) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:

        def handle(stream: kafwire.PartitionStream) -> None:
            for _ in stream:
                consumer.stop()

        consumer.for_each_partition(handle)
    assert "returned before" not in caplog.text


def test_partitions_that_wait_for_a_thread_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with kafka_with(1, partitions=2) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer:

        def handle(stream: kafwire.PartitionStream) -> None:
            for _ in stream:
                while "waits for a thread" not in caplog.text:
                    pass
                consumer.stop()

        consumer.for_each_partition(handle, threads=1)


@pytest.mark.parametrize("automatic", [True, False])
def test_partitions_that_wait_for_a_thread_do_not_hold_up_a_rebalance(automatic: bool) -> None:
    options = OPTIONS | {"enable_auto_commit": automatic, "group_protocol": "classic", "heartbeat_interval_ms": 100}
    options["partition_assignment_strategy"] = ["cooperative-sticky"]
    revoked: list[TopicPartition] = []
    handled: list[int] = []
    with (
        kafka_with(1, partitions=4) as kafka,
        kafwire.Consumer(kafka.bootstrap, **options, on_revoked=revoked.extend) as consumer,
    ):
        begun = threading.Event()

        def handle(stream: kafwire.PartitionStream) -> None:
            handled.append(stream.partition)
            begun.set()
            release.wait(30)  # one that takes long
            for _ in stream:
                pass

        release = threading.Event()
        reader = threading.Thread(target=consumer.for_each_partition, args=(handle,), kwargs={"threads": 1})
        reader.start()
        assert begun.wait(30)
        with kafwire.Consumer(kafka.bootstrap, **options) as other:
            assert other.poll(30.0)
            given_up = {where.partition for where in revoked}
            assert len(given_up) == 2
            consumer.stop()
            release.set()
            reader.join(30)
        assert handled[0] == 0
        assert not given_up.intersection(handled[1:])


@pytest.mark.parametrize(
    ("handler", "threads", "reason"), [(None, 1, "a function"), (print, 0, "threads=0"), (print, "2", "threads='2'")]
)
def test_arguments_of_handlers(handler: Any, threads: Any, reason: str) -> None:
    with (
        kafka_with(0) as kafka,
        kafwire.Consumer(kafka.bootstrap, **OPTIONS) as consumer,
        pytest.raises(ConfigError, match=reason),
    ):
        consumer.for_each_partition(handler, threads=threads)


# --- records one by one -----------------------------------------------------------------------------------------------


def test_records_of_a_lost_partition_are_not_handed_out_from_the_batch_in_hand(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            member = group.member(**protocol, auto_commit_interval_ms=600_000)
            records = aiter(member.consumer)
            assert [(await anext(records)).offset for _ in range(5)] == [0, 1, 2, 3, 4]
            await member.consumer.commit({TopicPartition("t", 0): 2})
            group.world.link(1).is_refusing = True  # until the group goes on without it
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            await asyncio.sleep(20.0)
            assert (await member.consumer.metrics())["group"]["lost_partitions"] == 1
            assert (await anext(records)).offset == 2

        group.world.run(main())


# --- poll intervals -------------------------------------------------------------------------------------------------


def test_reading_streams_counts_as_a_poll_of_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    with kafka_with(3) as kafka, kafwire.Consumer(kafka.bootstrap, **OPTIONS, max_poll_interval_ms=600_000) as consumer:
        reported: list[bool] = []
        membership = consumer._core.membership
        assert membership is not None

        def reads(_: object, *, begun: bool) -> None:
            reported.append(begun)

        monkeypatch.setattr(membership, "reads", reads)
        next(next(consumer.partitions()))
        assert reported == [True, False]


def test_streams_that_are_read_keep_a_member_and_one_without_partitions_stays(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            reader, spare = (group.member(**protocol, max_poll_interval_ms=10_000) for _ in range(2))

            async def read(member: Any) -> None:
                async for stream in member.consumer.partitions():
                    async for batch in stream:
                        group.seen.processed(member.name, TopicPartition("t", 0), [r.offset for r in batch])

            await reader.consumer.start()
            tasks = [asyncio.ensure_future(read(reader))]
            await group.balanced([reader], 1)
            await spare.consumer.start()
            tasks.append(asyncio.ensure_future(read(spare)))
            async with group.producing(20, pause_s=3.0):
                pass
            await asyncio.sleep(60.0)
            await group.until(lambda: group.seen.total() == 20)
            reader.consumer.stop()
            await tasks[0]
            await reader.leave()
            await group.balanced([spare], 1)
            async with group.producing(3, pause_s=1.0):
                pass
            await group.until(lambda: group.seen.total() == 23)
            spare.consumer.stop()
            await asyncio.gather(*tasks)

        group.world.run(main())


def test_partitions_come_again_after_a_poll_interval(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            member = group.member(**protocol, max_poll_interval_ms=10_000)
            await member.consumer.start()
            streams = member.consumer.partitions()
            first = await anext(streams)
            with pytest.raises(PollIntervalError):
                await anext(streams)  # and the first one has no reader
            assert first.has_ended
            async for stream in member.consumer.partitions():
                assert not stream.has_ended
                break
            member.consumer.stop()

        group.world.run(main())


# --- positions and commits -------------------------------------------------------------------------------------------


def test_the_position_of_a_new_partition_is_waited_for(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(5, pause_s=0.0):
                pass
            member = group.member(**protocol, start="latest")
            await member.consumer.start()
            where = TopicPartition("t", 0)
            for _ in range(100_000):
                if where in member.consumer.assignment:
                    break
                await asyncio.sleep(0.0001)
            assert await member.consumer.position(where) == 5

        group.world.run(main())


def test_metrics_and_text_of_a_member(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first = group.member(**protocol)
            assert repr(first.consumer) == "<AsyncConsumer of 0 partitions for group 'g'>"
            await first.start()
            await group.balanced([first], 4)
            async with group.producing(4, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == 4)
            await asyncio.sleep(60.0)
            name = protocol["group_protocol"]
            assert (
                repr(first.consumer)
                == f"<AsyncConsumer of 4 partitions, member of group 'g' ({name} protocol, stable)>"
            )
            metrics = await first.consumer.metrics()
            reported = metrics["group"]
            metadata = first.consumer.group_metadata()
            assert reported["state"] == "stable"
            assert reported["protocol"] == name
            assert (reported["member_id"], reported["generation"]) == (metadata.member_id, metadata.generation_id)
            assert reported["heartbeats"] >= 10
            assert reported["rebalances"] >= 1
            assert reported["last_rebalance_ms"] >= 0
            assert reported["rebalancing_ms"] is None
            assert reported["lost_partitions"] == 0
            assert sum(each["uncommitted"] for each in metrics["partitions"].values()) == 0
            assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics
            before = reported["rebalances"]
            (second,) = await group.add(**protocol)
            await group.balanced([first, second], 4)
            await asyncio.sleep(10.0)
            assert (await first.consumer.metrics())["group"]["rebalances"] > before
            await first.consumer.assign([])
            assert (await first.consumer.metrics())["group"] is None

        group.world.run(main())


def test_uncommitted_offsets_are_counted() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(5, pause_s=0.0):
                pass
            (member,) = await group.add(group_protocol="consumer", enable_auto_commit=False)
            await group.until(lambda: group.seen.total() == 5)
            where = TopicPartition("t", 0)
            assert (await member.consumer.metrics())["partitions"]["t-0"]["uncommitted"] is None
            await member.consumer.commit({where: 2})
            assert (await member.consumer.metrics())["partitions"]["t-0"]["uncommitted"] == 3

        group.world.run(main())


def test_lost_partitions_are_counted(protocol: dict[str, Any]) -> None:
    with GroupWorld(brokers=1) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol)
            await group.balanced([member], 4)
            group.world.link(1).is_refusing = True
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            await asyncio.sleep(10.0)
            await group.balanced([member], 4)
            assert (await member.consumer.metrics())["group"]["lost_partitions"] == 4

        group.world.run(main())


@pytest.mark.parametrize("way", ["poll", "records"])
def test_commit_refuses_records_in_hand_of_a_lost_partition(way: str, protocol: dict[str, Any]) -> None:
    """A commit that leaves it out in silence would let its user believe that it is committed."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with kafwire.AsyncProducer(group.world.bootstrap, engine=group.world.engine) as producer:
                for partition in (0, 1):
                    await (await producer.send("t", b"x", partition=partition))
            member = group.member(**protocol, enable_auto_commit=False)
            consumer = member.consumer
            async with consumer:
                read: set[int | None] = set()
                records = aiter(consumer)
                while len(read) < 2:
                    if way == "poll":
                        read |= {batch.partition for batch in await consumer.poll(10)}
                    else:
                        record = await anext(records)
                        read.add(record.partition)
                        last = record.partition
                lost = 0 if way == "poll" else last
                membership = consumer._core.membership
                assert membership is not None
                consumer._engine.start(membership.lose, [("t", lost)])
                await asyncio.sleep(0.01)
                with pytest.raises(CommitFailedError) as raised:
                    await consumer.commit()
                assert raised.value.partitions == (("t", lost),)
                if way == "poll":
                    assert group.committed() == {("t", 1): 1}, "the others are committed"
                await consumer.poll(0)
                await consumer.commit()

        group.world.run(main())
