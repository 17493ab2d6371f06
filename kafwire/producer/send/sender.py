"""The sender sends the batches of one producer: those that wait, once they may be sent, until each has an outcome.

All events of one loop iteration are handled in it, and the batches they allow are sent in it: each further iteration
would have to win the GIL from the user's threads.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaError
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.backlog import Backlog
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.outcome.sequencer import Identity, Sequencer
from kafwire.producer.send.direct_send import DirectSends
from kafwire.producer.send.dispatcher import Dispatcher
from kafwire.producer.send.expiry import Expiry
from kafwire.producer.send.leaders import Leaders
from kafwire.producer.send.producer_id import ProducerId, is_final
from kafwire.producer.send.purge import drop_unsent, purge
from kafwire.producer.send.recreated_topics import RecreatedTopics
from kafwire.producer.send.topics import Topics
from kafwire.producer.send.turns import Turns
from kafwire.runtime.interfaces import Notifier

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

# How often batches that cannot be sent are checked for `delivery_timeout_ms`.
EXPIRY_CHECK_MS = 500


class Sender:
    """Sends the batches of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        backlog: Backlog,
        notifier: Notifier,
        transactions: Transactions | None,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.notifier = notifier
        self.counters = ProduceCounters()
        self._backlog = backlog
        self._transactions = transactions
        self._turns = Turns(cluster.engine, config, self.on_wake)
        self.outcomes = Outcomes(
            cluster, config, backlog, counters=self.counters, sends=self, transactions=transactions
        )
        self._direct_send: DirectSends | None = None
        if config.linger_ms == 0 and config.acks != 0 and transactions is None:
            self._direct_send = DirectSends(self, self.outcomes)
        self._producer_id = ProducerId(cluster, config, self._direct_send)
        self._recreated = RecreatedTopics(backlog, self.outcomes, self._direct_send)
        self._expiry = Expiry(cluster, config, backlog, self.outcomes, self._turns)
        self.topics = Topics(cluster, config, backlog, self.outcomes, recreated=self._recreated, turns=self._turns)
        self._leaders = Leaders(cluster, config, backlog, self.outcomes, topics=self.topics, turns=self._turns)
        self._dispatcher = Dispatcher(
            cluster,
            config,
            backlog,
            self.outcomes,
            counters=self.counters,
            leaders=self._leaders,
            transactions=transactions,
        )
        self._unlisten = [cluster.on_change(self._on_change), cluster.on_overdue(self._leaders.leave_hung)]

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

    @property
    def is_stopped(self) -> bool:
        """True after `stop`."""
        return self._turns.is_stopped

    def counters_now(self) -> ProduceCounters:
        """Return the counters, with those of direct sends."""
        if self._direct_send is not None:
            self._direct_send.count()
        return self.counters

    def _on_change(self, names: set[str]) -> None:
        """Handle new partitions, or new leaders, of topics."""
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for name in names & self._backlog.accumulator.topics.keys():
            self.topics.take_in(name)
        self._leaders.leave_all_hung()

    # -- loop iterations

    def on_wake(self, *, everything: bool = False) -> None:
        """Send due batches: one was closed, a first one was opened, or time has passed."""
        self.pump(everything=everything)
        if self._transactions is not None:
            self._transactions.on_progress()

    def pump(self, *, everything: bool) -> None:
        """Seal and send the batches that are due; with `everything`, also those that linger."""
        if self._turns.is_stopped:
            return
        self.topics.refresh_if_stale()
        if everything and self._direct_send is not None:
            self._direct_send.revoke_all()
        try:
            ready, wait_ms = self._backlog.accumulator.collect(everything=everything)
            for queue in ready:
                self._enlist(queue)
            for queue in self._recreated.move_over():
                self._enlist(queue)
            self._send_all()
            if self._backlog.accumulator.late:  # batches ahead of them may have been sent
                ready, wait_ms = self._backlog.accumulator.collect()
                for queue in ready:
                    self._enlist(queue)
                if ready:
                    self._send_all()
            self._backlog.adapt_weights(self.cluster.metadata)
            if wait_ms is not None:
                self._turns.wake_in(wait_ms)
        finally:
            if self._backlog.waiting or self._backlog.deleted:
                self._turns.wake_in(EXPIRY_CHECK_MS)

    def enlist_all(self) -> None:
        """Close all batches, and add their queues to the waiting ones."""
        for queue in self._backlog.accumulator.collect(everything=True)[0]:
            self._enlist(queue)

    def _enlist(self, queue: PartitionQueue) -> None:
        if queue.owner.retired:
            self._recreated.add(queue.owner)
            return
        self.topics.use(queue.topic)
        where = (queue.topic, queue.partition)
        if queue.sequencer is None:
            queue.sequencer = self._recreated.next_sequencer(where) or Sequencer(
                idempotent=self.config.idempotent,
                limit=self.config.max_in_flight_requests_per_connection,
                may_move=self._transactions is None,
            )
        if self._direct_send is not None:
            self._direct_send.revoke(queue)
        self._backlog.waiting[where] = queue

    def _send_all(self) -> None:
        """Send requests until no queue has a batch that may be sent."""
        waiting = self._backlog.waiting
        if self.config.idempotent and self.identity is None:
            if waiting and self._transactions is None:
                self._turns.run("identity", self._producer_id.get(), self._on_no_identity)
            self._expiry.expire()
            return
        now = self.cluster.engine.now_ms()
        self._expiry.expire()
        while self._dispatcher.send_some(now, self.identity):
            pass
        self.outcomes.doubts.settle(waiting.values())
        wants_epoch = any(queue.sequencer.wants_epoch(self.identity) for queue in waiting.values())
        if wants_epoch and self._transactions is None:
            self._turns.run("identity", self._producer_id.move_on(waiting), self._on_no_identity)

    def _on_no_identity(self, error: BaseException) -> None:
        """Fail waiting batches if a permanent error prevents a producer id. Later records try again."""
        if not is_final(error):
            return
        self.enlist_all()
        for where, queue in list(self._backlog.waiting.items()):
            if self.identity is None or queue.sequencer.wants_epoch(self.identity):
                self.outcomes.give_up_waiting(where, queue, error)

    # -- outcomes

    def on_outcomes(self, *, is_well: bool = False) -> None:
        """Continue after outcomes: send batches that waited for them."""
        if is_well:
            self._turns.all_is_well()
        # Threads that wait for these batches want the GIL now: no iteration without a reason.
        backlog = self._backlog
        is_wanted = backlog.waiting or backlog.deleted or backlog.balance.uneven or backlog.accumulator.budget.waiting
        if is_wanted or self._transactions is not None:
            self.on_wake()

    def run(self, name: Hashable, coroutine: Any) -> None:
        """Run one coroutine per name at a time, and again after a failure."""
        self._turns.run(name, coroutine)

    def look_up(self, topic: str) -> None:
        """Refresh metadata in the background: a partition's leader is unknown or outdated."""
        self.topics.look_up(topic)

    def take_in(self, topic: str) -> None:
        """Use the changed metadata of a topic."""
        self.topics.take_in(topic)

    def on_throttle(self, connection: BrokerConnection) -> None:
        """Send nothing directly on a connection that a broker mutes."""
        if self._direct_send is not None:
            self._direct_send.revoke_all(connection)

    def on_lull(self, queue: PartitionQueue, connection: BrokerConnection, version: int, *, is_idle: bool) -> None:
        """Note a batch delivered alone in its request: direct sends may pay for its partition."""
        if self._direct_send is not None:
            self._direct_send.look_at(queue, connection, version, is_idle=is_idle)

    # -- batches that are given up

    def drop_unsent(self, error: KafkaError) -> None:
        """Give up all batches except those in flight, which return first."""
        self.enlist_all()
        drop_unsent(self._backlog, self.outcomes, self._recreated, error)

    def purge(self, *, in_flight: bool) -> int:
        """Give up batches certainly not in the log; `in_flight`: also those that may be. Return how many records."""
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        self.enlist_all()
        return purge(self._backlog, self.outcomes, self._recreated, in_flight=in_flight)

    def stop(self) -> None:
        """Send nothing more, and ignore responses: the producer is closed, and fails all batches."""
        self._turns.stop()
        for stop in self._unlisten:
            stop()
        if self._direct_send is not None:
            self._direct_send.stop()
