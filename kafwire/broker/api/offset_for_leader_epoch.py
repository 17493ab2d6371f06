"""OffsetForLeaderEpoch (23): the end offsets of leader epochs. See KIP-101, KIP-320."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the ends of epochs in the leaders' logs."""
    response = protocol.OffsetForLeaderEpochResponse
    topics = []
    for topic in request.message.topics:
        ends = []
        for asked in topic.partitions:
            end = response.EpochEndOffset(partition=asked.partition)
            ends.append(end)
            partition = state.topics.partition(topic.topic, asked.partition)
            if partition is None:
                end.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            end.error_code = partition.refuses(request.node, asked.current_leader_epoch)
            if not end.error_code:
                end.leader_epoch, end.end_offset = partition.end_of_epoch(asked.leader_epoch)
        topics.append(response.OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return response(topics=topics)
