"""A consumer one of whose partitions cannot be read, or whose reader was cancelled: nothing of the rest is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import ConfigError, CorruptBatchError, KafkaError
from kafwire.testing.cluster import KafkaCluster
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import comes
from tests.support.known_topics import Seen, make_topic, partitions_of, records, take, value_of

pytestmark = pytest.mark.either_kafka

EACH = 200
# The bad partition's batch takes more than that decoded; every other batch takes far less.
LIMIT: dict[str, Any] = {"max_decompressed": 500_000}


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An async consumer decodes the smallest batch in another thread, as it does large ones."""
    monkeypatch.setattr("kafwire.aio.batch_reader.INLINE_BYTES", 0)


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str) -> str:
    """Partition 0 has two records, a batch that is too large, and two more; 1 and 2 have `EACH` in small batches."""
    make_topic(cluster.bootstrap, topic_name, 3)
    with kafwire.Producer(cluster.bootstrap, compression_type="lz4") as producer:
        for value in (b"0", b"1", bytes(900_000), b"3", b"4"):
            producer.send(topic_name, value, partition=0)
            producer.flush(30)
    with kafwire.Producer(cluster.bootstrap, batch_size=500) as producer:
        for number in range(EACH):
            for partition in (1, 2):
                producer.send(topic_name, value_of(partition, number), partition=partition)
        producer.flush(30)
    return topic_name


def values(partition: int) -> list[bytes]:
    return [value_of(partition, number) for number in range(EACH)]


@pytest.mark.usefixtures("in_threads")
def test_polls_beside_a_partition_that_fails_lose_nothing(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    with flavour.consumer(cluster.bootstrap, topics=topic, start="earliest", chunk_bytes=1, **LIMIT) as consumer:
        seen, errors = Seen(), 0
        while seen.count < 2 * EACH + 2:
            try:
                found = consumer.poll(10.0)
            except CorruptBatchError as error:
                errors += 1
                assert (error.partition, error.base_offset) == (0, 2)
                assert errors < 1000
                continue
            assert found
            for batch in found:
                seen.add(batch)
        assert seen.values == {0: [b"0", b"1"], 1: values(1), 2: values(2)}
        while not errors:
            with pytest.raises(CorruptBatchError):
                consumer.poll(10.0)
            errors += 1
        consumer.seek(TopicPartition(topic, 0), 3)
        assert take(consumer, 2).values == {0: [b"3", b"4"]}


@pytest.mark.usefixtures("in_threads")
def test_records_one_by_one_go_on_after_an_error(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    bad = TopicPartition(topic, 0)
    with flavour.consumer(cluster.bootstrap, assign=[bad], start="earliest", **LIMIT) as consumer:
        assert [record.value for record in records(consumer, 2)] == [b"0", b"1"]
        for _ in range(2):
            with pytest.raises(CorruptBatchError):
                records(consumer, 1)
        consumer.seek(bad, 3)
        assert [record.value for record in records(consumer, 2)] == [b"3", b"4"]


def test_an_explicit_commit_stands_after_a_close(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    where = TopicPartition(topic, 1)
    options: dict[str, Any] = {"assign": [where], "group_id": topic, "auto_commit_interval_ms": 3_600_000}
    with flavour.consumer(cluster.bootstrap, start="earliest", **options) as consumer:
        offset = records(consumer, 7)[-1].offset + 1
        consumer.commit({where: offset})
    with flavour.consumer(cluster.bootstrap, **options) as consumer:
        assert consumer.committed() == {where: offset}
        for wrong in ("5", -1, 1 << 63, True):
            with pytest.raises(ConfigError, match=f"{topic}-1 is {wrong!r}"):
                consumer.commit({where: wrong})


def test_starts_of_strangers_are_refused(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    start = {TopicPartition(topic, 1): 5, TopicPartition("Other", 0): 0}
    with pytest.raises(ConfigError, match="start names Other-0, which"):  # noqa: SIM117
        with flavour.consumer(cluster.bootstrap, topics=topic, start=start):
            pass


def test_ways_of_reading_in_turn_miss_nothing(cluster: KafkaCluster, topic: str) -> None:
    one, two = partitions_of(topic, 3)[1:]
    with kafwire.Consumer(cluster.bootstrap, assign=[one], start="earliest") as consumer:
        first = records(consumer, 3)
        table = pa.table(consumer.arrow_stream(timeout=1.0))
        assert [record.value for record in first] + table["value"].to_pylist() == values(1)
    with kafwire.Consumer(cluster.bootstrap, assign=[one, two], start="earliest") as consumer:
        first = records(consumer, 3)
        where = TopicPartition(topic, first[0].partition)
        rest = [record.value for batch in consumer.partition_stream(where, timeout=1.0) for record in batch]
        assert [record.value for record in first if record.partition == where.partition] + rest == values(
            where.partition
        )


def test_a_stream_that_was_never_read_lets_its_partition_go(cluster: KafkaCluster, topic: str) -> None:
    one = TopicPartition(topic, 1)
    with kafwire.Consumer(cluster.bootstrap, assign=[one], start="earliest") as consumer:
        stream: Any = consumer.partition_stream(one)
        with pytest.raises(KafkaError, match="has a stream already"):
            consumer.partition_stream(one)
        stream.close()
        stream = consumer.partition_stream(one)
        del stream
        assert take(consumer, EACH).values == {1: values(1)}


def test_partitions_may_come_from_a_generator(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    wanted = partitions_of(topic, 3)[1:]
    with flavour.consumer(cluster.bootstrap, topics=topic, start="earliest", **LIMIT) as consumer:
        assert consumer.end_offsets(each for each in wanted) == dict.fromkeys(wanted, EACH)
        assert consumer.beginning_offsets(each for each in wanted) == dict.fromkeys(wanted, 0)
        assert consumer.seek_to_timestamp("latest", (each for each in wanted)) == dict.fromkeys(wanted, EACH)
        if flavour.name == "blocking":  # which may ask the consumer itself
            ends = consumer.end_offsets(each for each in wanted if consumer.position(each) == EACH)
            assert ends == dict.fromkeys(wanted, EACH)


def test_lag_counts_records_in_hand(cluster: KafkaCluster, topic: str, flavour: Flavour) -> None:
    one = TopicPartition(topic, 1)
    with flavour.consumer(cluster.bootstrap, assign=[one], start="earliest") as consumer:
        assert (consumer.lag(one), consumer.high_watermark(one)) == (None, None)
        for count in (1, 6, 50):
            records(consumer, count)
            assert consumer.lag(one) == EACH - consumer.position(one)
            assert consumer.high_watermark(one) == EACH
        assert consumer.position(one) == 57


def test_a_consumer_of_nothing_says_so(cluster: KafkaCluster, flavour: Flavour) -> None:
    with flavour.consumer(cluster.bootstrap) as consumer, pytest.raises(KafkaError, match="nothing is read"):
        next(consumer.batches())


class Gate(ThreadPoolExecutor):
    """Runs nothing before it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.asked = asyncio.Event()

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        self.asked.set()

        def run() -> Any:
            assert self.open.wait(60)
            return function(*args, **options)

        return super().submit(run)


async def cancelled_at(gate: Gate, reading: Any) -> None:
    """Begin to read, and give up once the decoding has begun."""
    task = asyncio.ensure_future(reading)
    await comes(gate.asked)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("then", ["read", "seek", "seek another", "pause", "position", "assign", "records"])
def test_a_cancelled_reader_loses_nothing(cluster: KafkaCluster, topic: str, then: str) -> None:
    one, two = partitions_of(topic, 3)[1:]

    async def main() -> None:
        gate = Gate()
        asyncio.get_running_loop().set_default_executor(gate)
        async with kafwire.AsyncConsumer(
            cluster.bootstrap, assign=[one], start={one: 5}, chunk_bytes=1, fetch_max_bytes=400
        ) as consumer:
            await cancelled_at(gate, anext(aiter(consumer.batches())))
            first = 5
            gate.open.set()
            if then == "seek":
                await consumer.seek(one, 100)
                first = 100
            elif then == "seek another":
                await consumer.assign([one, two])
                await consumer.pause(two)
                await consumer.seek(two, 7)
            elif then == "pause":
                await consumer.pause(one)
                assert await consumer.poll(0.2) == []
                await consumer.resume(one)
            elif then == "position":
                assert await consumer.position(one) == 5
            elif then == "assign":
                await consumer.assign([two])
                await consumer.assign([one])
                await consumer.seek(one, 5)
            elif then == "records":
                assert (await anext(aiter(consumer))).offset == 5
                first = 6
            seen = Seen()
            while seen.count < EACH - first:
                for batch in await consumer.poll(10.0):
                    seen.add(batch)
            assert seen.values == {1: values(1)[first:]}

    asyncio.run(main())


@pytest.mark.usefixtures("in_threads")
def test_a_cancelled_stream_gives_back_its_partition(cluster: KafkaCluster, topic: str) -> None:
    one = TopicPartition(topic, 1)

    async def main() -> None:
        gate = Gate()
        asyncio.get_running_loop().set_default_executor(gate)
        async with kafwire.AsyncConsumer(
            cluster.bootstrap, assign=[one], start={one: 5}, chunk_bytes=1, fetch_max_bytes=400
        ) as consumer:
            stream = consumer.partition_stream(one)
            task = asyncio.ensure_future(anext(aiter(stream)))
            await comes(gate.asked)
            task.cancel()
            gate.open.set()
            await asyncio.wait([task])
            assert task.cancelled()
            seen = Seen()
            while seen.count < EACH - 5:
                for batch in await consumer.poll(10.0):
                    seen.add(batch)
            assert seen.values == {1: values(1)[5:]}

    asyncio.run(main())


def test_two_tasks_do_not_share_a_scan(cluster: KafkaCluster, topic: str) -> None:
    async def main() -> None:
        gate = Gate()
        asyncio.get_running_loop().set_default_executor(gate)
        async with kafwire.AsyncClient(cluster.bootstrap) as client:
            scan = await client.scan(topic, partitions=[1])
            first = asyncio.ensure_future(anext(aiter(scan.batches())))
            await comes(gate.asked)
            with pytest.raises(KafkaError, match="one task at a time"):
                await anext(aiter(scan.batches()))
            gate.open.set()
            assert len(await first)

    asyncio.run(main())
