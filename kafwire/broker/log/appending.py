"""A leader's checks before it appends a producer's batch, and its changes to the batch, as in Kafka's `UnifiedLog`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.expiry import ProducerExpiry
from kafwire.broker.log.batch_header import HEADER_SIZE, BatchHeader, is_intact, read_header, stamp_append_time
from kafwire.broker.log.batch_writer import recompress
from kafwire.broker.log.record_checks import Problem, records_problem
from kafwire.broker.topics.placement import has_enough_replicas
from kafwire.broker.transactions.transactions import refuses_batch
from kafwire.compression import CODECS
from kafwire.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState

_log = logging.getLogger("kafwire.broker")
MOST_DECOMPRESSED = 1 << 30  # bytes of a batch that gets another codec


def append_batch(
    state: ClusterState, request: Request, partition: Partition, records: bytes | memoryview | None, part: Any
) -> int:
    """Append a producer's batch to one partition, and put the result into `part`.

    Returns:
        The offset after the batch, which replicas must reach.
    """
    topic = partition.topic
    if partition.error or partition.leader != request.node:
        part.error_code = partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        return -1
    if request.message.acks == -1 and not has_enough_replicas(state, partition):
        part.error_code = ErrorCode.NOT_ENOUGH_REPLICAS
        return -1
    data = bytearray(records or b"")
    header = _check(state, partition, data, part)
    if header is None:
        return -1
    codecs = None if state.profile is None else state.profile.codecs
    if codecs is not None and header.compression not in codecs:
        part.error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        return -1
    part.log_start_offset = partition.log.start_offset
    by_broker = state.topic_config(topic, "message.timestamp.type") == "LogAppendTime"
    now_ms = state.wall_ms
    if header.producer_id >= 0:
        code = refuses_batch(state, request, partition, header)
        repeated = None if code else partition.producers.duplicate(header)
        if repeated is not None:
            part.base_offset = repeated.base_offset
            if by_broker:
                part.log_append_time_ms = repeated.timestamp_ms
            return repeated.last_offset + 1
        code = code or partition.producers.refuses(header)
        if code:
            part.error_code = code
            part.log_start_offset = -1
            return -1
    data, header = _as_configured(state, partition, data, header)
    if len(data) > int(state.topic_config(topic, "max.message.bytes")):  # another codec may make it larger
        part.error_code = ErrorCode.MESSAGE_TOO_LARGE
        part.log_start_offset = -1
        return -1
    if by_broker:
        stamp_append_time(data, 0, header, now_ms)
        part.log_append_time_ms = now_ms
    moved = partition.log.end_offset - header.base_offset
    header.base_offset += moved
    header.next_offset += moved
    if header.producer_id >= 0:
        partition.producers.add(header)
        state.part(ProducerExpiry).watch()
    end = partition.log.end_offset
    try:
        part.base_offset = partition.append(data, [header])
    except OSError as error:
        # The disk is full, or broken: nothing is stored, and the producers' state is rebuilt from the log.
        _log.warning("%s-%d: %s", topic.name, partition.index, error)
        partition.producers.truncate(end, partition.read_marker, partition.log.headers(partition.log.start_offset))
        part.log_start_offset = -1
        part.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return -1
    return partition.log.end_offset


def _check(state: ClusterState, partition: Partition, data: bytearray, part: Any) -> BatchHeader | None:
    """Return the header of the one batch in `data`; None and an error in `part` if it may not be stored."""

    def refuse(code: int, message: str | None = None, *, tells_start: bool = False) -> None:
        part.error_code, part.error_message = code, message
        if tells_start:
            part.log_start_offset = partition.log.start_offset

    try:
        header = read_header(data)
    except ProtocolError:
        magic = data[16] if len(data) > 16 else 2
        if magic > 2:
            refuse(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
        else:
            refuse(ErrorCode.INVALID_RECORD, tells_start=len(data) >= HEADER_SIZE)
        return None
    if header.magic != 2 or header.size != len(data):
        # The data must be one whole batch of magic 2.
        refuse(ErrorCode.INVALID_RECORD)
        return None
    if len(data) > int(state.topic_config(partition.topic, "max.message.bytes")):
        refuse(ErrorCode.MESSAGE_TOO_LARGE)
        return None
    if not is_intact(data, 0, header):
        refuse(ErrorCode.CORRUPT_MESSAGE)
        return None
    problem = _header_problem(header) or records_problem(state, partition, data, header)
    if problem is None:
        return header
    refuse(problem.code, problem.message, tells_start=True)
    kind = protocol.ProduceResponse.BatchIndexAndErrorMessage
    part.record_errors = [kind(batch_index=e.position, batch_index_error_message=e.message) for e in problem.records]
    return None


def _header_problem(header: BatchHeader) -> Problem | None:
    """Return a problem for batches that a client may not write: control batches, gaps, missing sequence numbers."""
    is_wrong = (
        header.is_control
        or header.count <= 0
        or header.count != header.next_offset - header.base_offset
        or (header.producer_id >= 0 and header.base_sequence < 0)
    )
    return Problem(ErrorCode.INVALID_RECORD) if is_wrong else None


def _as_configured(
    state: ClusterState, partition: Partition, data: bytearray, header: BatchHeader
) -> tuple[bytearray, BatchHeader]:
    """Return the batch with the codec of the topic's `compression.type`, if the producer's is another."""
    wanted = state.topic_config(partition.topic, "compression.type")
    if wanted == "producer":
        return data, header
    codec = CODECS.index("none" if wanted == "uncompressed" else wanted)
    if codec == header.compression:
        return data, header
    level = None
    if wanted in ("gzip", "lz4", "zstd"):
        level = int(state.topic_config(partition.topic, f"compression.{wanted}.level"))
    packed, header = recompress(
        data, header, codec, MOST_DECOMPRESSED, level=None if wanted == "gzip" and level == -1 else level
    )
    return bytearray(packed), header
