"""DeleteRecords (21): deletes the records of partitions before an offset. See KIP-107."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_def import elements
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

HIGH_WATERMARK = -1


def handle(state: ClusterState, request: Request) -> Response:
    """Delete records from the partitions that the broker leads."""
    response = protocol.DeleteRecordsResponse
    topics = []
    for asked in request.message.topics:
        parts = []
        for each in asked.partitions:
            part = response.DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=-1)
            code = _delete(state, request, asked.name, each, part)
            if code:
                part.error_code = code
            parts.append(part)
        if parts:
            topics.append(response.DeleteRecordsTopicResult(name=asked.name, partitions=parts))
    return response(topics=topics)


def _delete(state: ClusterState, request: Request, name: str, asked: Any, part: Any) -> int:
    partition = state.topics.partition(name, asked.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.error or partition.leader != request.node:
        return partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if "delete" not in elements(state.topic_config(partition.topic, "cleanup.policy")):
        return ErrorCode.POLICY_VIOLATION
    offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset > partition.log.start_offset:
        partition.delete_before(offset)
    part.low_watermark = partition.log.start_offset
    return 0
