"""WriteTxnMarkers (27): writes ends of transactions, for a coordinator or a tool that aborts one (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import OFFSETS_TOPIC
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol.versions import TRANSACTION_V2

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Write each marker to each of its partitions."""
    response = protocol.WriteTxnMarkersResponse
    found: dict[int, list[Any]] = {}
    for marker in request.message.markers:
        topics = []
        for topic in marker.topics:
            parts = [
                response.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=_write(state, request, marker, topic.name, index)
                )
                for index in topic.partition_indexes
            ]
            topics.append(response.WritableTxnMarkerTopicResult(name=topic.name, partitions=parts))
        if topics:
            found.setdefault(marker.producer_id, []).extend(topics)
    return response(
        markers=[
            response.WritableTxnMarkerResult(producer_id=producer_id, topics=topics)
            for producer_id, topics in found.items()
        ]
    )


def _write(state: ClusterState, request: Request, marker: Any, name: str, index: int) -> int:
    """Write one marker. Return an error code, or 0."""
    if name == OFFSETS_TOPIC:
        if state.topics.partition(name, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        offsets: OffsetStore = state.part(OffsetStore)
        offsets.end_transaction(
            marker.producer_id, index, commit=marker.transaction_result, epoch=marker.producer_epoch
        )
        return 0
    partition = state.topics.partition(name, index)
    if partition is None or (request.node not in partition.replicas and request.node != partition.leader):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.error or partition.leader != request.node:
        return partition.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
    entry = partition.producers.entries.get(marker.producer_id)
    if marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # no marker has a negative epoch
    if entry is not None:
        # In version 2 the end of a transaction raises the epoch.
        least = entry.epoch + (marker.transaction_version >= TRANSACTION_V2 and entry.first_offset is not None)
        if marker.producer_epoch < least:
            return ErrorCode.INVALID_PRODUCER_EPOCH
    if entry is not None and marker.coordinator_epoch < entry.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    partition.write_marker(
        marker.producer_id,
        marker.producer_epoch,
        state.wall_ms,
        commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
    )
    return 0
