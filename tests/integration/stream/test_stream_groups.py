"""Streams of several members of one group, on an embedded broker: partitions come and go while records are in hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Literal

import pyarrow as pa
import pytest

import kafwire
from kafwire.records import Record
from kafwire.stream import ConsumerSource, Message, Pipeline, StopRequest, StreamSummary, TopicSink
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, until

PARTITIONS, COUNT = 6, 1200
OFTEN = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.assignment.interval.ms": "0"}
HOW: dict[str, dict[str, Any]] = {
    "classic": {"group_protocol": "classic", "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}


async def bill(record: Record) -> Message:
    await asyncio.sleep(0.002)
    return Message(record.value, record.key)


BILLING = Pipeline().for_each(bill, workers=8, by="key").commit(every=40, within=0.05)


class Shop:
    """Orders that are written all the time, and streams that make bills of them, each a member of one group."""

    def __init__(self, kafka: EmbeddedKafka, guarantee: Literal["at_least_once", "exactly_once"], how: str) -> None:
        self._kafka, self._guarantee, self._options = kafka, guarantee, HOW[how]
        self._streams: list[tuple[StopRequest, asyncio.Task[StreamSummary]]] = []

    async def write(self) -> None:
        async with kafwire.AsyncProducer(self._kafka.bootstrap, linger_ms=1) as producer:
            for number in range(COUNT):
                key = b"%d" % (number % 37)
                await producer.send("orders", b"%d" % number, key=key, partition=number % PARTITIONS)
                await asyncio.sleep(0.002)

    async def add(self) -> None:
        """One more stream; wait until it has partitions."""
        stop = StopRequest()
        consumer = kafwire.AsyncConsumer(
            self._kafka.bootstrap,
            topics="orders",
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **self._options,
        )
        running = asyncio.ensure_future(self._run(consumer, stop, len(self._streams)))
        self._streams.append((stop, running))
        await asyncio.to_thread(until, lambda: running.done() or bool(consumer.assignment), "it has partitions")

    async def _run(self, consumer: kafwire.AsyncConsumer, stop: StopRequest, number: int) -> StreamSummary:
        given: dict[str, Any] = {"linger_ms": 1}
        if self._guarantee == "exactly_once":
            given["transactional_id"] = f"biller-{number}"
        async with kafwire.AsyncProducer(self._kafka.bootstrap, **given) as producer:
            sink = TopicSink(producer, "bills")
            return await BILLING.run_async(ConsumerSource(consumer), sink, guarantee=self._guarantee, stop=stop)

    async def leave(self) -> StreamSummary:
        """The stream that came first stops."""
        stop, task = self._streams.pop(0)
        stop.request()
        return await task

    async def all_committed(self) -> None:
        def is_so() -> bool:
            return sum(offset or 0 for offset in self._kafka.committed("billing").values()) == COUNT

        await asyncio.to_thread(until, is_so, "all orders are billed")


@pytest.mark.parametrize(
    ("guarantee", "how"),
    [
        ("at_least_once", "classic"),
        ("exactly_once", "consumer"),
        pytest.param("at_least_once", "consumer", marks=pytest.mark.long),
        pytest.param("exactly_once", "classic", marks=pytest.mark.long),
    ],
)
def test_streams_come_and_go_and_each_order_is_billed_once(
    guarantee: Literal["at_least_once", "exactly_once"], how: str
) -> None:
    async def main(kafka: EmbeddedKafka) -> None:
        shop = Shop(kafka, guarantee, how)
        async with asyncio.timeout(PATIENCE_S):
            writing = asyncio.ensure_future(shop.write())
            for _ in range(3):
                await shop.add()
            summaries = [await shop.leave()]
            await writing
            await shop.all_committed()
            summaries += [await shop.leave(), await shop.leave()]
        assert sum(summary.records for summary in summaries) >= COUNT

    with EmbeddedKafka(configs=OFTEN) as kafka:
        kafka.create_topic("orders", PARTITIONS)
        kafka.create_topic("bills", 1)
        asyncio.run(main(kafka))
        isolation: Any = "read_committed" if guarantee == "exactly_once" else "read_uncommitted"
        with kafwire.scan(kafka.bootstrap, "bills", isolation_level=isolation) as found:
            bills = [int(value) for value in pa.table(found)["value"].to_pylist()]
    # No member died, and the records in hand were finished: nothing is billed twice either way.
    assert Counter(bills) == Counter(range(COUNT))
