"""Faults of groups in other clients, one by one; each name says which. In the simulated world.

Numbers are those of librdkafka's tests (0106), and of issues of the projects named.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

import kafwire
from kafwire import protocol as kafka
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import LATER, Request
from kafwire.errors import BrokerError, CommitFailedError
from kafwire.types import TopicPartition
from tests.support.group.consumers import CONSUMER, GROUP, PROTOCOLS, GroupWorld, Member

RECORDS = 120
BROKERS = 3


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def cut_off(group: GroupWorld, *, is_cut: bool) -> None:
    """No client reaches a broker, or all do again."""
    for node in group.world.links:
        group.world.link(node).is_refusing = is_cut
        if is_cut:
            group.world.break_connections(node)
        else:
            group.world.link(node).heal()


@asynccontextmanager
async def standing_still(member: Member) -> AsyncIterator[None]:
    """Stop the member's timer: no request is sent when it is due."""
    membership = member.consumer._core.membership
    assert membership is not None
    driver = membership._driver
    assert driver is not None
    await asyncio.sleep(0.5)  # the last one has its response
    assert driver._timer is not None
    driver._timer.cancel()
    yield
    driver._on_time()


async def in_hand(group: GroupWorld, **options: Any) -> tuple[Member, kafwire.records.Batch]:
    """A member that does not read by itself, and the batch that it has in hand."""
    member = group.member(**options)
    await member.consumer.start()
    await group.until(lambda: len(member.consumer.assignment) == 1)
    (batch,) = await member.consumer.poll(30.0)
    return member, batch


class SlowMetadata:
    """The Metadata responses to some clients come late; `beats` are the times of each client's heartbeats."""

    def __init__(self, group: GroupWorld, seconds: float) -> None:
        self.clients: set[str] = set()
        self.seen = 0
        self.beats: defaultdict[str, list[float]] = defaultdict(list)
        self._seconds, self._loop = seconds, group.world.loop
        group.world.state.interceptors.insert(0, self._intercept)

    def _intercept(self, request: Request) -> None:
        name = request.client_id or ""
        if request.name == "Metadata" and name in self.clients:
            request.delay_ms = self._seconds * 1000
            self.seen += 1
        if request.name in ("Heartbeat", "ConsumerGroupHeartbeat"):
            self.beats[name].append(self._loop.time())


# --- slow metadata


def test_heartbeats_do_not_wait_behind_metadata(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:
        slow = SlowMetadata(group, 25.0)

        async def main() -> None:
            members = await group.add(2, **protocol, metadata_max_age_ms=5_000)
            await group.balanced(members, 4)
            slow.clients.update(member.name for member in members)
            slow.beats.clear()
            await group.until(lambda: slow.seen >= 6, 200.0)
            for member in members:
                beats = slow.beats[member.name]
                assert max(later - earlier for earlier, later in pairwise(beats)) < 10.0

        group.world.run(main())


@pytest.mark.parametrize("protocol", ["eager", "cooperative"], indirect=True)
def test_slow_metadata_hold_up_no_rebalance(protocol: dict[str, Any]) -> None:
    """The group's leader knows the topic, and its metadata are fetched 25 s long."""
    with GroupWorld() as group:
        slow = SlowMetadata(group, 25.0)

        async def main() -> None:
            (leader,) = await group.add(1, **protocol)
            await group.balanced([leader], 4)
            slow.clients.add(leader.name)
            await group.add(1, **protocol)
            await group.balanced(group.members, 4, 12.0)
            assert slow.seen

        group.world.run(main())


@pytest.mark.parametrize("protocol", ["eager", "cooperative"], indirect=True)
def test_partitions_in_slow_metadata_are_assigned_once_they_come(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:
        slow = SlowMetadata(group, 25.0)

        async def main() -> None:
            (leader,) = await group.add(1, **protocol)
            await group.balanced([leader], 4)
            topics = group.world.state.topics
            topics.add_partitions(topics.by_name["t"], 2, 1)
            slow.clients.add(leader.name)
            await group.add(1, **protocol)
            await group.balanced(group.members, 4, 12.0)
            await group.balanced(group.members, 6, 40.0)

        group.world.run(main())


@pytest.mark.parametrize("protocol", ["eager", "cooperative"], indirect=True)
def test_a_sync_without_a_response_holds_up_no_join(protocol: dict[str, Any]) -> None:
    """A coordinator does not respond to the SyncGroup of a member that it has removed meanwhile."""
    with GroupWorld() as group:
        synced: list[str] = []

        def forget(request: Request) -> Any:
            if request.name == "SyncGroup" and request.client_id == "m1" and not synced:
                synced.append(request.message.member_id)
                return LATER
            return None

        group.world.state.interceptors.insert(0, forget)

        async def main() -> None:
            await group.add(2, **protocol)
            await group.until(lambda: bool(synced))
            coordinator = group.world.state.part(GroupCoordinator).groups["g"]
            coordinator.leave_classic([(synced[0], None)])
            group.world.changed()
            await group.balanced(group.members, 4, 30.0)

        group.world.run(main())


# --- sessions


def test_session_timeout_gives_the_partitions_to_others(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first, second = await group.add(2, **protocol)
            await group.balanced([first, second], 4)
            async with group.producing(RECORDS):
                await first.die()
                began = group.world.loop.time()
                await group.balanced([second], 4)
            assert 40.0 < group.world.loop.time() - began < 60.0  # session_timeout_ms, and not rebalance_timeout_ms
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_sigstop_beyond_the_session(protocol: dict[str, Any]) -> None:
    """Nothing of the process runs, and its connections stay open."""
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=2.0):
                # A commit would keep its session.
                stopped, other = await group.add(2, **protocol, auto_commit_interval_ms=10_000_000)
                await group.balanced([stopped, other], 2)
                async with standing_still(stopped):
                    await group.until(lambda: len(other.consumer.assignment) == 2)
                await group.balanced([stopped, other], 2)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_0106_a_commit_in_on_lost_is_refused(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:
        refused: list[CommitFailedError] = []

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass

            async def lost(partitions: list[TopicPartition]) -> None:
                with pytest.raises(CommitFailedError) as error:
                    await member.consumer.commit(dict.fromkeys(partitions, 10))
                refused.append(error.value)

            member, batch = await in_hand(group, **protocol, on_lost=lost, enable_auto_commit=False)
            async with standing_still(member):
                (other,) = await group.add(**protocol, enable_auto_commit=False)
                await group.until(lambda: len(other.consumer.assignment) == 1)
            with pytest.raises(CommitFailedError):
                await member.consumer.commit(batch)
            while not refused:
                await member.consumer.poll(1.0)
            assert refused[0].partitions == (TopicPartition("t", 0),)
            assert group.committed() == {}

        group.world.run(main())


def test_a_batch_from_before_the_partition_was_lost_and_came_back_is_not_committed(protocol: dict[str, Any]) -> None:
    """Records that others have processed meanwhile would be processed again."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            reported: list[str] = []
            handlers = {
                "on_lost": lambda _: reported.append("lost"),
                "on_assigned": lambda _: reported.append("assigned"),
            }
            member, batch = await in_hand(group, **protocol, **handlers, enable_auto_commit=False)
            async with standing_still(member):
                (other,) = await group.add(**protocol)
                await group.until(lambda: group.seen.total() == 10)
                async with group.producing(10, pause_s=0.0):
                    pass
                await group.until(lambda: group.seen.total() == 20)
                await other.leave()
            await group.until(lambda: group.committed() == {("t", 0): 20})
            while reported != ["assigned", "lost", "assigned"]:
                await member.consumer.poll(1.0)
            with pytest.raises(CommitFailedError, match="t-0 of group 'g' was another member's"):
                await member.consumer.commit(batch)
            assert group.committed() == {("t", 0): 20}
            # Records that it seeks and reads again may be committed.
            where = TopicPartition("t", 0)
            await member.consumer.seek(where, 5)
            (again,) = await member.consumer.poll(30.0)
            await member.consumer.commit({where: 7})
            assert group.committed() == {("t", 0): 7}
            await member.consumer.commit(again)
            assert group.committed() == {("t", 0): 20}

        group.world.run(main())


def test_0091_slow_processing_keeps_the_session_and_loses_nothing(protocol: dict[str, Any]) -> None:
    """Heartbeats do not wait for the processing, however long."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            slow = group.member(**protocol)
            slow.work_s = lambda: 600.0  # for all ten: they come at once
            await slow.start()
            await group.until(lambda: group.seen.total() == 10, limit_s=700.0)
            assert slow.consumer.assignment == {TopicPartition("t", 0)}
            assert slow.error is None

        group.world.run(main())
        assert group.seen.repeated() == 0


# --- commits while the group is rebalanced


def test_0117_a_commit_while_the_group_is_rebalanced_succeeds_for_a_kept_partition(
    protocol: dict[str, Any],
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            member, batch = await in_hand(group, **protocol, enable_auto_commit=False)
            others = [asyncio.ensure_future(group.add(**protocol)) for _ in range(3)]
            for _ in range(50):  # at any time of those rebalances
                await member.consumer.commit({TopicPartition("t", 0): batch.next_offset})
                await asyncio.sleep(0.05)
            assert group.committed() == {("t", 0): batch.next_offset}
            await asyncio.gather(*others)

        group.world.run(main())


def test_0118_a_cooperative_group_commits_while_it_is_rebalanced_again_and_again() -> None:
    with GroupWorld(partitions=6) as group:

        async def main() -> None:
            options: dict[str, Any] = {**PROTOCOLS["cooperative"], "auto_commit_interval_ms": 20}
            async with group.producing(5 * RECORDS):
                first, *_ = await group.add(2, **options)
                for _ in range(4):
                    (more,) = await group.add(**options)
                    await asyncio.sleep(0.2)
                    await more.leave()
            await group.until(lambda: group.seen.total() == 5 * RECORDS)
            assert first.error is None

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_0113_a_cooperative_member_that_comes_does_not_stop_kept_partitions() -> None:
    with GroupWorld(partitions=4) as group:
        revoked: list[TopicPartition] = []

        async def main() -> None:
            options: dict[str, Any] = PROTOCOLS["cooperative"]
            (first,) = await group.add(**options, on_revoked=revoked.extend)
            await group.balanced([first], 4)
            (second,) = await group.add(**options)
            await group.balanced([first, second], 4)

        group.world.run(main())
        assert len(revoked) == 2


# --- coordinators


def test_a_rolling_restart_moves_the_coordinator_and_every_member_goes_on(protocol: dict[str, Any]) -> None:
    """librdkafka #2944: members that did not join again after it."""
    with GroupWorld(partitions=4, brokers=BROKERS) as group:

        async def main() -> None:
            members = await group.add(3, **protocol)
            await group.balanced(members, 4)
            async with group.producing(RECORDS, pause_s=0.5):
                for node in range(1, BROKERS + 1):
                    group.world.kill(node, clean=True)
                    await asyncio.sleep(5.0)
                    group.world.revive(node)
                    await asyncio.sleep(5.0)
            await group.balanced(members, 4)
            await group.until(lambda: group.seen.total() == RECORDS)
            assert [member.error for member in members] == [None] * 3

        group.world.run(main())


def test_a_coordinator_that_is_gone_for_longer_than_a_session(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=4, brokers=BROKERS) as group:

        async def main() -> None:
            members = await group.add(2, **protocol)
            await group.balanced(members, 4)
            cut_off(group, is_cut=True)
            await asyncio.sleep(300.0)
            cut_off(group, is_cut=False)
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.balanced(members, 4)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_heartbeats_go_on_while_a_commit_waits_for_the_coordinator(protocol: dict[str, Any]) -> None:
    """kafka-python #1985: the thread that waited for the one held the lock that the other needed."""
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            lost: list[list[TopicPartition]] = []
            options = {"enable_auto_commit": False, "on_lost": lost.append}
            member, batch = await in_hand(group, **protocol, **options)
            link = group.world.link(1)
            link.resets += ["OffsetCommit"] * 10_000
            committing = asyncio.ensure_future(member.consumer.commit(batch))
            await asyncio.sleep(50.0)  # longer than its session
            assert not committing.done()
            assert not lost
            link.heal()
            await committing
            assert group.committed() == {("t", 0): batch.next_offset}

        group.world.run(main())


def test_no_partition_stalls_silently_after_a_rebalance(protocol: dict[str, Any]) -> None:
    """kafka-python #3131, confluent-kafka-python #1568: all but one went on."""
    with GroupWorld(partitions=6, brokers=BROKERS) as group:

        async def main() -> None:
            (first,) = await group.add(**protocol)
            async with group.producing(10 * RECORDS, pause_s=0.05):
                for round_number in range(6):
                    (more,) = await group.add(**protocol)
                    group.world.break_connections(1 + round_number % BROKERS)
                    await group.balanced([first, more], 6)
                    await more.leave()
                    await group.balanced([first], 6)
            await group.until(lambda: group.seen.total() == 10 * RECORDS, limit_s=20.0)

        group.world.run(main())
        assert {where.partition for where in group.seen.by_partition} == {*range(6)}


# --- members that the coordinator does not know


@pytest.mark.parametrize("kind", ["unknown", "fenced"])
def test_0147_a_member_of_the_consumer_protocol_that_is_unknown_or_fenced_joins_again(kind: str) -> None:
    with GroupWorld(partitions=2) as group:
        lost: list[list[TopicPartition]] = []

        async def main() -> None:
            member = await group.member(None, **CONSUMER, on_lost=lost.append).start()
            await group.balanced([member], 2)
            async with kafwire.AsyncClient(group.world.bootstrap, engine=group.world.engine) as client:
                request = kafka.ConsumerGroupHeartbeatRequest
                member_id = member.consumer.group_metadata().member_id
                await client.call(request(group_id=GROUP, member_id=member_id, member_epoch=-1), broker=1)
                if kind == "fenced":  # by another one with its id
                    message = request(
                        group_id=GROUP,
                        member_id=member_id,
                        member_epoch=0,
                        rebalance_timeout_ms=1_000,
                        subscribed_topic_names=["t"],
                        topic_partitions=[],
                    )
                    await client.call(message, broker=1)
            await group.until(lambda: bool(lost))
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.balanced([member], 2)
            await group.until(lambda: group.seen.total() == RECORDS)
            assert member.error is None

        group.world.run(main())
        assert sorted(lost[0]) == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_0102_a_static_member_that_is_away_for_longer_than_its_session_is_replaced(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=4) as group:

        async def main() -> None:
            (static,) = await group.add(**protocol, group_instance_id="one")
            (other,) = await group.add(**protocol, group_instance_id="two")
            await group.balanced([static, other], 4)
            await static.leave()
            await asyncio.sleep(20.0)
            assert len(other.consumer.assignment) == 2
            await group.balanced([other], 4)
            (again,) = await group.add(**protocol, group_instance_id="one")
            await group.balanced([again, other], 4)

        group.world.run(main())


def test_of_two_members_with_one_static_id_the_other_goes_on(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.1):
                (first,) = await group.add(**protocol, group_instance_id="one")
                await group.balanced([first], 2)
                (second,) = await group.add(**protocol, group_instance_id="one")
                both = (first, second)
                await group.until(lambda: any(member.error is not None for member in both))
                (goes_on,) = (member for member in both if member.error is None)
                await group.balanced([goes_on], 2)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


# --- topics


def test_a_pattern_without_a_match_waits_for_topics(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, topics=None, pattern="u[0-9]+", metadata_max_age_ms=5_000)
            await asyncio.sleep(60.0)
            assert member.error is None
            assert member.consumer.assignment == set()
            group.world.state.topics.create("u1", 2)
            group.world.changed()
            await group.until(lambda: len(member.consumer.assignment) == 2)

        group.world.run(main())


def test_a_topic_that_is_deleted_and_recreated_is_read_from_its_beginning(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, metadata_max_age_ms=5_000)
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            group.world.state.topics.delete(group.world.state.topics.by_name["t"])
            group.world.changed()
            await asyncio.sleep(30.0)
            group.world.state.topics.create("t", 2)
            group.world.changed()
            group.seen.by_partition.clear()
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            assert member.error is None

        group.world.run(main())


def test_a_topic_that_is_recreated_between_two_looks_is_read_from_its_beginning(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, metadata_max_age_ms=5_000)
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            group.world.state.topics.delete(group.world.state.topics.by_name["t"])
            group.world.state.topics.create("t", 2)
            group.world.changed()
            group.seen.by_partition.clear()
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            assert member.error is None

        group.world.run(main())


def test_one_of_two_topics_is_missing_until_it_is_made(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            group.world.state.topics.create("u", 2)
            (member,) = await group.add(**protocol, topics=["t", "u"], metadata_max_age_ms=5_000)
            await group.balanced([member], 4)
            group.world.state.topics.delete(group.world.state.topics.by_name["u"])
            group.world.changed()
            await group.until(lambda: {where.topic for where in member.consumer.assignment} == {"t"})
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            group.world.state.topics.create("u", 3)
            group.world.changed()
            await group.balanced([member], 5)
            assert member.error is None

        group.world.run(main())


# --- handlers


@pytest.mark.parametrize("handler", ["on_assigned", "on_revoked"])
def test_a_handler_that_hangs_does_not_hold_up_the_others(protocol: dict[str, Any], handler: str) -> None:
    with GroupWorld(partitions=2) as group:
        lost: list[list[TopicPartition]] = []
        hung: list[TopicPartition] = []

        async def hang(partitions: list[TopicPartition]) -> None:
            if not hung:
                hung.extend(partitions)
                await asyncio.sleep(10_000.0)

        async def main() -> None:
            handlers: dict[str, Any] = {"on_lost": lost.append, handler: hang}
            hanging = group.member(**protocol, revocation_timeout_ms=5_000, rebalance_timeout_ms=20_000, **handlers)
            await hanging.start()
            await group.until(lambda: len(hanging.consumer.assignment) == 2)
            (other,) = await group.add(**protocol)
            async with group.producing(RECORDS):
                pass
            await group.until(lambda: len(other.consumer.assignment) > 0 and group.seen.total() > 0)
            await asyncio.sleep(100.0)
            assert not lost

        group.world.run(main())


@pytest.mark.parametrize("handler", ["on_assigned", "on_revoked"])
def test_a_handler_that_is_cancelled_ends_the_read_alone(protocol: dict[str, Any], handler: str) -> None:
    with GroupWorld(partitions=2) as group:
        hung: list[TopicPartition] = []

        async def hang(partitions: list[TopicPartition]) -> None:
            if not hung:
                hung.extend(partitions)
                await asyncio.sleep(10_000.0)

        async def main() -> None:
            handlers: dict[str, Any] = {handler: hang}
            one = group.member(**protocol, **handlers)
            await one.start()
            await group.until(lambda: len(one.consumer.assignment) == 2)
            (other,) = await group.add(**protocol)
            await group.until(lambda: bool(hung))
            await one.read_again()
            async with group.producing(RECORDS):
                pass
            await group.balanced([one, other], 2)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_a_handler_that_raises_leaves_the_member_in_its_group(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:
        raised: list[ValueError] = []

        def fail(_: list[TopicPartition]) -> None:
            raised.append(ValueError("no"))
            raise raised[-1]

        async def main() -> None:
            (one,) = await group.add(**protocol, on_assigned=fail)
            await group.until(lambda: one.error is not None)
            assert one.error is raised[0]
            one.error = None
            await one.read_again()
            async with group.producing(RECORDS):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())
        assert len(raised) == 1


# --- groups that are gone


@asynccontextmanager
async def deleted_group(group: GroupWorld, member: Member) -> AsyncIterator[None]:
    """The group is deleted, after the member was silent for longer than its session."""
    async with standing_still(member):
        await asyncio.sleep(60.0)
        groups: GroupCoordinator = group.world.state.part(GroupCoordinator)
        assert groups.delete(GROUP) == 0
        yield


def test_a_member_whose_group_was_deleted_joins_again(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol)
            await group.balanced([member], 2)
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.until(lambda: group.seen.total() == RECORDS)
            async with deleted_group(group, member):
                pass
            await group.until(lambda: not member.consumer.assignment, limit_s=20.0)
            await group.balanced([member], 2, limit_s=20.0)
            assert member.error is None

        group.world.run(main())
        assert protocol is not CONSUMER or "'g' was deleted, or became a group of another type" in caplog.text


def test_a_commit_for_a_group_that_was_deleted_fails_and_the_member_joins_again(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            member, batch = await in_hand(group, **protocol, enable_auto_commit=False)
            async with deleted_group(group, member):
                with pytest.raises(CommitFailedError):
                    await member.consumer.commit(batch)
            again = await member.consumer.poll(30.0)
            assert again[0].base_offset == batch.base_offset  # nothing was committed
            await member.consumer.commit(again[-1])
            assert group.committed() == {("t", 0): again[-1].next_offset}

        group.world.run(main())


@pytest.mark.parametrize("policy", ["bidirectional", "disabled"])
def test_a_member_whose_group_became_classic_joins_it_or_raises(policy: str) -> None:
    with GroupWorld(partitions=2, group_consumer_migration_policy=policy) as group:

        async def main() -> None:
            member = group.member(**CONSUMER)
            await member.consumer.start()
            await group.until(lambda: len(member.consumer.assignment) == 2)
            async with deleted_group(group, member):
                (classic,) = await group.add(**PROTOCOLS["cooperative"])
                await group.balanced([classic], 2)
            if policy == "disabled":
                await group.until(lambda: not member.consumer.assignment, limit_s=20.0)
                with pytest.raises(BrokerError, match="its members speak the classic one"):
                    await member.consumer.poll(20.0)
                return
            await group.balanced([member, classic], 2)

        group.world.run(main())
