"""Direct sends: an idle partition is leased to the sending threads, and an awaited record bypasses the engine.

That saves waking two threads. The engine leases a partition that was idle several times in a row, with `linger_ms=0`
and outside of transactions; `_direct_send` has the path itself. The engine takes the partition back at the first event
other than one batch after the other: a second batch, a response with an error, a lost connection, new metadata, a
flush. A batch in flight then becomes the engine's.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import Any, Protocol

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._direct_send import DirectSend, ResponseWaiters
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.send.request import single_frame
from kafwire.protocol import ProduceRequest
from kafwire.runtime.interfaces import Notifier, RequestTable

# LULLS: a partition is leased after this many batches in a row found it idle. UNUSED_S: the lease ends if no batch was
# sent directly for so long.
LULLS = 4
UNUSED_S = 30.0
WATCH_S = 1.0
CORRELATION_ID_BYTES = 4


class SendsBatches(Protocol):
    """The part of the sender that direct sends use."""

    cluster: Cluster
    config: ProducerConfig
    counters: ProduceCounters
    notifier: Notifier

    @property
    def identity(self) -> Identity | None:
        """The producer identity under which batches are numbered."""

    def on_wake(self) -> None:
        """Send the batches that may be sent now."""

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

    def on_outcomes(self) -> None:
        """Continue after outcomes: send batches that waited for them."""

    def take_over(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """Take over a batch in flight on `connection` from a direct send."""


class DirectSends:
    """The leased partitions of one producer. Runs on the engine."""

    def __init__(self, sender: SendsBatches) -> None:
        self._sender = sender
        self._leased: dict[PartitionQueue, DirectSend] = {}
        self._used: dict[
            PartitionQueue, tuple[int, float]
        ] = {}  # batches sent so far, and since when that number is unchanged
        self._lulls: dict[PartitionQueue, int] = {}
        self._waiters: dict[BrokerConnection, tuple[RequestTable, ResponseWaiters]] = {}
        self._watch: asyncio.TimerHandle | None = None

    def look_at(self, queue: PartitionQueue, connection: BrokerConnection, version: int, *, is_idle: bool) -> None:
        """Note a batch delivered alone in its request; lease its partition if it was idle several times in a row."""
        lulls = self._lulls[queue] = self._lulls.get(queue, 0) + 1 if is_idle else 0
        if lulls >= LULLS:
            self._lease(queue, connection, version)

    def _lease(self, queue: PartitionQueue, connection: BrokerConnection, version: int) -> None:
        sender = self._sender
        requests = connection.direct
        info = sender.cluster.metadata.topics.get(queue.topic)
        if requests is None or version < ProduceRequest.LOG_START or info is None:
            return
        if sender.cluster.metadata.leader(queue.topic, queue.partition) != connection.node:
            return
        if (
            queue.owner.retired
            or connection.muted_until_ms > sender.cluster.engine.now_ms()
            or queue.direct_send is not None
            or not queue.is_empty
        ):
            return
        place = queue.sequencer.lease(sender.identity)
        if place is None:
            return
        known, waiters = self._waiters.get(connection, (None, None))
        if waiters is None or known is not requests:  # the connection has another socket
            waiters = ResponseWaiters(sender.notifier)
            connection.set_response_filter(waiters)
            self._waiters[connection] = requests, waiters
        name = info.topic_id.bytes if version >= ProduceRequest.BY_TOPIC_ID else queue.topic.encode()
        config = sender.config
        head = protocol.encode_request_header(protocol.ProduceRequest, version, 0, config.client_id)
        prefix, suffix, flexible = single_frame(
            head, version, config.acks, config.request_timeout_ms, name, queue.partition
        )
        plain, numbers_at = plain_response(version, queue, info.topic_id)
        on_response = partial(self._on_reply, version, {name: queue.topic})
        direct_send = DirectSend(
            waiters,
            requests,
            connection,
            sender.cluster.engine.clock,
            on_response,
            prefix,
            suffix,
            flexible=flexible,
            plain=plain,
            numbers_at=numbers_at,
            place=place,
        )
        self._leased[queue] = direct_send
        self._used[queue] = 0, sender.cluster.engine.now_ms()
        queue.direct_send = direct_send  # from now on threads may send directly
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._on_watch)

    def revoke(self, queue: PartitionQueue) -> None:
        """Take a partition back, if it is leased; a batch in flight continues as the engine's."""
        direct_send = self._leased.pop(queue, None)
        if direct_send is None:
            return
        queue.direct_send = None
        sequence, ordinal, batch = direct_send.revoke()
        self._lulls.pop(queue, None)
        del self._used[queue]
        if direct_send.end >= 0:
            queue.sequencer.acknowledged(ordinal, direct_send.end)
        queue.sequencer.resume(sequence, ordinal, batch)
        if batch is not None:
            elapsed_ms = self._sender.cluster.engine.now_ms() - direct_send.sent_ms
            direct_send.connection.limit(direct_send.token, self._sender.config.request_timeout_ms - elapsed_ms)
            self._sender.take_over(queue, batch, direct_send.connection)
        self._count(queue, direct_send)

    def revoke_all(self, connection: BrokerConnection | None = None) -> None:
        """Take all partitions back, or those of one connection."""
        for queue, direct_send in list(self._leased.items()):
            if connection is None or direct_send.connection is connection:
                self.revoke(queue)

    def _on_reply(
        self,
        version: int,
        names: dict[bytes, str],
        direct_send: DirectSend,
        batch: ProducerBatch,
        frame: Buffer | None,
        error: KafkaError | None,
    ) -> None:
        """Handle the response to a direct send, unless its thread was faster."""
        if batch.done and not self._is_owed(batch):
            return
        if frame is not None and direct_send.complete(batch, frame):
            self._sender.on_outcomes()
            return
        queue = batch.queue
        if queue.direct_send is direct_send:
            self.revoke(queue)
        # Until the revoke, its thread may still be faster.
        if not batch.done or self._is_owed(batch):
            self._sender.on_response(direct_send.connection, version, [(queue, batch)], names, frame, error)

    @staticmethod
    def _is_owed(batch: ProducerBatch) -> bool:
        """True if the engine waits for the response to a batch that is done, because it was purged."""
        return batch in batch.queue.sequencer.in_flight

    def stop(self) -> None:
        """Take all partitions back: the producer is closed."""
        if self._watch is not None:
            self._watch.cancel()
        self.revoke_all()

    def count(self) -> None:
        """Add the counts of direct sends to the metrics."""
        for queue, direct_send in self._leased.items():
            self._count(queue, direct_send)

    def _count(self, queue: PartitionQueue, direct_send: DirectSend) -> None:
        counts = direct_send.take_counts()
        self._sender.counters.went_by(queue, counts)
        direct_send.connection.went_by(counts)

    def _on_watch(self) -> None:
        """Check for requests without a response, and for leased partitions without records."""
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._on_watch)
        if self._sender.cluster.is_stale:
            self._sender.on_wake()
        now = self._sender.cluster.engine.now_ms()
        for queue, direct_send in list(self._leased.items()):
            seen, since = self._used[queue]
            if direct_send.sent != seen:
                self._used[queue] = direct_send.sent, now
                direct_send.connection.use()
            elif direct_send.batch is None and now - since > UNUSED_S * 1000:
                self.revoke(queue)
                continue
            if direct_send.batch is not None and now - direct_send.sent_ms > self._sender.config.request_timeout_ms:
                direct_send.connection.time_out(direct_send.token)
            elif direct_send.batch is not None:
                direct_send.connection.watch_over()
        if not self._leased:
            self._watch.cancel()
            self._watch = None


def plain_response(version: int, queue: PartitionQueue, topic_id: uuid.UUID) -> tuple[bytes, int]:
    """Return the bytes of a response without an error, from its correlation id on, and the position of its numbers."""
    part = protocol.ProduceResponse.PartitionProduceResponse(index=queue.partition)
    named: dict[str, Any] = {"topic_id": topic_id} if version >= ProduceRequest.BY_TOPIC_ID else {"name": queue.topic}
    topic = protocol.ProduceResponse.TopicProduceResponse(partition_responses=[part], **named)
    body = protocol.ProduceResponse(responses=[topic]).encode(version)
    part.base_offset = part.log_append_time_ms = part.log_start_offset = 0x5555555555555555
    other = protocol.ProduceResponse(responses=[topic]).encode(version)
    header = bytes(CORRELATION_ID_BYTES)
    if version >= protocol.ProduceResponse.flexible_from:
        header += b"\0"  # no tagged fields
    at = next(i for i, (one, two) in enumerate(zip(body, other, strict=True)) if one != two)
    return header + body, len(header) + at
