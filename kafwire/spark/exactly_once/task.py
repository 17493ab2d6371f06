"""The part of one task: its rows in a transaction that stays open, and the handle by which the driver ends it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafwire.errors import KafkaError
from kafwire.spark import processes
from kafwire.spark.exactly_once.decisions import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kafwire.producer.buffer._batch import BatchDelivery
    from kafwire.spark.options import WriteOptions

# Arrow batches handed over and not yet known to be acknowledged; the producer's buffer bounds their bytes.
_IN_FLIGHT = 64


def prepare(
    options: WriteOptions, columns: Sequence[str], batches: Iterable[pa.RecordBatch], transactional_id: str
) -> Prepared | None:
    """Write the rows of a task into an open transaction; returns None without rows.

    After an error, the next take-over aborts the transaction if this process cannot.
    """
    rows = (batch.select(columns) for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return None
    return _written(options, first, rows, transactional_id)


def _written(
    options: WriteOptions, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], transactional_id: str
) -> Prepared:
    records = 0
    partitions: dict[str, set[int]] = {}
    pending: deque[BatchDelivery] = deque()

    def settle(keep: int) -> None:
        nonlocal records
        while len(pending) > keep:
            for topic, partition, _offset, count in pending.popleft().result():
                partitions.setdefault(topic, set()).add(partition)
                records += count

    try:
        with processes.transactional_producer(options.client, transactional_id=transactional_id) as producer:
            producer.begin_transaction()
            pending.append(producer.send_batch(options.topic, first))
            for batch in rest:
                pending.append(producer.send_batch(options.topic, batch))
                settle(_IN_FLIGHT)
            producer.flush()
            settle(0)
            handle = producer.detach()
    except KafkaError as error:
        error.add_note(f"in the transaction {transactional_id}, after {records:,} acknowledged records of the task")
        raise
    return Prepared(handle, records, {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()})
