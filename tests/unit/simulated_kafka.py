"""The simulated world's Kafka: logs, leaders and producer states, and the answers that brokers give from them."""

from __future__ import annotations

import asyncio
import functools
import itertools
import struct
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from kafwire import protocol
from kafwire.records import RecordBatch, decode_batches, encode_batch

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
UNSUPPORTED_VERSION = 35
OUT_OF_ORDER = 45
INVALID_EPOCH = 47
UNKNOWN_TOPIC_ID = 100


@dataclass(slots=True)
class Call:
    """A request as a broker sees it."""

    at_ms: float
    node: int
    connection: int
    version: int
    correlation_id: int
    message: Any

    @property
    def name(self) -> str:
        return type(self.message).__name__.removesuffix("Request")


class Never:
    """An answer that does not come."""


class Hangup:
    """The broker closes the connection instead of answering."""


NEVER = Never()
HANGUP = Hangup()
# bytes: a raw frame after the correlation id. None: let the next handler, and at last the model, answer.
Answer = Any
Handler = Callable[[Call], Answer]


@functools.cache
def request_classes() -> dict[int, type[Any]]:
    classes = [protocol.MESSAGES[name] for name in protocol.MESSAGES if name.endswith("Request")]
    return {cast("Any", cls).api_key: cls for cls in classes}


@dataclass(slots=True)
class Stored:
    """One batch in a log: its offsets [base, next) and bytes."""

    base: int
    next: int
    data: bytes


@dataclass(slots=True)
class Log:
    """A partition: leader, batches, and what the broker remembers of producers."""

    leader: int
    epoch: int = 0
    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    end: int = 0  # the high watermark; batches may end before it
    stable: int | None = None  # the last stable offset, if it is not the end
    aborted: list[tuple[int, int]] = field(default_factory=list)
    error: int = 0
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)

    def append(self, data: bytes, *, next_offset: int | None = None) -> None:
        """Store one encoded batch at the end; `next_offset` leaves a hole behind it."""
        batch = decode_batches(data)[0]
        stored = Stored(self.end, self.end + batch.last_offset - batch.base_offset + 1, _rebased(data, self.end))
        self.batches.append(stored)
        self.end = stored.next if next_offset is None else next_offset

    def append_values(self, values: Iterable[bytes]) -> None:
        self.append(encode_batch(list(values)))

    def values(self) -> list[bytes | None]:
        return [record.value for stored in self.batches for batch in decode_batches(stored.data) for record in batch]


def _rebased(data: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + data[8:]


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: uuid.UUID
    partitions: list[Log]


class Listening(Protocol):
    """Of a broker: where it listens, and what it has."""

    number: int
    host: str
    port: int
    down: bool
    versions: dict[str, tuple[int, int]]


class Kafka:
    """What the brokers of a cluster have in common. A test reads and changes it as it likes."""

    nodes: Mapping[int, Listening]

    def __init__(self, *, topic_ids: bool) -> None:
        self.topic_ids = topic_ids
        self.topics: dict[str, Topic] = {}
        self.refuse: Callable[[RecordBatch], int] = lambda _: 0  # an error code for what is never stored
        self._producer_ids = itertools.count(1000)

    def create_topic(self, name: str, *, partitions: int = 1) -> Topic:
        """A topic, its leaders in turn."""
        nodes = list(self.nodes)
        logs = [Log(leader=nodes[i % len(nodes)]) for i in range(partitions)]
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name) if self.topic_ids else uuid.UUID(int=0)
        self.topics[name] = Topic(name, topic_id, logs)
        return self.topics[name]

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        log = self.topics[name].partitions[partition]
        log.leader = leader
        log.epoch += 1

    def _on_ApiVersions(self, call: Call) -> Answer:
        versions = self.nodes[call.node].versions
        keys = []
        for key, kind in sorted(request_classes().items()):
            name = kind.__name__.removesuffix("Request")
            low, high = versions.get(name, (kind.min_version, kind.max_version))
            keys.append(protocol.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high))
        return protocol.ApiVersionsResponse(api_keys=keys)

    def _on_Metadata(self, call: Call) -> Answer:
        response = protocol.MetadataResponse
        asked = call.message.topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked]
        topics = []
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                topics.append(response.MetadataResponseTopic(error_code=UNKNOWN_TOPIC, name=name))
                continue
            partitions = [
                response.MetadataResponsePartition(
                    error_code=LEADER_NOT_AVAILABLE if log.leader < 0 else 0,
                    partition_index=index,
                    leader_id=log.leader,
                    leader_epoch=log.epoch,
                )
                for index, log in enumerate(topic.partitions)
            ]
            topics.append(response.MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions))
        return response(
            cluster_id="simulated",
            controller_id=min(self.nodes),
            brokers=[
                response.MetadataResponseBroker(node_id=n.number, host=n.host, port=n.port)
                for n in self.nodes.values()
                if not n.down
            ],
            topics=topics,
        )

    def find(self, name: str, topic_id: uuid.UUID) -> Topic | None:
        if name:
            return self.topics.get(name)
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def _on_ListOffsets(self, call: Call) -> Answer:
        response = protocol.ListOffsetsResponse
        topics = []
        for topic in call.message.topics:
            answers = []
            for asked in topic.partitions:
                log = self.topics[topic.name].partitions[asked.partition_index]
                answer = response.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                if log.leader != call.node:
                    answer.error_code = NOT_LEADER
                elif asked.timestamp == -1:
                    stable = log.stable if call.message.isolation_level else None
                    answer.offset = log.end if stable is None else stable
                elif asked.timestamp == -2:
                    answer.offset = log.start
                else:
                    answer.offset = next(
                        (
                            record.offset
                            for stored in log.batches
                            for batch in decode_batches(stored.data)
                            for record in batch
                            if (record.timestamp_ms or -1) >= asked.timestamp
                        ),
                        -1,
                    )
                answers.append(answer)
            topics.append(response.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return response(topics=topics)

    def _on_InitProducerId(self, call: Call) -> Answer:
        del call
        return protocol.InitProducerIdResponse(producer_id=next(self._producer_ids), producer_epoch=0)

    async def _on_Fetch(self, call: Call) -> Answer:
        answer, size = self._fetch(call)
        if size < call.message.min_bytes:
            await asyncio.sleep(call.message.max_wait_ms / 1000)
            answer, _ = self._fetch(call)
        return answer

    def _fetch(self, call: Call) -> tuple[Any, int]:
        response = protocol.FetchResponse
        left = call.message.max_bytes
        total = 0
        errors = False
        topics = []
        for asked in call.message.topics:
            topic = self.find(asked.topic, asked.topic_id)
            parts = []
            for wanted in asked.partitions:
                part = response.PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
                parts.append(part)
                if topic is None:
                    part.error_code = UNKNOWN_TOPIC_ID if call.version >= 13 else UNKNOWN_TOPIC
                else:
                    log = topic.partitions[wanted.partition]
                    part.error_code = log.error or (NOT_LEADER if log.leader != call.node else 0)
                if topic is None or part.error_code:
                    errors = True
                    continue
                limit = log.stable if call.message.isolation_level and log.stable is not None else log.end
                part.high_watermark = log.end
                part.last_stable_offset = limit
                part.log_start_offset = log.start
                if not log.start <= wanted.fetch_offset <= log.end:
                    part.error_code = OFFSET_OUT_OF_RANGE
                    errors = True
                    continue
                if call.message.isolation_level:
                    part.aborted_transactions = [
                        response.AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted
                    ]
                batches = [b.data for b in log.batches if b.next > wanted.fetch_offset and b.base < limit]
                room = min(left, wanted.partition_max_bytes)
                blob = b"".join(batches)
                # The first partition that has data gives a whole batch, whatever its size; any other may end in a part.
                size = max(room, len(batches[0])) if batches and not total else room
                part.records = blob[: max(size, 0)]
                total += len(part.records)
                left = max(0, left - len(part.records))
            topics.append(response.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts))
        return response(responses=topics), max(total, int(errors))

    def _on_Produce(self, call: Call) -> Answer:
        response = protocol.ProduceResponse
        topics = []
        for asked in call.message.topic_data:
            topic = self.find(asked.name, asked.topic_id)
            parts = []
            for data in asked.partition_data:
                part = response.PartitionProduceResponse(index=data.index, base_offset=-1)
                parts.append(part)
                if topic is None:
                    part.error_code = UNKNOWN_TOPIC_ID if call.version >= 13 else UNKNOWN_TOPIC
                    continue
                log = topic.partitions[data.index]
                if log.leader != call.node:
                    part.error_code = NOT_LEADER
                else:
                    part.error_code, part.base_offset = self._append(log, bytes(data.records))
            topics.append(
                response.TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
            )
        return response(responses=topics)

    def _append(self, log: Log, data: bytes) -> tuple[int, int]:
        """As a broker takes a batch of an idempotent producer: (error code, base offset)."""
        batch = decode_batches(data)[0]
        refused = self.refuse(batch)
        if refused:
            return refused, -1
        if batch.producer_id >= 0:
            sequence, epoch = batch.base_sequence, batch.producer_epoch
            known, recent = log.producers.get(batch.producer_id, (-1, deque(maxlen=5)))
            if epoch < known:
                return INVALID_EPOCH, -1
            if epoch > known:
                if sequence:
                    return OUT_OF_ORDER, -1
                recent = deque(maxlen=5)
            for first, count, offset in recent:
                if (first, count) == (sequence, len(batch)):
                    return 0, offset
            if recent and sequence != (recent[-1][0] + recent[-1][1]) % 2**31:
                return OUT_OF_ORDER, -1
            recent.append((sequence, len(batch), log.end))
            log.producers[batch.producer_id] = (epoch, recent)
        base = log.end
        log.append(data)
        return 0, base
