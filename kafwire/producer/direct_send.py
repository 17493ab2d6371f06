"""Idle partitions lent to the threads that send: a record that somebody waits for goes past the engine, and back.

Two threads less are to be woken for it. The engine lends a partition that was found idle again and again, with
`linger_ms=0` and outside of transactions; `_direct_send` has the way itself. It takes the partition back as soon as
there is more to it than one batch after the other: a second batch, an answer with anything but good news, a lost
connection, other metadata, a flush. What is in flight then is the engine's like any other.
"""

from __future__ import annotations

import asyncio
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.cluster.broker_connection import Lane
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.producer._accumulator import Sink
from kafwire.producer._batch import ProducerBatch
from kafwire.producer._direct_send import Express, Track
from kafwire.producer.request import FIRST_VERSION_WITH_TOPIC_IDS, single_frame
from kafwire.runtime.native_transport import NativeConnection

if TYPE_CHECKING:
    from kafwire.producer.sender import Sender

# So many batches in a row must find their partition idle before it is lent, and at least each so often one must go that
# way for it to stay so.
LULLS = 4
UNUSED_S = 30.0
WATCH_S = 1.0
# From this version on the three numbers of an answer stand together.
FIRST_VERSION = 5
CORRELATION_ID_BYTES = 4


class ExpressWays:
    """The partitions of one producer that are lent. Lives on the engine."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._lent: dict[Sink, Express] = {}
        self._used: dict[Sink, tuple[int, float]] = {}  # the batches that had gone, and since when it is no more
        self._lulls: dict[Sink, int] = {}
        self._tracks: dict[Lane, Track] = {}
        self._watch: asyncio.TimerHandle | None = None

    def look_at(self, sink: Sink, lane: Lane, version: int, *, is_idle: bool) -> None:
        """A batch went alone in its request and was delivered: lend its partition if it was idle for a while."""
        lulls = self._lulls[sink] = self._lulls.get(sink, 0) + 1 if is_idle else 0
        if lulls >= LULLS:
            self._lend(sink, lane, version)

    def _lend(self, sink: Sink, lane: Lane, version: int) -> None:
        sender = self._sender
        connection = lane.connection
        info = sender.cluster.metadata.topics.get(sink.topic)
        if not isinstance(connection, NativeConnection) or version < FIRST_VERSION or info is None:
            return
        if sender.cluster.metadata.leader(sink.topic, sink.partition) != lane.node:
            return
        if (
            sink.owner.retired
            or lane.muted_until_ms > sender.cluster.engine.now_ms()
            or sink.express is not None
            or not sink.is_empty
        ):
            return
        place = sink.sequencer.lend(sender.identity)
        if place is None:
            return
        track = self._tracks.get(lane)
        if track is None or track.connection != connection.number:
            track = self._tracks[lane] = Track(sender.cluster.engine.native, connection.number)
        name = info.topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else sink.topic.encode()
        config = sender.config
        head = protocol.encode_request_header(protocol.ProduceRequest, version, 0, config.client_id)
        prefix, suffix, flexible = single_frame(
            head, version, config.acks, config.request_timeout_ms, name, sink.partition
        )
        plain, numbers_at = plain_answer(version, sink, info.topic_id)
        answered = partial(self._on_reply, version, {name: sink.topic})
        express = Express(
            track, lane, answered, prefix, suffix, flexible=flexible, plain=plain, numbers_at=numbers_at, place=place
        )
        self._lent[sink] = express
        self._used[sink] = 0, sender.cluster.engine.now_ms()
        sink.express = express  # from here on threads may send
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._on_watch)

    def recall(self, sink: Sink) -> None:
        """Take a partition back, if it is lent: what is in flight goes on as if the engine had sent it."""
        express = self._lent.pop(sink, None)
        if express is None:
            return
        sink.express = None
        sequence, ordinal, batch = express.recall()
        self._lulls.pop(sink, None)
        del self._used[sink]
        if express.end >= 0:
            sink.sequencer.acknowledged(ordinal, express.end)
        sink.sequencer.resume(sequence, ordinal, batch)
        if batch is not None:
            elapsed_ms = self._sender.cluster.engine.now_ms() - express.sent_ms
            express.lane.limit(express.token, self._sender.config.request_timeout_ms - elapsed_ms)
            self._sender.take_over(sink, batch, express.lane)
        self._count(sink, express)

    def recall_all(self, lane: Lane | None = None) -> None:
        """Take all partitions back, or those of one lane."""
        for sink, express in list(self._lent.items()):
            if lane is None or express.lane is lane:
                self.recall(sink)

    def _on_reply(
        self,
        version: int,
        names: dict[bytes, str],
        express: Express,
        batch: ProducerBatch,
        frame: Buffer | None,
        error: KafkaError | None,
    ) -> None:
        """What came of a request, unless its thread was faster."""
        if batch.done and not self._is_owed(batch):
            return
        if frame is not None and express.complete(batch, frame):
            self._sender.on_outcomes()
            return
        sink = batch.sink
        if sink.express is express:
            self.recall(sink)
        if not batch.done or self._is_owed(
            batch
        ):  # its thread may have been faster even now; from the recall on it cannot
            self._sender.on_answer(express.lane, version, [(sink, batch)], names, frame, error)

    @staticmethod
    def _is_owed(batch: ProducerBatch) -> bool:
        """Whether the engine waits for its answer, although the batch is done: it was purged."""
        return batch in batch.sink.sequencer.in_flight

    def stop(self) -> None:
        """The producer is closed."""
        if self._watch is not None:
            self._watch.cancel()
        self.recall_all()

    def count(self) -> None:
        """Hand over what was counted, for metrics."""
        for sink, express in self._lent.items():
            self._count(sink, express)

    def _count(self, sink: Sink, express: Express) -> None:
        counts = express.take_counts()
        self._sender.counters.went_by(sink, counts)
        express.lane.went_by(counts)

    def _on_watch(self) -> None:
        """See to requests that are not answered, and to partitions that nobody sends to."""
        self._watch = asyncio.get_running_loop().call_later(WATCH_S, self._on_watch)
        if self._sender.cluster.is_stale:
            self._sender.on_wake()
        now = self._sender.cluster.engine.now_ms()
        for sink, express in list(self._lent.items()):
            seen, since = self._used[sink]
            if express.sent != seen:
                self._used[sink] = express.sent, now
                express.lane.use()
            elif express.batch is None and now - since > UNUSED_S * 1000:
                self.recall(sink)
                continue
            if express.batch is not None and now - express.sent_ms > self._sender.config.request_timeout_ms:
                express.lane.time_out(express.token)
            elif express.batch is not None:
                express.lane.watch_over()
        if not self._lent:
            self._watch.cancel()
            self._watch = None


def plain_answer(version: int, sink: Sink, topic_id: uuid.UUID) -> tuple[bytes, int]:
    """An answer without an error, from its correlation id on, and where in it the numbers are."""
    part = protocol.ProduceResponse.PartitionProduceResponse(index=sink.partition)
    named: dict[str, Any] = {"topic_id": topic_id} if version >= FIRST_VERSION_WITH_TOPIC_IDS else {"name": sink.topic}
    topic = protocol.ProduceResponse.TopicProduceResponse(partition_responses=[part], **named)
    body = protocol.ProduceResponse(responses=[topic]).encode(version)
    part.base_offset = part.log_append_time_ms = part.log_start_offset = 0x5555555555555555
    other = protocol.ProduceResponse(responses=[topic]).encode(version)
    header = bytes(CORRELATION_ID_BYTES)
    if version >= protocol.ProduceResponse.flexible_from:
        header += b"\0"  # no tagged fields
    at = next(i for i, (one, two) in enumerate(zip(body, other, strict=True)) if one != two)
    return header + body, len(header) + at
