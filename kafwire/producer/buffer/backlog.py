"""The backlog of a producer, as the engine sees it: queues with batches to send, and when each batch may be sent.

The weights of partitions follow from these batches: a partition with fewer gets more records (KIP-794).
"""

from __future__ import annotations

from kafwire.cluster.metadata import Metadata
from kafwire.config import ProducerConfig
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer._queues import PartitionQueue, Topic
from kafwire.producer.buffer.partitioner import Balance, rule_of
from kafwire.runtime.interfaces import Engine, Notifier

# A topic and a partition.
Where = tuple[str, int]


class Backlog:
    """The waiting batches of one producer. Runs on the engine."""

    def __init__(self, engine: Engine, config: ProducerConfig, notifier: Notifier) -> None:
        rule = rule_of(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        self.accumulator = Accumulator(
            notifier,
            clock=engine.clock,
            waiter=engine.waiter,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger_ms=config.linger_ms,
            buffer_memory=config.buffer_memory,
            compression=config.compression_type,
            level=config.compression_level,
            rule=rule,
            rng_state=engine.random.getrandbits(64),
            transactional=config.transactional_id is not None,
        )
        self.accumulator.budget.callbacks = engine.callbacks
        self.accumulator.budget.reports_overlooked = config.transactional_id is None  # a commit raises their errors
        self.balance = Balance(timeout_ms=config.partitioner_availability_timeout_ms)
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable and rule.spread == "sticky"
        self.waiting: dict[Where, PartitionQueue] = {}  # queues with something to send, in the order of service
        self.not_before_ms: dict[Where, float] = {}  # when a partition's retry may be sent
        # Deleted topics by name, oldest first, whose batches move to the recreated topic; nothing is sent to it before.
        self.deleted: dict[str, list[Topic]] = {}

    @property
    def deleted_queues(self) -> list[PartitionQueue]:
        """The queues of the deleted topics."""
        return [queue for topics in self.deleted.values() for topic in topics for queue in topic.queues]

    def unsent(self) -> list[ProducerBatch]:
        """List the batches that no request has had."""
        queues = [*self.waiting.values(), *self.deleted_queues]
        return [batch for queue in queues for batch in (*queue.fresh, *tuple(queue.sealed))]

    def dismiss(self, where: Where, queue: PartitionQueue) -> None:
        """Remove a queue with nothing to send from `waiting`.

        A queue with batches in flight returns with their outcome. If a thread still fills the next batch, the thread
        adds the queue again when it gives the batch back, closed.
        """
        if not queue.fresh and not queue.sequencer.retries:
            del self.waiting[where]

    def forget(self, where: Where) -> None:
        """Forget a partition whose batches move to another queue."""
        self.waiting.pop(where, None)
        self.not_before_ms.pop(where, None)

    def adapt_weights(self, metadata: Metadata) -> None:
        """Set the weights by the batches that wait now, where the options say so."""
        if not self._is_adaptive:
            return
        topics, balance = self.accumulator.topics, self.balance
        queued: dict[str, dict[int, int]] = {name: {} for name in balance.uneven}
        for (name, partition), queue in self.waiting.items():
            if name not in queued and topics[name].sticky < 0:
                continue  # no record draws a partition
            waiting = len(queue.sequencer.retries) + len(queue.advance())
            if waiting:
                queued.setdefault(name, {})[partition] = waiting
        for name, counts in queued.items():
            slow = frozenset(p for p in counts if balance.is_slow(metadata.leader(name, p)))
            split = balance.weights(name, counts, slow)
            if split is not None:
                self.accumulator.set_weights(name, PartitionWeights(*split))
