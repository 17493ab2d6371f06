"""The promises of a consumer when something goes wrong: both flavours in the simulated world, on an engine that may
lag."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import Any

import pytest

from kafwire.aio.consumer import AsyncConsumer
from kafwire.consumer.fetch.cursor_lookup import cursor_of
from kafwire.consumer.offsets.commits import COMMIT_AGAIN_MS
from kafwire.errors import CorruptBatchError, KafkaError
from kafwire.sync.consumer import Consumer
from kafwire.types import TopicPartition
from tests.support.broker.damaged_log import DELTA, PAYLOAD, damage
from tests.support.group.committing_consumer import committed, group
from tests.support.group.lagging_consumer import Lagging
from tests.support.simulated.consumer import Consuming, fill, log_of, write
from tests.support.simulated.world import World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class LateEngine:
    """The world's engine, which looks at what it is asked for `lag_s` later."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.lag_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.engine, name)

    def start(self, function: Any, *args: Any) -> bool:
        self._world.loop.call_later(self.lag_s, function, *args)
        return True


def blocking(world: World, **options: Any) -> Consumer:
    """A consumer of "t" that has had time to start."""
    given = {"topics": "t", "start": "earliest", "chunk_bytes": 1, **options}
    made = Consumer(world.bootstrap, engine=world.engine, **given)
    world.pass_time(1.5)
    return made


def awaited(world: World, engine: Any = None, **options: Any) -> AsyncConsumer:
    """An `AsyncConsumer` like the consumer that `blocking` makes."""
    engine = world.engine if engine is None else engine
    made = AsyncConsumer(world.bootstrap, topics="t", start="earliest", engine=engine, chunk_bytes=1, **options)
    world.run(made.start())
    world.pass_time(1.5)
    return made


def polled(consumer: Consumer, world: World, turns: int = 20) -> tuple[dict[int, list[int]], list[KafkaError]]:
    seen: dict[int, list[int]] = {}
    errors: list[KafkaError] = []
    for _ in range(turns):
        try:
            for batch in consumer.poll(0):
                seen.setdefault(batch.partition or 0, []).extend(record.offset for record in batch)
        except KafkaError as error:
            errors.append(error)
        world.pass_time(0.1)
    return seen, errors


def test_poll_loses_nothing_to_another_partitions_error() -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=8)
        damage(world, PAYLOAD, b"\x7f", batch=1, number=1)
        consumer = blocking(world)
        seen, errors = polled(consumer, world)
        consumer.close()
        assert errors
        assert seen == {0: list(range(24)), 1: [0, 1, 2]}


def test_an_error_is_no_end_of_the_records() -> None:
    with World() as world:
        fill(world, "t", batches=4)
        damage(world, PAYLOAD, b"\x7f", batch=1)
        consumer = blocking(world)
        records = iter(consumer)
        assert [next(records).offset for _ in range(3)] == [0, 1, 2]
        with pytest.raises(CorruptBatchError):
            next(records)
        consumer.seek(T0, 6)
        world.pass_time(1.5)
        try:
            assert next(iter(consumer), None) is not None
        finally:
            consumer.close()


def test_a_large_bad_batch_is_left_by_a_seek() -> None:
    with World() as world:
        fill(world, "t", batches=3, records=1, size=400_000)
        damage(world, PAYLOAD + 100, b"\x7f", batch=0)
        consumer = awaited(world)

        async def read() -> list[int]:
            with pytest.raises(CorruptBatchError):
                await consumer.poll(1)
            await consumer.seek(T0, 1)
            batches = await consumer.poll(1)
            return [record.offset for batch in batches for record in batch]

        try:
            assert world.run(read())[:1] == [1]
        finally:
            world.run(consumer.close())


def test_a_cancelled_poll_loses_no_rest_of_a_batch() -> None:
    with World() as world:
        fill(world, "t", batches=1, records=10)
        engine = LateEngine(world)
        consumer = awaited(world, engine)

        async def read() -> list[int]:
            seen = []
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 2:
                    break
            engine.lag_s = 0.01  # as when another thread has the GIL
            poll = asyncio.create_task(consumer.poll(1))
            await asyncio.sleep(0)
            poll.cancel()
            await asyncio.wait([poll])
            engine.lag_s = 0.0
            for batch in await consumer.poll(1):
                seen += [record.offset for record in batch]
            return seen

        try:
            assert world.run(read()) == list(range(10))
        finally:
            world.run(consumer.close())


def test_pause_does_not_count_the_record_in_hand() -> None:
    with World() as world:
        fill(world, "t", batches=2, records=5)
        consumer = blocking(world, topics=None, assign=[T0], group_id="g")
        for record in consumer:
            if record.offset == 2:
                break  # it could not be processed
        consumer.pause(T0)
        consumer.close()
        assert committed(world).get(0, 0) <= 2


def test_a_stream_that_was_left_does_not_count_when_others_read_on() -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=2)
        consuming = group(world, 2)
        reader = consuming.stream(1)
        consuming.idle()
        assert consuming.take(reader) is not None  # and its user fails
        consuming.claims[TopicPartition("t", 1)].close()
        consuming.pause(1)
        consuming.take()
        consuming.take()
        consuming.close()
        assert committed(world).get(1, 0) == 0


def test_offsets_of_a_recreated_topic_are_not_committed_for_the_new_one() -> None:
    with World() as world:
        rows = fill(world, "t")
        consuming = group(world, metadata_max_age_ms=1000, auto_commit_interval_ms=3_600_000)
        consuming.until_read(rows)
        consuming.reader.settle()
        fill(world, "t", batches=100)
        consuming.idle(5)
        with pytest.raises(KafkaError, match="recreated"):
            consuming.take()
        consuming.close()
        assert committed(world) == {}


def test_a_deleted_topic_keeps_no_other_from_being_committed() -> None:
    with World() as world:
        rows = fill(world, "t") | fill(world, "u")
        consuming = Consuming(
            world, assign=[("t", 0), ("u", 0)], group_id="g", auto_commit_interval_ms=2_000, metadata_max_age_ms=500
        )
        consuming.until_read(rows)
        world.delete_topic("u")
        consuming.idle(0.6)
        consuming.reader.settle()
        consuming.idle(60)
        assert {where: kept.offset for where, kept in world.committed["g"].items()} == {("t", 0): 12}


def test_a_corrupt_log_is_an_error() -> None:
    with World() as world:
        rows = fill(world, "t")
        consuming = Consuming(world, topics="t")
        consuming.until_read(rows)
        log_of(world).error = 2
        with pytest.raises(KafkaError):
            for _ in range(300):
                consuming.take()
                consuming.idle(1)


def test_a_dropped_consumer_reports_no_more() -> None:
    reports: list[Any] = []
    with World() as world:
        fill(world, "t")
        consuming = Consuming(world, topics="t", metrics_hook=reports.append, metrics_interval_ms=1000)
        consuming.idle(3)
        world.loop.call_soon(consuming.core.abandon)
        consuming.idle(3)
        assert consuming.core.closed
        before = len(reports)
        consuming.idle(20)
        assert len(reports) == before


@pytest.mark.parametrize("version", [11, 18])
def test_a_bad_last_offset_delta_does_not_begin_again(version: int) -> None:
    with World() as world:
        world.nodes[1].versions["Fetch"] = (4, version)
        fill(world, "t", batches=4)
        damage(world, DELTA, struct.pack(">i", 1 << 20), batch=3)
        with Consuming(world, topics="t", auto_offset_reset="earliest") as consuming:
            consuming.idle(2)
            assert consuming.fetcher.offset_reset.count <= 2, "the head was believed before its checksum"
            assert not consuming.fetcher.validation.truncations, "nothing was cut"


@pytest.mark.parametrize("trouble", ["none", "connection", "leader"])
def test_a_waiting_reader_wakes_for_records_that_the_engine_did_not_see(trouble: str) -> None:
    with World(brokers=2) as world:
        lagging = Lagging(world)
        heard: list[bool] = []

        async def wait() -> None:
            heard.append(await lagging.consuming.core.readable(None, None))

        task = world.loop.create_task(wait())
        world.pass_time(0.001)
        lagging.arrive()
        if trouble == "connection":
            world.break_connections(world.topics["t"].partitions[0].leader)
        elif trouble == "leader":
            lagging.engine(lambda: lagging.consuming.fetcher.brokers.move([lagging.cursor]))
        lagging.consuming.idle(30)
        assert heard == [True]
        assert task.done()
        lagging.consuming.close()


def test_one_bad_topic_does_not_halt_the_reset_of_others() -> None:
    with World() as world:
        fill(world, "t", batches=8)
        fill(world, "u", batches=8)
        consuming = Consuming(
            world, topics=["t", "u"], auto_offset_reset="earliest", start={T0: 0, TopicPartition("u", 0): 0}
        )
        consuming.idle()
        consuming.drain()

        def refuse(call: Any) -> Any:
            response = world.serve(call)
            for topic in response.topics:
                for part in topic.partitions:
                    if topic.name == "u":
                        part.error_code = 29
            return response

        world.on("ListOffsets", refuse)

        async def out() -> None:
            for where in (T0, TopicPartition("u", 0)):
                consuming.fetcher.offset_reset.out_of_range(
                    cursor_of(consuming.core.fetcher.cursors, where), "somebody"
                )

        consuming.rows.clear()
        world.run(out())
        consuming.idle(5)
        for _ in range(20):
            with contextlib.suppress(KafkaError):
                consuming.take()
        assert not consuming.cursor("t").halted


def test_committed_offsets_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers forget what a group without members has not committed for a week."""
    assert 3 * COMMIT_AGAIN_MS < 7 * 86_400 * 1000, "one may fail"
    monkeypatch.setattr("kafwire.consumer.offsets.commits.COMMIT_AGAIN_MS", 1_000_000)
    with World() as world:
        rows = fill(world, "t")
        consuming = group(world)
        consuming.until_read(rows)
        consuming.idle(6)
        consuming.drain()
        consuming.idle(20)
        assert committed(world) == {0: 12}
        world.committed.clear()
        consuming.idle(900)
        assert committed(world) == {}, "not again and again"
        consuming.idle(200)
        assert committed(world) == {0: 12}


def test_an_arrow_stream_begins_with_the_rest_in_hand() -> None:
    with World() as world:
        fill(world, "t", batches=2, records=5)
        consumer = blocking(world)
        records = iter(consumer)
        assert [next(records).offset for _ in range(3)] == [0, 1, 2]
        consumer.arrow_stream(timeout=0.0)
        try:
            assert consumer._reading.hand.rest() is None
        finally:
            consumer.close()


def test_a_stream_that_never_began_lets_go() -> None:
    with World() as world:
        fill(world, "t")
        consumer = blocking(world)
        assert consumer.poll(0) == [], "it has asked for records"
        stream: Any = consumer.partition_stream(T0)
        stream.close()
        try:
            assert polled(consumer, world) == ({0: list(range(12))}, [])
        finally:
            consumer.close()


def test_a_seek_drops_the_batch_that_is_being_decoded() -> None:
    """`_decoding` outlives a cancelled read; a seek must not be followed by what was read before it."""
    with World() as world:
        fill(world, "t", batches=3, records=1, size=400_000)
        consumer = awaited(world)

        async def read() -> list[int]:
            gate = asyncio.get_running_loop().create_future()
            real = world.loop.run_in_executor

            def slow(executor: Any, func: Any, *args: Any) -> Any:
                async def later() -> Any:
                    await gate
                    return func(*args)

                return asyncio.ensure_future(later())

            world.loop.run_in_executor = slow  # type: ignore[method-assign]
            poll = asyncio.create_task(consumer.poll(1))
            await asyncio.sleep(0.1)
            poll.cancel()
            await asyncio.wait([poll])
            gate.set_result(None)
            await asyncio.sleep(0.1)
            world.loop.run_in_executor = real  # type: ignore[method-assign]
            await consumer.seek(T0, 2)
            await asyncio.sleep(1)
            return [record.offset for batch in await consumer.poll(1) for record in batch]

        try:
            assert world.run(read()) == [2]
        finally:
            world.run(consumer.close())


def test_a_cancelled_stream_loses_nothing() -> None:
    with World() as world:
        fill(world, "t", batches=3, records=1, size=400_000)
        consumer = awaited(world)

        async def read() -> list[int]:
            gate = asyncio.get_running_loop().create_future()
            real = world.loop.run_in_executor

            def slow(executor: Any, func: Any, *args: Any) -> Any:
                async def later() -> Any:
                    await gate
                    return func(*args)

                return asyncio.ensure_future(later())

            async def first() -> int:
                async for batch in consumer.partition_stream(T0):
                    return batch.base_offset
                return -1

            world.loop.run_in_executor = slow  # type: ignore[method-assign]
            task = asyncio.create_task(first())
            await asyncio.sleep(0.1)
            task.cancel()
            gate.set_result(None)
            await asyncio.wait([task])
            await asyncio.sleep(0.1)
            world.loop.run_in_executor = real  # type: ignore[method-assign]
            await asyncio.sleep(1)
            return [record.offset for batch in await consumer.poll(1) for record in batch]

        try:
            assert world.run(read())[:1] == [0]
        finally:
            world.run(consumer.close())


def test_a_finished_batch_in_hand_does_not_undo_a_truncation() -> None:
    with World(brokers=2) as world:
        fill(world, "t", batches=4, replicas=2)
        consumer = blocking(world, auto_offset_reset="earliest")
        records = iter(consumer)
        for _ in range(12):
            next(records)
        world.lose_records("t", 0, 2, 6)
        write(world, "t", batches=1, records=20)
        world.pass_time(5)
        assert consumer._core.fetcher.queue.position(0) == 6
        seen = [record.offset for batch in consumer.poll(0) for record in batch]
        world.pass_time(5)
        seen += [record.offset for batch in consumer.poll(0) for record in batch]
        consumer.close()
        assert seen[:1] == [6]


def test_a_partition_without_leader_keeps_no_other_from_its_reset() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=2, batches=4)
        consuming = Consuming(world, topics="t", auto_offset_reset="earliest")
        consuming.idle()
        consuming.drain()
        world.topics["t"].partitions[1].leader = -1
        consuming.rows.clear()

        async def out() -> None:
            await consuming.cluster.refresh(["t"])
            for number in range(2):
                consuming.fetcher.offset_reset.out_of_range(consuming.cursor("t", number), "somebody")

        world.run(out())
        consuming.until(lambda: len(consuming.rows.get(("t", 0), [])) == 12, 30)


def test_partitions_may_come_from_a_generator() -> None:
    with World() as world:
        fill(world, "t", partitions=2)
        consumer = blocking(world)
        records = iter(consumer)
        next(records)
        sought = consumer.seek_to_timestamp("earliest", (where for where in (T0, T1)))
        consumer.close()
        assert set(sought) == {T0, T1}


def test_processed_records_of_a_dropped_partition_are_committed() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        consuming = group(world, 2)
        consuming.until_read(rows)
        consuming.reader.settle()
        world.run(consuming.core.assignment.assign([T0]))
        consuming.close()
        assert committed(world) == {0: 12, 1: 12}


def test_assigning_again_mends_a_recreated_topic() -> None:
    """The error advises to do so."""
    with World() as world:
        rows = fill(world, "t")
        consuming = Consuming(world, topics="t", metadata_max_age_ms=1000)
        consuming.until_read(rows)
        fill(world, "t")
        consuming.idle(5)
        with pytest.raises(KafkaError, match="assign it again"):
            consuming.take()
        world.run(consuming.core.assignment.assign([T0]))
        consuming.idle(5)
        assert consuming.take() is not None


def test_a_new_stream_does_not_count_the_records_of_another_reader() -> None:
    with World() as world:
        fill(world, "t", batches=2)
        consuming = group(world)
        consuming.idle()
        assert consuming.take() is not None  # in hand, not processed
        consuming.stream(0).settle()  # as the first step of a stream
        consuming.close()
        assert committed(world).get(0, 0) == 0


def test_a_failed_partition_raises_without_growing() -> None:
    with World() as world:
        fill(world, "t")
        consuming = Consuming(world, topics="t")
        consuming.idle()
        consuming.drain()
        log_of(world).error = 29
        log_of(world).notify(-1)
        consuming.idle()
        depths = []
        for _ in range(50):
            with pytest.raises(KafkaError) as raised:
                consuming.take()
            depths.append(len(raised.traceback))
        assert depths[-1] <= depths[0] + 2


def test_a_commit_waits_until_the_engine_has_seen_all_of_it() -> None:
    """One partition is as far as its reader, the other is not: the epoch of its records is not known before."""
    with World() as world:
        rows = fill(world, "t", partitions=2)
        consuming = group(world, 2, enable_auto_commit=False)
        consuming.until_read(rows)
        world.pass_time(0.1)
        world.engine_lag_s = lambda: 0.2
        write(world, "t", records=3)
        consuming.until(lambda: consuming.queue.queued(0)[0], reads=False)
        consuming.drain()
        consuming.reader.settle()
        assert [consuming.cursor(number=number).position for number in (0, 1)] == [12, 12]
        world.run(consuming.core.commits.commit(None))
        assert consuming.cursor().position == 15
        assert committed(world) == {0: 15, 1: 12}
        [call] = world.made("OffsetCommit")
        epochs = {part.partition_index: part.committed_leader_epoch for part in call.message.topics[0].partitions}
        assert epochs == {0: 0, 1: 0}
        consuming.close()
