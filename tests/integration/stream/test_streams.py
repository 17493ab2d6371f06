"""Streams from topics to topics, on an embedded broker: commits, transactions, faults, retries, pauses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import ProducerFencedError
from kafwire.records import Record
from kafwire.stream import (
    ConsumerSource,
    MemorySink,
    Message,
    NotNow,
    Pipeline,
    RetryTopic,
    StopRequest,
    StreamError,
    StreamSummary,
    TopicSink,
)
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, until

PARTITIONS = 2
COUNT = 200


def source(kafka: EmbeddedKafka, *topics: str, idle_s: float | None = None, **options: Any) -> ConsumerSource:
    read = [kafwire.TopicPartition(topic, number) for topic in topics or ("orders",) for number in range(PARTITIONS)]
    given: dict[str, Any] = {"group_id": "billing", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = kafwire.AsyncConsumer(kafka.bootstrap, assign=read, **(given | options))
    return ConsumerSource(consumer, idle_s=idle_s)


@pytest.fixture
def orders(kafka: EmbeddedKafka) -> EmbeddedKafka:
    for topic in ("orders", "bills", "dead", "retry"):
        kafka.create_topic(topic, partitions=PARTITIONS)
    for number in range(PARTITIONS):
        values = [b"%d-%d" % (number, one) for one in range(COUNT)]
        kafka.append(
            "orders",
            [{"key": b"key %d" % (one % 5), "value": value} for one, value in enumerate(values)],
            partition=number,
        )
    return kafka


VALUES = {b"%d-%d" % (number, one) for number in range(PARTITIONS) for one in range(COUNT)}
ALL_COMMITTED = {("orders", number): COUNT for number in range(PARTITIONS)}


async def bill(record: Record) -> Message:
    """A handler."""
    return Message(record.value, record.key)


BILLING = Pipeline().for_each(bill, workers=8, by="key")


def run(
    kafka: EmbeddedKafka,
    pipeline: Pipeline = BILLING,
    *,
    transactional_id: str | None = None,
    read: ConsumerSource | None = None,
    stop: StopRequest | None = None,
    committed: int = PARTITIONS * COUNT,
    **options: Any,
) -> StreamSummary:
    """Run a pipeline from orders to bills, until so many offsets are committed."""

    async def main() -> StreamSummary:
        given: dict[str, Any] = {"linger_ms": 1, "request_timeout_ms": 1000}  # for lost responses
        if transactional_id is not None:
            given["transactional_id"] = transactional_id
        guarantee: Any = "at_least_once" if transactional_id is None else "exactly_once"
        ends = StopRequest() if stop is None else stop
        async with (
            asyncio.timeout(PATIENCE_S),
            kafwire.AsyncProducer(kafka.bootstrap, **given) as producer,
        ):
            running = asyncio.ensure_future(
                pipeline.commit(every=60, within=0.05).run_async(
                    read or source(kafka), TopicSink(producer, "bills"), guarantee=guarantee, stop=ends, **options
                )
            )
            await asyncio.to_thread(until, lambda: running.done() or sum_committed(kafka) == committed)
            ends.request()
            return await running

    return asyncio.run(main())


def sum_committed(kafka: EmbeddedKafka) -> int:
    return sum(offset or 0 for offset in kafka.committed("billing").values())


def written(kafka: EmbeddedKafka, topic: str = "bills", **options: Any) -> list[Record]:
    return [record for number in range(PARTITIONS) for record in kafka.records(topic, number, **options)]


def test_at_least_once(orders: EmbeddedKafka) -> None:
    summary = run(orders)
    bills = written(orders)
    assert Counter(record.value for record in bills) == Counter(VALUES)
    for partition in range(PARTITIONS):
        for key in range(5):
            mine = [record for record in bills if record.key == b"key %d" % key]
            numbers = [int(r.value.split(b"-")[1]) for r in mine if r.value.startswith(b"%d-" % partition)]
            assert numbers == sorted(numbers), "a key's bills are in its order"
    assert orders.committed("billing") == ALL_COMMITTED
    assert summary.records == PARTITIONS * COUNT


def test_a_second_run_goes_on_where_the_first_stopped(orders: EmbeddedKafka) -> None:
    stop = StopRequest()
    seen = 0

    def count(record: Record) -> Any:
        nonlocal seen
        seen += 1
        if seen == 50:
            stop.request()
        return record

    first = run(orders, Pipeline().for_each(count, run_in="tasks", by="key"), stop=stop, read=source(orders))
    committed = orders.committed("billing")
    assert sum(offset for offset in committed.values() if offset is not None) == first.records
    run(orders)
    assert Counter(record.value for record in written(orders)) == Counter(VALUES)


def test_exactly_once(orders: EmbeddedKafka) -> None:
    summary = run(orders, transactional_id="billing")
    assert Counter(record.value for record in written(orders, committed=True)) == Counter(VALUES)
    assert orders.committed("billing") == ALL_COMMITTED
    assert summary.commits >= 1
    assert orders.requests("OffsetCommit") == [], "offsets are committed in transactions alone"


FAULTS: dict[str, Callable[[EmbeddedKafka], object]] = {
    "a lost response": lambda kafka: kafka.drop_response("Produce", topic="bills"),
    "a lost commit": lambda kafka: kafka.drop_response("EndTxn"),
    "a refused record": lambda kafka: kafka.fail_next("Produce", "INVALID_RECORD", topic="bills"),
    "refused offsets": lambda kafka: kafka.fail_next("TxnOffsetCommit", "ILLEGAL_GENERATION"),
    "broken connections": lambda kafka: [
        kafka.hang_up(api) for api in ("Fetch", "Produce", "TxnOffsetCommit", "EndTxn")
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_exactly_once_under_faults(orders: EmbeddedKafka, fault: str) -> None:
    FAULTS[fault](orders)
    summary = run(orders, transactional_id="billing")
    assert Counter(record.value for record in written(orders, committed=True)) == Counter(VALUES)
    assert orders.committed("billing") == ALL_COMMITTED
    if "refused" in fault:
        assert summary.aborts >= 1


def test_a_successor_fences_the_stream(orders: EmbeddedKafka) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            kafwire.AsyncProducer(orders.bootstrap, transactional_id="billing") as producer,
            kafwire.AsyncProducer(orders.bootstrap, transactional_id="billing") as successor,
        ):

            async def handle(record: Record) -> bytes:
                if record.offset == 100:
                    await successor.init_transactions()
                return bytes(record.value)

            with pytest.raises(ProducerFencedError):
                await (
                    Pipeline()
                    .for_each(handle)
                    .run_async(source(orders), TopicSink(producer, "bills"), guarantee="exactly_once")
                )

    asyncio.run(main())
    assert written(orders, committed=True) == []
    assert orders.committed("billing") == {}


def test_dead_letters_with_their_offsets_in_one_transaction(orders: EmbeddedKafka) -> None:
    def refuse(record: Record) -> Any:
        if record.value == b"1-7":
            raise ValueError("no such customer")
        return record

    run(orders, Pipeline().map(refuse).dead_letters("dead"), transactional_id="billing")
    (letter,) = written(orders, "dead", committed=True)
    headers = dict(letter.headers)
    assert (letter.value, letter.key) == (b"1-7", b"key 2")
    assert headers["kafwire.error.message"] == b"no such customer"
    assert headers["kafwire.origin.topic"] == b"orders"
    assert (headers["kafwire.origin.partition"], headers["kafwire.origin.offset"]) == (b"1", b"7")
    assert len(written(orders, committed=True)) == len(VALUES) - 1
    assert orders.committed("billing") == ALL_COMMITTED


def test_a_delayed_retry(orders: EmbeddedKafka) -> None:
    calls: list[tuple[str | None, float]] = []

    async def handle(record: Record) -> bytes:
        if record.value == b"0-3":
            calls.append((record.topic, asyncio.get_running_loop().time()))
            if record.topic == "orders":
                raise ConnectionError("gone")
        return bytes(record.value)

    pipeline = Pipeline().for_each(handle, workers=4, by="key").retry_topics(RetryTopic("retry", 0.3))
    summary = run(orders, pipeline, read=source(orders, "orders", "retry"), committed=PARTITIONS * COUNT + 1)
    assert summary.delayed == 1
    (first, began), (second, ended) = calls
    assert (first, second) == ("orders", "retry")
    assert ended - began >= 0.3
    assert Counter(record.value for record in written(orders)) == Counter(VALUES)
    committed = orders.committed("billing")
    assert sum(offset or 0 for (topic, _), offset in committed.items() if topic == "retry") == 1


def test_not_now_pauses_the_consumers_partition(orders: EmbeddedKafka) -> None:
    refused, paused = 0, []
    read = source(orders)

    def look() -> None:
        paused.append(read._consumer.paused)

    def busy(record: Record) -> Any:
        nonlocal refused
        if record.value == b"0-5" and refused < 3:
            refused += 1
            asyncio.get_running_loop().call_later(0.1, look)
            raise NotNow(0.2)
        return record

    run(orders, Pipeline().map(busy), read=read)
    assert paused == [{("orders", 0)}] * 3
    assert Counter(record.value for record in written(orders)) == Counter(VALUES)
    assert orders.committed("billing") == ALL_COMMITTED


def test_whole_batches_as_arrow(orders: EmbeddedKafka) -> None:
    pipeline = Pipeline().map_batches(pa.record_batch).map(lambda rows: rows.select(["key", "value"])).batch(50)
    run(orders, pipeline)
    assert Counter(record.value for record in written(orders)) == Counter(VALUES)
    assert orders.committed("billing") == ALL_COMMITTED


def test_a_list_may_be_longer_than_a_poll_of_the_consumer(orders: EmbeddedKafka) -> None:
    for number in range(PARTITIONS):
        for one in range(100):
            orders.append("orders", [{"value": b"more %d" % one}], partition=number)
    read = source(orders, max_uncommitted=COUNT // 2, fetch_max_bytes=1000, max_partition_fetch_bytes=1000)
    summary = run(orders, Pipeline().batch(COUNT + 100), read=read, committed=PARTITIONS * (COUNT + 100))
    assert len(written(orders)) == summary.records == PARTITIONS * (COUNT + 100)


def test_a_refused_record_is_a_dead_letter_of_its_own_sink(orders: EmbeddedKafka) -> None:
    orders.fail_next("Produce", "INVALID_RECORD", topic="bills")
    letters = MemorySink()
    run(orders, BILLING.dead_letters("dead"), letters=letters)
    assert letters.values
    assert {letter.value for letter in letters.values} | {record.value for record in written(orders)} == VALUES
    assert orders.committed("billing") == ALL_COMMITTED


def double(record: Record) -> Any:
    """A step on values that were deserialized; one of them it refuses."""
    if record.value["books"] == 1:
        raise ValueError("no")
    return {"books": 2 * record.value["books"]}


DOUBLE: dict[str, Pipeline] = {
    "map": Pipeline().map(double),
    "for_each": Pipeline().for_each(double, workers=4, by="key", run_in="tasks"),
    "batches": Pipeline().map_batches(lambda batch: [double(record) for record in batch]).flat_map(list),
}
BOOKS = [b'{"books":0}', b'{"books":1}', b"{what?", b'{"books":3}']


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("step", DOUBLE)
@pytest.mark.parametrize("codec", ["json", kafwire.Json()], ids=["json", "Json"])
def test_records_that_fail_are_written_as_they_were_read(
    kafka: EmbeddedKafka, step: str, guarantee: Any, codec: Any
) -> None:
    """A record that no deserializer takes is written so, too, whatever serializers the producer has for results."""
    for topic in ("orders", "bills", "dead"):
        kafka.create_topic(topic)
    for value in BOOKS:
        kafka.append("orders", [{"key": b"7", "value": value}])

    async def main() -> StreamSummary:
        consumer = kafwire.AsyncConsumer(
            kafka.bootstrap,
            assign=[kafwire.TopicPartition("orders", 0)],
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            chunk_bytes=1,
            key=codec,
            value=codec,
        )
        given: dict[str, Any] = {} if guarantee == "at_least_once" else {"transactional_id": "billing"}
        async with kafwire.AsyncProducer(kafka.bootstrap, key=codec, value=codec, **given) as producer:
            read, sink = ConsumerSource(consumer, idle_s=0.1), TopicSink(producer, "bills")
            return await DOUBLE[step].dead_letters("dead").run_async(read, sink, guarantee=guarantee)

    assert asyncio.run(main()).dead_letters == 2
    letters = kafka.records("dead", committed=True)  # of two steps, which do not wait for each other
    assert sorted((letter.key, letter.value, dict(letter.headers)["kafwire.error.class"]) for letter in letters) == [
        (b"7", b'{"books":1}', b"ValueError"),
        (b"7", b"{what?", b"kafwire.errors.SerializationError"),
    ]
    bills = [record.value for record in kafka.records("bills", committed=True)]
    assert bills == [b'{"books":0}', b'{"books":6}']
    assert kafka.committed("billing") == {("orders", 0): len(BOOKS)}


def test_a_deserializer_that_has_to_be_awaited_is_refused(orders: EmbeddedKafka) -> None:
    async def text(data: bytes, topic: str, headers: Any) -> str:
        return data.decode()

    with pytest.raises(kafwire.ConfigError, match="async deserializer"):
        source(orders, value_deserializer=text)


@pytest.mark.parametrize("transactional_id", [None, "billing"])
@pytest.mark.parametrize(
    "both", [Pipeline().batch(2), Pipeline().batch(2).for_each(list, run_in="tasks")], ids=["batch", "for_each"]
)
def test_values_of_a_list_are_not_written_again_with_the_one_that_failed(
    kafka: EmbeddedKafka, both: Pipeline, transactional_id: str | None
) -> None:
    for topic in ("orders", "bills"):
        kafka.create_topic(topic, partitions=PARTITIONS)
    kafka.append("orders", [b"1", b"2"])
    failures = [ValueError("not now"), ValueError("nor now")]

    def text(value: str, topic: str, headers: Any) -> bytes:
        if value == "2" and failures:
            raise failures.pop()
        return value.encode()

    async def main() -> StreamSummary:
        given: dict[str, Any] = {} if transactional_id is None else {"transactional_id": transactional_id}
        async with kafwire.AsyncProducer(kafka.bootstrap, value_serializer=text, **given) as producer:
            pipeline = both.flat_map(lambda records: [[[record.value.decode()] for record in records]])
            ends = source(kafka, idle_s=0.1)
            guarantee: Any = "at_least_once" if transactional_id is None else "exactly_once"
            sink = TopicSink(producer, "bills")
            return await pipeline.retry(3, backoff_s=0).run_async(ends, sink, guarantee=guarantee)

    assert asyncio.run(main()).retries == 2
    assert sorted(record.value for record in written(kafka, committed=True)) == [b"1", b"2"]
    assert sum_committed(kafka) == 2


def test_without_a_group_the_stream_ends_at_its_commit(orders: EmbeddedKafka) -> None:
    with pytest.raises(kafwire.ConfigError, match="group_id"):
        run(orders, read=source(orders, group_id=None))


def test_a_consumer_that_commits_by_itself_is_no_source(orders: EmbeddedKafka) -> None:
    with pytest.raises(kafwire.ConfigError, match="enable_auto_commit=False"):
        source(orders, enable_auto_commit=True)


def test_a_sink_without_a_topic_needs_messages_that_have_one(orders: EmbeddedKafka) -> None:
    async def main() -> StreamSummary:
        async with kafwire.AsyncProducer(orders.bootstrap) as producer:
            pipeline = Pipeline().map(lambda record: record.value)
            return await pipeline.run_async(source(orders), TopicSink(producer))

    with pytest.raises(StreamError, match="this sink has no topic"):
        asyncio.run(main())
