"""Produce requests as segments: the bytes between batches are encoded here, the batches are referenced.

Other code uses the declared `ProduceRequest`; this encoder never copies a record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.protocol import ProduceRequest


def produce_request(
    head: bytes,
    version: int,
    acks: int,
    timeout_ms: int,
    group: Sequence[tuple[PartitionQueue, ProducerBatch]],
    names: dict[str, bytes],
    transactional_id: str | None = None,
) -> list[bytes | Buffer]:
    """Encode a ProduceRequest as segments: the small parts are copied, the batches are referenced."""
    flexible = version >= ProduceRequest.flexible_from
    by_topic: dict[str, list[tuple[PartitionQueue, ProducerBatch]]] = {}
    for queue, batch in group:
        by_topic.setdefault(queue.topic, []).append((queue, batch))
    segments: list[bytes | Buffer] = []
    text = bytearray(head)
    text += _request_start(version, acks, timeout_ms, len(by_topic), transactional_id)
    for topic, members in by_topic.items():
        text += _topic_start(version, names[topic], len(members))
        for queue, batch in members:
            text += struct.pack(">i", queue.partition)
            text += uvarint(batch.size + 1) if flexible else struct.pack(">i", batch.size)
            segments += [bytes(text), batch.payload()]
            text = bytearray(b"\0" if flexible else b"")
        if flexible:
            text += b"\0"
    if flexible:
        text += b"\0"
    if text:
        segments.append(bytes(text))
    return segments


def single_frame(
    head: bytes, version: int, acks: int, timeout_ms: int, name: bytes, partition: int
) -> tuple[bytes, bytes, bool]:
    """Encode a ProduceRequest of one batch: (bytes before the batch's size, bytes after the batch, is flexible).

    In a flexible version the size is an unsigned varint of size + 1, else an int32.
    """
    flexible = version >= ProduceRequest.flexible_from
    text = bytearray(head) + _request_start(version, acks, timeout_ms, 1, None)
    text += _topic_start(version, name, 1) + struct.pack(">i", partition)
    return bytes(text), b"\0\0\0" if flexible else b"", flexible


def _request_start(version: int, acks: int, timeout_ms: int, topics: int, transactional_id: str | None) -> bytes:
    flexible = version >= ProduceRequest.flexible_from
    start = _nullable(transactional_id, flexible=flexible) + struct.pack(">hi", acks, timeout_ms)
    return start + _array(topics, flexible=flexible)


def _topic_start(version: int, name: bytes, partitions: int) -> bytes:
    flexible = version >= ProduceRequest.flexible_from
    if version < ProduceRequest.BY_TOPIC_ID:
        name = (uvarint(len(name) + 1) if flexible else struct.pack(">h", len(name))) + name
    return name + _array(partitions, flexible=flexible)


def _nullable(text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (uvarint(len(data) + 1) if flexible else struct.pack(">h", len(data))) + data


def _array(count: int, *, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else struct.pack(">i", count)


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
