"""An accumulator with the simplest of brokers behind it, for tests of the sender's thread."""

from __future__ import annotations

from typing import Any

from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import BatchDelivery, Delivery, ProducerBatch
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer.partitioner import even, rule_of
from kafwire.records import Record, decode_batches
from kafwire.records._arrow_rows import RowsReader
from kafwire.runtime._interfaces import Clock, Notifier, Waiter


class Store:
    """An accumulator and the engine's side of it, as the simplest of brokers would have it."""

    def __init__(
        self,
        partitions: int = 3,
        *,
        partitioner: Any = "murmur2_random",
        ignore_keys: bool = False,
        rng_state: int = 1,
        **options: Any,
    ) -> None:
        settings: dict[str, Any] = {
            "clock": Clock(),
            "waiter": Waiter(),
            "batch_size": 1_000,
            "max_request_size": 1_000,
            "linger_ms": 5,
            "buffer_memory": 1 << 20,
            "compression": "none",
            "level": None,
            "rule": rule_of(partitioner, ignore_keys=ignore_keys),
            "rng_state": rng_state,
        }
        self.notifier = Notifier()
        self.accumulator = Accumulator(self.notifier, **{**settings, **options})
        self.accumulator.set_topic("t", partitions, PartitionWeights(*even(range(partitions))))
        self.batches: list[tuple[int, bytes]] = []  # (partition, wire batch), in the order of sending
        self.logs: dict[int, list[Record]] = {p: [] for p in range(partitions)}

    @property
    def used(self) -> int:
        return self.accumulator.budget.used

    def append(
        self,
        value: bytes | None = b"v",
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Any = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        delivery = self.accumulator.append("t", value, key, headers, timestamp_ms, partition)
        assert delivery is not None, "no room"
        return delivery

    def append_table(self, table: Any, partition: int | None = None) -> BatchDelivery:
        parts: list[tuple[ProducerBatch, int, int]] = []
        row = 0
        for rows in RowsReader(table):
            plan = self.accumulator.plan_rows("t", rows, partition, row)
            assert plan is not None
            while not self.accumulator.append_rows(plan, parts):
                assert not plan.finished
                self.deliver()
            assert plan.finished
            row += len(rows)
        return BatchDelivery(parts)

    def deliver(self, *, everything: bool = True) -> int:
        """Take the ready batches and acknowledge them; returns their number."""
        queues, _ = self.accumulator.collect(everything=everything)
        count = 0
        for queue in queues:
            batches = list(queue.advance())
            queue.fresh.clear()
            self.accumulator.prepare(batches)
            for batch in batches:
                data = bytes(batch.payload())
                assert len(data) == batch.size
                (decoded,) = decode_batches(data)
                assert len(decoded) == batch.count
                log = self.logs[queue.partition]
                base = len(log)
                log += list(decoded)
                self.batches.append((queue.partition, data))
                batch.succeed(base, -1)
                count += 1
        return count

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for record in self.logs[partition]]


def sealed(store: Store) -> ProducerBatch:
    """The open batch, as it would be sent."""
    (queue,), _ = store.accumulator.collect(everything=True)
    (batch,) = queue.advance()
    queue.fresh.clear()
    batch.producer, batch.sequence = (7, 1), 5
    store.accumulator.prepare([batch])
    return batch
