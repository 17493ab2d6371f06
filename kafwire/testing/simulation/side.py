"""The clients of a topic that is recreated, cut short and grown; they get only a promise of order.

The producer gets an error in time, and can go on. The reader gets no record twice and none out of order, skips only
deleted records, gets an error when the topic is recreated, and reaches the end of the log.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.schedule import SIDE
from kafwire.testing.simulation.traces import content_of
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    import kafwire
    from kafwire.testing.simulation.client_run import ClientRun

NAME = "side reader"
EVERY_S = 1.0  # between two records
REFRESH_MS = 3_000  # the consumer finds new partitions this soon
# Errors for a topic that was recreated, or that does not exist for now.
ANOTHER = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID}


class Side:
    """The producer and the reader of that topic."""

    def __init__(self, workload: ClientRun) -> None:
        self._workload = workload
        self._world = workload.world
        self._got: dict[int, tuple[int, Any]] = {}  # by partition, the last offset and value since the reader started

    async def send(self, producer: kafwire.AsyncProducer) -> None:
        """Send a record now and then, by `producer`."""
        for number in itertools.count():
            if self._workload.is_over:
                return
            await asyncio.sleep(EVERY_S)
            try:
                await asyncio.wait_for(await producer.send(SIDE, b"side %d" % number), 60)
                self._workload.counts["side sent"] += 1
            except KafkaError as error:
                self._workload.counts[f"side error {getattr(error, 'name', type(error).__name__)}"] += 1
            except TimeoutError:
                self._workload.problems.append("a record to the recreated topic had no outcome within 60 s")

    async def read(self) -> None:
        """Read the topic from its beginning, and again from there after it was recreated."""
        while True:
            consumer = self._workload.readers.consumer(
                NAME, "read_uncommitted", topics=[SIDE], start="earliest", metadata_max_age_ms=REFRESH_MS
            )
            try:
                async with consumer:
                    self._got.clear()
                    while True:
                        for batch in await consumer.poll(1.0):
                            self._take(batch)
            except KafkaError as error:
                self._note_error(error)
                await asyncio.sleep(0.5)

    def _note_error(self, error: KafkaError) -> None:
        self._workload.counts[f"side reader error {getattr(error, 'name', type(error).__name__)}"] += 1
        self._workload.say(f"{NAME}: {error}")
        is_another = isinstance(error, BrokerError) and error.code in ANOTHER
        if not is_another and not isinstance(error, KafkaConnectionError | KafkaTimeoutError):
            self._workload.problems.append(f"{NAME} ended: {type(error).__name__}: {error}")

    def _take(self, batch: Any) -> None:
        index = batch.partition or 0
        for record in batch:
            self._workload.counts["side read"] += 1
            last, value = self._got.get(index, (-1, b"side -1"))
            self._got[index] = record.offset, record.value
            if record.offset <= last or _number(record.value) <= _number(value):
                self._wrong(f"got {record.value} at {record.offset} of partition {index}, after {value} at {last}")
            elif record.offset > last + 1 and not self._is_gone(index, record.offset - 1):
                self._wrong(f"passed over {last + 1} to {record.offset - 1} of partition {index}")

    def _is_gone(self, index: int, offset: int) -> bool:
        """True if the record no longer exists, or the topic was recreated."""
        topic = self._world.state.topics.find(SIDE)
        if topic is None or index >= len(topic.partitions):
            return True
        log = topic.partitions[index].log
        return not log.start_offset <= offset < log.end_offset

    def _wrong(self, problem: str) -> None:
        if self._workload.load.is_durable:
            self._workload.problems.append(f"{NAME} {problem}")

    def behind(self) -> list[tuple[str, TopicPartition, int, int]]:
        """Return the partitions whose last record was not read."""
        topic = self._world.state.topics.find(SIDE)
        found = []
        for partition in topic.partitions if topic is not None else ():
            offsets, values = content_of(partition, committed_only=False)
            there = [each for each in zip(offsets, values, strict=True) if each[0] >= partition.log.start_offset]
            got = self._got.get(partition.index, (-1, b""))
            if there and there[-1] != got:
                found.append((NAME, TopicPartition(SIDE, partition.index), got[0] + 1, there[-1][0] + 1))
        return found


def _number(value: Any) -> int:
    return int(value.split()[1])
