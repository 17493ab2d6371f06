"""AlterShareGroupOffsets (91): moves the start offsets of a share group without members. See KIP-932."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api._share_requests import NOT_EMPTY, NOT_HERE
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.share.share_states import ShareStates
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Move the start of each partition. A missing group is created."""
    message, response = request.message, protocol.AlterShareGroupOffsetsResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not state.features.get("share.version"):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    code = groups.refuses(request, message.group_id) if message.group_id else ErrorCode.INVALID_GROUP_ID
    if code:
        return response(error_code=code, error_message=ErrorCode(code).message)
    try:
        group = groups.to_share(message.group_id, creates=True)
    except Refusal as refusal:
        return response(error_code=refusal.code, error_message=refusal.message)
    if group.state is not GroupState.EMPTY:
        return response(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=NOT_EMPTY)
    if any(asked.topic_name in state.topics.by_name for asked in message.topics):
        groups.add_share(group)
    return response(responses=[_alter(state, message.group_id, asked) for asked in message.topics])


def _alter(state: ClusterState, group_id: str, asked: Any) -> Any:
    response_type = protocol.AlterShareGroupOffsetsResponse
    states: ShareStates = state.part(ShareStates)
    response = response_type.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
    topic = state.topics.by_name.get(asked.topic_name)
    if topic is not None:
        response.topic_id = topic.topic_id
    for each in asked.partitions:
        part = response_type.AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
        response.partitions.append(part)
        if topic is None or each.partition_index >= len(topic.partitions):
            part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            part.error_message = NOT_HERE
            continue
        states.reset(group_id, topic.topic_id, each.partition_index, each.start_offset)
    return response
