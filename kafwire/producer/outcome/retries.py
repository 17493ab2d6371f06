"""Decides whether a returned batch is sent again: whole, in parts, or not at all; when, and after which checks.

`Sequencer.outcome` decides about its sequence number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import MappingProxyType

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.config import ProducerConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaError
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.errors import parts_without
from kafwire.producer.outcome.incomplete_batches import IncompleteBatches
from kafwire.producer.outcome.log_search import FoundBatch
from kafwire.producer.outcome.sequencer import LOST, NOT_SENT, BatchOutcome, Fate
from kafwire.producer.send.topics import Topics
from kafwire.producer.send.turns import Turns


class Retries:
    """Settles the batches of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        *,
        batches: IncompleteBatches,
        counters: ProduceCounters,
        topics: Topics,
        turns: Turns,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._batches = batches
        self._counters = counters
        self._topics = topics
        self._turns = turns

    def settle(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        error: KafkaError | None,
        *,
        refused: Mapping[int, KafkaError] = MappingProxyType({}),
        responded_by: int = -1,
    ) -> bool:
        """Settle a batch that returned; True if it was delivered.

        `code` is the broker's, LOST or NOT_SENT. `refused` has the errors of single records, by index. `responded_by`
        is the broker that sent the response, if one did.
        """
        if batch.done:
            self._settle_purged(queue, batch, code)
            return False
        self._counters.refused(queue, error)
        verdict = queue.sequencer.outcome(
            batch, code, retriable=is_retriable(error), divisible=self._is_divisible(batch, code, refused)
        )
        if verdict is BatchOutcome.DIVIDE:
            verdict = self._divide(queue, batch, refused)
        self._batches.on_return(queue)
        if verdict is BatchOutcome.DELIVERED:
            self._batches.on_delivery(queue, batch)
            self._turns.all_is_well()
            return True
        if verdict is BatchOutcome.RETRY:
            self._retry(queue, batch, code, error, responded_by)
        elif verdict is not BatchOutcome.DIVIDE:
            self._fail(queue, batch, code, error, refused, in_doubt=verdict is BatchOutcome.DOUBTFUL)
        return False

    def _settle_purged(self, queue: PartitionQueue, batch: ProducerBatch, code: int) -> None:
        """Settle a batch that was purged in flight: later batches may continue."""
        if queue.sequencer.outcome(batch, code, retriable=False) is BatchOutcome.RETRY:
            queue.sequencer.give_up(batch)
        self._batches.sent.pop(batch, None)
        self._batches.on_return(queue)

    def _is_divisible(self, batch: ProducerBatch, code: int, refused: Mapping[int, KafkaError]) -> bool:
        """True if parts of a batch refused as a whole may be accepted."""
        if batch.count > 1 and code == ErrorCode.MESSAGE_TOO_LARGE:
            return True
        # A transaction with a refused record cannot be committed: saving the other records is useless.
        return 0 < len(refused) < batch.count and self._config.transactional_id is None

    def _divide(self, queue: PartitionQueue, batch: ProducerBatch, refused: Mapping[int, KafkaError]) -> BatchOutcome:
        """Continue with parts of a batch: halves of one that is too large, or all but the refused records."""
        starts = parts_without(batch.count, refused) if refused else [0, (batch.count + 1) // 2]
        try:
            parts = self._accumulator.cut(batch, starts, refused or None)
        except (KafkaError, MemoryError) as error:
            batch.last_error = KafkaError(f"{queue.name}: {error}")
            return queue.sequencer.outcome(batch, NOT_SENT, retriable=True)
        queue.sequencer.replace(batch, parts)
        self._batches.divide(queue, batch, parts, len(refused))
        return BatchOutcome.DIVIDE

    def _fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        error: KafkaError | None,
        refused: Mapping[int, KafkaError],
        *,
        in_doubt: bool,
    ) -> None:
        if len(refused) == batch.count and not in_doubt:
            with contextlib.suppress(KafkaError, MemoryError):
                self._accumulator.cut(batch, list(range(batch.count)), refused)
        self._batches.give_up(batch, error or KafkaError(f"{queue.name}: error {code}"), in_doubt=in_doubt)

    def _retry(
        self, queue: PartitionQueue, batch: ProducerBatch, code: int, error: KafkaError | None, responded_by: int
    ) -> None:
        """Send a batch again after a back-off, or at once if a new leader is known. Look its leader up if needed."""
        where = (queue.topic, queue.partition)
        batch.attempts += 1
        batch.last_error = error
        if queue.owner.retired:
            return  # it moves to the recreated topic, if it may
        if code in LEADER_ERRORS and self._cluster.metadata.leader(*where) not in (-1, responded_by):
            self._batches.not_before_ms.pop(where, None)  # the new leader is known already
            return
        wait = delay_ms(
            batch.attempts,
            self._config.retry_backoff_ms,
            self._config.retry_backoff_max_ms,
            self._cluster.engine.random.random(),
        )
        self._batches.not_before_ms[where] = self._cluster.engine.now_ms() + wait
        if code in LEADER_ERRORS or code in (LOST, NOT_SENT):
            if batch.attempts == 1:
                self._cluster.hasten()
            self._topics.look_up(queue.topic)

    def on_fate(self, queue: PartitionQueue, batch: ProducerBatch, fate: Fate, place: FoundBatch, why: str) -> None:
        """Settle a batch in doubt by the result of the log search."""
        if queue.owner.retired and fate is not Fate.STORED:
            return  # the search may have read the log of another topic
        verdict = queue.sequencer.settle(batch, fate)
        if verdict is BatchOutcome.DELIVERED:
            self._batches.on_delivery(queue, batch)
            batch.succeed(place.offset, place.log_append_ms)
        elif verdict is BatchOutcome.FAILED:
            problem = batch.last_error or KafkaError(f"{queue.name}: the broker did not append a batch")
            self._batches.give_up(batch, problem)
        elif verdict is BatchOutcome.DOUBTFUL:
            problem = KafkaError(
                f"{batch.count} record(s) to {queue.name} were sent, and may or may not be in the log: {why}; last: "
                f"{batch.last_error}"
            )
            self._batches.give_up(batch, problem, in_doubt=True)


def is_retriable(error: KafkaError | None) -> bool:
    """True if another attempt may succeed: an error that is not the broker's says nothing about the batch."""
    return not isinstance(error, BrokerError) or error.retriable
