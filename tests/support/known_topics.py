"""For tests of consumers on real brokers: topics with known records, and reading until they are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import kafwire
from kafwire import TopicPartition

NOW_MS = 1_760_000_000_000
Values = dict[int, list[bytes]]


def make_topic(bootstrap: str, name: str, partitions: int = 1, **options: Any) -> str:
    """Create a topic; its name."""
    with kafwire.Client(bootstrap) as client:
        client.create_topic(name, partitions=partitions, **options)
    return name


def value_of(partition: int, number: int) -> bytes:
    """The value of the record at offset `number`, as `fill` writes it."""
    return b"%d-%07d" % (partition, number)


def fill(bootstrap: str, topic: str, partitions: int, each: int, *, first: int = 0, singly: bool = False) -> Values:
    """Write `each` records to each partition, `singly` in a batch of their own; time rises by 1 s with each offset."""
    options: dict[str, Any] = {"batch_size": 1 if singly else 20_000}
    numbers = range(first, first + each)
    rows = [(partition, number) for partition in range(partitions) for number in numbers]
    with kafwire.Producer(bootstrap, **options) as producer:
        producer.send_batch(
            topic,
            pa.table(
                {
                    "partition": [partition for partition, _ in rows],
                    "key": [b"%d" % number for _, number in rows],
                    "value": [value_of(*row) for row in rows],
                    "timestamp": pa.array([NOW_MS + 1000 * n for _, n in rows], pa.timestamp("ms", "UTC")),
                }
            ),
        ).result(60)
    return {partition: [value_of(partition, number) for number in numbers] for partition in range(partitions)}


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """All partitions of a topic."""
    return [TopicPartition(topic, number) for number in range(count)]


class Seen:
    """The records that a consumer gave, by partition; each must lie behind the one before it."""

    def __init__(self) -> None:
        self.values: Values = {}
        self.offsets: dict[int, list[int]] = {}
        self.count = 0

    def add(self, batch: Any) -> None:
        """Take in a batch."""
        for record in batch:
            self.add_record(record)
        assert batch.next_offset > self.offsets[batch.partition][-1]

    def add_record(self, record: Any) -> None:
        """Take in a record."""
        offsets = self.offsets.setdefault(record.partition, [])
        assert not offsets or record.offset > offsets[-1], f"offset {record.offset} after {offsets[-1]}"
        offsets.append(record.offset)
        self.values.setdefault(record.partition, []).append(record.value)
        self.count += 1


def take(consumer: Any, count: int, *, silence: float = 20.0) -> Seen:
    """The next `count` records at least, by whole batches; all of them are processed."""
    seen = Seen()
    batches = consumer.batches(timeout=silence)
    while seen.count < count:
        batch = next(batches, None)
        assert batch is not None, f"silence after {seen.count} of {count} records"
        seen.add(batch)
    batches.close()
    return seen


def records(consumer: Any, count: int) -> list[Any]:
    """The next `count` records, one by one."""
    source = iter(consumer)
    return [next(source) for _ in range(count)]


def offsets(seen: Seen) -> dict[int, int]:
    """How many records of each partition were seen."""
    return {partition: len(found) for partition, found in sorted(seen.offsets.items())}


def names(where: Iterable[TopicPartition]) -> list[str]:
    """`topic-partition` of each, sorted."""
    return sorted(f"{topic}-{partition}" for topic, partition in where)
