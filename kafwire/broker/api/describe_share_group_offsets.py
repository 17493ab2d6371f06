"""DescribeShareGroupOffsets (90): start offsets and lags of share groups. See KIP-932, KIP-1226 (lag)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.share.share_states import UNKNOWN, ShareStates
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.broker.topics.topics import Topic


def handle(state: ClusterState, request: Request) -> Response:
    """Describe each group. Topics of None are all topics that the client may describe."""
    response = protocol.DescribeShareGroupOffsetsResponse
    return response(groups=[_group(state, request, asked) for asked in request.message.groups])


def _group(state: ClusterState, request: Request, asked: Any) -> Any:
    group = protocol.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    if not state.features.get("share.version"):
        group.error_code = ErrorCode.UNSUPPORTED_VERSION
        return group
    groups: GroupCoordinator = state.part(GroupCoordinator)
    states: ShareStates = state.part(ShareStates)
    code = groups.refuses(request, asked.group_id)
    if code and asked.topics is None:
        group.error_code, group.error_message = code, ErrorCode(code).message
        return group
    if asked.topics is None:
        known = state.topics.by_id
        ready = states.ready(asked.group_id)
        named = [(known[each].name, sorted(its)) for each, its in ready.items() if each in known]
        named = [(name, its) for name, its in named if _may_see(state, request, name)]
    else:
        named = [(topic.topic_name, topic.partitions) for topic in asked.topics]
        known_names = [each for each in named if each[0] in state.topics.by_name and _may_see(state, request, each[0])]
        if known_names and not (asked.group_id and all(indexes for _, indexes in known_names)):
            group.error_code = ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which does not check such requests
            return group
    group.topics = [_topic(state, request, asked.group_id, name, indexes) for name, indexes in named]
    return group


def _may_see(state: ClusterState, request: Request, name: str) -> bool:
    return state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _topic(state: ClusterState, request: Request, group_id: str, name: str, indexes: list[int]) -> Any:
    response_type = protocol.DescribeShareGroupOffsetsResponse
    response = response_type.DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    kind = response_type.DescribeShareGroupOffsetsResponsePartition
    if not _may_see(state, request, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.partitions = [
            kind(partition_index=index, start_offset=UNKNOWN, error_code=code, error_message=code.message)
            for index in indexes
        ]
        return response
    topic = state.topics.by_name.get(name)
    if topic is not None:
        response.topic_id = topic.topic_id
    response.partitions = [_partition(state, group_id, topic, index) for index in indexes]
    return response


def _partition(state: ClusterState, group_id: str, topic: Topic | None, index: int) -> Any:
    kind = protocol.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
    states: ShareStates = state.part(ShareStates)
    stored = None if topic is None else states.of(group_id, topic.topic_id, index)
    if topic is None or stored is None:
        return kind(partition_index=index, start_offset=UNKNOWN)
    response = kind(partition_index=index, start_offset=stored.start, leader_epoch=stored.leader_epoch)
    if UNKNOWN not in (stored.start, stored.complete):
        response.lag = topic.partitions[index].high_watermark - stored.start - stored.complete
    return response
