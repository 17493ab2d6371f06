"""A leader's checks of the records in a producer's batch, as in Kafka's `LogValidator`, and their errors (KIP-467)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafwire.broker.log.batch_header import HEADER_SIZE, LOG_APPEND, BatchHeader
from kafwire.broker.topics.config_def import elements
from kafwire.compression import CODECS, decompress
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.records import Record, decode_batches

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

_FOR_EVER = 2**63 - 1
_SHOWN = 3


class RecordError(NamedTuple):
    """An invalid record. `position`: its index in the batch."""

    position: int
    message: str


class Problem(NamedTuple):
    """The reason why a batch is not stored."""

    code: ErrorCode
    message: str | None = None
    records: tuple[RecordError, ...] = ()


def records_problem(
    state: ClusterState, partition: Partition, data: bytes | bytearray, header: BatchHeader
) -> Problem | None:
    """Return the problem with the records of a batch with a valid header; None: none."""
    try:
        (batch,) = decode_batches(bytes(data), verify_crc=False)
        count = len(batch)
    except ProtocolError:
        return Problem(ErrorCode.INVALID_RECORD if _can_decompress(data, header) else ErrorCode.UNKNOWN_SERVER_ERROR)
    if count != header.count:
        return Problem(ErrorCode.INVALID_RECORD)
    checks = _Checks(state, partition, header)
    if not checks.are_needed:
        return None
    found = [each for index, record in enumerate(batch) if (each := checks.error(index, record)) is not None]
    if not found:
        return None
    errors = tuple(error for _, error in found)
    if any(code == ErrorCode.INVALID_TIMESTAMP for code, _ in found):
        text = "One or more records have been rejected due to invalid timestamp"
        return Problem(ErrorCode.INVALID_TIMESTAMP, text, errors)
    shown = ", ".join(f"RecordError(batchIndex={e.position}, message='{e.message}')" for e in errors[:_SHOWN])
    return Problem(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]",
        errors,
    )


def _can_decompress(data: bytes | bytearray, header: BatchHeader) -> bool:
    """True if the compression is intact, so the records themselves are invalid."""
    if not header.compression:
        return True
    if header.compression >= len(CODECS):
        return False
    try:
        decompress(CODECS[header.compression], bytes(data[HEADER_SIZE:]))
    except (ProtocolError, ValueError):
        return False
    return True


class _Checks:
    """The checks of records that a topic requires."""

    def __init__(self, state: ClusterState, partition: Partition, header: BatchHeader) -> None:
        topic = partition.topic
        self._where = f"{topic.name}-{partition.index}"
        self._has_keys = "compact" in elements(state.topic_config(topic, "cleanup.policy"))
        self._has_own_times = state.topic_config(topic, "message.timestamp.type") == "CreateTime"
        self._is_stamped = bool(header.attributes & LOG_APPEND)
        before = int(state.topic_config(topic, "message.timestamp.before.max.ms"))
        after = int(state.topic_config(topic, "message.timestamp.after.max.ms"))
        now_ms = state.wall_ms
        self._oldest, self._latest = now_ms - before, now_ms + after
        looks_at_times = self._has_own_times and (before < _FOR_EVER or header.max_timestamp > self._latest)
        self.are_needed = self._has_keys or self._is_stamped or looks_at_times

    def error(self, index: int, record: Record) -> tuple[ErrorCode, RecordError] | None:
        """Return the problem with a record, or None."""
        if self._has_keys and record.key is None:
            text = f"Compacted topic cannot accept message without key in topic partition {self._where}"
            return ErrorCode.INVALID_RECORD, RecordError(index, text)
        stamp = -1 if record.timestamp_ms is None else record.timestamp_ms
        if self._has_own_times and stamp >= 0 and not self._oldest <= stamp <= self._latest:
            text = (
                f"Timestamp {stamp} of message with offset {record.offset} is out of range. The timestamp should be "
                f"within [{self._oldest}, {self._latest}]"
            )
            return ErrorCode.INVALID_TIMESTAMP, RecordError(index, text)
        if self._is_stamped:
            text = (
                f"Invalid timestamp type in message DefaultRecord(offset={record.offset}, timestamp={stamp}, "
                f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes). Producer should not "
                "set timestamp type to LogAppendTime."
            )
            return ErrorCode.INVALID_TIMESTAMP, RecordError(index, text)
        return None
