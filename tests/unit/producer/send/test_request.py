"""`single_frame` against `produce_request` and the declared message; `plain_response` against the declared response."""

from __future__ import annotations

import struct
import uuid

import pytest

from kafwire import protocol
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.send.direct_send import plain_response
from kafwire.producer.send.request import produce_request, single_frame
from kafwire.protocol import ProduceRequest, ProduceResponse
from tests.support.accumulator_store import Store
from tests.support.reference_messages import uvarint

VERSIONS = range(ProduceRequest.min_version, ProduceRequest.max_version + 1)
PLAIN_VERSIONS = [version for version in VERSIONS if version >= ProduceRequest.LOG_START]
FLEXIBLE_FROM = 9
TOPIC_ID = uuid.UUID("6a3c9b52-1f0d-4e67-9a0b-5d1c2e3f4a5b")
QUEUES = [("t", 0), ("t", 300), ("a" * 126, 1), ("a" * 127, 2), ("a" * 249, 2**31 - 1)]
# Around where a varint of one more than the size gets another byte.
SIZES = [100, 125, 127, 128, 16382, 16383, 16384, 70_000]
EVERY_QUEUE = pytest.mark.parametrize(
    "queue", [PartitionQueue(*place) for place in QUEUES], ids=lambda queue: queue.name[-12:]
)
NUMBERS = struct.Struct(">qqq")


@pytest.fixture
def store() -> Store:
    return Store(batch_size=100_000, max_request_size=100_000)


def sealed(store: Store, size: int) -> ProducerBatch:
    """A batch that takes `size` bytes on the wire."""
    for value_size in range(size - 90, size - 60):
        for key in (None, b"k"):
            batch = store.append(bytes(value_size), key=key, partition=0).batch
            (queue,), _ = store.accumulator.collect(everything=True)
            queue.advance().clear()
            store.accumulator.prepare([batch])
            if batch.size == size:
                return batch
            batch.succeed(0, -1)
    raise AssertionError(f"no batch takes {size} bytes")


def frame_with(
    version: int, queue: PartitionQueue, batch: bytes, *, acks: int = -1, client_id: str | None = "me"
) -> bytes:
    """The bytes of `single_frame`, with a batch in its place."""
    head = protocol.encode_request_header(ProduceRequest, version, 77, client_id)
    name = name_of(version, queue.topic)
    prefix, suffix, flexible = single_frame(head, version, acks, 30_000, name, queue.partition)
    assert flexible is (version >= FLEXIBLE_FROM)
    size = uvarint(len(batch) + 1) if flexible else struct.pack(">i", len(batch))
    return prefix + size + batch + suffix


def name_of(version: int, topic: str) -> bytes:
    return TOPIC_ID.bytes if version >= ProduceRequest.BY_TOPIC_ID else topic.encode()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_equals_a_produce_request_of_one_batch(store: Store, version: int) -> None:
    for size in SIZES:
        batch = sealed(store, size)
        for topic, partition in QUEUES:
            queue = PartitionQueue(topic, partition)
            names = {topic: name_of(version, topic)}
            for acks, client_id in [(-1, "me"), (1, None), (-1, "")]:
                head = protocol.encode_request_header(ProduceRequest, version, 77, client_id)
                segments = produce_request(head, version, acks, 30_000, [(queue, batch)], names)
                expected = b"".join(bytes(segment) for segment in segments)
                assert frame_with(version, queue, bytes(batch.payload()), acks=acks, client_id=client_id) == expected
        batch.succeed(0, -1)


@pytest.mark.parametrize(
    "queue", [PartitionQueue(*place) for place in QUEUES], ids=lambda queue: f"{len(queue.topic)}-{queue.partition}"
)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_declared_request_says_the_same(version: int, queue: PartitionQueue) -> None:
    data = ProduceRequest.PartitionProduceData(index=queue.partition, records=memoryview(b"batch" * 40))
    topic = ProduceRequest.TopicProduceData(partition_data=[data])
    if version >= ProduceRequest.BY_TOPIC_ID:
        topic.topic_id = TOPIC_ID
    else:
        topic.name = queue.topic
    declared = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    frame = frame_with(version, queue, b"batch" * 40, acks=1)
    assert frame == protocol.encode_request(declared, version, 77, "me")
    head = protocol.encode_request_header(ProduceRequest, version, 77, "me")
    assert ProduceRequest.decode(frame[len(head) :], version) == declared


def response_of(version: int, queue: PartitionQueue, correlation_id: int, numbers: tuple[int, int, int]) -> bytes:
    """A broker's response without an error."""
    base_offset, log_append_time_ms, log_start_offset = numbers
    part = ProduceResponse.PartitionProduceResponse(
        index=queue.partition,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = ProduceResponse.TopicProduceResponse(partition_responses=[part])
    if version >= ProduceRequest.BY_TOPIC_ID:
        topic.topic_id = TOPIC_ID
    else:
        topic.name = queue.topic
    header = protocol.ResponseHeader(correlation_id=correlation_id).encode(1 if version >= FLEXIBLE_FROM else 0)
    return header + ProduceResponse(responses=[topic]).encode(version)


@pytest.mark.parametrize(
    "queue", [PartitionQueue(*place) for place in QUEUES], ids=lambda queue: f"{len(queue.topic)}-{queue.partition}"
)
@pytest.mark.parametrize("version", PLAIN_VERSIONS)
def test_a_plain_response_is_the_declared_one_but_for_three_numbers(version: int, queue: PartitionQueue) -> None:
    plain, at = plain_response(version, queue, TOPIC_ID)
    for numbers in [(0, -1, 0), (1, 2, 3), (2**63 - 1, 2**63 - 1, 2**63 - 1), (0x0102030405060708, -1, -1)]:
        frame = response_of(version, queue, 0x01020304, numbers)
        assert frame[:4] == b"\1\2\3\4"
        assert NUMBERS.unpack_from(frame, at) == numbers
        end = at + NUMBERS.size
        assert plain[4:at] == frame[4:at]
        assert plain[end:] == frame[end:]
        assert len(plain) == len(frame)
        correlation_id, response = protocol.decode_response(
            ProduceRequest, plain[:at] + NUMBERS.pack(*numbers) + plain[end:], version
        )
        (topic,) = response.responses
        (part,) = topic.partition_responses
        assert (correlation_id, response.throttle_time_ms, part.error_code) == (0, 0, 0)
        assert (part.base_offset, part.log_append_time_ms, part.log_start_offset) == numbers


@pytest.mark.parametrize("version", PLAIN_VERSIONS)
def test_a_response_with_another_field_set_is_not_plain(version: int) -> None:
    """Each differs in size, or outside of the numbers."""
    queue = PartitionQueue("t", 1)
    plain, at = plain_response(version, queue, TOPIC_ID)
    part = ProduceResponse.PartitionProduceResponse(index=1)
    topic = ProduceResponse.TopicProduceResponse(partition_responses=[part])
    if version >= ProduceRequest.BY_TOPIC_ID:
        topic.topic_id = TOPIC_ID
    else:
        topic.name = "t"
    response = ProduceResponse(responses=[topic])

    def is_plain() -> bool:
        data = bytes(4 + (version >= FLEXIBLE_FROM)) + response.encode(version)
        return (data[:at], data[at + NUMBERS.size :]) == (plain[:at], plain[at + NUMBERS.size :])

    assert is_plain()
    for whose, name, value in [
        (response, "throttle_time_ms", 1),
        (part, "error_code", 6),
        (part, "index", 2),
        (part, "unknown_tagged_fields", ((5, b"x"),)),
        (topic, "partition_responses", [part, part]),
        (topic, "topic_id" if version >= ProduceRequest.BY_TOPIC_ID else "name", "u"),
        (response, "responses", []),
    ]:
        if name == "unknown_tagged_fields" and version < FLEXIBLE_FROM:
            continue
        before = getattr(whose, name)
        setattr(whose, name, uuid.UUID(int=1) if name == "topic_id" else value)
        assert not is_plain(), name
        setattr(whose, name, before)
    assert is_plain()
