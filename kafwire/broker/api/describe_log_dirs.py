"""DescribeLogDirs (35): sizes of a broker's replicas. See KIP-113, KIP-827."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the sizes in the broker's one directory, or in the memory that replaces it."""
    response, asked = protocol.DescribeLogDirsResponse, request.message.topics
    wanted = None if asked is None else {(each.topic, index) for each in asked for index in each.partitions}
    if not state.replication.can_lead(request.node):
        return response(
            results=[
                response.DescribeLogDirsResult(
                    error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=_name(request.node), topics=[]
                )
            ]
        )
    topics = []
    for topic in state.topics:
        parts = [
            _partition(partition.index, partition.log.size, partition.log.end_offset - partition.end_at(request.node))
            for partition in topic.partitions
            if request.node in partition.replicas and (wanted is None or (topic.name, partition.index) in wanted)
        ]
        if parts:
            topics.append(response.DescribeLogDirsTopic(name=topic.name, partitions=parts))
    return response(results=[response.DescribeLogDirsResult(log_dir=_name(request.node), topics=topics)])


def _partition(index: int, size: int, lag: int) -> Any:
    kind = protocol.DescribeLogDirsResponse.DescribeLogDirsPartition
    return kind(partition_index=index, partition_size=size, offset_lag=lag)


def _name(node: int) -> str:
    return f"/embedded/node-{node}"
