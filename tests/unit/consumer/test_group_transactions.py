"""Offsets of members of a group within transactions (KIP-447): nobody commits what a group took away from him."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import kafwire
from kafwire.errors import TransactionAbortableError
from kafwire.records import Batch
from kafwire.types import TopicPartition
from tests.support.group_consumers import PROTOCOLS, GroupWorld, Member

RECORDS = 40


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol, of members that give up what is in hand after 4 s."""
    return PROTOCOLS[request.param] | {"enable_auto_commit": False, "revocation_timeout_ms": 4_000}


@asynccontextmanager
async def producer_in(group: GroupWorld) -> AsyncIterator[kafwire.AsyncProducer]:
    """A producer of transactions."""
    async with kafwire.AsyncProducer(
        group.world.bootstrap, engine=group.world.engine, transactional_id="one", linger_ms=0
    ) as producer:
        await producer.init_transactions()
        yield producer


async def filled(group: GroupWorld) -> None:
    """Records in all partitions."""
    async with group.producing(RECORDS, pause_s=0.0):
        pass


def ends_of(batches: list[Batch]) -> dict[TopicPartition, int]:
    """Behind what was read."""
    return {TopicPartition(batch.topic or "", batch.partition or 0): batch.next_offset for batch in batches}


async def read_all(member: Member) -> list[Batch]:
    """All that was written; the last batches are in hand."""
    batches: list[Batch] = []
    while sum(map(len, batches)) < RECORDS:
        batches += await member.consumer.poll(1.0)
    return batches


async def started(group: GroupWorld, **options: Any) -> Member:
    """A member that reads only when it is told to."""
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


def test_what_is_given_up_in_hand_is_not_committed_by_a_transaction(protocol: dict[str, Any]) -> None:
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


def test_what_is_lost_is_not_committed_by_a_transaction(protocol: dict[str, Any]) -> None:
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
                # It has been told, and reads on as who it is now.
                async with producer.transaction():
                    batches = await read_all(slow)
                    await producer.send_offsets(ends_of(batches), slow.consumer.group_metadata())
            await group.until(lambda: sum(group.committed().values()) == RECORDS)

        group.world.run(main())


def test_what_is_revoked_between_processed_and_group_metadata_is_not_committed_by_both(
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


def test_what_is_revoked_after_it_was_read_aborts_the_transaction_that_has_it(protocol: dict[str, Any]) -> None:
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


def test_what_was_taken_away_is_among_what_is_processed_once(protocol: dict[str, Any]) -> None:
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


def test_what_was_committed_before_it_is_revoked_costs_no_transaction(protocol: dict[str, Any]) -> None:
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


def test_who_joins_anew_is_refused_meanwhile_and_not_taken_for_nobody(protocol: dict[str, Any]) -> None:
    """Brokers let who names no member commit in transactions, even for a group that has members."""
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
