"""Where consumers begin in partitions that are new to them: added ones, recreated topics, topics first seen."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Self

import pytest

import kafwire
from kafwire.broker.faults import Faults
from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.types import TopicPartition
from tests.support.group.consumers import PROTOCOLS, GroupWorld

DAY_MS = 86_400_000
EARLY, LATE = [b"0", b"1", b"2"], [b"late"]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")


async def send(group: GroupWorld, topic: str, *values: bytes, partition: int = 0, age_ms: int = 0) -> None:
    now_ms = group.world.engine.clock.time_ns() // 1_000_000
    async with kafwire.AsyncProducer(group.world.bootstrap, engine=group.world.engine) as producer:
        for value in values:
            await (await producer.send(topic, value, partition=partition, timestamp_ms=now_ms - age_ms))


def create(group: GroupWorld, name: str, partitions: int = 1) -> None:
    group.world.state.topics.create(name, partitions, replicas=1)
    group.world.changed()


def grow(group: GroupWorld) -> None:
    topics = group.world.state.topics
    topics.add_partitions(topics.by_name["t"], 1, 1)
    group.world.changed()


async def recreate(group: GroupWorld) -> None:
    topics = group.world.state.topics
    topics.delete(topics.by_name["t"])
    group.world.changed()
    await asyncio.sleep(2.0)
    create(group, "t")


class Reader:
    """A consumer that is read in the background, and the values of its records."""

    def __init__(self, group: GroupWorld, **options: Any) -> None:
        self.values: list[bytes | None] = []
        self.errors: list[KafkaError] = []
        chosen = {"topics": ["t"], "auto_offset_reset": "latest", "group_id": "g"} | options
        self.consumer = kafwire.AsyncConsumer(group.world.bootstrap, engine=group.world.engine, **chosen)

    async def __aenter__(self) -> Self:
        await self.consumer.start()
        self._task = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.close()

    async def _read(self) -> None:
        while True:
            try:
                async for record in self.consumer:
                    self.values.append(record.value)
            except KafkaError as error:
                self.errors.append(error)
                await asyncio.sleep(1.0)


def begun(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that say where reading began."""
    return [text for record in caplog.records if "reading begins in" in (text := record.getMessage())]


# --- members of groups


def test_an_added_partition_is_read_from_its_beginning(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol) as reader:
                await asyncio.sleep(20.0)
                grow(group)
                await send(group, "t", *EARLY, partition=1)
                await group.until(lambda: reader.values == EARLY, limit_s=320.0)

        group.world.run(main())
        assert begun(caplog) == ["topic 't', a partition was added: reading begins in t-1 at offset 0"]


@pytest.mark.parametrize("chosen", [{"topics": "t"}, {"topics": None, "pattern": "t.*"}], ids=["topics", "pattern"])
def test_an_added_partition_is_new_to_a_member_that_had_none(
    protocol: dict[str, Any], chosen: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol, **chosen) as one, Reader(group, **protocol, **chosen) as other:
                await asyncio.sleep(20.0)
                assert len(one.consumer.assignment) + len(other.consumer.assignment) == 1
                grow(group)
                await send(group, "t", *EARLY, partition=1)
                await group.until(lambda: one.values + other.values == EARLY, limit_s=320.0)
                assert len(one.consumer.assignment) == len(other.consumer.assignment) == 1

        group.world.run(main())
        assert "a partition was added: reading begins in t-1 at offset 0" in caplog.text


def test_a_recreated_topic_is_read_from_its_beginning(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol) as reader:
                await asyncio.sleep(20.0)
                await send(group, "t", b"old")
                await recreate(group)
                await send(group, "t", *EARLY, age_ms=DAY_MS)  # whatever their timestamps
                await group.until(lambda: reader.values == [b"old", *EARLY], limit_s=10.0)

        group.world.run(main())
        assert begun(caplog) == ["topic 't', the topic was recreated: reading begins in t-0 at offset 0"]


@pytest.mark.parametrize("start", [None, "latest"])
def test_a_new_topic_of_a_pattern_is_read_from_its_first_record(
    protocol: dict[str, Any], start: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol, topics=None, pattern="t.*", start=start) as reader:
                await asyncio.sleep(20.0)
                create(group, "t2")
                await send(group, "t2", *EARLY)
                await asyncio.sleep(600.0)  # patterns are matched each metadata_max_age_ms
                await send(group, "t2", *LATE)
                await group.until(lambda: reader.values == [*EARLY, *LATE], limit_s=5.0)

        group.world.run(main())
        text = "topic 't2', the topic is seen for the first time: reading begins in t2-0 at offset 0"
        assert begun(caplog) == [text]


@pytest.mark.parametrize("fresh", [[], EARLY], ids=["old records only", "old and new records"])
def test_old_records_of_a_topic_that_becomes_visible_are_skipped(protocol: dict[str, Any], fresh: list[bytes]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol, topics=None, pattern="t.*") as reader:
                await asyncio.sleep(20.0)
                create(group, "t2")  # as a topic comes that a mirror has copied, or an ACL hid
                await send(group, "t2", b"old", b"older", age_ms=DAY_MS)
                await send(group, "t2", *fresh)
                await asyncio.sleep(600.0)
                await send(group, "t2", *LATE)
                await group.until(lambda: reader.values == [*fresh, *LATE], limit_s=5.0)

        group.world.run(main())


def test_a_record_that_comes_while_the_beginning_is_looked_up_is_not_skipped(protocol: dict[str, Any]) -> None:
    """No record is as young as the time that is asked for; the end, asked for afterwards, would be behind the first."""
    with GroupWorld(partitions=1) as group:
        asked: list[int] = []

        def append(request: Any) -> None:
            if request.name == "ListOffsets":
                (topic,) = request.message.topics
                if topic.name == "t2":
                    asked.append(topic.partitions[0].timestamp)
                    if len(asked) == 2:
                        tasks.append(asyncio.ensure_future(send(group, "t2", *EARLY)))

        async def main() -> None:
            async with Reader(group, **protocol, topics=None, pattern="t.*") as reader:
                await asyncio.sleep(20.0)
                create(group, "t2")
                await group.until(lambda: len(asked) == 2, limit_s=600.0)
                await group.until(lambda: reader.values == EARLY, limit_s=5.0)
                assert asked[0] == -1

        tasks: list[asyncio.Future[None]] = []
        group.world.state.interceptors.append(append)
        group.world.run(main())


def test_a_topic_that_was_there_before_the_member_begins_at_its_end(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            create(group, "t2")
            await send(group, "t2", *EARLY)
            async with Reader(group, **protocol, topics=None, pattern="t.*") as reader:
                await asyncio.sleep(700.0)
                await send(group, "t2", *LATE)
                await group.until(lambda: reader.values == LATE, limit_s=5.0)

        group.world.run(main())
        assert begun(caplog) == []


@pytest.mark.parametrize("options", [*PROTOCOLS.values(), {"group_id": None}], ids=[*PROTOCOLS, "no group"])
def test_a_topic_that_was_named_before_it_existed_is_read_from_its_first_record(options: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            reader = Reader(group, **{"topics": "t2"} | options)
            with pytest.raises(BrokerError, match="'t2' does not exist"):
                await reader.consumer.start()
            create(group, "t2")
            await send(group, "t2", *EARLY)
            await asyncio.sleep(30.0)
            async with reader:
                await group.until(lambda: reader.values == EARLY, limit_s=10.0)

        group.world.run(main())


@pytest.mark.parametrize("topic", ["t", "t2"])
@pytest.mark.parametrize(
    ("chosen", "expected"),
    [("earliest", [b"old", *EARLY, *LATE]), ("latest", LATE), ("by_duration:PT1H", [*EARLY, *LATE])],
)
def test_an_option_chooses_where_new_partitions_begin(
    protocol: dict[str, Any], topic: str, chosen: str, expected: list[bytes]
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            options: dict[str, Any] = {"topics": None, "pattern": "t.*", "auto_offset_reset_new_partitions": chosen}
            async with Reader(group, **protocol, **options) as reader:
                await asyncio.sleep(20.0)
                if topic == "t":
                    await recreate(group)
                else:
                    create(group, topic)
                await send(group, topic, b"old", age_ms=DAY_MS)
                await send(group, topic, *EARLY)
                await asyncio.sleep(600.0)
                await send(group, topic, *LATE)
                await group.until(lambda: reader.values == expected, limit_s=5.0)

        group.world.run(main())


def test_with_error_a_new_partition_waits_for_its_user(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol, auto_offset_reset_new_partitions="error") as reader:
                await asyncio.sleep(20.0)
                grow(group)
                await send(group, "t", *EARLY, partition=1)
                await group.until(lambda: bool(reader.errors), limit_s=320.0)
                assert isinstance(reader.errors[0], ConfigError)
                assert "begin with t-1" in str(reader.errors[0])
                await reader.consumer.seek(TopicPartition("t", 1), 1)
                await group.until(lambda: reader.values == EARLY[1:], limit_s=5.0)

        group.world.run(main())


def test_a_committed_offset_goes_before_the_beginning_of_a_new_partition(protocol: dict[str, Any]) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **protocol, enable_auto_commit=False) as reader:
                await asyncio.sleep(20.0)
                grow(group)
                await send(group, "t", *EARLY, partition=1)
                await group.until(lambda: reader.values == EARLY, limit_s=320.0)
                await reader.consumer.commit({TopicPartition("t", 1): 2})
                reader.values.clear()
                heartbeats = ["ConsumerGroupHeartbeat", "Heartbeat"]
                group.world.state.part(Faults).fail_next(heartbeats, "UNKNOWN_MEMBER_ID")
                await group.until(lambda: reader.values == EARLY[2:], limit_s=60.0)

        group.world.run(main())


# --- consumers without a group

ALONE: dict[str, Any] = {"group_id": None}


@pytest.mark.parametrize("chosen", ["auto", "latest"])
def test_without_a_group_an_added_partition_begins_as_the_option_says(
    chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            async with Reader(group, **ALONE, auto_offset_reset_new_partitions=chosen) as reader:
                await asyncio.sleep(5.0)
                grow(group)
                await send(group, "t", *EARLY, partition=1)
                await asyncio.sleep(400.0)
                await send(group, "t", *LATE, partition=1)
                expected = [*EARLY, *LATE] if chosen == "auto" else LATE
                await group.until(lambda: reader.values == expected, limit_s=5.0)

        group.world.run(main())
        offset = 0 if chosen == "auto" else 3
        assert begun(caplog) == [f"topic 't', a partition was added: reading begins in t-1 at offset {offset}"]


@pytest.mark.parametrize("how", ["subscribe", "assign"])
def test_without_a_group_a_recreated_topic_that_is_taken_again_is_read_from_its_beginning(how: str) -> None:
    with GroupWorld(partitions=1) as group:

        async def main() -> None:
            where = TopicPartition("t", 0)
            chosen: dict[str, Any] = {"topics": "t"} if how == "subscribe" else {"topics": None, "assign": [where]}
            async with Reader(group, **ALONE, **chosen) as reader:

                async def take_again() -> None:
                    await (reader.consumer.subscribe("t") if how == "subscribe" else reader.consumer.assign([where]))

                await asyncio.sleep(5.0)
                await send(group, "t", b"old")
                await group.until(lambda: reader.values == [b"old"])
                await recreate(group)
                await send(group, "t", *EARLY)
                await group.until(lambda: bool(reader.errors))
                await take_again()
                await group.until(lambda: reader.values == [b"old", *EARLY], limit_s=10.0)
                # Taken once more, it is new no more.
                await reader.consumer.assign([])
                await take_again()
                await send(group, "t", *LATE)
                await group.until(lambda: reader.values == [b"old", *EARLY, *LATE], limit_s=10.0)

        group.world.run(main())
