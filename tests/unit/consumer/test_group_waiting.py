"""How long calls of a member wait: `poll` within its time-out, loops by silence from the first assignment on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafwire
from kafwire.broker.request import LATER, Request
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaError
from kafwire.protocol import ShareGroupHeartbeatResponse
from kafwire.types import TopicPartition
from tests.support.group.consumers import CONSUMER, GROUP, PROTOCOLS, GroupWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(group: GroupWorld, **options: Any) -> kafwire.AsyncConsumer:
    options = {"topics": "t", "group_id": GROUP, "auto_offset_reset": "earliest", **options}
    return kafwire.AsyncConsumer(group.world.bootstrap, engine=group.world.engine, **options)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


async def send(group: GroupWorld, count: int) -> None:
    async with kafwire.AsyncProducer(group.world.bootstrap, engine=group.world.engine) as producer:
        for number in range(count):
            await (await producer.send("t", b"%d" % number, partition=0))


def test_a_loop_that_ends_by_silence_waits_for_its_assignment(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1, group_initial_rebalance_delay_ms="20000") as group:

        async def main() -> None:
            await send(group, 3)
            async with member(group, **protocol) as consumer:
                began = group.world.loop.time()
                found = [len(batch) async for batch in consumer.batches(timeout=0.05)]
                assert found == [3]
                assert group.world.loop.time() - began < 25

        group.world.run(main())


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"], indirect=True)
def test_a_spare_member_ends_by_silence_after_the_patience_of_a_call(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            [first] = await group.add(**protocol)
            await group.balanced([first], 1)
            async with member(group, **protocol, default_api_timeout_ms=30_000) as spare:
                began = group.world.loop.time()
                assert [batch async for batch in spare.batches(timeout=2.0)] == []
                assert 30 <= group.world.loop.time() - began < 33

        group.world.run(main())


def test_an_arrow_stream_with_a_timeout_is_there_once_partitions_are() -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with member(group, **CONSUMER) as consumer:
                await consumer.arrow_stream(timeout=1.0)
                assert consumer.assignment == {T0}

        group.world.run(main())


@pytest.mark.parametrize("timeout", [0.0, 0.5, 3.0])
def test_poll_takes_no_longer_than_its_timeout(timeout: float) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            consumer = member(group)
            for _ in range(3):
                began = group.world.loop.time()
                assert await consumer.poll(timeout) == []
                assert group.world.loop.time() - began <= timeout + 0.001
            await consumer.close()

        group.world.state.interceptors.append(lambda request: LATER if request.name == "Metadata" else None)
        group.world.run(main())


def test_a_stopped_consumer_reads_nothing_more() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            async with member(group) as consumer:
                consumer.stop()
                for call in (consumer.subscribe("t"), consumer.assign([T0])):
                    with pytest.raises(KafkaError, match="was stopped"):
                        await call
                await consumer.unsubscribe()

        group.world.run(main())


def test_a_poll_loop_with_one_failing_partition_does_not_spin() -> None:
    with GroupWorld(partitions=2) as group:

        async def main() -> None:
            await send(group, 2)
            alone: dict[str, Any] = {"group_id": None, "topics": None, "assign": [T0, T1], "start": "earliest"}
            async with member(group, **alone) as consumer:
                assert [batch.partition for batch in await consumer.poll(5)] == [0]
                cursor = consumer._core.fetcher.cursors[T1]
                error = BrokerError(29, "TOPIC_AUTHORIZATION_FAILED", False, "no")
                consumer._engine.start(consumer._core.fetcher.halt, cursor, error)
                began, raised = group.world.loop.time(), 0
                while group.world.loop.time() < began + 10:
                    try:
                        assert await consumer.poll(1.0) == []
                    except BrokerError:
                        raised += 1
                assert raised == 11, "at once, and then as often as a poll waits"
                sending = asyncio.ensure_future(send(group, 1))
                assert [batch.partition for batch in await consumer.poll(1.0)] == [0], "others are read meanwhile"
                await sending
                with pytest.raises(BrokerError):
                    await consumer.poll(1.0)

        group.world.run(main())


def test_a_share_consumers_loop_waits_for_its_assignment() -> None:
    with GroupWorld(partitions=1, group_share_assignment_interval_ms="0") as group:
        began = group.world.loop.time()

        def loads(request: Request) -> Any:
            """Respond for three seconds that the coordinator loads its log."""
            if request.name != "ShareGroupHeartbeat" or group.world.loop.time() > began + 3:
                return None
            return ShareGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        async def main() -> None:
            group.world.state.interceptors.append(loads)
            options: dict[str, Any] = {"topics": "t", "group_id": "s", "engine": group.world.engine}
            async with kafwire.AsyncShareConsumer(group.world.bootstrap, **options) as consumer:

                async def send_once_assigned() -> None:  # a share group begins at the end of its topics
                    await group.until(lambda: bool(consumer._core.partitions))
                    await send(group, 3)

                sending = asyncio.ensure_future(send_once_assigned())
                assert sum([len(batch) async for batch in consumer.batches(timeout=0.2)]) == 3
                await sending

        group.world.run(main())
