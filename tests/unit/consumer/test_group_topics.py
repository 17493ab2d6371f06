"""Assigned partitions that metadata shows late: they stay assigned, are named once, and are read when they show."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

import kafwire
from kafwire import protocol as kafka
from kafwire.broker.request import Request
from kafwire.types import TopicPartition
from tests.support.group.consumers import CONSUMER, PROTOCOLS, GroupWorld, Member

BROKERS = 3
ADDED = TopicPartition("t", 1)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def grow(group: GroupWorld) -> None:
    topics = group.world.state.topics
    topics.add_partitions(topics.by_name["t"], 1, BROKERS)
    group.world.changed()


async def send(group: GroupWorld, *values: bytes, topic: str = "t", partition: int = 0) -> None:
    async with kafwire.AsyncProducer(group.world.bootstrap, engine=group.world.engine) as producer:
        for value in values:
            await (await producer.send(topic, value, partition=partition))


def owned(member: Member) -> set[TopicPartition]:
    """The partitions that the coordinator has assigned."""
    membership = member.consumer._core.membership
    assert membership is not None
    assert membership._driver is not None
    return {TopicPartition(*where) for where in membership._driver.membership.owned}


def warnings_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


# --- partitions


def test_a_partition_that_brokers_show_late_is_read_when_they_do(caplog: pytest.LogCaptureFixture) -> None:
    with GroupWorld(partitions=1, brokers=BROKERS) as group:

        async def main() -> None:
            (member,) = await group.add(**CONSUMER)
            await group.balanced([member], 1)
            for node in group.world.nodes:
                group.world.lag(node)
            grow(group)
            await group.until(lambda: ADDED in owned(member))
            await asyncio.sleep(30.0)
            assert ADDED in owned(member)
            assert ADDED not in member.consumer.assignment
            for node in group.world.nodes:
                group.world.catch_up(node)
            await send(group, b"x", partition=1)
            await group.until(lambda: group.seen.total() == 1, limit_s=5.0)

        group.world.run(main())
        assert warnings_of(caplog, "does not show yet") == [
            "group 'g' assigns t-1, which metadata does not show yet: looked up again until it does"
        ]


def test_a_partition_is_found_at_the_one_broker_that_does_not_lag() -> None:
    with GroupWorld(partitions=1, brokers=BROKERS) as group:

        async def main() -> None:
            (member,) = await group.add(**CONSUMER)
            await group.balanced([member], 1)
            known = member.consumer._core.cluster.known()
            fresh = known[-1].node  # it would be asked last
            for node in group.world.nodes:
                if node != fresh:
                    group.world.lag(node)
            grow(group)
            await group.until(lambda: ADDED in owned(member))
            await group.until(lambda: ADDED in member.consumer.assignment, limit_s=5.0)

        group.world.run(main())


def test_handlers_get_a_partition_when_it_can_be_read() -> None:
    with GroupWorld(partitions=1, brokers=BROKERS) as group:
        heard: list[TopicPartition] = []

        async def main() -> None:
            async def assigned(partitions: list[TopicPartition]) -> None:
                for where in partitions:
                    await member.consumer.seek(where, 0)  # it is read by this consumer
                heard.extend(partitions)

            member = await group.member(**CONSUMER, on_assigned=assigned).start()
            await group.until(lambda: len(heard) == 1)
            for node in group.world.nodes:
                group.world.lag(node)
            grow(group)
            await group.until(lambda: ADDED in owned(member))
            await asyncio.sleep(5.0)
            assert ADDED not in heard
            for node in group.world.nodes:
                group.world.catch_up(node)
            await group.until(lambda: ADDED in heard, limit_s=5.0)
            assert member.error is None

        group.world.run(main())


@pytest.mark.parametrize("end", ["unsubscribed", "revoked", "lost"])
def test_a_partition_that_goes_before_metadata_shows_it_is_not_read(end: str) -> None:
    with GroupWorld(partitions=1, brokers=BROKERS) as group:

        async def main() -> None:
            group.world.state.topics.create("u", 1, replicas=BROKERS)
            (member,) = await group.add(**CONSUMER)
            await group.balanced([member], 1)
            for node in group.world.nodes:
                group.world.lag(node)
            grow(group)
            await group.until(lambda: ADDED in owned(member))
            await asyncio.sleep(5.0)
            if end == "unsubscribed":
                await member.consumer.unsubscribe()
            elif end == "revoked":
                await member.consumer.subscribe("u")
                await group.until(lambda: {where.topic for where in owned(member)} == {"u"})
            else:
                membership = member.consumer._core.membership
                assert membership is not None
                membership.lose([("t", 1)])
            for node in group.world.nodes:
                group.world.catch_up(node)
            await asyncio.sleep(30.0)
            assert ADDED not in member.consumer.assignment

        group.world.run(main())


# --- topics


def test_a_topic_of_a_pattern_is_read_when_brokers_show_its_id(caplog: pytest.LogCaptureFixture) -> None:
    hidden: set[uuid.UUID] = set()

    with GroupWorld(partitions=1, brokers=BROKERS) as group:

        def hide(request: Request) -> Any:
            if request.name != "Metadata" or not request.message.topics:
                return None
            ids = [topic.topic_id for topic in request.message.topics if topic.name is None]
            if not hidden.intersection(ids):
                return None
            response, nodes = kafka.MetadataResponse, group.world.nodes
            return response(
                brokers=[response.MetadataResponseBroker(node_id=n, host=nodes[n].host, port=9092) for n in nodes],
                controller_id=1,
                cluster_id=group.world.state.cluster_id,
                topics=[response.MetadataResponseTopic(error_code=100, name=None, topic_id=each) for each in ids],
            )

        async def main() -> None:
            (member,) = await group.add(**CONSUMER, topics=None, pattern="t.*")
            await group.balanced([member], 1)
            group.world.state.topics.create("t2", 1, replicas=BROKERS)
            hidden.add(group.world.state.topics.by_name["t2"].topic_id)
            group.world.changed()
            await asyncio.sleep(20.0)
            assert len(member.consumer.assignment) == 1
            hidden.clear()
            await group.balanced([member], 2, limit_s=3.0)

        group.world.state.interceptors.append(hide)
        group.world.run(main())
        assert len(warnings_of(caplog, "no broker shows yet")) == 1


@pytest.mark.parametrize("away_s", [0.0, 0.1, 10.0, 40.0])
@pytest.mark.parametrize("chosen", [{"topics": "t"}, {"topics": None, "pattern": "t|v"}], ids=["topics", "pattern"])
def test_a_recreated_topic_is_read_again_within_its_absence(
    protocol: dict[str, Any], chosen: dict[str, Any], away_s: float
) -> None:
    with GroupWorld(partitions=2, brokers=BROKERS) as group:

        async def main() -> None:
            topics = group.world.state.topics
            topics.create("v", 1, replicas=BROKERS)
            members = await group.add(2, **protocol, **chosen)
            await group.until(lambda: all(member.consumer.assignment for member in members))
            await send(group, b"old")
            await group.until(lambda: group.seen.total() == 1)
            topics.delete(topics.by_name["t"])
            group.world.changed()
            await asyncio.sleep(away_s)
            topics.create("t", 2, replicas=BROKERS)
            group.world.changed()
            group.seen.by_partition.clear()
            await send(group, b"new", b"newer", partition=1)
            await group.until(lambda: group.seen.total() == 2, limit_s=10.0 + 2 * away_s)
            assert group.seen.repeated() == 0

        group.world.run(main())


def test_a_single_topic_of_a_pattern_that_is_recreated_is_read_again(protocol: dict[str, Any]) -> None:
    """The topic was deleted while the leader assigned; the pattern matches the same names before and after."""
    with GroupWorld(partitions=2, brokers=BROKERS) as group:

        async def main() -> None:
            topics = group.world.state.topics
            (member,) = await group.add(
                **protocol, topics=None, pattern="t", on_revocation="discard", enable_auto_commit=False
            )
            await group.balanced([member], 2)
            topics.delete(topics.by_name["t"])
            group.world.changed()
            await asyncio.sleep(0.1)
            topics.create("t", 2, replicas=BROKERS)
            group.world.changed()
            await send(group, b"new", b"newer", partition=1)
            await group.until(lambda: group.seen.total() == 2, limit_s=10.0)

        group.world.run(main())
