"""The sender: one producer's part on the engine.

It takes closed batches from the accumulator and sends those that may be sent, until each batch has an outcome; it
flushes, purges and closes.

All events of one loop iteration are handled in it, and the batches they allow are sent in it: each further iteration
would have to win the GIL from the user's threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import FORKED, KafkaError, KafkaTimeoutError, UnknownPartition
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.deferred_records import DeferredRecords
from kafwire.producer.buffer.partition_weights import adapt_weights
from kafwire.producer.buffer.partitioner import Balance, rule_of
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.errors import doubtful
from kafwire.producer.outcome.in_doubt import Doubts
from kafwire.producer.outcome.incomplete_batches import IncompleteBatches
from kafwire.producer.outcome.response import Responses
from kafwire.producer.outcome.retries import Retries
from kafwire.producer.outcome.sequencer import Identity, Sequencer
from kafwire.producer.send.direct_send import DirectSends
from kafwire.producer.send.dispatcher import Dispatcher, Group
from kafwire.producer.send.expiry import Expiry
from kafwire.producer.send.flush import count_records, resolve, undelivered, wait_for
from kafwire.producer.send.leaders import Leaders
from kafwire.producer.send.producer_id import ProducerId, is_final
from kafwire.producer.send.purge import drop_unsent, purge, purged_unsent
from kafwire.producer.send.recreated_topics import RecreatedTopics
from kafwire.producer.send.topics import Topics
from kafwire.producer.send.turns import Turns
from kafwire.runtime.log import log
from kafwire.runtime.metrics_reporter import Reporter

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

# How often batches that cannot be sent are checked for `delivery_timeout_ms`.
EXPIRY_CHECK_MS = 500
# How long unflushed records may delay the end of the interpreter.
EXIT_FLUSH_S = 5.0
# How long `close` waits for the callbacks of records that it gave up.
CALLBACKS_S = 5.0
CLOSED = "this producer is closed: make a new one"


class Sender:
    """One producer's part on the engine."""

    def __init__(self, cluster: Cluster, config: ProducerConfig, *, is_shared: bool = False) -> None:
        self.cluster = cluster
        self._is_shared = is_shared  # other producers use the connections after this one
        self.config = config
        self.notifier = cluster.engine.transport.listen(self.on_wake)
        rule = rule_of(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        self.accumulator = Accumulator(
            self.notifier,
            clock=cluster.engine.clock,
            waiter=cluster.engine.waiter,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger_ms=config.linger_ms,
            buffer_memory=config.buffer_memory,
            compression=config.compression_type,
            level=config.compression_level,
            rule=rule,
            rng_state=cluster.engine.random.getrandbits(64),
            transactional=config.transactional_id is not None,
        )
        self.accumulator.budget.callbacks = cluster.engine.callbacks
        self.accumulator.budget.reports_overlooked = config.transactional_id is None  # a commit raises their errors
        self.deferred = DeferredRecords(
            cluster.engine, self.accumulator, self._learn, self._learn_partition, self._on_deferred
        )
        self._flushes = 0  # running flushes: records that callbacks send to new topics meanwhile do not linger
        self._balance = Balance(timeout_ms=config.partitioner_availability_timeout_ms)
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable and rule.spread == "sticky"
        self._retiring: asyncio.Task[None] | None = None
        self.counters = ProduceCounters()
        self._direct_send: DirectSends | None = None
        if config.linger_ms == 0 and config.acks != 0 and config.transactional_id is None:
            self._direct_send = DirectSends(self)
        self._producer_id = ProducerId(cluster, config, self._direct_send)
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            from kafwire.producer.transactions.manager import Transactions  # only transactional producers load it

            self.transactions = Transactions(self, config.transactional_id)
        if self.transactions is not None:  # a commit waits for callbacks
            self.accumulator.budget.when_called = self.notifier.notify
        self._turns = Turns(cluster.engine, config, self.on_wake)
        self._batches = IncompleteBatches(self.counters, self.transactions)
        self._expiry = Expiry(cluster, config, self._batches, self._turns)
        self._recreated = RecreatedTopics(self.accumulator, self._batches, self._direct_send)
        self._topics = Topics(
            cluster,
            config,
            self.accumulator,
            balance=self._balance,
            batches=self._batches,
            recreated=self._recreated,
            turns=self._turns,
        )
        retries = Retries(
            cluster,
            config,
            self.accumulator,
            batches=self._batches,
            counters=self.counters,
            topics=self._topics,
            turns=self._turns,
        )
        self._responses = Responses(
            cluster.metadata,
            batches=self._batches,
            retries=retries,
            topics=self._topics,
            direct_send=self._direct_send,
            transactional_id=config.transactional_id,
        )
        self._doubts = Doubts(cluster, config, self._turns.run, retries.on_fate)
        self._leaders = Leaders(
            cluster,
            config,
            balance=self._balance,
            batches=self._batches,
            topics=self._topics,
            turns=self._turns,
        )
        self._dispatcher = Dispatcher(
            cluster,
            config,
            self.accumulator,
            balance=self._balance,
            batches=self._batches,
            counters=self.counters,
            doubts=self._doubts,
            leaders=self._leaders,
            recreated=self._recreated,
            retries=retries,
            transactions=self.transactions,
            on_response=self.on_response,
        )
        self._reporter: Reporter | None = None
        if config.metrics_hook is not None:  # last: the engine may take a snapshot at once
            self._reporter = Reporter(cluster.engine, config.metrics_hook, config.metrics_interval_ms)
            cluster.engine.start(self._reporter.start, self.metrics)
        self._unlisten = [cluster.on_change(self._on_change), cluster.on_overdue(self._leaders.leave_hung)]
        cluster.engine.join(self)

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch; None: not known yet, or not idempotent."""
        return self._producer_id.identity

    @identity.setter
    def identity(self, identity: Identity | None) -> None:
        self._producer_id.identity = identity

    @property
    def last_problem(self) -> str:
        """The last error that kept batches from being sent; empty: none so far."""
        return self._turns.last_problem

    def no_room(self) -> KafkaError:
        """Return the error for a record that found no room in `buffer_memory` in time."""
        closed = self.accumulator.budget.closed
        if closed is not None:
            return KafkaError(closed)
        memory, block_ms, problem = self.config.buffer_memory, self.config.max_block_ms, self.last_problem
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
        await self._topics.ensure(names, timeout_ms)

    async def ensure_partition(self, missing: UnknownPartition, timeout_ms: float) -> None:
        """Wait for an added partition of a known topic, unless no record may be sent now."""
        if self.accumulator.send_gate is not None:
            raise self.accumulator.send_gate()
        await self._topics.ensure_partition(missing, timeout_ms)

    async def _learn(self, names: list[str]) -> None:
        await self._topics.ensure(names, self.config.max_block_ms)

    async def _learn_partition(self, missing: UnknownPartition) -> None:
        await self._topics.ensure_partition(missing, self.config.max_block_ms)

    def _on_deferred(self, error: KafkaError | None) -> None:
        """Continue after deferred records were appended to their queues, or failed with `error`."""
        if error is not None and self.transactions is not None:
            self.transactions.batch_failed(error, numbered=False)
        self.pump(everything=self._flushes > 0)
        if self.transactions is not None:
            self.transactions.on_progress()

    def _on_change(self, names: set[str]) -> None:
        """Handle new partitions, or new leaders, of topics."""
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for name in names & self.accumulator.topics.keys():
            self._topics.take_in(name)
        self._leaders.leave_all_hung()

    # -- loop iterations

    def on_wake(self) -> None:
        """Send due batches: one was closed, a first one was opened, or time has passed."""
        self.pump(everything=False)
        if self.transactions is not None:
            self.transactions.on_progress()

    def pump(self, *, everything: bool) -> None:
        """Seal and send the batches that are due; with `everything`, also those that linger."""
        if self._turns.is_stopped:
            return
        self._topics.refresh_if_stale()
        if everything and self._direct_send is not None:
            self._direct_send.revoke_all()
        try:
            ready, wait_ms = self.accumulator.collect(everything=everything)
            for queue in ready:
                self._enlist(queue)
            for queue in self._recreated.move_over():
                self._enlist(queue)
            self._send_all()
            if self.accumulator.late:  # batches ahead of them may have been sent
                ready, wait_ms = self.accumulator.collect()
                for queue in ready:
                    self._enlist(queue)
                if ready:
                    self._send_all()
            if self._is_adaptive:
                adapt_weights(self.accumulator, self._balance, self._batches, self.cluster.metadata)
            if wait_ms is not None:
                self._turns.wake_in(wait_ms)
        finally:
            if self._batches.waiting or self._recreated.names:
                self._turns.wake_in(EXPIRY_CHECK_MS)

    def _enlist_all(self) -> None:
        """Close all batches, and add their queues to the waiting ones."""
        for queue in self.accumulator.collect(everything=True)[0]:
            self._enlist(queue)

    def _enlist(self, queue: PartitionQueue) -> None:
        if queue.owner.retired:
            self._recreated.add(queue.owner)
            return
        self._topics.use(queue.topic)
        where = (queue.topic, queue.partition)
        if queue.sequencer is None:
            queue.sequencer = self._recreated.next_sequencer(where) or Sequencer(
                idempotent=self.config.idempotent,
                limit=self.config.max_in_flight_requests_per_connection,
                may_move=self.transactions is None,
            )
        if self._direct_send is not None:
            self._direct_send.revoke(queue)
        self._batches.waiting[where] = queue

    def _send_all(self) -> None:
        """Send requests until no queue has a batch that may be sent."""
        waiting = self._batches.waiting
        if self.config.idempotent and self.identity is None:
            if waiting and self.transactions is None:
                self._turns.run("identity", self._producer_id.get(), self._on_no_identity)
            self._expiry.expire()
            return
        now = self.cluster.engine.now_ms()
        self._expiry.expire()
        while self._dispatcher.send_some(now, self.identity):
            pass
        self._doubts.settle(waiting.values())
        wants_epoch = any(queue.sequencer.wants_epoch(self.identity) for queue in waiting.values())
        if wants_epoch and self.transactions is None:
            self._turns.run("identity", self._producer_id.move_on(waiting), self._on_no_identity)

    def _on_no_identity(self, error: BaseException) -> None:
        """Fail waiting batches if a permanent error prevents a producer id. Later records try again."""
        if not is_final(error):
            return
        self._enlist_all()
        for where, queue in list(self._batches.waiting.items()):
            if self.identity is None or queue.sequencer.wants_epoch(self.identity):
                self._batches.give_up_waiting(where, queue, error)

    # -- responses

    def on_response(
        self,
        connection: BrokerConnection,
        version: int,
        group: Group,
        names: dict[bytes, str],
        frame: Buffer | None,
        error: KafkaError | None,
    ) -> None:
        """Handle the response (`frame`) or failure (`error`) of a request; neither: acks=0 has no response."""
        if self._turns.is_stopped:  # all its batches have failed already
            return
        self._responses.on_response(connection, version, group, names, frame, error)
        self.on_outcomes()

    def on_outcomes(self) -> None:
        """Continue after outcomes: send batches that waited for them."""
        # Threads that wait for these batches want the GIL now: no iteration without a reason.
        is_wanted = (
            self._batches.waiting or self._recreated.names or self._balance.uneven or self.accumulator.budget.waiting
        )
        if is_wanted or self.transactions is not None:
            self.on_wake()

    def take_over(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """Take over a batch in flight on `connection` that a direct send sent."""
        self._batches.on_send(queue, batch, connection)

    # -- metrics

    def metrics(self) -> dict[str, Any]:
        """A snapshot; see `Producer.metrics`."""
        if self._direct_send is not None:
            self._direct_send.count()
        found = self.counters.snapshot(_queued, self.cluster.connections)
        budget = self.accumulator.budget
        found["producer"] |= {
            "buffer_used": budget.used,
            "buffer_memory": budget.limit,
            "waiting_senders": budget.waiting,
        }
        return found

    async def snapshot(self) -> dict[str, Any]:
        """`metrics`, on the engine."""
        return self.metrics()

    # -- ending

    def drain(self) -> bool:
        """Close all batches and send those that may be sent; True if all records are acknowledged."""
        if self.accumulator.passes:
            return False
        deferred = self.deferred.batches  # before the pump: a record placed meanwhile is in its queue then
        self.pump(everything=True)
        return not deferred and not self._sent_or_queued() and not self.accumulator.budget.callbacks_due

    def drop_unsent(self, error: KafkaError) -> bool:
        """Give up all batches except those in flight, which return first; True if none is left."""
        self._enlist_all()
        self.deferred.give_up(lambda _: error)
        drop_unsent(self._batches, self._recreated, error)
        return not self.accumulator.passes and not self._incomplete()

    def _sent_or_queued(self) -> list[ProducerBatch]:
        return self._batches.all(self._recreated.queues)

    def _incomplete(self) -> list[ProducerBatch]:
        return [*self._sent_or_queued(), *self.deferred.batches]

    async def purge(self, *, in_flight: bool) -> int:
        """Give up batches certainly not in the log; `in_flight`: also those that may be. Return how many records."""
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        self._enlist_all()
        given_up = self.deferred.give_up(purged_unsent)
        given_up += purge(self._batches, self._recreated, in_flight=in_flight)
        self.on_wake()
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
            self.pump(everything=True)
            await wait_for([*self._sent_or_queued(), *deferred], timeout_s)
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
        self._enlist_all()
        return any(
            not batch.done for batch in [*self._sent_or_queued(), *deferred]
        )  # purged batches in flight are done

    def _shut(self, why: str, cause: BaseException | None = None) -> dict[str, int]:
        self._turns.stop()
        if self._reporter is not None:
            self._reporter.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self._direct_send is not None:
            self._direct_send.stop()
        self.deferred.stop()
        self.accumulator.end("the producer was closed while rows were added to it: they were not sent")
        self._enlist_all()  # after `end`: no records are added any more
        lost = [batch for batch in self._incomplete() if not batch.done]
        counts = count_records(lost)
        in_doubt = {b for b in lost if b in self._batches.sent and b.queue.sequencer.is_doubtful(b)}
        for stop in self._unlisten:
            stop()
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
        self.cluster.engine.transport.unlisten(self.notifier)
        return counts

    def retire(self) -> None:
        """Deliver buffered records, then close: the user dropped the producer without `close`."""

        async def close() -> None:
            before = self.counters.records_failed
            await self.close(None)
            failed = self.counters.records_failed - before
            if failed:
                log.warning("kafwire: a producer was dropped and %d record(s) were not delivered: close it", failed)

        if not self._turns.is_stopped and self._retiring is None:
            self._retiring = asyncio.ensure_future(close())

    async def end(self) -> None:
        """Flush and close at interpreter exit, and log lost records: the user did not close the producer."""
        if self._turns.is_stopped:
            return
        lost = await self.close(EXIT_FLUSH_S)
        if lost:
            log.warning(
                "kafwire: the program ended and %s were not acknowledged within %g s: close the producer",
                undelivered(lost),
                EXIT_FLUSH_S,
            )

    def fail(self, error: KafkaError) -> None:
        """Fail every delivery: the engine ended with `error`."""
        if self._turns.is_stopped:
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
