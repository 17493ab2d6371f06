"""Members of a group act for no partition that another member owns: after a loss, a late revocation, a discard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import pytest

import kafwire
from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.consumer.group.group_membership import GroupMembership
from kafwire.consumer.ownership import OwnershipState
from kafwire.errors import CommitFailedError, KafkaConnectionError
from kafwire.types import TopicPartition
from tests.support.deadlines import comes
from tests.support.group.consumers import PROTOCOLS, GroupWorld, Member

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


@pytest.mark.parametrize("ticks", range(12))
@pytest.mark.parametrize("explicit", [True, False])
def test_a_stream_ends_whenever_its_partition_goes_while_it_begins(ticks: int, *, explicit: bool) -> None:
    """The partition goes at each await of the first read: the stream ends, and reads nothing of the next assignment."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            member = group.member(group_protocol="consumer")
            async with streaming(member, explicit=explicit) as stream:
                membership = member.consumer._core.membership
                assert membership is not None
                coming = asyncio.ensure_future(anext(stream, None))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                membership.lose([("t", 0)])
                await membership.take([("t", 0)])  # it comes back at once
                before = await coming
                assert before is None or before.base_offset == 0  # handed out just before
                assert [batch async for batch in stream] == []
                assert stream.is_lost

        group.world.run(main())


def test_a_stream_that_was_made_before_its_partition_went_ends_at_its_first_read(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            (member,) = await group.add(**protocol)
            await group.balanced([member], 1)
            await member._stop_reading()
            stream = member.consumer.partition_stream(TopicPartition("t", 0))
            await lose_the_session(group)
            await group.until(lambda: stream.is_lost)
            await group.balanced([member], 1)
            assert [batch async for batch in stream] == []
            other = member.consumer.partition_stream(TopicPartition("t", 0), timeout=1.0)
            async with group.producing(3, pause_s=0.0):
                assert sum([len(batch) async for batch in other]) == RECORDS + 3  # nothing was committed
            await other.aclose()

        group.world.run(main())


@pytest.mark.parametrize("ticks", range(12))
def test_a_stream_ends_whenever_its_consumer_is_closed_while_it_begins(ticks: int) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            member = group.member(group_protocol="consumer")
            async with streaming(member, explicit=True) as stream:
                coming = asyncio.ensure_future(anext(stream, None))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                closing = asyncio.ensure_future(member.consumer.close())
                await coming  # a batch or nothing, and no error
                await closing
                assert [batch async for batch in stream] == []

        group.world.run(main())


def test_a_stream_ends_when_its_consumer_is_closed(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            member = group.member(**protocol)
            await member.consumer.start()
            async with aclosing(member.consumer.partitions()) as streams:
                begun, unread = await anext(streams), await anext(streams)
                waiting = asyncio.ensure_future(anext(begun, None))
                await asyncio.sleep(1.0)
                await member.consumer.close()
                assert await waiting is None
                assert [batch async for batch in begun] == []
                assert [batch async for batch in unread] == []

        group.world.run(main())


# --- partitions that are lost during an await


@asynccontextmanager
async def slow_metadata(member: Member, *, failures: int = 0) -> AsyncIterator[asyncio.Event]:
    """Metadata that this member asks for come once the event is set; so many requests fail before."""
    cluster, arrived = member.consumer._core.cluster, asyncio.Event()
    refresh, left = cluster.refresh, failures

    async def slow(*arguments: Any, **options: Any) -> None:
        nonlocal left
        if left:
            left -= 1
            raise KafkaConnectionError("no broker can be reached")
        await comes(arrived)
        await refresh(*arguments, **options)

    cluster.refresh = slow  # type: ignore[method-assign]
    try:
        yield arrived
    finally:
        arrived.set()
        cluster.refresh = refresh  # type: ignore[method-assign]


async def only_member(group: GroupWorld, **options: Any) -> tuple[Member, GroupMembership]:
    """A member that has all partitions."""
    (member,) = await group.add(group_protocol="consumer", **options)
    await group.balanced([member], len(group.world.state.topics.by_name["t"].partitions))
    membership = member.consumer._core.membership
    assert membership is not None
    return member, membership


@pytest.mark.parametrize("failures", [0, 3])
def test_a_partition_that_is_lost_while_its_metadata_are_looked_up_is_not_read(failures: int) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            assigned: list[list[TopicPartition]] = []
            member, membership = await only_member(group, on_assigned=assigned.append)
            assert assigned == [[TopicPartition("t", 0)]]
            async with slow_metadata(member, failures=failures) as arrived:
                topics = group.world.state.topics
                topics.add_partitions(topics.by_name["t"], 2, 1)
                await membership.take([("t", 1), ("t", 2)])  # it waits for no metadata
                await asyncio.sleep(0.01)  # before all failures are over
                membership.lose([("t", 1)])
                arrived.set()
                await group.until(lambda: len(assigned) == 2)
            assert member.consumer.assignment == {TopicPartition("t", 0), TopicPartition("t", 2)}
            assert assigned[1] == [TopicPartition("t", 2)]

        group.world.run(main())


def test_a_partition_that_is_lost_is_not_looked_up_for_ever() -> None:
    """Later changes of the assignment do not wait for the look-up either."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            member, membership = await only_member(group)
            async with slow_metadata(member, failures=1_000_000):
                await membership.take([("t", 1)])
                await asyncio.sleep(10.0)
                assert membership._awaited.is_looking
                membership.lose([("t", 1)])
                await group.until(lambda: not membership._awaited.is_looking, limit_s=10.0)

        group.world.run(main())


def test_a_member_that_leaves_while_metadata_are_looked_up_reads_nothing() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            member, membership = await only_member(group)
            async with slow_metadata(member) as arrived:
                topics = group.world.state.topics
                topics.add_partitions(topics.by_name["t"], 1, 1)
                await membership.take([("t", 1)])
                await asyncio.sleep(0.01)
                await member.consumer.unsubscribe()
                arrived.set()
                await asyncio.sleep(10.0)
            assert not member.consumer.assignment

        group.world.run(main())


def test_a_partition_assigned_again_while_it_is_owned_is_taken_once() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            assigned: list[list[TopicPartition]] = []
            member, membership = await only_member(group, on_assigned=assigned.append)
            cursor = member.consumer._core.fetcher.cursors["t", 0]
            await membership.take([("t", 0)])
            await asyncio.sleep(1.0)
            assert member.consumer._core.fetcher.cursors["t", 0] is cursor
            assert cursor.ownership.is_owned
            assert len(assigned) == 1

        group.world.run(main())


class Rebalances:
    """Handlers that note what they are called with; `on_revoked` takes as long as the test wants."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[int]]] = []
        self.goes_on = asyncio.Event()
        self.options = {"on_revoked": self.on_revoked, "on_lost": self.on_lost}

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.log.append(("revoked", sorted(number for _, number in partitions)))
        await comes(self.goes_on)

    async def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.log.append(("lost", sorted(number for _, number in partitions)))


def test_a_partition_lost_while_records_in_hand_are_waited_for_is_not_revoked() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            rebalances = Rebalances()
            rebalances.goes_on.set()
            options = {"auto_commit_interval_ms": 600_000, "on_revoked": rebalances.on_revoked}
            member, membership = await only_member(group, **options)
            await group.until(lambda: group.seen.total() == RECORDS)
            member.work_s = lambda: 10.0
            async with group.producing(20, pause_s=0.0):
                pass
            await asyncio.sleep(1.0)  # a batch is in hand
            (where,) = member.consumer._core.fetcher.cursors.keys() & {("t", 0)}
            other = ("t", 1)
            giving_up = asyncio.ensure_future(membership.give_up([where, other]))
            await asyncio.sleep(1.0)
            membership.lose([where])
            await giving_up
            assert rebalances.log == [("revoked", [1])]
            assert ("t", 0) not in group.committed()  # its records are another member's
            assert ("t", 1) in group.committed()

        group.world.run(main())


def test_a_partition_lost_while_its_handler_runs_is_not_committed_and_may_come_back() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await filled(group)
            rebalances = Rebalances()
            member, membership = await only_member(group, auto_commit_interval_ms=600_000, **rebalances.options)
            await group.until(lambda: group.seen.total() == RECORDS)
            ownership = [member.consumer._core.fetcher.cursors["t", number].ownership for number in range(2)]
            giving_up = asyncio.ensure_future(membership.give_up([("t", 0), ("t", 1)]))
            await group.until(lambda: rebalances.log == [("revoked", [0, 1])])
            membership.lose([("t", 0)])
            await membership.take([("t", 0)])
            rebalances.goes_on.set()
            await giving_up
            assert [each.state for each in ownership] == [OwnershipState.LOST, OwnershipState.RELEASED]
            assert group.committed().keys() == {("t", 1)}
            assert member.consumer.assignment == {TopicPartition("t", 0)}
            assert member.consumer._core.fetcher.cursors["t", 0].ownership.is_owned

        group.world.run(main())


def test_a_partition_lost_while_the_last_commit_is_under_way_stays_lost() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            member, membership = await only_member(group, auto_commit_interval_ms=600_000)
            await group.until(lambda: group.seen.total() == RECORDS)
            core = member.consumer._core
            cursor, commit = core.fetcher.cursors["t", 0], core.commits.auto_commit

            async def lost_meanwhile(*arguments: Any, **options: Any) -> None:
                await commit(*arguments, **options)
                membership.lose([("t", 0)])

            core.commits.auto_commit = lost_meanwhile  # type: ignore[method-assign]
            await membership.give_up([("t", 0)])
            core.commits.auto_commit = commit  # type: ignore[method-assign]
            assert cursor.ownership.state is OwnershipState.LOST
            assert not member.consumer.assignment

        group.world.run(main())


# --- batches that were decoded, and wait for their task


@contextmanager
def slow_decoding(group: GroupWorld) -> Iterator[asyncio.Event]:
    """A batch decoded in another thread is there at once, and arrives once the event is set."""
    loop, arrives = group.world.loop, asyncio.Event()
    real = loop.run_in_executor

    def slow(executor: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        found = function(*arguments)

        async def later() -> Any:
            await comes(arrives)
            return found

        return asyncio.ensure_future(later())

    loop.run_in_executor = slow  # type: ignore[assignment, method-assign]
    try:
        yield arrives
    finally:
        loop.run_in_executor = real  # type: ignore[method-assign]


async def large_records(group: GroupWorld, count: int) -> None:
    """Records that are decoded in another thread, each a batch of its own."""
    async with kafwire.AsyncProducer(group.world.bootstrap, engine=group.world.engine, linger_ms=0) as producer:
        for _ in range(count):
            await (await producer.send("t", bytes(400_000), partition=0))


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_batch_whose_partition_goes_before_its_task_gets_it_is_dropped(
    *, comes_back: bool, is_cancelled: bool
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await large_records(group, 1)
            member, membership = await only_member(group, chunk_bytes=1)
            await member._stop_reading()
            await member.consumer.seek(TopicPartition("t", 0), 0)
            with slow_decoding(group) as arrives:
                reading = asyncio.ensure_future(member.consumer.poll(20.0))
                await asyncio.sleep(1.0)
                assert member.consumer._reading._decoding is not None
                if is_cancelled:
                    reading.cancel()
                    await asyncio.wait([reading])
                membership.lose([("t", 0)])
                if comes_back:
                    await membership.take([("t", 0)])
                arrives.set()
                if is_cancelled:
                    await asyncio.sleep(0)
                    reading = asyncio.ensure_future(member.consumer.poll(20.0))
                batches = await reading
            # Nothing was committed, so the assignment that follows begins with the same record.
            assert [batch.next_offset for batch in batches] == ([1] if comes_back else [])
            if comes_back:
                assert member.consumer._core.fetcher.queue.position(0) == 1
                assert await member.consumer.poll(1.0) == []

        group.world.run(main())


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_batch_of_a_stream_whose_partition_goes_before_its_task_gets_it_is_dropped(*, is_lost: bool) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await large_records(group, 1)
            member = group.member(group_protocol="consumer")
            async with streaming(member) as stream:
                membership = member.consumer._core.membership
                assert membership is not None
                with slow_decoding(group) as arrives:
                    reading = asyncio.ensure_future(anext(stream, None))
                    await asyncio.sleep(1.0)
                    if is_lost:
                        membership.lose([("t", 0)])
                    arrives.set()
                    batch = await reading
                assert (batch is None) == is_lost

        group.world.run(main())


def test_a_paused_stream_ends_when_its_partition_is_revoked(protocol: dict[str, Any]) -> None:
    """Its reader waits for a batch, and would keep the revocation waiting for the whole window."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            await filled(group)
            first = group.member(**protocol, enable_auto_commit=False)
            async with streaming(first) as stream:
                batch = await anext(stream)
                stream.complete(batch.base_offset, batch.next_offset)
                stream.pause()
                rest = asyncio.ensure_future(anext(stream, None))
                await asyncio.sleep(1.0)
                assert not rest.done()
                await first.consumer.subscribe("other")
                async with asyncio.timeout(10.0):
                    assert await rest is None
                await stream.aclose()
                await group.until(lambda: ("t", 0) not in first.consumer.assignment, 5.0)

        group.world.state.topics.create("other", 1, replicas=1)
        group.world.run(main())
