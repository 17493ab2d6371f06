"""Members of a group act for no partition that another member owns: after a loss, a late revocation, a discard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.consumer.group.ownership import OwnershipState
from kafwire.errors import CommitFailedError
from tests.support.group_consumers import PROTOCOLS, GroupWorld, Member

RECORDS = 40
WINDOW_MS = 4_000


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


@asynccontextmanager
async def streaming(member: Member, *, explicit: bool = True) -> AsyncIterator[AsyncPartitionStream]:
    """The stream of a member's first partition."""
    await member.consumer.start()
    async with aclosing(member.consumer.partitions(explicit=explicit)) as streams:
        yield await anext(streams)


async def lose_the_session(group: GroupWorld) -> None:
    """The coordinator is not reached for longer than a session."""
    group.world.link(1).is_refusing = True
    group.world.break_connections(1)
    await asyncio.sleep(100.0)
    group.world.link(1).heal()


async def filled(group: GroupWorld) -> None:
    """Records in all partitions."""
    async with group.producing(RECORDS, pause_s=0.0):
        pass


@pytest.mark.parametrize("on_revocation", ["finish", "discard"])
@pytest.mark.parametrize("is_automatic", [True, False])
def test_a_stream_that_is_revoked_with_a_batch_in_hand_is_lost(
    protocol: dict[str, Any], on_revocation: str, *, is_automatic: bool
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            slow = group.member(
                **protocol,
                on_revocation=on_revocation,
                revocation_timeout_ms=WINDOW_MS,
                enable_auto_commit=is_automatic,
            )
            async with streaming(slow) as stream:
                batch = await anext(stream)
                assert not stream.is_lost
                (quick,) = await group.add(**protocol)
                await slow.consumer.subscribe("other")
                if on_revocation == "finish":
                    await asyncio.sleep(WINDOW_MS / 1000 - 1.0)
                    assert not stream.is_lost  # the window still runs
                await group.balanced([quick], 1)
                assert stream.is_lost
                stream.complete(batch.base_offset, batch.next_offset)
                with pytest.raises(CommitFailedError):
                    await stream.commit()
                await group.until(lambda: group.seen.total() == RECORDS)

        group.world.state.topics.create("other", 1, replicas=1)
        group.world.run(main())


@pytest.mark.parametrize("on_revocation", ["finish", "discard"])
def test_a_stream_that_is_revoked_with_nothing_in_hand_is_not_lost(
    protocol: dict[str, Any], on_revocation: str
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            first = group.member(**protocol, on_revocation=on_revocation, auto_commit_interval_ms=600_000)
            async with streaming(first) as stream:
                batch = await anext(stream)
                stream.complete(batch.base_offset, batch.next_offset)
                await first.consumer.subscribe("other")
                assert [each async for each in stream] == []
                await group.until(lambda: group.committed().get(("t", 0)) == batch.next_offset)
                await group.until(lambda: ("t", 0) not in first.consumer.assignment)
                assert not stream.is_lost

        group.world.state.topics.create("other", 1, replicas=1)
        group.world.run(main())


def test_the_ownership_of_a_partition_that_comes_back_is_another_one(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            member = group.member(**protocol)
            async with streaming(member) as stream:
                await anext(stream)
                before = member.consumer._core.fetcher.cursors["t", 0].ownership
                await lose_the_session(group)
                await group.until(lambda: stream.is_lost)
                await group.balanced([member], 1)
                after = member.consumer._core.fetcher.cursors["t", 0].ownership
                assert (before.state, after.state) == (OwnershipState.LOST, OwnershipState.OWNED)
                assert stream.is_lost

        group.world.run(main())


def test_the_current_member_is_never_one_without_an_id(protocol: dict[str, Any]) -> None:
    """Brokers accept an offset commit in a transaction without a member id, even for a group that has members."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol)
            await group.balanced([member], 1)
            core = member.consumer._core
            membership = core.membership
            assert membership is not None
            before = core.current_member()
            assert before == membership.metadata()
            await lose_the_session(group)
            await group.until(lambda: not member.consumer.assignment)
            assert membership.metadata().generation_id < 0
            assert core.current_member() == before
            await group.balanced([member], 1)
            assert core.current_member() == membership.metadata() != before

        group.world.run(main())
