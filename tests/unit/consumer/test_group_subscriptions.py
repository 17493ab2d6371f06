"""Members that subscribe, fail and subscribe again: in quick order, at once, by hand, while joining, after errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire.broker.faults import Fault, Faults
from kafwire.consumer.group.membership import why_fatal
from kafwire.errors import AuthenticationError, AuthorizationError, BrokerError, KafkaError, PollIntervalError
from kafwire.types import TopicPartition
from tests.support.group.consumers import CLASSIC_EAGER, CONSUMER, PROTOCOLS, GroupWorld

FIRST = TopicPartition("t", 0)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def fail_next(group: GroupWorld, *what: Any, **how: Any) -> Fault:
    """See `Faults.fail_next`."""
    script: Faults = group.world.state.part(Faults)
    return script.fail_next(*what, **how)


# --- subscriptions in quick order


def test_a_new_subscription_at_once_reads_the_new_topic(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            group.world.state.topics.create("u", 3)
            (member,) = await group.add(**protocol)
            await member.consumer.subscribe("u")
            await group.until(lambda: len(member.consumer.assignment) == 3, limit_s=20.0)
            assert {where.topic for where in member.consumer.assignment} == {"u"}

        group.world.run(main())


@pytest.mark.parametrize("options", [{}, *PROTOCOLS.values()])
def test_of_two_subscriptions_at_once_one_member_remains(options: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            group.world.state.topics.create("u", 3)
            consumer = group.member(**options, topics=None).consumer
            await consumer.start()
            await asyncio.gather(consumer.subscribe("t"), consumer.subscribe("u"))
            await group.until(lambda: len(consumer.assignment) == 3)
            await consumer.unsubscribe()
            (other,) = await group.add(**options, topics=["u"])
            await group.balanced([other], 3, limit_s=20.0)

        group.world.run(main())


def test_a_consumer_that_is_closed_while_it_subscribes_joins_no_more() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            consumer = group.member(topics=None, assign=[FIRST], enable_auto_commit=False).consumer
            assert await consumer.poll(1.0) == []  # there is a fetch session to be ended
            faults = group.world.state.part(Faults)
            asking = faults.delay("DescribeGroups", 0.2, times=1)
            subscribing = asyncio.ensure_future(consumer.subscribe("t"))
            await group.until(lambda: asking.times > 0)
            faults.delay("Fetch", 1.0, times=2)  # the end of the session comes after the response
            await consumer.close()
            with pytest.raises(KafkaError, match="was closed while"):
                await subscribing
            (other,) = await group.add()
            await group.balanced([other], 2, limit_s=20.0)

        group.world.run(main())


def test_a_member_that_leaves_before_it_has_an_id_holds_up_no_other() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            first = group.member(**CLASSIC_EAGER)
            delayed = group.world.state.part(Faults).delay("JoinGroup", 0.3, times=1)
            await first.consumer.start()
            await group.until(lambda: delayed.times > 0)
            await first.consumer.unsubscribe()
            await asyncio.sleep(0.5)  # it has been given one
            others = await group.add(2, **CLASSIC_EAGER)
            await group.balanced(others, 2, limit_s=20.0)

        group.world.run(main())


# --- subscriptions that fail


def test_after_a_failed_subscription_a_pattern_still_finds_topics(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (member,) = await group.add(**protocol, topics=None, pattern="t[0-9]*", metadata_max_age_ms=5_000)
            await group.balanced([member], 2)
            with pytest.raises(BrokerError, match="missing"):
                await member.consumer.subscribe("missing")
            group.world.state.topics.create("t7", 3)
            group.world.changed()
            await group.balanced([member], 5)

        group.world.run(main())


def test_a_failed_subscription_keeps_assigned_partitions(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            consumer = group.member(**protocol, topics=None, assign=[FIRST]).consumer
            await consumer.start()
            with pytest.raises(BrokerError, match="missing"):
                await consumer.subscribe("missing")
            assert consumer.assignment == {FIRST}
            await consumer.subscribe("t")
            await group.until(lambda: len(consumer.assignment) == 2)

        group.world.run(main())


# --- members that got an error of their end


def test_a_consumer_that_reads_by_hand_after_a_poll_interval_is_no_member(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            consumer = group.member(**protocol, max_poll_interval_ms=10_000).consumer
            await consumer.start()
            await asyncio.sleep(30.0)
            with pytest.raises(PollIntervalError):
                await consumer.poll(1.0)
            await consumer.assign([FIRST])
            assert await consumer.poll(5.0) == []
            assert (await consumer.metrics())["group"] is None
            assert consumer.assignment == {FIRST}

        group.world.run(main())


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_member_that_was_denied_for_a_while_goes_on_as_the_same_member(
    protocol: dict[str, Any], instance_id: str | None
) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            consumer = group.member(**protocol, group_instance_id=instance_id).consumer
            await consumer.start()
            await group.until(lambda: len(consumer.assignment) == 2)
            fail_next(group, ["ConsumerGroupHeartbeat", "Heartbeat"], "GROUP_AUTHORIZATION_FAILED")
            await group.until(lambda: not consumer.assignment)
            with pytest.raises(AuthorizationError):
                await consumer.poll(1.0)
            assert await consumer.poll(10.0) == []
            assert len(consumer.assignment) == 2

        group.world.run(main())


def test_a_member_that_is_not_let_in_for_a_while_loses_its_partitions_and_joins_again(
    protocol: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with GroupWorld(partitions=2) as group:
        lost: list[TopicPartition] = []

        async def refused() -> None:
            raise AuthenticationError("the token was refused")

        async def main() -> None:
            consumer = group.member(**protocol, on_lost=lost.extend).consumer
            await consumer.start()
            await group.until(lambda: len(consumer.assignment) == 2)
            assert await consumer.poll(0.1) == []
            offsets = consumer._core.commits.group
            assert offsets is not None
            with monkeypatch.context() as patch:
                patch.setattr(offsets.coordination, "connection", refused)
                await group.until(lambda: not consumer.assignment)
            with pytest.raises(AuthenticationError):
                await consumer.poll(1.0)
            assert await consumer.poll(10.0) == []
            assert len(consumer.assignment) == len(lost) == 2

        group.world.run(main())


def test_auto_waits_for_the_coordinators_type_of_the_group() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            (first,) = await group.add(**CLASSIC_EAGER)
            await group.balanced([first], 2)
            for error in ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"):
                fail_next(group, "DescribeGroups", error)
            (second,) = await group.add()
            await group.balanced([first, second], 2)
            assert "classic protocol" in repr(second.consumer)

        group.world.run(main())


def test_auto_warns_of_an_assignor_of_the_other_protocol(caplog: pytest.LogCaptureFixture) -> None:
    with GroupWorld(partitions=2) as group:
        group.world.run(group.add(partition_assignment_strategy="range", group_remote_assignor="uniform"))
    assert "group_remote_assignor has no effect in the classic protocol" in caplog.text


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("GROUP_ID_NOT_FOUND", "group.consumer.migration.policy"),
        ("UNSUPPORTED_VERSION", 'group_protocol="classic"'),
        ("UNRELEASED_INSTANCE_ID", "is free when its session is over"),
        ("INVALID_REQUEST", "the broker says: so it is"),
    ],
)
def test_the_error_of_a_refused_member_has_advice(error: str, advice: str) -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            consumer = group.member(**CONSUMER).consumer
            fail_next(group, "ConsumerGroupHeartbeat", error, message="so it is")
            await consumer.start()
            with pytest.raises(BrokerError, match=advice):
                await consumer.poll(10.0)

        group.world.run(main())


def test_an_unknown_code_is_in_the_error() -> None:
    assert "UNKNOWN_ERROR_CODE (999)" in str(why_fatal(999, "joining", "g").error)
