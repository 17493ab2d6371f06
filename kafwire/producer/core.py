"""One producer's part on the engine: its rooms, and its ends.

The accumulator takes records, the sender sends their batches. The core looks up topics, flushes, purges and closes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import FORKED, KafkaError, KafkaTimeoutError, UnknownPartition
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.backlog import Backlog
from kafwire.producer.buffer.deferred_records import DeferredRecords
from kafwire.producer.outcome.outcomes import doubtful
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.send.flush import count_records, resolve, undelivered, wait_for
from kafwire.producer.send.purge import purged
from kafwire.producer.send.sender import Sender
from kafwire.runtime.log import producer_log as log
from kafwire.runtime.metrics_reporter import Pushing, Reporter

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions
    from kafwire.telemetry.metrics_push import MetricsPush

# How long unflushed records may delay the end of the interpreter.
EXIT_FLUSH_S = 5.0
# How long `close` waits for the callbacks of records that it gave up.
CALLBACKS_S = 5.0
CLOSED = "this producer is closed: make a new one"


class ProducerCore:
    """One producer's part on the engine."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, *, is_shared: bool = False) -> None:
        self.cluster = cluster
        self._is_shared = is_shared  # other producers use the connections after this one
        self.config = config
        self._notifier = cluster.engine.transport.listen(self.on_wake)
        backlog = Backlog(cluster.engine, config, self._notifier)
        self.accumulator = backlog.accumulator
        self.deferred = DeferredRecords(
            cluster.engine, self.accumulator, self._learn, self._learn_partition, self._on_deferred
        )
        self._flushes = 0  # running flushes: records that callbacks send to new topics meanwhile do not linger
        self._retiring: asyncio.Task[None] | None = None
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            from kafwire.producer.transactions.manager import Transactions  # only transactional producers load it

            self.transactions = Transactions(self, config.transactional_id)
            self.accumulator.budget.when_called = self._notifier.notify  # a commit waits for callbacks
        self.sender = Sender(cluster, config, backlog, self._notifier, self.transactions)
        self.pushing = Pushing(cluster, self._begin_push, is_enabled=config.enable_metrics_push and not is_shared)
        self._reporter: Reporter | None = None
        if config.metrics_hook is not None:  # last: the engine may take a snapshot at once
            self._reporter = Reporter(cluster.engine, config.metrics_hook, config.metrics_interval_ms)
            cluster.engine.start(self._reporter.start, self.metrics)
        cluster.engine.join(self)

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch; None: not known yet, or not idempotent."""
        return self.sender.identity

    @identity.setter
    def identity(self, identity: Identity | None) -> None:
        self.sender.identity = identity

    def on_wake(self) -> None:
        """Send due batches: one was closed, a first one was opened, or time has passed."""
        self.sender.on_wake()

    def no_room(self) -> KafkaError:
        """Return the error for a record that found no room in `buffer_memory` in time."""
        closed = self.accumulator.budget.closed
        if closed is not None:
            return KafkaError(closed)
        memory, block_ms, problem = self.config.buffer_memory, self.config.max_block_ms, self.sender.last_problem
        return KafkaTimeoutError(
            f"no room in buffer_memory ({memory} bytes) within max_block_ms ({block_ms}): the broker is slower than "
            f"the sender, or unreachable{f'; last: {problem}' if problem else ''}"
        )

    async def connect(self) -> None:
        """Look the brokers up, unless they are known."""
        cluster = self.cluster
        if not cluster.metadata.brokers:
            await cluster.retrying(lambda: cluster.refresh(at_once=True), "connecting")

    async def ensure_metadata(self, names: list[str], timeout_ms: float) -> None:
        """Add the partitions of topics to the accumulator; wait for topics that are being created."""
        await self.sender.topics.ensure(names, timeout_ms)

    async def ensure_partition(self, missing: UnknownPartition, timeout_ms: float) -> None:
        """Wait for an added partition of a known topic, unless no record may be sent now."""
        if self.accumulator.send_gate is not None:
            raise self.accumulator.send_gate()
        await self.sender.topics.ensure_partition(missing, timeout_ms)

    async def _learn(self, names: list[str]) -> None:
        await self.sender.topics.ensure(names, self.config.max_block_ms)

    async def _learn_partition(self, missing: UnknownPartition) -> None:
        await self.sender.topics.ensure_partition(missing, self.config.max_block_ms)

    def _on_deferred(self, error: KafkaError | None) -> None:
        """Continue after deferred records were appended to their queues, or failed with `error`."""
        if error is not None and self.transactions is not None:
            self.transactions.batch_failed(error, numbered=False)
        self.sender.on_wake(everything=self._flushes > 0)

    # -- metrics

    def metrics(self) -> dict[str, Any]:
        """A snapshot; see `Producer.metrics`."""
        found = self.sender.counters_now().snapshot(_queued, self.cluster.connections)
        budget = self.accumulator.budget
        found["producer"] |= {
            "buffer_used": budget.used,
            "buffer_memory": budget.limit,
            "waiting_senders": budget.waiting,
        }
        return found

    def _begin_push(self, on_id: Callable[[], object]) -> MetricsPush:
        from kafwire.producer.pushed_metrics import PushedProducer  # only producers of a cluster that takes metrics
        from kafwire.telemetry.metrics_push import MetricsPush

        source = PushedProducer(self.cluster, self.config, self.sender.counters_now, self.metrics)
        return MetricsPush(self.cluster, source, on_id)

    async def snapshot(self) -> dict[str, Any]:
        """`metrics`, on the engine."""
        return self.metrics()

    # -- ending

    def drain(self) -> bool:
        """Close all batches and send those that may be sent; True if all records are acknowledged."""
        if self.accumulator.passes:
            return False
        deferred = self.deferred.batches  # before the pump: a record placed meanwhile is in its queue then
        self.sender.pump(everything=True)
        return not deferred and not self.sender.outcomes.incomplete() and not self.accumulator.budget.callbacks_due

    def drop_unsent(self, error: KafkaError) -> bool:
        """Give up all batches except those in flight, which return first; True if none is left."""
        self.deferred.give_up(lambda _: error)
        self.sender.drop_unsent(error)
        return not self.accumulator.passes and not self._incomplete()

    def _incomplete(self) -> list[ProducerBatch]:
        return [*self.sender.outcomes.incomplete(), *self.deferred.batches]

    async def purge(self, *, in_flight: bool) -> int:
        """Give up batches certainly not in the log; `in_flight`: also those that may be. Return how many records."""
        given_up = self.deferred.give_up(purged) + self.sender.purge(in_flight=in_flight)
        self.sender.on_wake()
        return given_up

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send everything that was buffered before this call, and wait until its outcome is known.

        Delivery callbacks have then returned. Raises `KafkaTimeoutError` after `timeout_s` seconds; unfinished records
        are still sent.
        """
        until = None if timeout_s is None else self.cluster.engine.now_ms() + timeout_s * 1000
        self._flushes += 1
        try:
            deferred = self.deferred.batches  # before the pump, as in `drain`
            self.sender.pump(everything=True)
            await wait_for([*self.sender.outcomes.incomplete(), *deferred], timeout_s)
        finally:
            self._flushes -= 1
        await self._callbacks_called(self.config.delivery_timeout_ms / 1000 if until is None else self._left_s(until))

    async def _callbacks_called(self, timeout_s: float) -> None:
        """Wait for the delivery callbacks that are due. Raises `KafkaTimeoutError`."""
        budget, engine = self.accumulator.budget, self.cluster.engine
        if not budget.callbacks_due:
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        engine.callbacks.submit(partial(engine.start, resolve, called))
        try:
            async with asyncio.timeout(timeout_s):
                await called
        except TimeoutError:
            raise KafkaTimeoutError(
                f"all records have their outcome, but delivery callbacks have not returned within {timeout_s:g} s: "
                "they may wait for a lock that the caller holds"
            ) from None

    def _left_s(self, until_ms: float) -> float:
        return max(0.0, (until_ms - self.cluster.engine.now_ms()) / 1000)

    async def close(self, timeout_s: float | None) -> dict[str, int]:
        """End a transaction and flush within `timeout_s` seconds, then give up the rest.

        Returns how many records were given up, by topic and partition. Delivery callbacks may send until all is
        flushed, such as dead letters of the last records.
        """
        until = None if timeout_s is None else self.cluster.engine.now_ms() + timeout_s * 1000
        self.accumulator.budget.close(CLOSED)
        if self.transactions is not None:
            with contextlib.suppress(KafkaError):  # the caller of commit or abort gets the error
                await self.transactions.close(timeout_s)
        try:
            with contextlib.suppress(KafkaTimeoutError):
                await self._flush_all(until)
            await self.pushing.close(CALLBACKS_S if until is None else self._left_s(until))
        finally:  # an interrupted close closes too
            lost = self._shut("the producer was closed before")
        with contextlib.suppress(KafkaTimeoutError):
            await self._callbacks_called(CALLBACKS_S if until is None else min(CALLBACKS_S, self._left_s(until)))
        return lost

    async def _flush_all(self, until_ms: float | None) -> None:
        """Flush, then flush records that callbacks sent meanwhile, for at most `delivery_timeout_ms` more."""
        await self.flush(None if until_ms is None else self._left_s(until_ms))
        if until_ms is None:
            until_ms = self.cluster.engine.now_ms() + self.config.delivery_timeout_ms
        while self._has_more():
            await self.flush(self._left_s(until_ms))

    def _has_more(self) -> bool:
        deferred = self.deferred.batches  # first, as in `drain`
        self.sender.enlist_all()
        return any(
            not batch.done for batch in [*self.sender.outcomes.incomplete(), *deferred]
        )  # purged batches in flight are done

    def _shut(self, why: str, cause: BaseException | None = None) -> dict[str, int]:
        self.sender.stop()
        if self._reporter is not None:
            self._reporter.stop()
        self.pushing.stop()
        if self.transactions is not None:
            self.transactions.stop()
        self.deferred.stop()
        self.accumulator.end("the producer was closed while rows were added to it: they were not sent")
        self.sender.enlist_all()  # after `end`: no records are added any more
        lost = [batch for batch in self._incomplete() if not batch.done]
        counts = count_records(lost)
        in_doubt = {b for b in lost if b in self.sender.outcomes.sent and b.queue.sequencer.is_doubtful(b)}
        if not self._is_shared:
            self.cluster.shut()

        def error_of(batch: ProducerBatch) -> KafkaError:
            fate = "acknowledged: they may or may not be in the log" if batch in in_doubt else "sent"
            error = KafkaError(f"{why} {batch.count} record(s) to {batch.queue.name} were {fate}")
            if batch in in_doubt:
                error = doubtful(error)
            error.__cause__ = cause
            return error

        self.deferred.give_up(error_of)
        for batch in lost:
            batch.looked = cause is None  # the caller of `close` learns of them
            batch.fail(error_of(batch))
        self.accumulator.budget.report_overlooked()
        self.cluster.engine.transport.unlisten(self._notifier)
        return counts

    def retire(self) -> None:
        """Deliver buffered records, then close: the user dropped the producer without `close`."""

        async def close() -> None:
            before = self.sender.counters.records_failed
            await self.close(None)
            failed = self.sender.counters.records_failed - before
            if failed:
                log.warning(
                    "kafwire: a producer was dropped and %d record(s) were not delivered: close it",
                    failed,
                    records=failed,
                )

        if not self.sender.is_stopped and self._retiring is None:
            self._retiring = asyncio.ensure_future(close())

    async def end(self) -> None:
        """Flush and close at interpreter exit, and log lost records: the user did not close the producer."""
        if self.sender.is_stopped:
            return
        lost = await self.close(EXIT_FLUSH_S)
        if lost:
            log.warning(
                "kafwire: the program ended and %s were not acknowledged within %g s: close the producer",
                undelivered(lost),
                EXIT_FLUSH_S,
                records=sum(lost.values()),
            )

    def fail(self, error: KafkaError) -> None:
        """Fail every delivery: the engine ended with `error`."""
        if self.sender.is_stopped:
            return
        self.accumulator.budget.close(str(error))
        self._shut(f"{error}; the engine ended before", error.__cause__)

    def abandon(self) -> None:
        """In a forked child: make `send` raise."""
        self.accumulator.budget.closed = FORKED


def _queued(queue: PartitionQueue) -> dict[str, Any]:
    """Return a partition's queue sizes for metrics."""
    sequencer = queue.sequencer  # None: its topic was recreated before anything was sent
    retries, in_flight = (0, 0) if sequencer is None else (len(sequencer.retries), len(sequencer.in_flight))
    return {
        "batches_waiting": len(queue.fresh) + len(queue.sealed) + retries,
        "batches_in_flight": in_flight + (queue.direct_send is not None and queue.direct_send.batch is not None),
    }
