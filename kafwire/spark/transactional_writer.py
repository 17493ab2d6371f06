"""The writers of exactly-once streams and atomic batches: tasks leave transactions open, the driver commits them all.

Spark makes a new stream writer for the commit of each batch. It gets the state of the planned writer from the messages
of the tasks only.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark import processes
from kafwire.spark.exactly_once import sinks
from kafwire.spark.exactly_once.decisions import Prepared, task_id
from kafwire.spark.exactly_once.sink import RUN, Plan
from kafwire.spark.exactly_once.task import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafwire.producer.outcome.sequencer import Identity
    from kafwire.spark.options import WriteOptions

log = logging.getLogger("kafwire.spark")

# Launches of one partition's task that have separate ids, so that a late attempt does not fence a later one.
_LAUNCHES = 64

# A part of the transactional ids of all queries that this process plans.
_RUN = uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class Ready(WriterCommitMessage):
    """The end of one task: its open transaction, or None without rows. `planned` is the sink's identity in the plan."""

    query: str
    planned: Identity
    prepared: Prepared | None


class TransactionalWriter:
    """The common part of the writers of batches and streams."""

    def __init__(self, options: WriteOptions, columns: Sequence[str]) -> None:
        """Keep the arguments only: the sink is taken over when Spark pickles the writer for the tasks."""
        self.options = options
        self.columns = list(columns)
        self.plan: Plan | None = None
        self.run = _RUN

    def write_rows(self, iterator: Iterator[pa.RecordBatch], query: str, batch: int) -> Ready:
        """Write a task's rows into a transaction, and leave it open."""
        assert self.plan is not None
        prepared = None
        if not self.plan.is_done(query, batch):
            prepared = prepare(self.options, self.columns, iterator, self._task_id(batch))
        processes.freeze_modules()
        return Ready(query, self.plan.identity, prepared)

    def _task_id(self, batch: int) -> str:
        assert self.options.sink is not None
        context = TaskContext.get()
        if context is None:
            raise ConfigError(
                "option delivery=atomic: this engine has no TaskContext, which tells attempts of a task apart: leave "
                "the option out, or write with Spark"
            )
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
        """Give the write a unique name, so that no other write shares its decision."""
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
