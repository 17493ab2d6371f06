"""The writers of exactly-once streams and atomic batches: tasks leave transactions open, the driver commits them all.

Spark makes a new stream writer for the commit of each batch. What the planned writer knows reaches it in the messages
of the tasks alone.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafwire.errors import KafkaError
from kafwire.spark import processes
from kafwire.spark.exactly_once import sinks
from kafwire.spark.exactly_once.decisions import Prepared, task_id
from kafwire.spark.exactly_once.sink import RUN, Plan
from kafwire.spark.lookup import client_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafwire import Producer
    from kafwire.producer._batch import BatchDelivery
    from kafwire.producer.sequencer import Identity
    from kafwire.spark.options import WriteOptions

log = logging.getLogger("kafwire.spark")

# Arrow batches handed over and not yet known to be acknowledged; the producer's buffer bounds their bytes.
_IN_FLIGHT = 64
_CLOSE_S = 5.0
# Launches of one partition's task that have separate ids, so that a late attempt does not fence a later one.
_LAUNCHES = 64

# A part of the transactional ids of all queries that this process plans.
_RUN = uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class Ready(WriterCommitMessage):
    """The end of one task: its open transaction, or None without rows. `planned` is the sink's identity by the plan."""

    query: str
    planned: Identity
    prepared: Prepared | None


class TransactionalWriter:
    """The part that batches and streams share."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        """Keep both; the sink is taken over when Spark pickles the writer for the tasks."""
        self.options = options
        self.columns = list(columns)
        self.plan: Plan | None = None
        self.run = _RUN

    def write_rows(self, iterator: Iterator[pa.RecordBatch], query: str, batch: int) -> Ready:
        """Write a task's rows into a transaction, and leave it open."""
        assert self.plan is not None
        prepared = None
        if not self.plan.is_done(query, batch):
            prepared = _prepared(self.options, self.columns, iterator, self._task_id(batch))
        return Ready(query, self.plan.identity, prepared)

    def _task_id(self, batch: int) -> str:
        assert self.options.sink is not None
        context = TaskContext.get()
        assert context is not None
        # A retried stage counts its attempts from 0 again, and Python tasks do not see the stage's attempt.
        launch = context.taskAttemptId() % _LAUNCHES
        return task_id(self.options.sink, self.run, context.partitionId(), launch, context.attemptNumber(), batch)

    def finish(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit the transactions of all tasks."""
        ready = [each for each in messages if isinstance(each, Ready)]
        prepared = [each.prepared for each in ready if each.prepared is not None]
        if not prepared:
            return
        query, planned = ready[0].query, ready[0].planned
        sinks.run(self.options, lambda sink: sink.commit(query, batch, prepared, planned))
        log.info("batch %d: committed %d records", batch, sum(each.records for each in prepared))

    def give_up(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Abort the transactions of the tasks that ended, unless the batch is decided."""
        ready = [each for each in messages if isinstance(each, Ready)]
        prepared = [each.prepared for each in ready if each.prepared is not None]
        if prepared:
            query = ready[0].query
            if sinks.run(self.options, lambda sink: sink.abort(query, batch, prepared)):
                log.warning("batch %d is committed, although its commit reported an error", batch)


class AtomicWriter(TransactionalWriter, DataSourceArrowWriter):
    """Writes a batch: all rows become visible together, or none does."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        """Name the write: its decision belongs to no other."""
        super().__init__(options, columns)
        self.query = f"{RUN}{uuid.uuid4().hex}"
        self.run = self.query.removeprefix(RUN)[:12]

    def __getstate__(self) -> dict[str, Any]:
        """Take over the sink before the first task."""
        if self.plan is None:
            self.plan = sinks.run(self.options, lambda sink: sink.plan(self.query))
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Ready:
        """Write a task's rows into a transaction, and leave it open."""
        return self.write_rows(iterator, self.query, 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit all rows."""
        self.finish(messages, 0)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop all rows, unless the batch is decided."""
        self.give_up(messages, 0)


class ExactlyOnceStreamWriter(TransactionalWriter, DataSourceStreamArrowWriter):
    """Writes a stream: each batch becomes visible once, and in whole."""

    def __getstate__(self) -> dict[str, Any]:
        """Take over the sink before the tasks of a batch. Spark does not pickle the writer that commits."""
        if self.plan is None:
            self.plan = sinks.run(self.options, lambda sink: sink.plan())
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Ready:
        """Write a task's rows into a transaction, and leave it open."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if not query or batch is None:
            raise KafkaError("Spark gave this task no query id and batch id: is it a task of a stream?")
        return self.write_rows(iterator, query, int(batch))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit a batch."""
        self.finish(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Drop a batch, unless it is decided."""
        self.give_up(messages, batchId)


def _prepared(
    options: WriteOptions, columns: Sequence[str], iterator: Iterator[pa.RecordBatch], transactional_id: str
) -> Prepared | None:
    """The rows of a task in an open transaction; None without rows."""
    with processes.connections(client_options(options)) as connections:
        return _prepared_over(connections, options, columns, iterator, transactional_id)


def _prepared_over(
    connections: processes.Connections,
    options: WriteOptions,
    columns: Sequence[str],
    iterator: Iterator[pa.RecordBatch],
    transactional_id: str,
) -> Prepared | None:
    records = 0
    partitions: dict[str, set[int]] = {}
    pending: deque[BatchDelivery] = deque()
    producer: Producer | None = None

    def settle(keep: int) -> None:
        nonlocal records
        while len(pending) > keep:
            for topic, partition, _offset, count in pending.popleft().result():
                partitions.setdefault(topic, set()).add(partition)
                records += count

    try:
        for batch in iterator:
            if batch.num_rows:
                if producer is None:
                    producer = _begun(connections, options, transactional_id)
                pending.append(producer.send_batch(options.topic, batch.select(columns)))
                settle(_IN_FLIGHT)
        if producer is None:
            return None
        producer.flush()
        settle(0)
        handle = producer.detach()
    except BaseException as error:
        if producer is not None:
            with contextlib.suppress(Exception):  # the next take-over aborts what this close cannot
                producer.close(_CLOSE_S)
        if isinstance(error, KafkaError):
            error.add_note(f"in the transaction {transactional_id}, after {records:,} acknowledged records of the task")
        raise
    producer.close(_CLOSE_S)
    return Prepared(handle, records, {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()})


def _begun(connections: processes.Connections, options: WriteOptions, transactional_id: str) -> Producer:
    producer = connections.producer({**options.client, "transactional_id": transactional_id})
    try:
        producer.begin_transaction()
    except BaseException:
        producer.close(0.0)
        raise
    return producer
