"""Members of groups in the simulated world: both protocols against the embedded broker's own coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafwire
from kafwire.errors import BrokerError, CommitFailedError, ConfigError
from kafwire.types import TopicPartition
from tests.support.group.consumers import CLASSIC_EAGER, PROTOCOLS, GroupWorld

RECORDS = 200


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def test_one_member_reads_all(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add(**protocol)
            async with group.producing(RECORDS):
                await group.until(lambda: group.seen.total() == RECORDS)
            await group.balanced([member], 4)
            await member.leave()

        group.world.run(main())
        assert group.seen.repeated() == 0
        assert sum(group.committed().values()) == RECORDS


def test_members_come_and_go_in_order_and_each_record_is_processed_once(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=6) as group:

        async def main() -> None:
            async with group.producing(3 * RECORDS):
                first, second = await group.add(2, **protocol)
                await group.balanced([first, second], 6)
                (third,) = await group.add(**protocol)
                await group.balanced([first, second, third], 6)
                await first.leave()
                await group.balanced([second, third], 6)
                await second.leave()
                await group.balanced([third], 6)
            await group.until(lambda: group.seen.total() == 3 * RECORDS)

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_a_batch_in_hand_is_finished_before_its_partition_goes(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.001):
                pass
            slow = group.member(**protocol)
            slow.work_s = lambda: 20.0
            await slow.start()
            await asyncio.sleep(5.0)
            await group.add(**protocol)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())
        assert group.seen.repeated() == 0


def test_records_in_hand_for_too_long_are_processed_again_by_others(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with group.producing(RECORDS, pause_s=0.001):
                pass
            slow = group.member(**protocol, revocation_timeout_ms=4_000)
            slow.work_s = lambda: 1_000.0
            await slow.start()
            await asyncio.sleep(5.0)
            (quick,) = await group.add(**protocol)
            # One of the two partitions is in the slow member's hand. An eager group moves both.
            await group.until(lambda: len(quick.consumer.assignment) > 0)
            await asyncio.sleep(10.0)
            assert group.seen.total() > 0

        group.world.run(main())
    if "still being processed" not in caplog.text:
        assert protocol is not CLASSIC_EAGER


def test_a_member_that_dies_is_replaced_after_its_session(protocol: dict[str, Any]) -> None:
    with GroupWorld(group_consumer_session_timeout_ms="45000") as group:

        async def main() -> None:
            async with group.producing(RECORDS):
                first, second = await group.add(2, **protocol)
                await group.balanced([first, second], 4)
                await first.die()
                await group.balanced([second], 4)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_a_member_cut_off_for_longer_than_its_session_loses_its_partitions(protocol: dict[str, Any]) -> None:
    with GroupWorld(brokers=1) as group:
        lost: list[list[TopicPartition]] = []

        async def main() -> None:
            (member,) = await group.add(**protocol, on_lost=lost.append)
            await group.balanced([member], 4)
            batch_of = TopicPartition("t", 0)
            group.world.link(1).is_refusing = True
            group.world.break_connections(1)
            await asyncio.sleep(100.0)
            group.world.link(1).heal()
            with pytest.raises(CommitFailedError):
                await member.consumer.commit({batch_of: 0})
            await group.balanced([member], 4)

        group.world.run(main())
        assert lost


def test_a_commit_of_a_partition_that_others_have_is_refused(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first, second = await group.add(2, **protocol)
            await group.balanced([first, second], 4)
            (where, *_) = second.consumer.assignment
            with pytest.raises(CommitFailedError, match="is not assigned to this member now"):
                await first.consumer.commit({where: 0})

        group.world.run(main())


def test_partitions_that_are_added_are_read_from_their_beginning(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            members = await group.add(2, **protocol, auto_offset_reset="latest", metadata_max_age_ms=5_000)
            await asyncio.sleep(10.0)
            topic = group.world.state.topics.by_name["t"]
            group.world.state.topics.add_partitions(topic, 3, 1)
            group.world.changed()
            async with group.producing(RECORDS, pause_s=0.0):
                pass
            await group.balanced(members, 4)
            await group.until(lambda: group.seen.total() == RECORDS)

        group.world.run(main())


def test_handlers_are_called_where_the_user_reads(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:
        reported: list[tuple[str, int]] = []

        async def main() -> None:
            async def assigned(partitions: list[TopicPartition]) -> None:
                await asyncio.sleep(1.0)
                reported.append(("assigned", len(partitions)))

            first = group.member(
                **protocol,
                on_assigned=assigned,
                on_revoked=lambda partitions: reported.append(("revoked", len(partitions))),
            )
            await first.start()
            await group.balanced([first], 4)
            await group.until(lambda: reported == [("assigned", 4)])
            (second,) = await group.add(**protocol)
            await group.balanced([first, second], 4)
            await group.until(lambda: len(reported) >= (3 if protocol is CLASSIC_EAGER else 2))
            await first.leave()

        group.world.run(main())
        if protocol is CLASSIC_EAGER:
            assert reported == [("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2)]
        else:
            assert reported == [("assigned", 4), ("revoked", 2), ("revoked", 2)]


def test_the_reader_raises_the_error_of_a_handler(protocol: dict[str, Any]) -> None:
    def fail(_: list[TopicPartition]) -> None:
        raise ValueError("no")

    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, on_assigned=fail)
            await group.until(lambda: member.error is not None)
            assert isinstance(member.error, ValueError)

        group.world.run(main())


def test_a_topic_that_does_not_exist_is_an_error_at_once(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group, pytest.raises(BrokerError, match="missing"):
        group.world.run(group.member(**protocol, topics=["missing"]).start())


def test_topics_by_pattern_are_found_as_they_come(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, topics=None, pattern="t[0-9]*", metadata_max_age_ms=5_000)
            await group.balanced([member], 2)
            group.world.state.topics.create("t7", 3)
            group.world.state.topics.create("other", 3)
            group.world.changed()
            await group.balanced([member], 5)
            assert {where.topic for where in member.consumer.assignment} == {"t", "t7"}

        group.world.run(main())


def test_a_member_that_unsubscribes_leaves_and_may_come_back(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first, second = await group.add(2, **protocol)
            await group.balanced([first, second], 4)
            await first._stop_reading()
            await first.consumer.unsubscribe()
            await group.balanced([second], 4)
            await first.consumer.subscribe("t")
            await group.balanced([first, second], 4)

        group.world.run(main())


def test_a_static_member_that_returns_in_time_moves_nothing(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first = group.member(**protocol, group_instance_id="one")
            await first.start()
            second = group.member(**protocol, group_instance_id="two")
            await second.start()
            await group.balanced([first, second], 4)
            before = second.consumer.assignment, second.consumer.group_metadata().member_id
            has = first.consumer.assignment
            await first.leave()
            again = group.member(**protocol, group_instance_id="one")
            await again.start()
            await group.until(lambda: again.consumer.assignment == has)
            assert (second.consumer.assignment, second.consumer.group_metadata().member_id) == before

        group.world.run(main())


def test_two_members_with_one_static_id_do_not_both_read(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            first = group.member(**protocol, group_instance_id="one")
            await first.start()
            await group.balanced([first], 4)
            second = group.member(**protocol, group_instance_id="one")
            await second.start()
            await group.until(lambda: first.error is not None or second.error is not None)
            (error,) = (member.error for member in (first, second) if member.error is not None)
            assert "group_instance_id" in str(error)

        group.world.run(main())


def test_a_member_that_takes_nothing_leaves_after_max_poll_interval_ms(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            async with group.producing(10, pause_s=0.0):
                pass
            idle = group.member(**protocol, max_poll_interval_ms=10_000)
            idle.work_s = lambda: 60.0
            await idle.start()
            (other,) = await group.add(**protocol)
            await group.balanced([other], 4, limit_s=40.0)
            await group.until(lambda: idle.error is not None)
            assert "max_poll_interval_ms" in str(idle.error)
            # The next call joins again.
            idle.work_s = lambda: 0.0
            assert await idle.consumer.poll(60.0) == []
            await group.balanced([idle, other], 4)

        group.world.run(main())


def test_auto_takes_the_consumer_protocol_where_the_cluster_has_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kafwire")
    with GroupWorld() as group:

        async def main() -> None:
            (member,) = await group.add(session_timeout_ms=10_000)
            await group.balanced([member], 4)

        group.world.run(main())
    assert "speaks the consumer protocol" in caplog.text
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert warning.startswith("group 'g': session_timeout_ms has no effect in the consumer protocol")


def test_auto_does_not_convert_a_group_of_the_classic_protocol(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "kafwire")
    with GroupWorld() as group:

        async def main() -> None:
            (first,) = await group.add(**CLASSIC_EAGER)
            await group.balanced([first], 4)
            (second,) = await group.add()
            await group.balanced([first, second], 4)

        group.world.run(main())
    assert "speaks the classic protocol, as the group has members that speak it" in caplog.text


def test_a_group_changes_its_protocol_while_it_is_read() -> None:
    with GroupWorld(partitions=6, group_consumer_migration_policy="bidirectional") as group:

        async def main() -> None:
            async with group.producing(3 * RECORDS):
                (old,) = await group.add(**PROTOCOLS["cooperative"])
                await group.balanced([old], 6)
                (new,) = await group.add(**PROTOCOLS["consumer"])
                await group.balanced([old, new], 6)
                await old.leave()
                await group.balanced([new], 6)
            await group.until(lambda: group.seen.total() == 3 * RECORDS)

        group.world.run(main())
        assert group.seen.repeated() == 0


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_interval_ms": 45_000, "session_timeout_ms": 45_000},
        {"revocation_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000},
        {"group_protocol": "consumer", "partition_assignment_strategy": "range"},
        {"group_protocol": "consumer", "session_timeout_ms": 10_000},
        {"group_protocol": "consumer", "heartbeat_interval_ms": 1_000},
        {"group_protocol": "classic", "group_remote_assignor": "uniform"},
        {"partition_assignment_strategy": "best"},
        {"group_protocol": "new"},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        kafwire.AsyncConsumer("localhost:9092", topics=["t"], group_id="g", **options)
