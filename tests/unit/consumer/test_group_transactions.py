"""Offsets of members of a group within transactions (KIP-447): no member commits a revoked partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kafwire
from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.errors import TransactionAbortableError
from kafwire.records import Batch
from kafwire.types import TopicPartition
from tests.support.group.consumers import PROTOCOLS, GroupWorld, Member

RECORDS = 40


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol, of members that give up records in hand after 4 s."""
    return PROTOCOLS[request.param] | {"enable_auto_commit": False, "revocation_timeout_ms": 4_000}


@asynccontextmanager
async def producer_in(group: GroupWorld, name: str = "one") -> AsyncIterator[kafwire.AsyncProducer]:
    """A producer of transactions."""
    async with kafwire.AsyncProducer(
        group.world.bootstrap, engine=group.world.engine, transactional_id=name, linger_ms=0
    ) as producer:
        await producer.init_transactions()
        yield producer


async def filled(group: GroupWorld) -> None:
    """Records in all partitions."""
    async with group.producing(RECORDS, pause_s=0.0):
        pass


def ends_of(batches: list[Batch]) -> dict[TopicPartition, int]:
    """The offset after the last read record of each partition."""
    return {TopicPartition(batch.topic or "", batch.partition or 0): batch.next_offset for batch in batches}


async def read_all(member: Member) -> list[Batch]:
    """All that was written; the last batches are in hand."""
    batches: list[Batch] = []
    while sum(map(len, batches)) < RECORDS:
        batches += await member.consumer.poll(1.0)
    return batches


async def started(group: GroupWorld, **options: Any) -> Member:
    """A member that reads only when the test reads."""
    member = group.member(**options)
    await member.consumer.start()
    await group.until(lambda: len(member.consumer.assignment) == 2)
    return member


async def until_lost(group: GroupWorld, member: Member) -> None:
    """Wait until a member has learned that its partitions are lost. It joins again after that."""
    membership = member.consumer._core.membership
    assert membership is not None
    assert member.consumer.assignment, "there is nothing to lose"
    await group.until(lambda: not member.consumer.assignment)
    assert membership.metadata().generation_id == -1


def test_records_given_up_in_hand_are_not_committed_by_a_transaction(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            slow = await started(group, **protocol)
            async with producer_in(group) as producer:
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        batches = await read_all(slow)
                        await group.add(**protocol)
                        await group.until(lambda: group.seen.total() > 0)
                        await asyncio.sleep(5.0)
                        await producer.send_offsets(ends_of(batches), slow.consumer.group_metadata())

        group.world.run(main())


def test_a_lost_partition_is_not_committed_by_a_transaction(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            lost: list[list[TopicPartition]] = []
            slow = await started(group, **protocol, on_lost=lost.append)
            async with producer_in(group) as producer:
                batches = await read_all(slow)
                before = slow.consumer.group_metadata()
                group.world.link(1).is_refusing = True
                group.world.break_connections(1)
                await asyncio.sleep(100.0)
                group.world.link(1).heal()
                await until_lost(group, slow)
                assert slow.consumer.group_metadata() == before  # also while it has not joined again
                await group.until(lambda: len(slow.consumer.assignment) == 2)
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        await producer.send_offsets(ends_of(batches), slow.consumer.group_metadata())
                # It got the error, and reads on as the current member.
                async with producer.transaction():
                    batches = await read_all(slow)
                    await producer.send_offsets(ends_of(batches), slow.consumer.group_metadata())
            await group.until(lambda: sum(group.committed().values()) == RECORDS)

        group.world.run(main())


def test_a_partition_revoked_between_processed_and_group_metadata_is_not_committed_by_both(
    protocol: dict[str, Any],
) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            first = await started(group, **protocol)
            async with producer_in(group) as producer:
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        await read_all(first)
                        assert await first.consumer.poll(0.0) == []
                        offsets = first.consumer.processed()
                        (second,) = await group.add(**protocol)
                        await group.balanced([first, second], 2)
                        await group.until(lambda: group.seen.total() > 0)
                        await producer.send_offsets(offsets, first.consumer.group_metadata())

        group.world.run(main())


def test_a_partition_revoked_after_it_was_read_aborts_the_transaction_that_has_it(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            first = await started(group, **protocol)
            async with producer_in(group) as producer:
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        await read_all(first)
                        assert await first.consumer.poll(0.0) == []
                        (second,) = await group.add(**protocol)
                        await group.balanced([first, second], 2)
                        await group.until(lambda: group.seen.total() > 0)
                        await producer.send_offsets(first.consumer.processed(), first.consumer.group_metadata())

        group.world.run(main())


def test_a_group_that_is_not_rebalanced_commits_in_transactions(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            member = await started(group, **protocol)
            async with producer_in(group) as producer:
                async with producer.transaction():
                    batches = await read_all(member)
                    await producer.send_offsets(ends_of(batches), member.consumer.group_metadata())
                async with producer.transaction():
                    assert await member.consumer.poll(0.0) == []
                    await producer.send_offsets(member.consumer.processed(), member.consumer.group_metadata())
            assert sum(group.committed().values()) == RECORDS

        group.world.run(main())


def test_a_partition_taken_away_is_among_the_processed_ones_once(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            first = await started(group, **protocol)
            batches = await read_all(first)
            assert await first.consumer.poll(0.0) == []
            (second,) = await group.add(**protocol)
            await group.balanced([first, second], 2)
            assert first.consumer.processed() == ends_of(batches)
            await first.consumer.poll(0.0)
            assert first.consumer.processed().keys() <= first.consumer.assignment

        group.world.run(main())


def test_a_revoked_partition_whose_records_are_committed_aborts_no_transaction(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            first = await started(group, **protocol)
            async with producer_in(group) as producer:
                async with producer.transaction():
                    batches = await read_all(first)
                    await producer.send_offsets(ends_of(batches), first.consumer.group_metadata())
                assert await first.consumer.poll(0.0) == []
                (second,) = await group.add(**protocol)
                await group.balanced([first, second], 2)
                before = group.world.loop.time()
                await filled(group)
                async with producer.transaction():
                    batches = await first.consumer.poll(1.0)
                    await producer.send_offsets(ends_of(batches), first.consumer.group_metadata())
                assert group.world.loop.time() < before + 10.0

        group.world.run(main())


def test_a_member_that_rejoins_is_refused_meanwhile_and_keeps_its_identity(protocol: dict[str, Any]) -> None:
    """Brokers let a client without a member id commit in transactions, even for a group that has members."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            lost: list[list[TopicPartition]] = []
            member = await started(group, **protocol, on_lost=lost.append)
            before = member.consumer.group_metadata()
            group.world.link(1).is_refusing = True
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            await until_lost(group, member)
            assert member.consumer.group_metadata() == before
            await group.until(lambda: len(member.consumer.assignment) == 2)
            assert member.consumer.group_metadata() != before

        group.world.run(main())


# --- streams, and loops of several tasks


async def lose_the_session(group: GroupWorld, member: Member) -> None:
    """The member's session ends; it learns of it, and has all partitions again."""
    group.world.link(1).is_refusing = True
    group.world.break_connections(1)
    await asyncio.sleep(100.0)
    group.world.link(1).heal()
    await until_lost(group, member)
    await group.until(lambda: len(member.consumer.assignment) == 2)


@asynccontextmanager
async def streams_of(member: Member) -> AsyncIterator[dict[int, AsyncPartitionStream]]:
    """The streams of both partitions, by number, as they are assigned; the newest of each."""
    found: dict[int, AsyncPartitionStream] = {}

    async def collect() -> None:
        async for stream in member.consumer.partitions():
            found[stream.partition] = stream

    task = asyncio.ensure_future(collect())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


async def commits(
    producer: kafwire.AsyncProducer, member: Member, batch: Batch, *, with_value: bytes = b"result"
) -> bool:
    """One transaction with a result and the offset of its batch; whether it was committed."""
    try:
        async with producer.transaction():
            await producer.send("results", with_value)
            await producer.send_offsets(ends_of([batch]), member.consumer.group_metadata())
    except TransactionAbortableError:
        return False
    return True


def test_a_transaction_after_a_loss_commits_while_other_streams_wait(protocol: dict[str, Any]) -> None:
    """Their reads began before the loss; no read begins after the refusal."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            member = await started(group, **protocol)
            async with producer_in(group) as producer, streams_of(member) as streams:
                await group.until(lambda: len(streams) == 2)
                batch = await anext(streams[0])
                before = dict(streams)
                await lose_the_session(group, member)
                await group.until(lambda: streams[0] is not before[0] and streams[1] is not before[1])
                again = [await anext(streams[number]) for number in range(2)]  # reads that began before the refusal
                assert not await commits(producer, member, batch)
                assert await commits(producer, member, again[0])
                assert await commits(producer, member, again[1])

        group.world.state.topics.create("results", 1, replicas=1)
        group.world.run(main())


def test_a_stream_that_holds_nothing_costs_no_transaction_when_it_is_lost(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            member = await started(group, **protocol)
            async with producer_in(group) as producer, streams_of(member) as streams:
                await group.until(lambda: len(streams) == 2)
                stream = streams[0]
                while True:
                    batch = await anext(stream)
                    assert await commits(producer, member, batch)
                    if batch.next_offset == await end_of(member, 0):
                        break
                waiting = asyncio.ensure_future(anext(stream, None))
                await asyncio.sleep(1.0)
                await lose_the_session(group, member)
                assert await waiting is None
                await filled(group)
                await group.until(lambda: streams[0] is not stream)
                assert await commits(producer, member, await anext(streams[0]))

        group.world.state.topics.create("results", 1, replicas=1)
        group.world.run(main())


async def end_of(member: Member, number: int) -> int:
    where = TopicPartition("t", number)
    return (await member.consumer.end_offsets([where]))[where]


def test_a_transaction_of_one_task_does_not_clear_the_lost_partition_of_another(protocol: dict[str, Any]) -> None:
    """Two tasks, a stream and a producer each: the second commits and reads on, the first holds records from before."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            member = await started(group, **protocol)
            async with (
                producer_in(group) as one,
                producer_in(group, "two") as two,
                streams_of(member) as streams,
            ):
                await group.until(lambda: len(streams) == 2)
                held = await anext(streams[0])
                before = dict(streams)
                await lose_the_session(group, member)
                await group.until(lambda: streams[1] is not before[1])
                assert await commits(two, member, await anext(streams[1]))
                reading_on = asyncio.ensure_future(anext(streams[1], None))
                await asyncio.sleep(1.0)
                assert await anext(before[0], None) is None  # it was asked on, and has ended
                assert not await commits(one, member, held)
                committed = group.committed()
                assert ("t", 0) not in committed
                assert ("t", 1) in committed
                reading_on.cancel()
                await asyncio.wait([reading_on])

        group.world.state.topics.create("results", 1, replicas=1)
        group.world.run(main())


@pytest.mark.parametrize("names", ["the other partition", "nothing"])
def test_a_transaction_that_does_not_name_the_lost_partition_is_refused(protocol: dict[str, Any], names: str) -> None:
    """A user may name the positions of the current assignment: what went is not among them, and its records are."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            slow = await started(group, **protocol)
            async with producer_in(group) as producer:
                with pytest.raises(TransactionAbortableError, match="t-. of group 'g' went to another member"):
                    async with producer.transaction():
                        batches = await read_all(slow)
                        (second,) = await group.add(**protocol)
                        await group.balanced([slow, second], 2)
                        offsets = {} if names == "nothing" else ends_of(batches)
                        offsets = {
                            where: offset for where, offset in offsets.items() if where in slow.consumer.assignment
                        }
                        await producer.send_offsets(offsets, slow.consumer.group_metadata())
                async with producer.transaction():  # the next one holds none of its records
                    await producer.send_offsets({}, slow.consumer.group_metadata())

        group.world.run(main())


def test_a_transaction_does_not_take_back_the_offset_of_a_partition_that_was_released(protocol: dict[str, Any]) -> None:
    """A user names all partitions that were ever read; another member has one of them, and has committed more."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            first = await started(group, **protocol)
            async with producer_in(group) as producer:
                async with producer.transaction():
                    offsets = ends_of(await read_all(first))
                    await producer.send_offsets(offsets, first.consumer.group_metadata())
                assert await first.consumer.poll(0.0) == []
                (second,) = await group.add(**protocol | {"enable_auto_commit": True})
                await group.balanced([first, second], 2)
                (moved,) = second.consumer.assignment
                await filled(group)
                await group.until(lambda: group.committed()[moved] > offsets[moved])
                reached = group.committed()[moved]
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        await producer.send_offsets(offsets, first.consumer.group_metadata())
                assert group.committed()[moved] == reached

        group.world.run(main())


def test_a_partition_that_is_lost_and_comes_back_after_processed_aborts_the_transaction_that_has_it(
    protocol: dict[str, Any],
) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            member = await started(group, **protocol)
            async with producer_in(group) as producer:
                await read_all(member)
                assert await member.consumer.poll(0.0) == []
                offsets = member.consumer.processed()
                await lose_the_session(group, member)
                with pytest.raises(TransactionAbortableError):
                    async with producer.transaction():
                        await producer.send_offsets(offsets, member.consumer.group_metadata())
                batches = await read_all(member)
                async with producer.transaction():
                    await producer.send_offsets(ends_of(batches), member.consumer.group_metadata())
            await group.until(lambda: sum(group.committed().values()) == RECORDS)

        group.world.run(main())
