"""Counters of a producer's engine side, and the snapshot for `metrics()`.

Updated once per batch and request, never per record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaError, name_of
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue


class Tally:
    """The counters of one partition, or of all."""

    __slots__ = (
        "batch_bytes_max",
        "batches",
        "bytes",
        "bytes_raw",
        "errors",
        "queue_ms_max",
        "queue_ms_sum",
        "queue_peak_ms_max",
        "records",
        "records_delivered",
        "records_failed",
        "retries",
    )

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.bytes_raw = 0
        self.batches = 0
        self.batch_bytes_max = 0
        self.queue_ms_sum = 0.0
        self.queue_ms_max = 0.0
        self.queue_peak_ms_max = 0.0  # the longest since the last push of metrics
        self.retries = 0
        self.records_delivered = 0
        self.records_failed = 0
        self.errors: Counter[str] = Counter()

    def add(self, other: Tally) -> None:
        """Add the counters of another partition."""
        for name in self.__slots__:
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, more) if name.endswith("_max") else mine + more)

    def as_dict(self) -> dict[str, Any]:
        """Return the counters in the form of `metrics()`."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "batches": self.batches,
            "batch_bytes_mean": _ratio(self.bytes, self.batches),
            "batch_bytes_max": self.batch_bytes_max,
            "batch_records_mean": _ratio(self.records, self.batches),
            "compression_ratio": _ratio(self.bytes, self.bytes_raw),
            "queue_ms_mean": _ratio(self.queue_ms_sum, self.batches),
            "queue_ms_max": self.queue_ms_max,
            "retries": self.retries,
            "records_delivered": self.records_delivered,
            "records_failed": self.records_failed,
            "errors": dict(self.errors),
        }


class ProduceCounters:
    """The tallies of one producer. Runs on the engine."""

    def __init__(self) -> None:
        self._tallies: dict[PartitionQueue, Tally] = {}

    def _of(self, queue: PartitionQueue) -> Tally:
        tally = self._tallies.get(queue)
        if tally is None:
            tally = self._tallies[queue] = Tally()
        return tally

    def sent(self, group: list[tuple[PartitionQueue, ProducerBatch]], now_ms: float) -> None:
        """Count a sent request; a batch that was tried before, whole or as a part, counts as a retry."""
        for queue, batch in group:
            tally = self._of(queue)
            if batch.attempts or batch.is_part:
                tally.retries += 1
                continue
            size = batch.size
            tally.batches += 1
            tally.records += batch.count
            tally.bytes += size
            tally.bytes_raw += batch.raw_size
            tally.batch_bytes_max = max(tally.batch_bytes_max, size)
            queued_ms = max(0.0, now_ms - batch.created_ms)
            tally.queue_ms_sum += queued_ms
            tally.queue_ms_max = max(tally.queue_ms_max, queued_ms)
            tally.queue_peak_ms_max = max(tally.queue_peak_ms_max, queued_ms)

    def went_by(self, queue: PartitionQueue, counts: Mapping[str, Any]) -> None:
        """Count batches sent and acknowledged directly (see `kafwire.producer.buffer._direct_send`)."""
        tally = self._of(queue)
        tally.batches += counts["batches"]
        tally.records += counts["records"]
        tally.bytes += counts["bytes"]
        tally.bytes_raw += counts["bytes_raw"]
        tally.batch_bytes_max = max(tally.batch_bytes_max, counts["batch_bytes_max"])
        tally.records_delivered += counts["delivered"]

    def delivered(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Count a batch that was acknowledged, or found in the log."""
        self._of(queue).records_delivered += batch.count

    def refused(self, queue: PartitionQueue, error: KafkaError | None) -> None:
        """Count the error of a failed attempt, whether or not it is retried."""
        if error is not None:
            self._of(queue).errors[name_of(error)] += 1

    def failed(self, queue: PartitionQueue, records: int) -> None:
        """Count records that were given up."""
        self._of(queue).records_failed += records

    def queue_times(self) -> tuple[float, int, float]:
        """Return the sum and number of the times in the queue, and the longest since the last call."""
        total, batches, longest = 0.0, 0, 0.0
        for tally in self._tallies.values():
            total += tally.queue_ms_sum
            batches += tally.batches
            longest = max(longest, tally.queue_peak_ms_max)
            tally.queue_peak_ms_max = 0.0
        return total, batches, longest

    @property
    def records_failed(self) -> int:
        """Failed records of all partitions."""
        return sum(tally.records_failed for tally in self._tallies.values())

    def snapshot(
        self, queued: Callable[[PartitionQueue], dict[str, Any]], connections: list[BrokerConnection]
    ) -> dict[str, Any]:
        """Return totals, partitions and connections; `queued` adds the partition's waiting batches."""
        total = Tally()
        partitions = {}
        last: dict[str, tuple[PartitionQueue, Tally]] = {}
        for queue, tally in list(self._tallies.items()):
            total.add(tally)
            where = f"{queue.topic}-{queue.partition}"  # str, as JSON needs
            if where in last:  # its topic was recreated
                tally.add(last[where][1])
                del self._tallies[last[where][0]]
            last[where] = queue, tally
            partitions[where] = {**tally.as_dict(), **queued(queue)}
        stats = [connection.stats() for connection in connections if connection.connects]
        produce = [connection for connection in stats if connection["role"] == "produce"]
        responses = sum(connection["responses"] for connection in produce)
        return {
            "producer": {
                **total.as_dict(),
                "requests": sum(connection["requests"] for connection in produce),
                "requests_in_flight": sum(connection["in_flight"] for connection in produce),
                "request_latency_ms_mean": _ratio(
                    sum(connection["latency_ms_sum"] for connection in produce), responses
                ),
                "request_latency_ms_max": max((connection["latency_ms_max"] for connection in produce), default=0.0),
                "throttle_ms": sum(connection["throttle_ms"] for connection in produce),
            },
            "partitions": partitions,
            "connections": stats,
        }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
