"""Picks the batches to send now, one per partition, and sends each leader a request with its batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaConnectionError, KafkaError, ProtocolError
from kafwire.producer.buffer.backlog import Backlog
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.outcomes import Group, Outcomes
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.send.leaders import Leaders
from kafwire.producer.send.request import produce_request
from kafwire.runtime.log import producer_log as log

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions


class Dispatcher:
    """Sends the batches of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        backlog: Backlog,
        outcomes: Outcomes,
        *,
        counters: ProduceCounters,
        leaders: Leaders,
        transactions: Transactions | None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._backlog = backlog
        self._counters = counters
        self._leaders = leaders
        self._outcomes = outcomes
        self._transactions = transactions

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
                self._backlog.accumulator.prepare([batch for group in requests.values() for _, batch in group])
            except (KafkaError, MemoryError) as error:
                while requests:
                    self._outcomes.not_sent(requests.popitem()[1], error, is_final=True)
            for connection in list(requests):
                group = requests[connection]
                try:
                    self._send(connection, group)
                except (KafkaConnectionError, ProtocolError) as error:
                    self._outcomes.not_sent(requests.pop(connection), error, is_final=isinstance(error, ProtocolError))
                else:
                    del requests[connection]
                    self._counters.sent(group, self._cluster.engine.now_ms())
        except Exception as error:
            log.exception("kafwire: batches could not be sent")
            for group in requests.values():
                self._outcomes.not_sent(group, error)
            return False
        return True

    def _take(self, requests: dict[BrokerConnection, Group], now: float, identity: Identity | None) -> None:
        """Take the next batch of each queue that may send one, grouped by the connection to send them on."""
        sizes: dict[BrokerConnection, int] = {}
        balance, deleted = self._backlog.balance, self._backlog.deleted
        for where, queue in list(self._backlog.waiting.items()):
            if where[0] in deleted:
                continue
            connection = self._leaders.connection_for(where, now)
            if connection is None or sizes.get(connection, 0) >= self._config.max_request_size:
                continue
            if self._transactions is not None and not self._transactions.admits(where):
                continue
            batch = queue.sequencer.send(queue.advance(), identity, connection.socket)
            if batch is None:
                self._backlog.dismiss(where, queue)
                if queue.sequencer.doubts:
                    self._outcomes.doubts.note(connection.node, queue)
                if queue.fresh:  # the partition has its maximum in flight
                    balance.note(connection.node, now, taken=False)
                continue
            requests.setdefault(connection, []).append((queue, batch))
            sizes[connection] = sizes.get(connection, 0) + batch.size
            self._outcomes.on_send(queue, batch, connection)
            balance.note(connection.node, now, taken=True)

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
        connection.send(
            correlation_id,
            segments,
            partial(self._outcomes.on_response, connection, version, group, by_name),
            expect_response=config.acks != 0,
            timeout_ms=config.request_timeout_ms,
        )
