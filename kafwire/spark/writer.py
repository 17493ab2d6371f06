"""The batch writer: each task hands its Arrow batches to its process's producer and waits until all is acknowledged.

At least once: a task that is tried again writes its records again, and nothing written can be taken back.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kafwire._delivery import BatchDelivery
    from kafwire.spark.options import WriteOptions

log = logging.getLogger("kafwire.spark")

# Arrow batches handed over and not yet known to be acknowledged; the producer's buffer bounds their bytes.
_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task wrote: acknowledged records by topic."""

    records: Mapping[str, int]


class KafwireWriter(DataSourceArrowWriter):
    """Writes the columns `columns` of a DataFrame with the producer that `options` describe."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        """Keep both; the producer is made in the worker."""
        self.options = options
        self.columns = list(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows; returns when the brokers have acknowledged every one of them."""
        records: Counter[str] = Counter()
        pending: deque[tuple[str, int, BatchDelivery]] = deque()

        def settle(keep: int) -> None:
            while len(pending) > keep:
                topic, count, delivery = pending.popleft()
                delivery.result()
                records[topic] += count

        topic = "?"
        try:
            for batch in iterator:
                for topic, rows in by_topic(batch.select(self.columns), self.options.topic):
                    producer = processes.producer(self.options.client)
                    pending.append((topic, rows.num_rows, producer.send_batch(topic, rows)))
                    settle(_IN_FLIGHT)
            if pending:
                producer.flush()
            while pending:
                topic = pending[0][0]
                settle(len(pending) - 1)
        except BaseException as error:
            # What the producer still holds must not be sent by a later task of this process.
            processes.forget_producer(self.options.client)
            if isinstance(error, KafkaError):
                acknowledged = sum(records.values())
                error.add_note(
                    f"while writing to topic {topic}, after {acknowledged:,} acknowledged records of the task"
                )
            raise
        return Written(dict(records))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written."""
        log.info("wrote %s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what the tasks that ended well had written: it stays in the topic."""
        log.warning(
            "the write failed; %s stay in Kafka, besides what failed tasks wrote, and a retry writes them again",
            _summary(messages),
        )


def by_topic(rows: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split `rows` by their `topic` column, keeping their order within a topic; all go to `topic` if it is given."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows.num_rows == 0:
        return
    if topic is not None:
        yield topic, rows
        return
    names = rows.column("topic")
    rows = rows.drop_columns(["topic"])
    if names.null_count:
        raise ConfigError(f"{names.null_count} rows have no topic: fill the column, or set the option topic")
    counts = pc.value_counts(names)
    if len(counts) == 1:
        yield names[0].as_py(), rows
        return
    # One stable sort by first appearance, then a slice per topic.
    rows = rows.take(pc.sort_indices(names.dictionary_encode().indices))
    start = 0
    for name, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        yield name, pa.RecordBatch.slice(rows, start, count)
        start += count


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    records: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Written):
            records.update(message.records)
    tasks = sum(message is not None for message in messages)
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(records.items()))
    return f"{sum(records.values()):,} records in {tasks} tasks ({topics or 'none'})"
