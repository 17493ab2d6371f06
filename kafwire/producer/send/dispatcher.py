"""Picks the batches to send now, one per partition, and sends each leader a request with its batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaConnectionError, KafkaError, ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.partitioner import Balance
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.in_doubt import Doubts
from kafwire.producer.outcome.incomplete_batches import IncompleteBatches
from kafwire.producer.outcome.retries import Retries
from kafwire.producer.outcome.sequencer import NOT_SENT, BatchOutcome, Identity
from kafwire.producer.send.leaders import Leaders
from kafwire.producer.send.recreated_topics import RecreatedTopics
from kafwire.producer.send.request import produce_request
from kafwire.runtime.log import log

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

# The batches of one request, at most one per partition.
Group = list[tuple[PartitionQueue, ProducerBatch]]
# Arguments: connection, request version, batches, topic names by their bytes in the request, response, error.
OnResponse = Callable[[BrokerConnection, int, Group, dict[bytes, str], Buffer | None, KafkaError | None], object]


class Dispatcher:
    """Sends the batches of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        *,
        balance: Balance,
        batches: IncompleteBatches,
        counters: ProduceCounters,
        doubts: Doubts,
        leaders: Leaders,
        recreated: RecreatedTopics,
        retries: Retries,
        transactions: Transactions | None,
        on_response: OnResponse,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._balance = balance
        self._batches = batches
        self._counters = counters
        self._doubts = doubts
        self._leaders = leaders
        self._recreated = recreated
        self._retries = retries
        self._transactions = transactions
        self._on_response = on_response

    def send_some(self, now: float, identity: Identity | None) -> bool:
        """Send a batch of each queue that may send one; False: there was none.

        If anything raises, the batches that were taken but not handed to a connection are settled.
        """
        requests: dict[BrokerConnection, Group] = {}
        try:
            self._take(requests, now, identity)
            if not requests:
                return False
            # All batches of this iteration are compressed and stamped in one pass without the GIL.
            try:
                self._accumulator.prepare([batch for group in requests.values() for _, batch in group])
            except (KafkaError, MemoryError) as error:
                while requests:
                    self._fail(requests.popitem()[1], error)
            for connection in list(requests):
                group = requests[connection]
                try:
                    self._send(connection, group)
                except KafkaConnectionError as error:
                    for queue, batch in requests.pop(connection):
                        self._retries.settle(queue, batch, NOT_SENT, error)
                except ProtocolError as error:
                    self._fail(requests.pop(connection), error)
                else:
                    del requests[connection]
                    self._counters.sent(group, self._cluster.engine.now_ms())
        except Exception as error:
            log.exception("kafwire: batches could not be sent")
            for group in requests.values():
                for queue, batch in group:
                    problem = KafkaError(f"{queue.name}: {type(error).__name__}: {error}")
                    self._retries.settle(queue, batch, NOT_SENT, problem)
            return False
        return True

    def _take(self, requests: dict[BrokerConnection, Group], now: float, identity: Identity | None) -> None:
        """Take the next batch of each queue that may send one, grouped by the connection to send them on."""
        sizes: dict[BrokerConnection, int] = {}
        recreated = self._recreated.names
        for where, queue in list(self._batches.waiting.items()):
            if where[0] in recreated:
                continue
            connection = self._leaders.connection_for(where, now)
            if connection is None or sizes.get(connection, 0) >= self._config.max_request_size:
                continue
            if self._transactions is not None and not self._transactions.admits(where):
                continue
            batch = queue.sequencer.send(queue.advance(), identity, connection.socket)
            if batch is None:
                self._batches.dismiss(where, queue)
                if queue.sequencer.doubts:
                    self._doubts.note(connection.node, queue)
                if queue.fresh:  # the partition has its maximum in flight
                    self._balance.note(connection.node, now, taken=False)
                continue
            requests.setdefault(connection, []).append((queue, batch))
            sizes[connection] = sizes.get(connection, 0) + batch.size
            self._batches.on_send(queue, batch, connection)
            self._balance.note(connection.node, now, taken=True)

    def _fail(self, group: Group, error: Exception) -> None:
        """Fail batches that can never be sent."""
        for queue, batch in group:
            verdict = queue.sequencer.outcome(batch, NOT_SENT, retriable=False)
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{queue.name}: {error}")
            self._batches.give_up(batch, problem, in_doubt=verdict is BatchOutcome.DOUBTFUL)

    def _send(self, connection: BrokerConnection, group: Group) -> None:
        config = self._config
        ids = [self._cluster.metadata.topics[queue.topic].topic_id for queue, _ in group]
        at_most = protocol.ProduceRequest.BY_TOPIC_ID - 1 if NO_TOPIC_ID in ids else None
        if self._transactions is None:
            version = connection.version_of(protocol.ProduceRequest, at_most=at_most)
        else:
            version = self._transactions.produce_version(connection, at_most)
        correlation_id = connection.next_correlation_id()
        names = {
            queue.topic: (topic_id.bytes if version >= protocol.ProduceRequest.BY_TOPIC_ID else queue.topic.encode())
            for (queue, _), topic_id in zip(group, ids, strict=True)
        }
        head = protocol.encode_request_header(protocol.ProduceRequest, version, correlation_id, config.client_id)
        segments = produce_request(
            head, version, config.acks, config.request_timeout_ms, group, names, config.transactional_id
        )
        by_name = {name: topic for topic, name in names.items()}

        def on_response(frame: Buffer | None, error: KafkaError | None) -> None:
            self._on_response(connection, version, group, by_name, frame, error)

        connection.send(
            correlation_id,
            segments,
            on_response,
            expect_response=config.acks != 0,
            timeout_ms=config.request_timeout_ms,
        )
