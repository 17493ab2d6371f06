"""ListOffsets (2): offsets of partitions by time. See KIP-79, KIP-207, KIP-734 (largest timestamp), KIP-405."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.log.log import find_timestamp
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import ListOffsetsRequest

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SINCE = {  # the first version of each
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: ListOffsetsRequest.MAX_TIMESTAMP,
    EARLIEST_LOCAL: ListOffsetsRequest.EARLIEST_LOCAL,
    LATEST_TIERED: ListOffsetsRequest.LATEST_TIERED,
    EARLIEST_PENDING_UPLOAD: ListOffsetsRequest.EARLIEST_PENDING_UPLOAD,
}
DEBUGGING_REPLICA = -2  # a replica id that sees uncommitted records too


def handle(state: ClusterState, request: Request) -> Response:
    """Return offsets of the leaders' logs."""
    response_type = protocol.ListOffsetsResponse
    topics = []
    for topic in request.message.topics:
        responses = []
        for asked in topic.partitions:
            response = response_type.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            responses.append(response)
            if asked.timestamp < 0 and request.version < SINCE.get(asked.timestamp, 1 << 15):
                response.error_code = ErrorCode.UNSUPPORTED_VERSION
                continue
            partition = state.topics.partition(topic.name, asked.partition_index)
            if partition is None:
                response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            response.error_code = partition.refuses(request.node, asked.current_leader_epoch)
            if not response.error_code:
                _tell(request, partition, asked.timestamp, response)
            if request.version < ListOffsetsRequest.LEADER_EPOCH:
                response.leader_epoch = -1
        if responses:
            topics.append(response_type.ListOffsetsTopicResponse(name=topic.name, partitions=responses))
    return response_type(topics=topics)


def _tell(request: Request, partition: Partition, timestamp: int, response: Any) -> None:
    message = request.message
    log = partition.log
    end = partition.last_stable_offset if message.isolation_level else partition.high_watermark
    if message.replica_id == DEBUGGING_REPLICA:
        end = log.end_offset
    if timestamp == LATEST:
        response.offset = end
        response.leader_epoch = partition.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        response.offset = log.start_offset
        response.leader_epoch = _epoch_of(partition, log.start_offset)
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # nothing is in remote storage
        response.offset, response.leader_epoch = -1, -1
    else:
        if timestamp == MAX_TIMESTAMP:
            timestamp = max((h.max_timestamp for h in log.headers(log.start_offset, end)), default=-1)
        found = find_timestamp(log, timestamp, end) if timestamp >= 0 else None
        if found is not None:
            response.timestamp, response.offset = found
            response.leader_epoch = _epoch_of(partition, response.offset)


def _epoch_of(partition: Partition, offset: int) -> int:
    """Return the leader epoch in which an offset was written."""
    return max((epoch for epoch, first in partition.epochs if first <= offset), default=partition.leader_epoch)
