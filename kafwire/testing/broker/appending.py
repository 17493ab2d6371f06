"""What a leader checks before it appends a producer's batch, and what it writes into it, as Kafka's `UnifiedLog`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire.errors import ErrorCode, ProtocolError
from kafwire.records import decode_batches, encode_batch
from kafwire.testing.broker.batch_header import BatchHeader, is_intact, read_header, stamp_append_time
from kafwire.testing.broker.expiry import ProducerExpiry
from kafwire.testing.broker.transactions import refuses_batch

if TYPE_CHECKING:
    from kafwire.testing.broker.partition import Partition
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def append_batch(
    state: ClusterState, request: Request, partition: Partition, records: bytes | memoryview | None, part: Any
) -> int:
    """Append what a producer sent for one partition, and say in `part` what came of it.

    Returns:
        The offset behind it, which replicas have to reach.
    """
    topic = partition.topic
    if partition.error or partition.leader != request.node:
        part.error_code = partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        return -1
    if request.message.acks == -1 and len(partition.isr) < int(state.topic_config(topic, "min.insync.replicas")):
        part.error_code = ErrorCode.NOT_ENOUGH_REPLICAS
        return -1
    part.log_start_offset = partition.log.start_offset
    data = bytearray(records or b"")
    header = _check(state, partition, data, part)
    if header is None:
        part.log_start_offset = -1
        return -1
    now_ms = state.wall_ms
    if header.producer_id >= 0:
        code = refuses_batch(state, request, partition, header)
        repeated = None if code else partition.producers.duplicate(header)
        if repeated is not None:
            part.base_offset = repeated.base_offset
            if state.topic_config(topic, "message.timestamp.type") == "LogAppendTime":
                part.log_append_time_ms = repeated.timestamp_ms
            return repeated.last_offset + 1
        code = code or partition.producers.refuses(header)
        if code:
            part.error_code = code
            part.log_start_offset = -1
            return -1
    if state.topic_config(topic, "message.timestamp.type") == "LogAppendTime":
        stamp_append_time(data, 0, header, now_ms)
        part.log_append_time_ms = now_ms
    moved = partition.log.end_offset - header.base_offset
    header.base_offset += moved
    header.next_offset += moved
    if header.producer_id >= 0:
        partition.producers.add(header)
        state.part(ProducerExpiry).watch()
    part.base_offset = partition.append(data, [header])
    return partition.log.end_offset


def _check(state: ClusterState, partition: Partition, data: bytearray, part: Any) -> BatchHeader | None:
    """The header of the one batch in `data`; None, and an error in `part`, where it is not one that may be stored."""

    def refuse(code: int, message: str | None = None) -> None:
        part.error_code = code
        part.error_message = message

    try:
        header = read_header(data)
    except ProtocolError as error:
        refuse(ErrorCode.CORRUPT_MESSAGE, str(error))
        return None
    if header.magic != 2 or header.size != len(data):
        where = f"partition {partition.topic.name}-{partition.index}"
        if header.magic == 2 and header.size > len(data):
            refuse(ErrorCode.CORRUPT_MESSAGE, f"the batch for {where} is cut off")
        else:
            refuse(
                ErrorCode.INVALID_RECORD,
                f"Produce requests with version 3 or higher must have one batch of magic 2 for {where}",
            )
        return None
    if not is_intact(data, 0, header):
        refuse(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
        return None
    if len(data) > int(state.topic_config(partition.topic, "max.message.bytes")):
        refuse(ErrorCode.MESSAGE_TOO_LARGE)
        return None
    if header.is_control or header.count != header.next_offset - header.base_offset or header.count <= 0:
        refuse(ErrorCode.INVALID_RECORD, "clients write neither control batches nor gaps")
        return None
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        refuse(ErrorCode.INVALID_RECORD, "a producer's batch has an epoch and a sequence")
        return None
    return header if _check_records(state, partition, data, header, refuse) else None


def _check_records(
    state: ClusterState, partition: Partition, data: bytearray, header: BatchHeader, refuse: Any
) -> bool:
    """Whether the records inside can be read, and are such as the topic takes."""
    try:
        (batch,) = decode_batches(bytes(data), verify_crc=False)
    except ProtocolError as error:
        refuse(ErrorCode.INVALID_RECORD, str(error))
        return False
    if len(batch) != header.count:
        refuse(ErrorCode.INVALID_RECORD, "the batch has not as many records as it says")
        return False
    if "compact" in state.topic_config(partition.topic, "cleanup.policy") and any(r.key is None for r in batch):
        refuse(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected due to 1 record errors in total: "
            "a compacted topic takes no record without a key",
        )
        return False
    if state.topic_config(partition.topic, "message.timestamp.type") == "CreateTime":
        now_ms = state.wall_ms
        oldest = int(state.topic_config(partition.topic, "message.timestamp.before.max.ms"))
        ahead = int(state.topic_config(partition.topic, "message.timestamp.after.max.ms"))
        largest = header.max_timestamp
        if largest >= 0 and (largest - now_ms > ahead or now_ms - largest > oldest):
            refuse(ErrorCode.INVALID_TIMESTAMP)
            return False
    return True


def compress_as_configured(state: ClusterState, partition: Partition, data: bytes) -> bytes:
    """The batch with the codec of the topic's `compression.type`, if that is not the producer's."""
    wanted = state.topic_config(partition.topic, "compression.type")
    (batch,) = decode_batches(data, verify_crc=False)
    codec = "none" if wanted == "uncompressed" else wanted
    if wanted == "producer" or codec == batch.compression:
        return data
    return encode_batch(
        list(batch),
        compression=codec,
        base_offset=batch.base_offset,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
