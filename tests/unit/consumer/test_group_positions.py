"""Where members begin: partitions without a beginning, brokers that do not respond, late ACLs, early seeks."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

import pytest

import kafwire
from kafwire.broker.faults import Faults
from kafwire.errors import AuthorizationError, ConfigError
from kafwire.types import ConsumerGroupMetadata, Tail, TopicPartition
from tests.support.group.consumers import PROTOCOLS, GroupWorld

RECORDS = 40


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


async def fill(group: GroupWorld) -> None:
    async with group.producing(RECORDS, pause_s=0.0):
        pass


async def commit(group: GroupWorld, partition: int, offset: int) -> None:
    """The group has been there."""
    where = TopicPartition("t", partition)
    reader = group.member(topics=None, assign=[where], start="earliest")
    await reader.consumer.start()
    await reader.consumer.commit({where: offset})
    await reader.leave()


async def coordinator_of(group: GroupWorld) -> int:
    """The broker that coordinates the group."""
    probe = group.member(topics=None, assign=[TopicPartition("t", 0)], enable_auto_commit=False)
    await probe.consumer.start()
    await probe.consumer.committed()
    offsets = probe.consumer._core.commits.group
    assert offsets is not None
    assert offsets.coordinator is not None
    await probe.leave()
    return offsets.coordinator


def test_a_partition_without_a_beginning_stops_no_other_one(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await fill(group)
            await commit(group, 0, 0)
            consumer = group.member(**protocol, auto_offset_reset="error").consumer
            await consumer.start()
            read: set[int | None] = set()
            for _ in range(4):
                try:
                    read.update(batch.partition for batch in await consumer.poll(5.0))
                except ConfigError as error:
                    assert "begin with t-1: there is no committed offset" in str(error)
                    await asyncio.sleep(0.1)
            assert read == {0}
            await consumer.seek(TopicPartition("t", 1), 0)
            assert {batch.partition for batch in await consumer.poll(5.0)} == {1}

        group.world.run(main())


def test_a_handler_may_say_where_to_begin_as_nothing_else_does(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async def seek(partitions: list[TopicPartition]) -> None:
                for where in partitions:
                    await member.consumer.seek(where, 1)

            await fill(group)
            member = group.member(**protocol, auto_offset_reset="error", on_assigned=seek)
            await member.start()
            await group.until(lambda: group.seen.total() == RECORDS - 2)
            assert member.error is None

        group.world.run(main())


def test_once_an_acl_is_added_partitions_begin_where_the_group_was(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await fill(group)
            await commit(group, 0, 3)
            group.world.state.part(Faults).fail_next("OffsetFetch", "GROUP_AUTHORIZATION_FAILED")
            consumer = group.member(**protocol).consumer
            await consumer.start()
            with pytest.raises(AuthorizationError):
                await consumer.poll(10.0)
            first: dict[int | None, int] = {}
            while len(first) < 2:
                batches = await consumer.poll(10.0)
                assert batches
                for batch in batches:
                    first.setdefault(batch.partition, next(iter(batch)).offset)
            assert first == {0: 3, 1: 0}

        group.world.run(main())


def test_a_leader_that_is_gone_holds_up_neither_other_partitions_nor_the_group(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=4, brokers=2) as group:

        async def main() -> None:
            await fill(group)
            probe = group.member(topics=None, assign=[TopicPartition("t", 0)])
            await probe.consumer.start()
            await probe.consumer.committed()
            core = probe.consumer._core
            assert core.commits.group is not None
            coordinator = core.commits.group.coordinator
            leaders = {number: of.leader for number, of in core.cluster.metadata.topics["t"].partitions.items()}
            await probe.leave()
            (gone,) = {1, 2} - {coordinator}
            group.world.link(gone).is_refusing = True
            group.world.break_connections(gone)
            (member,) = await group.add(**protocol)
            reachable = {number for number, leader in leaders.items() if leader == coordinator}
            await group.until(lambda: {where.partition for where in group.seen.by_partition} == reachable, limit_s=20.0)
            (other,) = await group.add(**protocol)
            await group.balanced([member, other], 4, limit_s=20.0)
            group.world.link(gone).heal()
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_an_offset_that_a_transaction_is_about_to_change_holds_up_no_rebalance(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=4) as group:

        async def main() -> None:
            await fill(group)
            script: Faults = group.world.state.part(Faults)
            unstable = script.fail_next("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", times=None)
            (first,) = await group.add(**protocol)
            await group.until(lambda: unstable.times > 3)
            (second,) = await group.add(**protocol)
            await group.balanced([first, second], 4, limit_s=20.0)
            assert group.seen.total() == 0
            script.clear()
            await group.until(lambda: group.seen.total() == RECORDS, limit_s=20.0)

        group.world.run(main())


@contextlib.asynccontextmanager
async def open_transaction(group: GroupWorld, partition: int, offset: int) -> AsyncIterator[None]:
    """A transaction is about to commit an offset of the group; at the end it does."""
    engine = group.world.engine
    async with kafwire.AsyncProducer(group.world.bootstrap, engine=engine, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send_offsets({TopicPartition("t", partition): offset}, ConsumerGroupMetadata("g"))
        yield
        await producer.commit_transaction()


def late_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if "the committed offset of" in each.message]


def test_an_open_transaction_holds_its_own_partition_only(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=4) as group:

        async def main() -> None:
            await fill(group)
            ends = {where: group.world.state.topics.by_name["t"].partitions[where].log.end_offset for where in range(4)}
            await commit(group, 1, 2)
            async with open_transaction(group, 3, 5):
                await group.add(**protocol)
                expected = ends[0] + ends[1] - 2 + ends[2]
                await group.until(lambda: group.seen.total() == expected, limit_s=10.0)
                assert not late_lines(caplog)
                await asyncio.sleep(4.0)
                assert group.seen.total() == expected
                (line,) = late_lines(caplog)
                assert "of t-3 could not be fetched: UNSTABLE_OFFSET_COMMIT" in line
                await asyncio.sleep(20.0)
            await group.until(lambda: group.seen.total() == expected + ends[3] - 5, limit_s=5.0)
            assert late_lines(caplog) == [line]

        group.world.run(main())


def test_an_open_transaction_holds_its_own_partition_of_a_consumer_that_assigns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with GroupWorld(partitions=3) as group:

        async def main() -> None:
            await fill(group)
            ends = {where: group.world.state.topics.by_name["t"].partitions[where].log.end_offset for where in range(3)}
            async with open_transaction(group, 1, 4):
                chosen = [TopicPartition("t", number) for number in range(3)]
                member = group.member(topics=None, assign=chosen, start=None, auto_offset_reset="earliest")
                begun = group.world.loop.time()
                await member.start()
                assert group.world.loop.time() - begun < 3.0
                await group.until(lambda: group.seen.total() == ends[0] + ends[2], limit_s=5.0)
                (line,) = late_lines(caplog)
                assert "of t-1 could not be fetched: UNSTABLE_OFFSET_COMMIT" in line
            await group.until(lambda: group.seen.total() == ends[0] + ends[2] + ends[1] - 4, limit_s=5.0)

        group.world.run(main())


def test_a_topic_that_may_not_be_described_fails_its_own_partitions_only(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:
        script: Faults = group.world.state.part(Faults)

        async def main() -> None:
            await fill(group)
            script.fail_next("OffsetFetch", "TOPIC_AUTHORIZATION_FAILED", times=None, topic="t", partition=1)
            consumer = group.member(**protocol).consumer
            await consumer.start()
            read: set[int | None] = set()
            denied = 0
            for _ in range(6):
                try:
                    read.update(batch.partition for batch in await consumer.poll(2.0))
                except AuthorizationError as error:
                    assert "t-1" in str(error)
                    denied += 1
            assert denied
            assert read == {0}

        group.world.run(main())


def test_a_seek_before_the_committed_offset_is_known_stays(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await fill(group)
            await commit(group, 0, 30)
            fetching = group.world.state.part(Faults).delay("OffsetFetch", 0.05, times=1)
            consumer = group.member(**protocol).consumer
            await consumer.start()
            await group.until(lambda: fetching.times > 0)
            where = TopicPartition("t", 0)
            await consumer.seek(where, 5)
            await asyncio.sleep(1.0)
            assert await consumer.position(where) == 5
            (batch,) = await consumer.poll(5.0)
            assert next(iter(batch)).offset == 5

        group.world.run(main())


@pytest.mark.parametrize(
    "start", [Tail(3), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2099, 1, 1, tzinfo=dt.UTC)], ids=str
)
def test_a_leader_that_is_gone_delays_the_start_of_no_other_partition(protocol: dict[str, Any], start: Any) -> None:
    with GroupWorld(partitions=6, brokers=3) as group:

        async def main() -> None:
            await fill(group)
            topic = group.world.state.topics.by_name["t"]
            leaders = {number: part.leader for number, part in enumerate(topic.partitions)}
            coordinator = await coordinator_of(group)
            gone = next(node for node in group.world.nodes if node != coordinator)
            group.world.link(gone).is_refusing = True
            group.world.break_connections(gone)
            consumer = group.member(**protocol, start=start).consumer
            await consumer.start()
            await group.until(lambda: len(consumer.assignment) == 6)
            reachable = [TopicPartition("t", number) for number, leader in leaders.items() if leader != gone]
            begun = group.world.loop.time()
            for where in reachable:
                end = (await consumer.end_offsets([where]))[where]
                expected = max(0, end - 3) if isinstance(start, Tail) else end * (start.year > 2020)
                assert await consumer.position(where) == expected
            assert group.world.loop.time() - begun < 5.0
            group.world.link(gone).heal()

        group.world.run(main())


def test_auto_commit_keeps_where_an_explicit_stream_begins(protocol: dict[str, Any]) -> None:
    """Nothing was handed out: a record that comes while the partition is another member's next is not skipped."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(3):
                pass
            member = group.member(**protocol, auto_offset_reset="latest", auto_commit_interval_ms=500)
            streams = member.consumer.partitions(explicit=True)
            stream = await anext(streams)
            reading = asyncio.ensure_future(anext(aiter(stream), None))
            await asyncio.sleep(5.0)
            assert group.committed() == {("t", 0): 3}
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await stream.aclose()
            await streams.aclose()

        group.world.run(main())
