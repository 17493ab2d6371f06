"""The outcome of each batch that was sent: delivered, sent again, sent in parts, failed, or in doubt.

`response.py` reads the response to a request, and `Sequencer.outcome` decides about a batch's sequence number. This
module decides about the rest, and ends the batch's deliveries.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from kafwire import protocol
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.config import ProducerConfig
from kafwire.errors import (
    AuthorizationError,
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    broker_error,
)
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.backlog import Backlog, Where
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.in_doubt import Doubts
from kafwire.producer.outcome.log_search import FoundBatch
from kafwire.producer.outcome.response import PartitionResponse, error_of, read_response, refused_records
from kafwire.producer.outcome.sequencer import LOST, NOT_SENT, BatchOutcome, Fate
from kafwire.runtime.log import producer_log as log

NONE_REFUSED: Mapping[int, KafkaError] = MappingProxyType({})
# The batches of one request, at most one per partition.
Group = list[tuple[PartitionQueue, ProducerBatch]]


class Sends(Protocol):
    """The part of the sender that outcomes use."""

    @property
    def is_stopped(self) -> bool:
        """True after the producer was closed."""

    def run(self, name: Hashable, coroutine: Any) -> None:
        """Run one coroutine per name at a time, and again after a failure."""

    def look_up(self, topic: str) -> None:
        """Refresh metadata in the background: a partition's leader is unknown or outdated."""

    def take_in(self, topic: str) -> None:
        """Use the changed metadata of a topic."""

    def on_throttle(self, connection: BrokerConnection) -> None:
        """Handle a response after which nothing may be sent on its connection for a while."""

    def on_lull(self, queue: PartitionQueue, connection: BrokerConnection, version: int, *, is_idle: bool) -> None:
        """Note a batch delivered alone in its request; `is_idle`: it left its partition without records."""

    def on_outcomes(self, *, is_well: bool) -> None:
        """Continue after outcomes; `is_well`: a broker accepted a batch."""


class Transacts(Protocol):
    """The part of transactions that outcomes use."""

    def batch_failed(self, error: KafkaError, *, numbered: bool) -> KafkaError:
        """Note that a batch failed for good; return the error for its deliveries."""


class Outcomes:
    """The batches of one producer that were sent and have no outcome. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        backlog: Backlog,
        *,
        counters: ProduceCounters,
        sends: Sends,
        transactions: Transacts | None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._backlog = backlog
        self._counters = counters
        self._sends = sends
        self._transactions = transactions
        self.doubts = Doubts(cluster, config, sends.run, self._on_fate)
        self.sent: dict[ProducerBatch, None] = {}  # batches sent at least once
        self.in_flight_on: dict[Where, BrokerConnection] = {}

    def incomplete(self) -> list[ProducerBatch]:
        """List all batches without an outcome, sent or not."""
        return [*self.sent, *self._backlog.unsent()]

    def on_send(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """Note that a batch is sent, or was sent directly, on `connection`."""
        self.sent[batch] = None
        self.in_flight_on[queue.topic, queue.partition] = connection

    def forget(self, where: Where) -> None:
        """Forget a partition whose batches move to another queue."""
        self._backlog.forget(where)
        self.in_flight_on.pop(where, None)

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
        if self._sends.is_stopped:  # all batches have failed
            return
        parts: Mapping[Where, PartitionResponse] = {}
        if frame is not None:
            try:
                response, parts = read_response(version, names, frame)
                self._take_in(connection, response, parts, group)
            except Exception as problem:
                if not isinstance(problem, ProtocolError):
                    log.exception(
                        "kafwire: a response of %s could not be handled", connection.where, node=connection.node
                    )
                connection.fail(f"the response to a produce request could not be read: {problem}")
                error = KafkaConnectionError(f"{connection.where} sent no readable ProduceResponse: {problem}")
        is_well = False
        for queue, batch in group:
            try:
                if frame is None and error is None:  # acks=0: it was sent, and no more will be known
                    is_well |= self._settle(queue, batch, 0, None)
                    batch.succeed(-1, -1)
                    continue
                part = parts.get((queue.topic, queue.partition))
                if part is None:
                    lost = error or KafkaConnectionError(f"{connection.where} sent a response without {queue.name}")
                    self._settle(queue, batch, LOST, lost)
                elif batch.done:  # purged: only its sequence numbers matter
                    self._settle(queue, batch, part.error_code, None)
                elif self._settle_part(queue, batch, part, connection):
                    is_well = True
                    is_idle = queue.is_empty and (queue.topic, queue.partition) not in self._backlog.waiting
                    self._deliver(queue, batch, part)
                    if len(group) == 1:
                        self._sends.on_lull(queue, connection, version, is_idle=is_idle)
            except Exception as problem:
                log.exception(
                    "kafwire: the outcome of a batch for %s could not be handled", queue.name, partition=queue.name
                )
                self._let_go(queue, batch, problem)
        self._sends.on_outcomes(is_well=is_well)

    def _take_in(
        self,
        connection: BrokerConnection,
        response: protocol.ProduceResponse,
        parts: Mapping[Where, PartitionResponse],
        group: Group,
    ) -> None:
        """Note a throttle time, and the leader that a broker names when it does not lead a partition (KIP-951)."""
        connection.note_throttle(response.throttle_time_ms)
        if response.throttle_time_ms > 0:
            self._sends.on_throttle(connection)
        for (topic, partition), part in parts.items():
            leader = part.current_leader
            if part.error_code not in LEADER_ERRORS or leader.leader_id < 0:
                continue
            # Hints about a deleted topic are skipped: its leader epochs are higher than those of the recreated topic.
            if any(queue.topic == topic and queue.owner.retired for queue, _ in group):
                continue
            endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
            if self._cluster.metadata.update_leader(topic, partition, leader.leader_id, leader.leader_epoch, endpoints):
                self._sends.take_in(topic)

    def _settle_part(
        self, queue: PartitionQueue, batch: ProducerBatch, part: PartitionResponse, connection: BrokerConnection
    ) -> bool:
        """Settle a batch by its part of a response; True if it was delivered."""
        if not part.error_code:
            return self._settle(queue, batch, 0, None)
        error = error_of(part, queue, batch, connection, transactional_id=self._config.transactional_id)
        is_final = error is not None and not error.retriable
        refused = refused_records(part, queue, batch, connection) if is_final and part.record_errors else NONE_REFUSED
        return self._settle(queue, batch, part.error_code, error, refused, connection.node)

    def _deliver(self, queue: PartitionQueue, batch: ProducerBatch, part: PartitionResponse) -> None:
        batch.succeed(part.base_offset, part.log_append_time_ms)
        if part.base_offset >= 0:
            end = part.base_offset + batch.count
            leader_epoch = self._cluster.metadata.leader_epoch(queue.topic, queue.partition)
            queue.sequencer.acknowledged(batch.ordinal, end, leader_epoch)

    def not_sent(self, group: Group, error: Exception, *, is_final: bool = False) -> None:
        """Settle batches that were not handed to a connection; `is_final`: they never can be."""
        for queue, batch in group:
            problem = error if isinstance(error, KafkaError) else _defect(queue, error)
            try:
                if is_final:
                    verdict = queue.sequencer.outcome(batch, NOT_SENT, retriable=False)
                    self._on_return(queue)
                    self.give_up(batch, problem, in_doubt=verdict is BatchOutcome.DOUBTFUL)
                else:
                    self._settle(queue, batch, NOT_SENT, problem)
            except Exception as defect:
                log.exception(
                    "kafwire: a batch for %s that was not sent could not be handled", queue.name, partition=queue.name
                )
                self._let_go(queue, batch, defect)

    def _let_go(self, queue: PartitionQueue, batch: ProducerBatch, problem: Exception) -> None:
        """After a defect: give the batch up, so that no delivery waits forever."""
        if batch.done or batch in queue.sequencer.retries:
            return
        if batch in queue.sequencer.in_flight:
            queue.sequencer.outcome(batch, LOST, retriable=False)
            self._on_return(queue)
        self.give_up(batch, _defect(queue, problem), in_doubt=True)

    # -- verdicts

    def _settle(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        error: KafkaError | None,
        refused: Mapping[int, KafkaError] = NONE_REFUSED,
        refused_by: int = -1,
    ) -> bool:
        """Settle a batch that returned; True if it was delivered.

        `code` is the broker's, LOST or NOT_SENT. `refused` has the errors of single records, by index. `refused_by` is
        the broker that sent the response, if one did.
        """
        if batch.done:
            self._settle_purged(queue, batch, code)
            return False
        self._counters.refused(queue, error)
        starts = self._part_starts(batch, code, refused) if code else None
        verdict = queue.sequencer.outcome(batch, code, retriable=is_retriable(error), divisible=starts is not None)
        if starts is not None and verdict is BatchOutcome.DIVIDE:
            verdict = self._divide(queue, batch, starts, refused)
        self._on_return(queue)
        if verdict is BatchOutcome.DELIVERED:
            self._on_delivery(queue, batch)
            return True
        if verdict is BatchOutcome.RETRY:
            self._retry(queue, batch, code, error, refused_by)
        elif verdict is not BatchOutcome.DIVIDE:
            self._fail(queue, batch, code, error, refused, in_doubt=verdict is BatchOutcome.DOUBTFUL)
        return False

    def _settle_purged(self, queue: PartitionQueue, batch: ProducerBatch, code: int) -> None:
        """Settle a batch that was purged in flight: later batches may continue."""
        if queue.sequencer.outcome(batch, code, retriable=False) is BatchOutcome.RETRY:
            queue.sequencer.give_up(batch)
        self.sent.pop(batch, None)
        self._on_return(queue)

    def _on_return(self, queue: PartitionQueue) -> None:
        """After a batch returned: let its partition send again, on another connection once none is in flight."""
        if queue.owner.retired:  # its batches move to the recreated topic, whose queue has its place
            return
        where = (queue.topic, queue.partition)
        if not queue.sequencer.in_flight:
            self.in_flight_on.pop(where, None)
        if queue.fresh or queue.sealed or queue.sequencer.retries:
            self._backlog.waiting[where] = queue

    def _on_delivery(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._counters.delivered(queue, batch)
        self.sent.pop(batch, None)

    def _part_starts(self, batch: ProducerBatch, code: int, refused: Mapping[int, KafkaError]) -> list[int] | None:
        from kafwire.producer.outcome.split import part_starts  # after an error only

        is_transactional = self._config.transactional_id is not None
        return part_starts(batch.count, code, refused, is_transactional=is_transactional)

    def _divide(
        self, queue: PartitionQueue, batch: ProducerBatch, starts: list[int], refused: Mapping[int, KafkaError]
    ) -> BatchOutcome:
        """Continue with the parts of a batch that begin at `starts`, the refused records aside."""
        try:
            parts = self._backlog.accumulator.cut(batch, starts, refused or None)
        except (KafkaError, MemoryError) as error:
            batch.last_error = KafkaError(f"{queue.name}: {error}")
            return queue.sequencer.outcome(batch, NOT_SENT, retriable=True)
        queue.sequencer.replace(batch, parts)
        self._counters.failed(queue, len(refused))
        self.sent.pop(batch, None)
        self.sent.update(dict.fromkeys(parts))
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
                self._backlog.accumulator.cut(batch, list(range(batch.count)), refused)
        self.give_up(batch, error or KafkaError(f"{queue.name}: error {code}"), in_doubt=in_doubt)

    def _retry(
        self, queue: PartitionQueue, batch: ProducerBatch, code: int, error: KafkaError | None, refused_by: int
    ) -> None:
        """Send a batch again after a back-off, or at once if a new leader is known. Look its leader up if needed."""
        where = (queue.topic, queue.partition)
        batch.attempts += 1
        batch.last_error = error
        if queue.owner.retired:
            return  # it moves to the recreated topic, if it may
        if code in LEADER_ERRORS and self._cluster.metadata.leader(*where) not in (-1, refused_by):
            self._backlog.not_before_ms.pop(where, None)  # the new leader is known already
            return
        wait = delay_ms(
            batch.attempts,
            self._config.retry_backoff_ms,
            self._config.retry_backoff_max_ms,
            self._cluster.engine.random.random(),
        )
        self._backlog.not_before_ms[where] = self._cluster.engine.now_ms() + wait
        if code in LEADER_ERRORS or code in (LOST, NOT_SENT):
            if batch.attempts == 1:
                self._cluster.hasten()
            self._sends.look_up(queue.topic)

    def _on_fate(self, queue: PartitionQueue, batch: ProducerBatch, fate: Fate, place: FoundBatch, why: str) -> None:
        """Settle a batch in doubt by the result of the log search."""
        if queue.owner.retired and fate is not Fate.STORED:
            return  # the search may have read the log of another topic
        verdict = queue.sequencer.settle(batch, fate)
        if verdict is BatchOutcome.DELIVERED:
            self._on_delivery(queue, batch)
            batch.succeed(place.offset, place.log_append_ms)
        elif verdict is BatchOutcome.FAILED:
            problem = batch.last_error or KafkaError(f"{queue.name}: the broker did not append a batch")
            self.give_up(batch, problem)
        elif verdict is BatchOutcome.DOUBTFUL:
            problem = KafkaError(
                f"{batch.count} record(s) to {queue.name} were sent, and may or may not be in the log: {why}; last: "
                f"{batch.last_error}"
            )
            self.give_up(batch, problem, in_doubt=True)

    # -- batches that are given up

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
        self._backlog.dismiss(where, queue)


def _defect(queue: PartitionQueue, error: Exception) -> KafkaError:
    return KafkaError(f"{queue.name}: {type(error).__name__}: {error}")


def is_retriable(error: KafkaError | None) -> bool:
    """True if another attempt may succeed: an error that is not the broker's says nothing about the batch."""
    return not isinstance(error, BrokerError) or error.retriable


def doubtful(error: KafkaError) -> KafkaError:
    """Return the error with a note that an earlier attempt may have appended the batch (`in_doubt`)."""
    text = "an attempt got no response, so they may or may not be in the log"
    if isinstance(error, AuthorizationError):
        error = AuthorizationError(
            error.code,
            error.name,
            f"{error.message}; {text}",
            operation=error.operation,
            resource_type=error.resource_type,
            resource_name=error.resource_name,
        )
    elif isinstance(error, BrokerError):
        error = broker_error(error.code, f"{error.message}; {text}")
    else:
        error = copy.copy(error)  # a copy: other batches may share this error and not be in doubt
    error.in_doubt = True
    return error
