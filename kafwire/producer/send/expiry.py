"""Fails batches that waited longer than `delivery_timeout_ms`, or for a topic that cannot be used."""

from __future__ import annotations

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaConnectionError, KafkaTimeoutError, broker_error
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer.backlog import Backlog, Where
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.outcome.sequencer import BatchOutcome
from kafwire.producer.send.turns import Turns

LARGE = 256 << 10  # bytes of a batch whose size may be the reason for a closed connection


class Expiry:
    """Gives up expired batches of one producer."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, backlog: Backlog, outcomes: Outcomes, turns: Turns
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._backlog = backlog
        self._outcomes = outcomes
        self._turns = turns

    def expire(self) -> None:
        """Give up batches older than `delivery_timeout_ms`, except those in flight, which return first."""
        if self._cluster.metadata.errors:
            self._refuse_topics()
        oldest = self._cluster.engine.now_ms() - self._config.delivery_timeout_ms
        for where, queue in list(self._backlog.waiting.items()):
            for batch in [b for b in queue.sequencer.retries if b.created_ms < oldest]:
                in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
                fate = "they may or may not be in the log" if in_doubt else "they are not in the log"
                self._outcomes.give_up(
                    batch,
                    KafkaTimeoutError(
                        f"{batch.count} record(s) to {queue.name} were sent but not acknowledged within "
                        f"delivery_timeout_ms ({self._config.delivery_timeout_ms}): {fate}; last: {batch.last_error}"
                        f"{self._size_hint(batch)}"
                    ),
                    in_doubt=in_doubt,
                )
            fresh = queue.advance()
            while fresh and fresh[0].created_ms < oldest:
                batch = fresh.popleft()
                error = KafkaTimeoutError(
                    f"{batch.count} record(s) to {queue.name} could not be sent within delivery_timeout_ms "
                    f"({self._config.delivery_timeout_ms}): {self._problem(where)}"
                )
                self._outcomes.give_up(batch, error, numbered=False)

    def _refuse_topics(self) -> None:
        """Fail the batches of topics without a leader for which metadata report a permanent error."""
        for where, queue in list(self._backlog.waiting.items()):
            code = self._cluster.metadata.errors.get(where[0], 0)
            error = broker_error(code, f"topic {where[0]!r}", api="Metadata", topic=where[0])
            if code and not error.retriable and self._cluster.metadata.leader(*where) < 0:
                self._outcomes.give_up_waiting(where, queue, error)

    def _size_hint(self, batch: ProducerBatch) -> str:
        """Name the request's size as a possible cause: some servers close the connection, with no response."""
        if not isinstance(batch.last_error, KafkaConnectionError) or batch.size < LARGE:
            return ""
        limit = self._config.max_request_size
        return (
            f". If the server closes connections on large requests, as Azure Event Hubs does, lower "
            f"max_request_size ({limit}); the batch has {batch.size} bytes"
        )

    def _problem(self, where: Where) -> str:
        topic, partition = where
        code = self._cluster.metadata.errors.get(topic, 0)
        if code:
            return str(broker_error(code, f"topic {topic!r}", api="Metadata", topic=topic))
        if self._cluster.metadata.leader(topic, partition) < 0:
            return "the partition has no leader"
        return self._turns.last_problem or "earlier batches of the partition were not acknowledged"
