"""Handles the response to a produce request for each of its batches: received, failed, or none expected.

`retries.py` decides what happens to a batch that was not appended; `errors.py` makes the errors of its deliveries.
"""

from __future__ import annotations

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.cluster.metadata import Metadata
from kafwire.errors import KafkaConnectionError, KafkaError, ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.outcome.errors import PartitionResponse, error_of, refused_records
from kafwire.producer.outcome.incomplete_batches import IncompleteBatches, Where
from kafwire.producer.outcome.retries import Retries
from kafwire.producer.outcome.sequencer import LOST
from kafwire.producer.send.direct_send import DirectSends
from kafwire.producer.send.topics import Topics
from kafwire.runtime.log import log


class Responses:
    """Handles the produce responses of one producer. Runs on the engine."""

    def __init__(
        self,
        metadata: Metadata,
        *,
        batches: IncompleteBatches,
        retries: Retries,
        topics: Topics,
        direct_send: DirectSends | None,
        transactional_id: str | None,
    ) -> None:
        self._metadata = metadata
        self._batches = batches
        self._retries = retries
        self._topics = topics
        self._direct_send = direct_send
        self._transactional_id = transactional_id

    def on_response(
        self,
        connection: BrokerConnection,
        version: int,
        group: list[tuple[PartitionQueue, ProducerBatch]],
        names: dict[bytes, str],
        frame: Buffer | None,
        error: KafkaError | None,
    ) -> None:
        """Handle the response (`frame`) or failure (`error`) of a request; neither: acks=0 has no response."""
        outcomes: dict[Where, PartitionResponse] = {}
        if frame is not None:
            try:
                retired = {queue.topic for queue, _ in group if queue.owner.retired}
                self._read_response(connection, version, names, frame, outcomes, retired)
            except Exception as problem:
                if not isinstance(problem, ProtocolError):
                    log.exception("kafwire: a response of %s could not be handled", connection.where)
                connection.fail(f"the response to a produce request could not be read: {problem}")
                error = KafkaConnectionError(f"{connection.where} sent no readable ProduceResponse: {problem}")
        for queue, batch in group:
            try:
                if frame is None and error is None:  # acks=0: it was sent, and no more will be known
                    self._retries.settle(queue, batch, 0, None)
                    batch.succeed(-1, -1)
                    continue
                outcome = outcomes.get((queue.topic, queue.partition))
                if outcome is None:
                    lost = error or KafkaConnectionError(f"{connection.where} sent a response without {queue.name}")
                    self._retries.settle(queue, batch, LOST, lost)
                    continue
                if batch.done:  # purged: only its sequence numbers matter
                    self._retries.settle(queue, batch, outcome.error_code, None)
                    continue
                refusal = error_of(outcome, queue, batch, connection, transactional_id=self._transactional_id)
                refused: dict[int, KafkaError] = {}
                if refusal is not None and not refusal.retriable and outcome.record_errors:
                    refused = refused_records(outcome, queue, batch, connection)
                if self._retries.settle(
                    queue, batch, outcome.error_code, refusal, refused=refused, responded_by=connection.node
                ):
                    is_idle = queue.is_empty and (queue.topic, queue.partition) not in self._batches.waiting
                    batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
                    if outcome.base_offset >= 0:
                        end = outcome.base_offset + batch.count
                        leader_epoch = self._metadata.leader_epoch(queue.topic, queue.partition)
                        queue.sequencer.acknowledged(batch.ordinal, end, leader_epoch)
                    if self._direct_send is not None and len(group) == 1:
                        self._direct_send.look_at(queue, connection, version, is_idle=is_idle)
            except Exception as problem:
                log.exception("kafwire: the outcome of a batch for %s could not be handled", queue.name)
                self._let_go(queue, batch, problem)

    def _read_response(
        self,
        connection: BrokerConnection,
        version: int,
        names: dict[bytes, str],
        frame: Buffer,
        outcomes: dict[Where, PartitionResponse],
        retired: set[str],
    ) -> None:
        """Decode a response, and put the outcome of each partition into `outcomes`.

        For the topics in `retired`, leader hints are skipped: they are about the deleted topic, whose leader epochs are
        higher.
        """
        _, response = protocol.decode_response(protocol.ProduceRequest, frame, version)
        connection.note_throttle(response.throttle_time_ms)
        if response.throttle_time_ms > 0 and self._direct_send is not None:
            self._direct_send.revoke_all(connection)
        endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        for topic in response.responses:
            key = topic.topic_id.bytes if version >= protocol.ProduceRequest.BY_TOPIC_ID else topic.name.encode()
            name = names.get(key, "")
            for part in topic.partition_responses:
                outcomes[name, part.index] = part
                if part.error_code in LEADER_ERRORS and part.current_leader.leader_id >= 0 and name not in retired:
                    self._take_hint(name, part, endpoints)

    def _take_hint(
        self, topic: str, part: PartitionResponse, endpoints: list[tuple[int, str, int, str | None]]
    ) -> None:
        """Use the leader that a broker names when it does not lead a partition (KIP-951)."""
        leader = part.current_leader
        if self._metadata.update_leader(topic, part.index, leader.leader_id, leader.leader_epoch, endpoints):
            self._topics.take_in(topic)

    def _let_go(self, queue: PartitionQueue, batch: ProducerBatch, problem: Exception) -> None:
        """After a defect: give the batch up, so that no delivery waits forever."""
        if batch.done or batch in queue.sequencer.retries:
            return
        if batch in queue.sequencer.in_flight:
            queue.sequencer.outcome(batch, LOST, retriable=False)
        self._batches.give_up(batch, KafkaError(f"{queue.name}: {type(problem).__name__}: {problem}"), in_doubt=True)
