"""Streams with state, on an embedded broker: keyed folds, hooks with committed offsets, a monitor, limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire.records import Record
from kafwire.stream import (
    ConsumerSource,
    Message,
    Pipeline,
    Reduced,
    StopRequest,
    StreamError,
    StreamMonitor,
    StreamSummary,
    TopicSink,
)
from kafwire.testing import EmbeddedKafka
from kafwire.types import TopicPartition
from tests.support.deadlines import PATIENCE_S, until

COUNT = 300
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def orders(kafka: EmbeddedKafka) -> EmbeddedKafka:
    for topic in ("orders", "bills", "dead"):
        kafka.create_topic(topic)
    kafka.append("orders", [{"key": b"key %d" % (one % 7), "value": b"%d" % one} for one in range(COUNT)])
    return kafka


def run(
    kafka: EmbeddedKafka,
    pipeline: Pipeline,
    *,
    transactional_id: str | None = None,
    committed: int = COUNT,
    **options: Any,
) -> StreamSummary:
    """Run a pipeline from orders to bills, until so many orders are committed, or it fails."""

    async def main() -> StreamSummary:
        consumer = kafwire.AsyncConsumer(
            kafka.bootstrap, topics="orders", group_id="billing", enable_auto_commit=False, auto_offset_reset="earliest"
        )
        given: dict[str, Any] = {"linger_ms": 1, "request_timeout_ms": 1000}
        if transactional_id is not None:
            given["transactional_id"] = transactional_id
        guarantee: Any = "at_least_once" if transactional_id is None else "exactly_once"
        stop = StopRequest()
        async with asyncio.timeout(PATIENCE_S), kafwire.AsyncProducer(kafka.bootstrap, **given) as producer:
            running = asyncio.ensure_future(
                pipeline.run_async(
                    ConsumerSource(consumer), TopicSink(producer, "bills"), guarantee=guarantee, stop=stop, **options
                )
            )
            await asyncio.to_thread(
                until, lambda: running.done() or kafka.committed("billing").get(ORDERS) == committed, "all is committed"
            )
            stop.request()
            return await running

    return asyncio.run(main())


def append(numbers: list[int], record: Record) -> list[int]:
    return [*numbers, int(record.value)]


def as_message(fold: Reduced) -> Message:
    return Message(",".join(map(str, fold.value)).encode(), fold.key)


def billed(kafka: EmbeddedKafka, **options: Any) -> list[int]:
    return [int(one) for record in kafka.records("bills", 0, **options) for one in record.value.split(b",")]


FOLDING = Pipeline().reduce(append, list, max_values=11, max_seconds=0.2).map(as_message)


def test_folds_reach_the_topic_before_their_offsets_are_committed(orders: EmbeddedKafka) -> None:
    run(orders, FOLDING.commit(every=50, within=0.05))
    assert sorted(billed(orders)) == list(range(COUNT))
    for record in orders.records("bills", 0):
        assert {b"key %d" % (int(one) % 7) for one in record.value.split(b",")} == {record.key}


FAULTS: dict[str, Callable[[EmbeddedKafka], object]] = {
    "none": lambda kafka: None,
    "a lost commit": lambda kafka: kafka.drop_response("EndTxn"),
    "a refused record": lambda kafka: kafka.fail_next("Produce", "INVALID_RECORD", topic="bills"),
    "refused offsets": lambda kafka: kafka.fail_next("TxnOffsetCommit", "ILLEGAL_GENERATION"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_record_is_in_one_fold_exactly_once(orders: EmbeddedKafka, fault: str) -> None:
    FAULTS[fault](orders)
    run(orders, FOLDING.commit(every=50, within=0.05), transactional_id="billing")
    assert Counter(billed(orders, committed=True)) == Counter(range(COUNT))


def test_hooks_get_the_committed_offset(orders: EmbeddedKafka) -> None:
    calls: list[Any] = []

    def hook(name: str) -> Any:
        return lambda where, offset: calls.append((name, *where, offset))

    pipeline = Pipeline().map(lambda order: order.value).commit(within=0.05)
    pipeline = pipeline.on_partitions(assigned=hook("assigned"), revoked=hook("revoked"))
    run(orders, pipeline)
    assert calls == [("assigned", "orders", 0, None), ("revoked", "orders", 0, COUNT)]
    calls.clear()
    orders.append("orders", [{"value": b"1"}])
    run(orders, pipeline, committed=COUNT + 1)
    assert calls == [("assigned", "orders", 0, COUNT), ("revoked", "orders", 0, COUNT + 1)]


def test_a_monitor_shows_the_lag_and_the_oldest_record(orders: EmbeddedKafka) -> None:
    monitor, found = StreamMonitor(), []

    def look(record: Record) -> bytes:
        if record.offset == 5:
            found.append(monitor.status())
        return bytes(record.value)

    run(orders, Pipeline().for_each(look, run_in="tasks").commit(within=0.05), monitor=monitor)
    (status,) = found
    assert status.oldest is not None
    assert (status.oldest.topic, status.oldest.partition) == ("orders", 0)
    assert status.oldest.offset <= 5
    assert status.oldest.step in {"for_each(look)", "sink"}
    assert status.lag_s is not None
    assert 0 <= status.lag_s < PATIENCE_S
    assert (status.state, status.problem) == ("running", None)
    assert monitor.problem() == "the stream has ended"


def test_a_limit_of_dead_letters_leaves_the_rest_of_the_topic(orders: EmbeddedKafka) -> None:
    async def fail(record: Record) -> None:
        raise ValueError("a bad deployment")

    pipeline = Pipeline().for_each(fail).dead_letters("dead", max_in_a_row=10).commit(within=0.05)
    with pytest.raises(StreamError, match="11 in a row"):
        run(orders, pipeline)
    assert len(orders.records("dead", 0)) == 10
    assert orders.committed("billing")[ORDERS] == 10
