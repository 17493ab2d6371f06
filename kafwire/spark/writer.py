"""The writers without transactions: each task hands its Arrow batches to its process's producer, and waits until the
brokers have acknowledged all.

At least once: a task that is tried again writes its records again, and nothing written can be taken back.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafwire.errors import KafkaError
from kafwire.spark import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kafwire.producer.buffer._batch import BatchDelivery
    from kafwire.spark.options import WriteOptions

log = logging.getLogger("kafwire.spark")

# Arrow batches handed over and not yet known to be acknowledged; the producer's buffer bounds their bytes.
_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The acknowledged records of one task, by topic."""

    records: Mapping[str, int]


class AcknowledgedRows:
    """Writes the columns `columns` of a DataFrame with the producer that `options` describe."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        """Keep the arguments only: the worker makes the producer. The planner calls this for each batch of a stream."""
        self.options = options
        self.columns = list(columns)
        processes.freeze_modules()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows; returns when the brokers have acknowledged every one of them."""
        records: Counter[str] = Counter()
        pending: deque[BatchDelivery] = deque()

        def settle(keep: int) -> None:
            while len(pending) > keep:
                for topic, _partition, _offset, count in pending.popleft().result():
                    records[topic] += count

        try:
            for batch in iterator:
                if batch.num_rows:
                    producer = processes.producer(self.options.client)
                    pending.append(producer.send_batch(self.options.topic, batch.select(self.columns)))
                    settle(_IN_FLIGHT)
            if pending:
                producer.flush()
            settle(0)
        except BaseException as error:
            # A later task of this process must not send the records that the producer still holds.
            processes.forget_producer(self.options.client)
            if isinstance(error, KafkaError):
                where = f"topic {self.options.topic}" if self.options.topic is not None else "the topics of its rows"
                acknowledged = sum(records.values())
                error.add_note(f"while writing to {where}, after {acknowledged:,} acknowledged records of the task")
            raise
        processes.freeze_modules()
        return Written(dict(records))


class KafwireWriter(AcknowledgedRows, DataSourceArrowWriter):
    """The writer of a batch."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the number of records."""
        log.info("wrote %s", _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the records of the tasks that ended well: they stay in the topic."""
        _log_failure(messages)


class KafwireStreamWriter(AcknowledgedRows, DataSourceStreamArrowWriter):
    """The writer of a stream."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log the number of records."""
        log.info("batch %d: wrote %s", batchId, _summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Log the records of the tasks that ended well: they stay in the topic."""
        _log_failure(messages)


def _log_failure(messages: Sequence[WriterCommitMessage | None]) -> None:
    log.warning(
        "the write failed; %s stay in Kafka, as do records that failed tasks wrote: a retry writes all of them again",
        _summary(messages),
    )


def _summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    records: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, Written):
            records.update(message.records)
    tasks = sum(message is not None for message in messages)
    topics = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(records.items()))
    return f"{sum(records.values()):,} records in {tasks} tasks ({topics or 'none'})"
