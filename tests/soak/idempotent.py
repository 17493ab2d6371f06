"""Workloads of kafwire's producer without transactions: one by one, one by one waiting, and from Arrow."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import kafwire
from kafwire.errors import KafkaError
from kafwire.testing.history import Dress
from tests.soak.matrix import SEND, Topic
from tests.soak.runner import Runner

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# An outcome must come of itself by the delivery time-out; this only says which workload hangs.
_HUNG_S = 180.0


class Sender(Runner):
    """Sends one by one, with many records under way, or waits for each ("wait")."""

    make: Callable[..., Any] = kafwire.Producer

    def work(self) -> None:
        """Send until stopped, then wait for the open deliveries."""
        workload = self.workload
        self.pending: deque[tuple[int, kafwire.Delivery]] = deque()
        window = workload.window if workload.kind == SEND else 1
        with self.make(**self.access.options(), **workload.options) as producer:
            self.producer = producer
            while not self.stopping:
                self.pace(workload.rows)
                while len(self.pending) >= window:
                    self._settle(wait=True)
                keys = self.keys(workload.rows)
                topic = self.chance.choice(workload.topics)
                dresses = [self._dress(topic, key) for key in keys]
                made = self.writer.invoke(keys, size=workload.size, dresses=dresses)
                for dress, (sequence, value) in zip(dresses, made, strict=True):
                    self._send(producer, topic, dress, sequence, value)
            producer.flush(_HUNG_S)
            while self.pending:
                self._settle(wait=True)

    def idle(self) -> None:
        """Write down what was acknowledged."""
        while self.pending and self.pending[0][1].done():
            self._settle(wait=False)

    def _dress(self, topic: Topic, key: int) -> Dress:
        """The partition is named; or it follows from the key, by a hash that is not kafwire's; or it may be any."""
        placement = self.workload.placement
        given = b"%d" % key if placement == "key" else None
        partition = key % topic.partitions if placement == "partition" else None
        return self.dress(key, given, partition_of(given, topic.partitions) if given is not None else partition)

    def _send(self, producer: Any, topic: Topic, dress: Dress, sequence: int, value: bytes) -> None:
        self.started += 1
        try:
            delivery = producer.send(
                topic.name,
                value,
                key=dress.key,
                headers=dress.headers or None,
                timestamp_ms=dress.timestamp_ms,
                partition=dress.partition if self.workload.placement == "partition" else None,
            )
        except KafkaError as error:  # it was not taken, so it is not sent
            self.failed([sequence], error, certain=True)
            self.settled += 1
        else:
            self.pending.append((sequence, delivery))

    def _settle(self, *, wait: bool) -> None:
        """Take the oldest outcome, and then those that are known already."""
        sequence, delivery = self.pending.popleft()
        error = delivery.exception(_HUNG_S if wait else 0)
        if error is not None:
            self.failed([sequence], error, certain=not error.in_doubt)
        else:
            meta = delivery.result(0)
            self.writer.ok(sequence, meta.topic, meta.partition, meta.offset)
            self.succeeded(1)
        self.settled += 1


class BatchSender(Runner):
    """Sends rows of Arrow tables, the partition of each named."""

    make: Callable[..., Any] = kafwire.Producer

    def work(self) -> None:
        """Send until stopped, then wait for the open deliveries."""
        workload = self.workload
        self.pending: deque[tuple[Mapping[int, list[int]], kafwire.BatchDelivery]] = deque()
        with self.make(**self.access.options(), **workload.options) as producer:
            self.producer = producer
            while not self.stopping:
                self.pace(workload.rows)
                while len(self.pending) * workload.rows >= workload.window:
                    self._settle(wait=True)
                self._send(producer, self.chance.choice(workload.topics))
            producer.flush(_HUNG_S)
            while self.pending:
                self._settle(wait=True)

    def idle(self) -> None:
        """Write down what was acknowledged."""
        while self.pending and self.pending[0][1].done():
            self._settle(wait=False)

    def _send(self, producer: Any, topic: Topic) -> None:
        keys = self.keys(self.workload.rows)
        shift = self.chance.randrange(topic.partitions)
        partitions = [(key + place // 16 + shift) % topic.partitions for place, key in enumerate(keys)]
        dresses = [self.dress(key, b"%d" % key, partition) for key, partition in zip(keys, partitions, strict=True)]
        made = self.writer.invoke(keys, size=self.workload.size, dresses=dresses)
        columns: dict[str, pa.Array] = {
            "value": pa.array([value for _, value in made], pa.binary()),
            "key": pa.array([dress.key for dress in dresses], pa.binary()),
            "partition": pa.array(partitions, pa.int32()),
        }
        if self.workload.headers:
            columns["headers"] = pa.array([_pairs(dress) for dress in dresses], _HEADERS)
        if self.workload.timed:
            columns["timestamp"] = pa.array([dress.timestamp_ms for dress in dresses], pa.timestamp("ms", "UTC"))
        rows = pa.table(columns)
        placed: dict[int, list[int]] = {}
        for partition, (sequence, _) in zip(partitions, made, strict=True):
            placed.setdefault(partition, []).append(sequence)
        self.started += 1
        try:
            self.pending.append((placed, producer.send_batch(topic.name, rows)))
        except KafkaError as error:  # some rows may have been taken before
            self.failed([sequence for sequence, _ in made], error, certain=False)
            self.settled += 1

    def _settle(self, *, wait: bool) -> None:
        placed, delivery = self.pending.popleft()
        self.settled += 1
        try:
            ranges = delivery.result(_HUNG_S if wait else 0)
        except KafkaError as error:
            if delivery.done():
                self._settle_parts(placed, delivery)
            else:
                self.failed([sequence for some in placed.values() for sequence in some], error, certain=False)
            return
        taken = dict.fromkeys(placed, 0)
        for topic, partition, first, count in ranges:
            sequences = placed[partition][taken[partition] : taken[partition] + count]
            taken[partition] += count
            self.writer.ok_all(sequences, topic, partition, range(first, first + count))
            self.succeeded(count)
        short = {partition: len(placed[partition]) - count for partition, count in taken.items()}
        if any(short.values()):
            raise AssertionError(f"send_batch reported too few or too many rows, by partition: {short}")

    def _settle_parts(self, placed: Mapping[int, list[int]], delivery: kafwire.BatchDelivery) -> None:
        """Some of it failed: what became of each part."""
        left = {partition: iter(sequences) for partition, sequences in placed.items()}
        for batch, first, count in delivery.parts:
            topic, partition = batch.queue.topic, batch.queue.partition
            sequences = list(itertools.islice(left[partition], count))
            outcomes = batch.outcomes()
            begin = 0
            for size, error in outcomes:
                at, end = max(begin, first), min(begin + size, first + count)
                begin += size
                some = sequences[at - first : end - first] if at < end else []
                if error is not None and some:
                    self.failed(some, error, certain=not error.in_doubt)
                elif some:
                    # Where it was divided, only what it was divided into knows the offsets.
                    known = len(outcomes) == 1 and batch.base_offset >= 0
                    offsets = range(batch.base_offset + at, batch.base_offset + end) if known else [None] * len(some)
                    self.writer.ok_all(some, topic, partition, offsets)
                    self.succeeded(len(some))


def _pairs(dress: Dress) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in dress.headers]


def partition_of(key: bytes, partitions: int) -> int:
    """Where a key belongs, by murmur2 as Java's client has it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        h = h * m & mask ^ (k ^ k >> 24) * m & mask
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions
