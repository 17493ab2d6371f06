"""Batches without an outcome: queues that wait to send, and batches that were sent; and how a batch is given up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.errors import doubtful
from kafwire.producer.outcome.sequencer import BatchOutcome

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

Where = tuple[str, int]


class IncompleteBatches:
    """The incomplete batches of one producer. Runs on the engine."""

    def __init__(self, counters: ProduceCounters, transactions: Transactions | None) -> None:
        self._counters = counters
        self._transactions = transactions
        self.waiting: dict[Where, PartitionQueue] = {}  # queues with something to send, in the order of service
        self.sent: dict[ProducerBatch, None] = {}  # batches sent at least once
        self.in_flight_on: dict[Where, BrokerConnection] = {}
        self.not_before_ms: dict[Where, float] = {}  # when a partition's retry may be sent

    def all(self, others: Iterable[PartitionQueue]) -> list[ProducerBatch]:
        """List all batches without an outcome; `others` are queues that may have some but are not in `waiting`."""
        queues = [*self.waiting.values(), *others]
        return [*self.sent, *(batch for queue in queues for batch in (*queue.fresh, *tuple(queue.sealed)))]

    def on_send(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """Note that a batch is sent, or was sent directly, on `connection`."""
        self.sent[batch] = None
        self.in_flight_on[queue.topic, queue.partition] = connection

    def on_return(self, queue: PartitionQueue) -> None:
        """After a batch returned: let its partition send again, on another connection once none is in flight."""
        if queue.owner.retired:  # its batches move to the recreated topic, whose queue has its place
            return
        where = (queue.topic, queue.partition)
        if not queue.sequencer.in_flight:
            self.in_flight_on.pop(where, None)
        if queue.fresh or queue.sealed or queue.sequencer.retries:
            self.waiting[where] = queue

    def on_delivery(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Note that a batch is in the log."""
        self._counters.delivered(queue, batch)
        self.sent.pop(batch, None)

    def dismiss(self, where: Where, queue: PartitionQueue) -> None:
        """Remove a queue with nothing to send from `waiting`.

        A queue with batches in flight returns with their outcome. If a thread still fills the next batch, the thread
        adds the queue again when it gives the batch back, closed.
        """
        sequencer = queue.sequencer
        if not queue.fresh and not sequencer.retries:
            del self.waiting[where]
            if not sequencer.in_flight:
                self.in_flight_on.pop(where, None)

    def divide(self, queue: PartitionQueue, batch: ProducerBatch, parts: Sequence[ProducerBatch], failed: int) -> None:
        """Replace a batch that was sent by its parts; `failed` records are in none of them."""
        self._counters.failed(queue, failed)
        self.sent.pop(batch, None)
        self.sent.update(dict.fromkeys(parts))

    def give_up(
        self, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool = False, numbered: bool = True
    ) -> None:
        """Fail a batch; `in_doubt`: it may be in the log; `numbered`: it has a sequence number."""
        self.sent.pop(batch, None)
        self._counters.failed(batch.queue, batch.count)
        if self._transactions is not None:
            error = self._transactions.batch_failed(error, numbered=numbered)
        batch.fail(doubtful(error) if in_doubt else error)

    def give_up_waiting(self, where: Where, queue: PartitionQueue, error: KafkaError) -> None:
        """Give up all batches of a partition that are not in flight."""
        for batch in list(queue.sequencer.retries):
            in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
            self.give_up(batch, error, in_doubt=in_doubt)
        fresh = queue.advance()
        while fresh:
            self.give_up(fresh.popleft(), error, numbered=False)
        self.dismiss(where, queue)

    def forget(self, where: Where) -> None:
        """Forget a partition whose batches move to another queue."""
        self.waiting.pop(where, None)
        self.in_flight_on.pop(where, None)
        self.not_before_ms.pop(where, None)
