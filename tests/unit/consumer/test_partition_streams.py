"""Partitions as streams: they begin when assigned, and end when revoked or lost, or when the consumer stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

import kafwire
import kafwire.testing
from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.consumer.group.assignment import Assignment
from kafwire.errors import CommitFailedError, KafkaError
from kafwire.types import TopicPartition
from tests.support.group.consumers import PROTOCOLS, GroupWorld, Member

RECORDS = 200
Handle = Callable[[AsyncPartitionStream], Awaitable[None]]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


async def each_stream(member: Member, handle: Handle, *, explicit: bool = False) -> None:
    """A handler's task for each stream, until the consumer stops."""
    await member.consumer.start()
    async with asyncio.TaskGroup() as tasks:
        async for stream in member.consumer.partitions(explicit=explicit):
            tasks.create_task(handle(stream))  # type: ignore[arg-type]


def taking(group: GroupWorld, name: str, work_s: float = 0.0) -> Handle:
    """A handler that notes what it gets."""

    async def handle(stream: AsyncPartitionStream) -> None:
        async for batch in stream:
            offsets = [record.offset for record in batch]
            await asyncio.sleep(work_s)
            group.seen.processed(name, TopicPartition(stream.topic, stream.partition), offsets)

    return handle


def test_streams_follow_the_group_and_each_record_is_processed_once(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=6) as group:

        async def main() -> None:
            first, second = group.member(**protocol), group.member(**protocol)
            async with group.producing(2 * RECORDS, pause_s=0.1):
                one = asyncio.ensure_future(each_stream(first, taking(group, "one")))
                await group.balanced([first], 6)
                other = asyncio.ensure_future(each_stream(second, taking(group, "other")))
                await group.balanced([first, second], 6)
                first.consumer.stop()
                await one
                await first.leave()
                await group.balanced([second], 6)
            await group.until(lambda: group.seen.total() == 2 * RECORDS)
            second.consumer.stop()
            await other

        group.world.run(main())
        assert group.seen.repeated() == 0
        assert {name for seen in group.seen.by_partition.values() for name, _ in seen} == {"one", "other"}


def test_a_revoked_stream_ends_after_the_batch_in_hand(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.001):
                pass
            slow, quick = group.member(**protocol), group.member(**protocol)
            one = asyncio.ensure_future(each_stream(slow, taking(group, "slow", work_s=20.0)))
            await asyncio.sleep(5.0)
            other = asyncio.ensure_future(each_stream(quick, taking(group, "quick")))
            await group.until(lambda: group.seen.total() == RECORDS)
            for member, task in ((slow, one), (quick, other)):
                member.consumer.stop()
                await task

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_a_lost_stream_ends_and_its_commits_are_refused(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:
        ended: list[AsyncPartitionStream] = []

        async def handle(stream: AsyncPartitionStream) -> None:
            async for _ in stream:
                pass
            ended.append(stream)
            if stream.is_lost:
                with pytest.raises(CommitFailedError):
                    await stream.commit()

        async def main() -> None:
            member = group.member(**protocol)
            task = asyncio.ensure_future(each_stream(member, handle))
            await group.balanced([member], 1)
            group.world.link(1).is_refusing = True
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            await group.until(lambda: bool(ended))
            await group.balanced([member], 1)  # and it comes back, as another stream
            member.consumer.stop()
            await task

        group.world.run(main())
        assert [stream.is_lost for stream in ended] == [True, False]


def test_records_are_completed_in_any_order_and_commits_stop_at_the_gap() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            member = group.member(group_protocol="consumer", auto_commit_interval_ms=100)
            streams: list[AsyncPartitionStream] = []
            handed: list[int] = []

            async def handle(stream: AsyncPartitionStream) -> None:
                streams.append(stream)
                async for batch in stream:
                    handed.extend(record.offset for record in batch)

            task = asyncio.ensure_future(each_stream(member, handle, explicit=True))
            await group.until(lambda: len(handed) == 10)
            (stream,) = streams
            for offset in (1, 2, 5, 9):
                stream.complete(offset, offset + 1)
            await asyncio.sleep(1.0)
            assert group.committed().get(("t", 0), 0) == 0
            stream.complete(0, 1)
            await stream.commit()
            assert group.committed() == {("t", 0): 3}
            stream.complete(3, 9)
            await asyncio.sleep(1.0)
            assert group.committed() == {("t", 0): 10}
            member.consumer.stop()
            await task

        group.world.run(main())


def test_a_gap_stops_the_partition_and_its_record_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            member = group.member(group_protocol="consumer", max_uncommitted=5)
            handed: list[int] = []
            streams: list[AsyncPartitionStream] = []

            async def handle(stream: AsyncPartitionStream) -> None:
                streams.append(stream)
                async for batch in stream:
                    for record in batch:
                        handed.append(record.offset)
                        if record.offset != 2:
                            stream.complete(record.offset, record.offset + 1)

            task = asyncio.ensure_future(each_stream(member, handle, explicit=True))
            await group.balanced([member], 1)
            async with group.producing(50, pause_s=0.1):
                pass
            await asyncio.sleep(10.0)
            assert 7 <= len(handed) < 50
            streams[0].complete(2, 3)
            await group.until(lambda: len(handed) == 50)
            member.consumer.stop()
            await task

        group.world.run(main())
    assert "record 2 is not completed" in caplog.text


def test_a_revoked_stream_waits_until_all_that_was_handed_out_is_completed(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.001):
                pass
            first, second = group.member(**protocol), group.member(**protocol)

            async def later(stream: AsyncPartitionStream, offsets: list[int]) -> None:
                await asyncio.sleep(10.0)
                group.seen.processed("first", TopicPartition(stream.topic, stream.partition), offsets)
                stream.complete(offsets[0], offsets[-1] + 1)

            tasks: list[asyncio.Task[None]] = []

            async def handle(stream: AsyncPartitionStream) -> None:
                async for batch in stream:
                    offsets = [record.offset for record in batch]
                    tasks.append(asyncio.ensure_future(later(stream, offsets)))

            one = asyncio.ensure_future(each_stream(first, handle, explicit=True))
            await group.balanced([first], 2)
            await asyncio.sleep(1.0)
            other = asyncio.ensure_future(each_stream(second, taking(group, "second")))
            await group.until(lambda: group.seen.total() == RECORDS)
            await group.balanced([first, second], 2)
            for member, task in ((first, one), (second, other)):
                member.consumer.stop()
                await task

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_a_paused_stream_gets_nothing_and_stays_a_member() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            member = group.member(group_protocol="consumer")
            streams: list[AsyncPartitionStream] = []

            async def handle(stream: AsyncPartitionStream) -> None:
                streams.append(stream)
                stream.pause()
                await taking(group, "one")(stream)

            task = asyncio.ensure_future(each_stream(member, handle))
            await group.until(lambda: bool(streams))
            async with group.producing(10, pause_s=0.0):
                pass
            await asyncio.sleep(200.0)
            assert group.seen.total() == 0
            streams[0].resume()
            await group.until(lambda: group.seen.total() == 10)
            member.consumer.stop()
            await task

        group.world.run(main())


def test_streams_of_a_consumer_without_a_group() -> None:
    with GroupWorld(partitions=3) as group:

        async def main() -> None:
            member = group.member(group_id=None, start="earliest")
            async with group.producing(RECORDS):
                task = asyncio.ensure_future(each_stream(member, taking(group, "one")))
                await group.until(lambda: group.seen.total() == RECORDS)
            member.consumer.stop()
            await task

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_an_error_of_a_handler_ends_all_and_commits_none_of_its_records() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            member = group.member(group_protocol="consumer")

            async def handle(stream: AsyncPartitionStream) -> None:
                async for _ in stream:
                    raise ValueError("no")

            with pytest.raises(ExceptionGroup):
                async with member.consumer:
                    await each_stream(member, handle)
            assert not any(group.committed().values())

        group.world.run(main())


def test_partitions_are_given_to_one_iterator() -> None:
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add()
            await member._stop_reading()
            streams = member.consumer.partitions()
            await anext(streams)
            with pytest.raises(KafkaError, match="already"):
                await anext(member.consumer.partitions())
            await streams.aclose()

        group.world.run(main())


def test_an_iterator_that_is_cancelled_as_it_opens_leaves_the_partitions_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine has opened the feed, and the caller stops waiting before it is woken."""
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add()
            await member._stop_reading()
            opening = asyncio.ensure_future(anext(member.consumer.partitions()))
            open_feed = Assignment.open_feed

            def cancelled(*args: Any) -> Any:
                opening.cancel()
                return open_feed(*args)

            with monkeypatch.context() as patch:
                patch.setattr(Assignment, "open_feed", cancelled)
                with pytest.raises(asyncio.CancelledError):
                    await opening
            streams = member.consumer.partitions()
            assert isinstance(await anext(streams), AsyncPartitionStream)
            await streams.aclose()

        group.world.run(main())


def test_threads_of_the_blocking_face_are_bounded() -> None:
    with kafwire.testing.EmbeddedKafka() as kafka:
        kafka.create_topic("t", 6)
        with kafwire.Producer(kafka.bootstrap) as producer:
            for number in range(60):
                producer.send("t", b"%d" % number, partition=number % 6)
        running: set[int] = set()
        most = 0
        seen: list[int] = []
        with kafwire.Consumer(kafka.bootstrap, topics="t", group_id="g", auto_offset_reset="earliest") as consumer:

            def handle(stream: kafwire.PartitionStream) -> None:
                nonlocal most
                running.add(stream.partition)
                most = max(most, len(running))
                for batch in stream:
                    seen.extend(record.offset for record in batch)
                    if len(seen) == 20:
                        consumer.stop()
                running.discard(stream.partition)

            consumer.for_each_partition(handle, threads=2)
        assert most == 2
        assert len(seen) == 20


def test_a_stream_of_the_blocking_face_ends_when_its_partition_goes_and_comes_back_at_once() -> None:
    with kafwire.testing.EmbeddedKafka() as kafka:
        kafka.create_topic("t", 1)
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("t", b"")
        with kafwire.Consumer(kafka.bootstrap, topics="t", group_id="g", auto_offset_reset="earliest") as consumer:
            membership = consumer._core.membership
            assert membership is not None

            async def lose_and_take() -> None:
                membership.lose([("t", 0)])
                await membership.take([("t", 0)])

            streams = consumer.partitions()
            unread = next(streams)
            consumer._engine.run(lose_and_take)
            begun = next(streams)
            assert [record.offset for record in next(begun)] == [0]
            consumer._engine.run(lose_and_take)
            again = next(streams)
            assert [list(stream) for stream in (unread, begun)] == [[], []]
            assert (unread.is_lost, begun.is_lost, again.is_lost) == (True, True, False)
            assert [record.offset for record in next(again)] == [0]  # nothing was committed
            assert isinstance(streams, Generator)
            streams.close()


def test_a_handler_of_the_blocking_face_that_raises_is_raised() -> None:
    with kafwire.testing.EmbeddedKafka() as kafka:
        kafka.create_topic("t", 2)
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("t", b"")
        with kafwire.Consumer(kafka.bootstrap, topics="t", group_id="g", auto_offset_reset="earliest") as consumer:

            def handle(stream: kafwire.PartitionStream) -> None:
                for _ in stream:
                    raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                consumer.for_each_partition(handle)


def test_streams_that_take_nothing_end_the_membership_after_max_poll_interval_ms() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            member = group.member(group_protocol="consumer", max_poll_interval_ms=30_000)
            work_s = 20.0
            ended: list[AsyncPartitionStream] = []

            async def handle(stream: AsyncPartitionStream) -> None:
                async for _ in stream:
                    await asyncio.sleep(work_s)
                ended.append(stream)

            task = asyncio.ensure_future(each_stream(member, handle))
            await asyncio.sleep(200.0)  # it waits for records, which is no idleness
            assert not ended
            work_s = 60.0
            async with group.producing(1):
                pass
            with pytest.raises(ExceptionGroup) as raised:
                await task
            assert "max_poll_interval_ms" in str(raised.value.exceptions[0])

        group.world.run(main())


def test_a_consumer_that_was_stopped_before_its_partitions_are_asked_for_has_none(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            member = group.member(**protocol)
            await member.consumer.start()
            await group.balanced([member], 4)
            member.consumer.stop()
            async with asyncio.timeout(10.0):
                await each_stream(member, taking(group, "one"))

        group.world.run(main())
        assert group.seen.total() == 0
