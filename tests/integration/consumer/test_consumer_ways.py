"""Both flavours of the consumer on real brokers, new and old: they read all records from the requested start."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.testing.cluster.kafka import DEFAULT_VERSION
from tests.support import seeds
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import ended, until
from tests.support.kafka_versions import CLUSTERS
from tests.support.known_topics import (
    NOW_MS,
    Seen,
    fill,
    make_topic,
    partitions_of,
    records,
    take,
    value_of,
)
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka

PARTITIONS = 3
EACH = 400
TOTAL = PARTITIONS * EACH


@pytest.fixture(params=seeds.sampled(CLUSTERS, DEFAULT_VERSION), scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(CLUSTERS[request.param]).bootstrap)


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


@pytest.fixture(params=["batched", "singly"], scope="module")
def topic(request: pytest.FixtureRequest, bootstrap: str) -> str:
    """Records that are there already, in batches of hundreds, or each in one of its own. Only read."""
    name = make_topic(bootstrap, f"consumer-reading-{request.param}", PARTITIONS)
    fill(bootstrap, name, PARTITIONS, EACH, singly=request.param == "singly")
    return name


@pytest.fixture
def fresh(bootstrap: str, topic_name: str) -> str:
    return make_topic(bootstrap, topic_name, PARTITIONS)


def all_values(begin: int = 0, end: int = EACH) -> dict[int, list[bytes]]:
    return {partition: [value_of(partition, number) for number in range(begin, end)] for partition in range(PARTITIONS)}


# -- ways to read


def test_batches(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.consumer(bootstrap, topics=topic, start="earliest") as consumer:
        seen = Seen()
        for batch in consumer.batches(timeout=20):
            assert batch.topic == topic
            seen.add(batch)
            if seen.count == TOTAL:
                break
        assert seen.values == all_values()
        assert [record.key for record in batch] == [record.value[2:].lstrip(b"0") or b"0" for record in batch]
        with within(10, at_least=0.19):
            assert list(consumer.batches(timeout=0.2)) == []
        assert {consumer.position(where) for where in partitions_of(topic, PARTITIONS)} == {EACH}


def test_records(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.consumer(bootstrap, topics=[topic], start="earliest") as consumer:
        seen = Seen()
        for record in records(consumer, TOTAL):
            assert record.timestamp_ms == NOW_MS + 1000 * record.offset
            seen.add_record(record)
        assert seen.values == all_values()


def test_records_then_batches_then_records(flavour: Flavour, bootstrap: str, topic: str) -> None:
    """A reader that changes the way of reading in the middle of a batch misses nothing, and gets nothing twice."""
    where = TopicPartition(topic, 0)
    with flavour.consumer(bootstrap, assign=[where], start="earliest") as consumer:
        first = records(consumer, 7)
        assert consumer.position(where) == 7
        batch = next(consumer.batches(timeout=10))
        assert consumer.position(where) == batch.next_offset
        rest = records(consumer, EACH - batch.next_offset)
        values = [record.value for record in [*first, *batch, *rest]]
        assert values == [value_of(0, number) for number in range(EACH)]


def test_poll(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.consumer(bootstrap, topics=topic, start="earliest") as consumer:
        seen = Seen()
        while seen.count < TOTAL:
            found = consumer.poll(10.0)
            assert found
            for batch in found:
                seen.add(batch)
        assert seen.values == all_values()
        with within(10, at_least=0.19):
            assert consumer.poll(0.2) == []


def test_to_arrow(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.consumer(bootstrap, topics=topic, start="earliest", columns=["partition", "value"]) as consumer:
        tables: list[pa.Table] = []
        batches = consumer.batches(timeout=20)
        while sum(map(len, tables)) < TOTAL:
            tables.append(pa.Table.from_batches([next(batches).to_arrow()]))
    table = pa.concat_tables(tables)
    assert table.column_names == ["partition", "value"]
    for partition, values in all_values().items():
        assert table.filter(pa.compute.equal(table["partition"], partition))["value"].to_pylist() == values


def test_an_arrow_stream_over_all_partitions(bootstrap: str, topic: str) -> None:
    with kafwire.Consumer(bootstrap, topics=topic, start="earliest", columns=["offset", "value"]) as consumer:
        stream = consumer.arrow_stream(timeout=3)
        assert pa.schema(stream).names == ["offset", "value"]
        table = pa.table(stream)
    assert sorted(table["value"].to_pylist()) == sorted(value for values in all_values().values() for value in values)


@pytest.mark.parametrize(
    "options", [{"fetch_strategy": "per_partition"}, {"fetch_strategy": "per_node"}, {"single_socket": True}], ids=str
)
def test_strategies(flavour: Flavour, bootstrap: str, topic: str, options: dict[str, Any]) -> None:
    with flavour.consumer(bootstrap, topics=topic, start="earliest", **options) as consumer:
        assert take(consumer, TOTAL).values == all_values()


@pytest.mark.parametrize(
    "options",
    [
        {"fetch_max_bytes": 1},
        {"max_partition_fetch_bytes": 1},
        {"fetch_memory": 1},
        {"fetch_max_bytes": 2**31 - 1, "max_partition_fetch_bytes": 2**31 - 1, "fetch_memory": 1 << 40},
        {"max_prefetch_batches": 1, "chunk_bytes": 1},
        {"fetch_min_bytes": 100_000, "fetch_max_wait_ms": 100},
    ],
    ids=str,
)
def test_0041_0082_tiny_and_huge_limits(flavour: Flavour, bootstrap: str, topic: str, options: dict[str, int]) -> None:
    where = partitions_of(topic, PARTITIONS)
    with flavour.consumer(bootstrap, assign=where, start=dict.fromkeys(where, EACH - 60), **options) as consumer:
        assert take(consumer, PARTITIONS * 60).values == all_values(EACH - 60)


def test_from_config(flavour: Flavour, bootstrap: str, topic: str) -> None:
    options = {"bootstrap.servers": bootstrap, "topics": [topic], "auto.offset.reset": "earliest", "client.id": "ours"}
    consumer = flavour.consumer_from(options)
    try:
        assert take(consumer, TOTAL).values == all_values()
    finally:
        consumer.close()


# -- where to begin


def test_start_is_latest_by_default(flavour: Flavour, bootstrap: str, fresh: str) -> None:
    fill(bootstrap, fresh, PARTITIONS, 5)
    with flavour.consumer(bootstrap, topics=fresh) as consumer:
        assert consumer.poll(0.3) == []
        fill(bootstrap, fresh, PARTITIONS, 5, first=5)
        assert take(consumer, 15).values == all_values(5, 10)


def test_start_at_offsets(flavour: Flavour, bootstrap: str, topic: str) -> None:
    zero, one, two = partitions_of(topic, PARTITIONS)
    start = {zero: EACH - 3, one: "earliest", two: "latest"}
    with flavour.consumer(bootstrap, assign=[zero, one, two], start=start) as consumer:
        seen = take(consumer, EACH + 3)
        assert seen.values == {0: all_values()[0][-3:], 1: all_values()[1]}
        assert consumer.poll(0.2) == []


def test_start_at_a_time(flavour: Flavour, bootstrap: str, topic: str) -> None:
    start = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=NOW_MS + 1000 * 250 - 1)
    with flavour.consumer(bootstrap, topics=topic, start=start) as consumer:
        assert take(consumer, TOTAL - PARTITIONS * 250).values == all_values(250)


def test_start_with_the_last_of_each_partition(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with flavour.consumer(bootstrap, topics=topic, start=kafwire.Tail(5)) as consumer:
        assert take(consumer, PARTITIONS * 5).values == all_values(EACH - 5)


def test_start_behind_the_end_is_reset_by_policy(flavour: Flavour, bootstrap: str, topic: str) -> None:
    where = TopicPartition(topic, 0)
    options = {"assign": [where], "start": {where: EACH + 1}}
    with flavour.consumer(bootstrap, **options, auto_offset_reset="earliest") as consumer:
        assert take(consumer, EACH).values == {0: all_values()[0]}
    with flavour.consumer(bootstrap, **options, auto_offset_reset="error") as consumer:
        with pytest.raises(BrokerError, match=f"OFFSET_OUT_OF_RANGE.*{topic}-0.*{EACH + 1}"):
            consumer.poll(10)
        consumer.seek(where, 0)
        assert take(consumer, EACH).values == {0: all_values()[0]}


def test_a_missing_topic_or_partition_is_an_error_soon(flavour: Flavour, bootstrap: str, topic: str) -> None:
    with within(20):
        with (
            pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*'never-made'"),
            flavour.consumer(bootstrap, topics=[topic, "never-made"]),
        ):
            pass
        with (
            pytest.raises(ConfigError, match=f"{topic}.* has partitions 0 to 2, not 3"),
            flavour.consumer(bootstrap, assign=[TopicPartition(topic, 3)]),
        ):
            pass


# -- seeks, pauses, assignments


def test_seeks(flavour: Flavour, bootstrap: str, topic: str) -> None:
    zero, one, two = everything = partitions_of(topic, PARTITIONS)
    with flavour.consumer(bootstrap, assign=everything, start="latest") as consumer:
        assert consumer.poll(0.0) == []
        consumer.seek(zero, EACH - 2)
        assert take(consumer, 2).values == {0: all_values()[0][-2:]}
        found = consumer.seek_to_timestamp(NOW_MS + 1000 * (EACH - 4), [one, two])
        assert found == {one: EACH - 4, two: EACH - 4}
        assert take(consumer, 8).values == {number: all_values()[number][-4:] for number in (1, 2)}
        assert consumer.seek_to_beginning(two) == {two: 0}
        assert take(consumer, EACH).values == {2: all_values()[2]}
        assert consumer.seek_to_timestamp(NOW_MS + 1000 * EACH) == dict.fromkeys(everything, EACH)
        assert consumer.poll(0.1) == []
        assert consumer.seek_to_beginning() == dict.fromkeys(everything, 0)
        assert consumer.seek_to_end(one) == {one: EACH}
        assert take(consumer, 2 * EACH).values == {number: all_values()[number] for number in (0, 2)}


def test_a_seek_while_a_fetch_is_parked(flavour: Flavour, bootstrap: str, topic: str) -> None:
    """No call waits for the broker's long poll."""
    where = TopicPartition(topic, 0)
    with flavour.consumer(bootstrap, topics=topic, fetch_max_wait_ms=20_000) as consumer:
        assert consumer.poll(0.2) == []
        for offset in (EACH - 1, EACH - 3, EACH - 2):
            with within(10):
                consumer.seek(where, offset)
                assert take(consumer, EACH - offset).values == {0: all_values()[0][offset:]}


def test_pause_and_resume(flavour: Flavour, bootstrap: str, topic: str) -> None:
    zero, _, two = everything = partitions_of(topic, PARTITIONS)
    with flavour.consumer(bootstrap, assign=everything, start="earliest", fetch_max_wait_ms=10_000) as consumer:
        consumer.pause(zero, two)
        assert consumer.paused == {zero, two}
        assert take(consumer, EACH).values == {1: all_values()[1]}
        assert consumer.poll(0.2) == []
        with within(8):
            consumer.resume(two)
            assert take(consumer, EACH).values == {2: all_values()[2]}
        consumer.resume(zero)
        first = next(consumer.batches(timeout=10))
        consumer.pause(zero)
        assert consumer.poll(0.2) == []
        consumer.resume(zero)
        rest = take(consumer, EACH - len(first)) if len(first) < EACH else Seen()
        assert [r.value for r in first] + rest.values.get(0, []) == all_values()[0]


def test_assign(flavour: Flavour, bootstrap: str, topic: str) -> None:
    zero, one, two = partitions_of(topic, PARTITIONS)
    with flavour.consumer(bootstrap, assign=[zero], start="earliest") as consumer:
        seen = take(consumer, 1)
        consumer.assign([zero, one])
        assert consumer.assignment == {zero, one}
        for partition, values in take(consumer, 2 * EACH - seen.count).values.items():
            seen.values.setdefault(partition, []).extend(values)
        assert seen.values == {number: all_values()[number] for number in (0, 1)}
        consumer.assign([two])
        assert take(consumer, EACH).values == {2: all_values()[2]}
        with pytest.raises(ConfigError, match=f"{topic}-0 is not read by this consumer"):
            consumer.seek(zero, 0)
        consumer.assign([])
        with pytest.raises(KafkaError, match="nothing is read by this consumer: give topics"):
            consumer.poll(0.1)
        consumer.assign([zero])
        assert take(consumer, EACH).values == {0: all_values()[0]}


# -- partitions by themselves


def test_partition_streams_in_threads(bootstrap: str, topic: str) -> None:
    seen = [Seen() for _ in range(PARTITIONS)]
    with kafwire.Consumer(bootstrap, topics=topic, start="earliest") as consumer:

        def read(number: int) -> None:
            for batch in consumer.partition_stream(TopicPartition(topic, number), timeout=20):
                seen[number].add(batch)
                if seen[number].count == EACH:
                    break

        threads = [threading.Thread(target=read, args=(number,)) for number in range(1, PARTITIONS)]
        for thread in threads:
            thread.start()
        until(lambda: seen[1].count and seen[2].count)
        seen[0] = take(consumer, EACH)
        ended(*threads)
    assert [one.values for one in seen] == [{number: values} for number, values in all_values().items()]


def test_partition_streams_in_tasks(bootstrap: str, topic: str) -> None:
    async def main() -> list[Seen]:
        async with kafwire.AsyncConsumer(bootstrap, topics=topic, start="earliest") as consumer:

            async def read(number: int) -> Seen:
                seen = Seen()
                async for batch in consumer.partition_stream(TopicPartition(topic, number), timeout=20):
                    seen.add(batch)
                    if seen.count == EACH:
                        break
                return seen

            return await asyncio.gather(*(read(number) for number in range(PARTITIONS)))

    seen = asyncio.run(main())
    assert [one.values for one in seen] == [{number: values} for number, values in all_values().items()]


def test_a_streams_partition_comes_back_when_it_ends(flavour: Flavour, bootstrap: str, topic: str) -> None:
    where = TopicPartition(topic, 1)
    with flavour.consumer(bootstrap, topics=topic, start="earliest", chunk_bytes=1) as consumer:
        stream = consumer.partition_stream(where, timeout=10)
        first = next(stream)
        assert first.partition == 1
        with pytest.raises(KafkaError, match=f"{topic}-1 has a stream already"):
            next(consumer.partition_stream(where))
        assert set(take(consumer, 2 * EACH).values) == {0, 2}
        stream.close()
        rest = take(consumer, EACH - len(first)) if len(first) < EACH else Seen()
        assert [record.value for record in first] + rest.values.get(1, []) == all_values()[1]


# -- what changes while it is read


def test_0044_partitions_added(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    """They are found at a metadata refresh, and read from their beginning, although the rest is read from its end."""
    make_topic(bootstrap, topic_name, 1)
    fill(bootstrap, topic_name, 1, 5)
    with flavour.consumer(bootstrap, topics=topic_name, metadata_max_age_ms=300) as consumer:
        assert consumer.poll(0.1) == []
        with kafwire.Client(bootstrap) as client:
            request = kafwire.protocol.CreatePartitionsRequest(timeout_ms=10_000)
            request.topics = [request.CreatePartitionsTopic(name=topic_name, count=3, assignments=None)]
            response = client.call(request, broker=client.metadata().controller_id)
            assert response.results[0].error_code == 0, response
            # A fresh request each time: the cached metadata may be older than the topic.
            until(lambda: [len(topic.partitions) for topic in client.metadata([topic_name]).topics] == [3])
        expected = fill(bootstrap, topic_name, 3, 5, first=5)
        assert take(consumer, 15).values == expected
        assert consumer.assignment == set(partitions_of(topic_name, 3))


def test_0107_a_topic_deleted_and_made_again(flavour: Flavour, bootstrap: str, fresh: str) -> None:
    """Its offsets are those of other records now: a reader of the old ones gets an error, and no new ones."""
    fill(bootstrap, fresh, PARTITIONS, 5)
    with flavour.consumer(bootstrap, topics=fresh, start="earliest", fetch_max_wait_ms=100) as consumer:
        assert take(consumer, 15).values == all_values(0, 5)
        with kafwire.Client(bootstrap) as client:
            client.delete_topic(fresh)
            client.create_topic(fresh, partitions=PARTITIONS)
        fill(bootstrap, fresh, PARTITIONS, 9)
        with within(30), pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_ID.*{fresh}.*deleted and recreated"):
            for batch in consumer.batches(timeout=20):
                raise AssertionError(f"records of the new topic: {batch}")
        consumer.assign([])
        consumer.assign(partitions_of(fresh, PARTITIONS))
        assert take(consumer, 27).values == all_values(0, 9)
