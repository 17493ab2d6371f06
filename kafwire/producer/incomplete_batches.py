"""Batches that have no outcome yet: where some wait to be sent, which were sent, and how one is given up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaError
from kafwire.producer._batch import ProducerBatch
from kafwire.producer._queues import PartitionQueue
from kafwire.producer.errors import doubtful
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.sequencer import BatchOutcome

if TYPE_CHECKING:
    from kafwire.producer.transaction_manager import Transactions

Where = tuple[str, int]


class IncompleteBatches:
    """Those of one producer. Lives on the engine."""

    def __init__(self, counters: ProduceCounters, transactions: Transactions | None) -> None:
        self._counters = counters
        self._transactions = transactions
        self.waiting: dict[Where, PartitionQueue] = {}  # queues with something to send, in the order to be served
        self.sent: dict[ProducerBatch, None] = {}  # those that were sent at least once
        self.in_flight_on: dict[Where, BrokerConnection] = {}
        self.not_before_ms: dict[Where, float] = {}  # when what waits for its retry may go

    def all(self, others: Iterable[PartitionQueue]) -> list[ProducerBatch]:
        """All of them; `others` are queues that may have some, and do not wait."""
        queues = [*self.waiting.values(), *others]
        return [*self.sent, *(batch for queue in queues for batch in (*queue.fresh, *tuple(queue.sealed)))]

    def on_send(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """A batch goes, or has gone, by `connection`."""
        self.sent[batch] = None
        self.in_flight_on[queue.topic, queue.partition] = connection

    def on_return(self, queue: PartitionQueue) -> None:
        """A batch of a partition came back: others may go, by another connection once none is left."""
        if queue.owner.retired:  # what it has moves over; its place is that of another queue now
            return
        where = (queue.topic, queue.partition)
        if not queue.sequencer.in_flight:
            self.in_flight_on.pop(where, None)
        if queue.fresh or queue.sealed or queue.sequencer.retries:
            self.waiting[where] = queue

    def on_delivery(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch is in the log."""
        self._counters.delivered(queue, batch)
        self.sent.pop(batch, None)

    def dismiss(self, where: Where, queue: PartitionQueue) -> None:
        """A queue with nothing to send leaves the round; one that waits for an outcome comes back with it.

        One whose next batch a thread still fills is told of by that thread, when it gives the batch back closed.
        """
        sequencer = queue.sequencer
        if not queue.fresh and not sequencer.retries:
            del self.waiting[where]
            if not sequencer.in_flight:
                self.in_flight_on.pop(where, None)

    def divide(self, queue: PartitionQueue, batch: ProducerBatch, parts: Sequence[ProducerBatch], failed: int) -> None:
        """Parts of a batch that was sent go on in its place; `failed` of its records are in none of them."""
        self._counters.failed(queue, failed)
        self.sent.pop(batch, None)
        self.sent.update(dict.fromkeys(parts))

    def give_up(
        self, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool = False, numbered: bool = True
    ) -> None:
        """A batch fails; `in_doubt`: it may be in the log; `numbered`: it had got a sequence number."""
        self.sent.pop(batch, None)
        self._counters.failed(batch.queue, batch.count)
        if self._transactions is not None:
            error = self._transactions.batch_failed(error, numbered=numbered)
        batch.fail(doubtful(error) if in_doubt else error)

    def give_up_waiting(self, where: Where, queue: PartitionQueue, error: KafkaError) -> None:
        """Give up what a partition has that is not in flight."""
        for batch in list(queue.sequencer.retries):
            in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
            self.give_up(batch, error, in_doubt=in_doubt)
        fresh = queue.advance()
        while fresh:
            self.give_up(fresh.popleft(), error, numbered=False)
        self.dismiss(where, queue)

    def forget(self, where: Where) -> None:
        """What a partition had goes on elsewhere."""
        self.waiting.pop(where, None)
        self.in_flight_on.pop(where, None)
        self.not_before_ms.pop(where, None)
