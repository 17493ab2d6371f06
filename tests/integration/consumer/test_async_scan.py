"""`AsyncClient.scan`: a bounded read, awaited; on a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, ConfigError
from kafwire.testing.cluster import KafkaCluster

pytestmark = pytest.mark.either_kafka

RECORDS = 3_000
PARTITIONS = 3


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str) -> str:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=PARTITIONS)
    with kafwire.Producer(cluster.bootstrap, batch_size=2_000, linger_ms=0) as producer:
        for i in range(RECORDS):
            producer.send(topic_name, b"%d" % i + bytes(50), partition=i % PARTITIONS, timestamp_ms=1_000_000 + i)
        producer.flush(30)
    return topic_name


async def rows_of(scan: Any) -> list[tuple[int, int]]:
    return [(batch.partition, record.offset) async for batch in scan.batches() for record in batch]


def test_it_reads_the_rows_of_a_blocking_scan(cluster: KafkaCluster, topic: str) -> None:
    async def read(**options: Any) -> list[tuple[int, int]]:
        async with kafwire.AsyncClient(cluster.bootstrap) as client, await client.scan(topic, **options) as scan:
            assert sum(r.end - r.start for r in scan.ranges) <= RECORDS
            return await rows_of(scan)

    def expected(**options: Any) -> list[tuple[int, int]]:
        table = pa.table(kafwire.scan(cluster.bootstrap, topic, **options)).select(["partition", "offset"])
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    everything = asyncio.run(read())
    assert sorted(everything) == sorted(expected())
    assert len(everything) == RECORDS
    for options in (
        {"partitions": [1]},
        {"start": {kafwire.TopicPartition(topic, 2): 700}, "end": {kafwire.TopicPartition(topic, 2): 900}},
        {"timestamps": (1_000_100, 1_000_900)},
        {"start": "latest"},
    ):
        assert sorted(asyncio.run(read(**options))) == sorted(expected(**options))


def test_small_budgets_and_columns(cluster: KafkaCluster, topic: str) -> None:
    async def read() -> list[str]:
        async with kafwire.AsyncClient(cluster.bootstrap) as client:
            scan = await client.scan(topic, columns=["value"], fetch_memory=20_000, fetch_max_bytes=3_000)
            rows = 0
            async for batch in scan.batches():
                table = batch.to_arrow()
                assert table.column_names == ["value"]
                rows += table.num_rows
            assert rows == RECORDS
            return [name async for name in _names(await client.scan(topic, columns=["offset", "key"]))]

    async def _names(scan: Any) -> Any:
        table = await asyncio.to_thread(pa.table, scan)
        assert table.num_rows == RECORDS
        for name in table.column_names:
            yield name

    assert asyncio.run(read()) == ["offset", "key"]


def test_a_cancelled_reader_loses_nothing(cluster: KafkaCluster, topic: str) -> None:
    async def read() -> list[tuple[int, int]]:
        async with kafwire.AsyncClient(cluster.bootstrap) as client:
            scan = await client.scan(topic, fetch_max_bytes=3_000)
            rows: list[tuple[int, int]] = []

            async def some() -> None:
                async for batch in scan.batches():
                    rows.extend((batch.partition or 0, record.offset) for record in batch)

            for delay in (0, 0.0001, 0.001, 0.002, 0.005):
                task = asyncio.ensure_future(some())
                await asyncio.sleep(delay)
                task.cancel()
                await asyncio.wait([task])
            await some()
            return rows

    found = asyncio.run(read())
    assert sorted(found) == sorted(set(found))
    assert len(found) == RECORDS


def test_closing_in_the_middle_leaves_the_client_in_use(cluster: KafkaCluster, topic: str) -> None:
    async def read() -> int:
        async with kafwire.AsyncClient(cluster.bootstrap) as client:
            async with await client.scan(topic, fetch_max_bytes=3_000) as scan:
                async for _ in scan.batches():
                    break
            assert await rows_of(scan) == []
            waiting = await client.scan(topic, fetch_max_bytes=3_000)
            task = asyncio.ensure_future(rows_of(waiting))
            await asyncio.sleep(0)
            await waiting.close()
            await asyncio.wait([task])
            return len(await rows_of(await client.scan(topic)))

    assert asyncio.run(read()) == RECORDS


def test_a_topic_that_cannot_be_read_is_an_error_at_once(cluster: KafkaCluster, topic: str) -> None:
    async def ask(name: str, **options: Any) -> None:
        async with kafwire.AsyncClient(cluster.bootstrap) as client:
            await client.scan(name, **options)

    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        asyncio.run(ask(f"{topic}-is-not-there"))
    with pytest.raises(ConfigError, match="topics"):
        asyncio.run(ask(""))
    with pytest.raises(ConfigError):
        asyncio.run(ask(topic, columns=["colour"]))
    with pytest.raises(ConfigError):
        asyncio.run(ask(topic, group_id="g"))
