"""A table of a compacted topic: read to its end, followed, read from any thread; and errors that end it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.broker.faults import Faults
from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.stream import ConsumerSource, MemorySink, MemorySource, Message, Pipeline, StreamError, TopicTable
from kafwire.testing import EmbeddedKafka, run_in_simulated_time
from tests.support.deadlines import until
from tests.support.group.consumers import GroupWorld

PRICES = [(b"lamp", b"20"), (b"book", b"9"), (b"lamp", b"25")]


def tombstone(key: bytes) -> Message:
    return Message(None, key)


def test_a_table_has_the_last_value_of_each_key() -> None:
    async def main(clock: Any) -> None:
        source = MemorySource({"prices": PRICES}, batch_records=1, ends=False)
        source.append("prices", [(b"chair", b"50"), tombstone(b"book")], partition=1)
        source.append("prices", [(b"desk", b"99"), tombstone(b"desk")], partition=2)
        async with TopicTable(source) as table:
            assert table.get(b"lamp") == table[b"lamp"] == b"25"
            assert (table.get(b"desk"), table.get(b"desk", 7), b"desk" in table) == (None, 7, False)
            assert len(table) == len(list(table)) == len(table.items())
            with pytest.raises(KeyError):
                table[b"desk"]
        assert source.closed

    run_in_simulated_time(main)


def test_a_table_is_read_to_the_end_before_it_is_used_and_follows() -> None:
    async def main(clock: Any) -> None:
        source = MemorySource({"prices": [(b"lamp", b"%d" % one) for one in range(1000)]}, batch_records=7, ends=False)
        async with TopicTable(source, key=bytes.decode, value=int) as table:
            assert table.items() == [("lamp", 999)]
            source.append("prices", [(b"book", b"9"), tombstone(b"lamp")])
            await table.read_to_end()
            assert table.items() == [("book", 9)]
            source.append("prices", [(b"desk", b"99")], partition=1)
            await table.read_to_end()
            assert dict(table.items()) == {"book": 9, "desk": 99}

    run_in_simulated_time(main)


def test_an_empty_topic_is_an_empty_table() -> None:
    async def main(clock: Any) -> None:
        source = MemorySource(ends=False)
        source.assign("prices")
        async with TopicTable(source) as table:
            assert (len(table), list(table)) == (0, [])
            assert table.to_arrow().schema == pa.schema([("key", pa.binary()), ("value", pa.binary())])

    run_in_simulated_time(main)


def test_rows_as_arrow() -> None:
    with TopicTable(MemorySource({"prices": PRICES}), key=bytes.decode, value=int) as table:
        assert table.to_arrow().to_pydict() == {"key": ["lamp", "book"], "value": [25, 9]}
    with TopicTable(MemorySource({"prices": PRICES})) as table:
        assert table.to_arrow().schema == pa.schema([("key", pa.binary()), ("value", pa.binary())])


def test_a_step_looks_up_in_it() -> None:
    async def main(clock: Any) -> list[Any]:
        sink = MemorySink()
        async with TopicTable(MemorySource({"prices": PRICES}, ends=False), value=int) as prices:
            orders = MemorySource({"orders": [(b"lamp", b"2"), (b"desk", b"1")]})
            pipeline = Pipeline().map(lambda order: int(order.value) * prices.get(order.key, 0))
            await pipeline.run_async(orders, sink, clock=clock)
        return sink.values

    assert run_in_simulated_time(main) == [50, 0]


def test_records_without_a_key_are_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with TopicTable(MemorySource({"prices": [b"20", b"9", (b"lamp", b"1")]})) as table:
        assert table.items() == [(b"lamp", b"1")]
    logged = [record.getMessage() for record in caplog.records if "without a key" in record.getMessage()]
    assert logged == ["kafwire: a table skips records without a key: the first one is at offset 0 of prices-0"]


def test_a_record_that_becomes_no_row_ends_the_table_with_its_place() -> None:
    async def main(clock: Any) -> None:
        source = MemorySource({"prices": [(b"lamp", b"20")]}, ends=False)
        async with TopicTable(source, value=int) as table:
            source.append("prices", [(b"book", b"cheap")])
            with pytest.raises(KafkaError, match="no longer follows its topic"):
                await table.read_to_end()
            for read in (lambda: table.get(b"lamp"), lambda: table[b"lamp"], table.items, lambda: b"lamp" in table):
                with pytest.raises(KafkaError, match="offset 1 of prices-0.*ValueError"):
                    read()
        with pytest.raises(KafkaError) as found:
            async with TopicTable(MemorySource({"prices": [(b"lamp", b"cheap")]}), value=int):
                pass
        assert isinstance(found.value.__cause__, StreamError)

    run_in_simulated_time(main)


def test_a_table_that_cannot_begin_raises_from_with() -> None:
    source = MemorySource({"prices": [(b"lamp", b"cheap")]})
    with pytest.raises(KafkaError, match="offset 0 of prices-0"), TopicTable(source, value=int):
        pass
    assert source.closed


async def no(value: Any) -> Any:
    return value


@pytest.mark.parametrize("arguments", [{"key": 7}, {"value": no}], ids=["key", "value"])
def test_wrong_functions_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="TopicTable"):
        TopicTable(MemorySource(), **arguments)


def test_other_sources_are_refused() -> None:
    with pytest.raises(ConfigError, match="a ConsumerSource or a MemorySource"):
        TopicTable(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_a_topic_that_ends_with_records_without_a_reader(
    isolation_level: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The end is behind the marker of a transaction, and behind records of an aborted one."""
    with EmbeddedKafka() as kafka:
        kafka.create_topic("prices", partitions=2)
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("prices", b"20", key=b"lamp", partition=0)
        with kafwire.Producer(kafka.bootstrap, transactional_id="prices") as producer:
            producer.init_transactions()
            for ends in (producer.commit_transaction, producer.abort_transaction):
                producer.begin_transaction()
                value = b"25" if ends == producer.commit_transaction else b"0"
                producer.send("prices", value, key=b"lamp", partition=0)
                producer.flush()
                ends()
        consumer = kafwire.AsyncConsumer(
            kafka.bootstrap, topics=["prices"], start="earliest", isolation_level=isolation_level
        )
        with TopicTable(ConsumerSource(consumer)) as table:
            assert table.get(b"lamp") == (b"25" if isolation_level == "read_committed" else b"0")
            with kafwire.Producer(kafka.bootstrap) as producer:
                producer.send("prices", b"9", key=b"book", partition=1)
            until(lambda: b"book" in table, "the table follows")
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_member_of_a_group_is_refused() -> None:
    consumer = kafwire.AsyncConsumer("localhost:1", topics=["prices"], group_id="g", enable_auto_commit=False)
    with pytest.raises(ConfigError, match="no group_id"):
        TopicTable(ConsumerSource(consumer))
    asyncio.run(consumer.close())


def table_of(group: GroupWorld) -> TopicTable:
    options: dict[str, Any] = {"engine": group.world.engine, "default_api_timeout_ms": 15_000, "start": "earliest"}
    return TopicTable(ConsumerSource(kafwire.AsyncConsumer(group.world.bootstrap, topics="t", **options)))


@pytest.mark.parametrize(
    ("api", "error", "because"),
    [
        ("ListOffsets", "LEADER_NOT_AVAILABLE", "listing offsets of t-1 did not succeed within 15 s: LEADER_NOT_AVAIL"),
        ("Fetch", "NOT_LEADER_OR_FOLLOWER", "has not read t-1 to offset .*: no record came after offset .* for 15 s"),
    ],
)
def test_a_table_with_a_partition_without_a_leader_names_it_in_time(
    api: str, error: str, because: str, caplog: pytest.LogCaptureFixture
) -> None:
    with GroupWorld(partitions=3) as group:
        script: Faults = group.world.state.part(Faults)

        async def main() -> None:
            async with group.producing(30, pause_s=0.0):
                pass
            script.fail_next(api, error, times=None, topic="t", partition=1)
            began = group.world.loop.time()
            table = table_of(group)
            with pytest.raises(KafkaTimeoutError, match=because):
                await table.__aenter__()
            assert 14 < group.world.loop.time() - began < 21
            assert any("t-1" in each.getMessage() for each in caplog.records if each.levelname == "WARNING")
            script.clear()
            async with table_of(group) as table:
                assert len(table) == 30

        group.world.run(main())


def test_a_table_waits_for_a_partition_whose_leader_comes_back() -> None:
    with GroupWorld(partitions=3) as group:
        script: Faults = group.world.state.part(Faults)

        async def main() -> None:
            async with group.producing(30, pause_s=0.0):
                pass
            script.fail_next(("ListOffsets", "Fetch"), "NOT_LEADER_OR_FOLLOWER", times=None, topic="t", partition=1)
            group.world.loop.call_later(6, script.clear)
            async with table_of(group) as table:
                assert len(table) == 30

        group.world.run(main())
