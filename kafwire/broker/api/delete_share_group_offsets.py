"""DeleteShareGroupOffsets (92): deletes the offsets of topics of a share group without members. See KIP-932."""

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
    """Delete the offsets of each topic. Topics with an error come first, as in Kafka."""
    message, response_type = request.message, protocol.DeleteShareGroupOffsetsResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    states: ShareStates = state.part(ShareStates)
    if not state.features.get("share.version"):
        return response_type(error_code=ErrorCode.UNSUPPORTED_VERSION)
    code = groups.refuses(request, message.group_id) if message.group_id else ErrorCode.INVALID_GROUP_ID
    if code:
        return response_type(error_code=code, error_message=ErrorCode(code).message)
    try:
        group = groups.to_share(message.group_id, creates=False, kind="Group")
    except Refusal as refusal:
        return response_type(error_code=refusal.code, error_message=refusal.message)
    if group.state is not GroupState.EMPTY:
        return response_type(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=NOT_EMPTY)
    if not states.is_known(message.group_id):
        return response_type()
    responses = [_delete(state, message.group_id, asked.topic_name) for asked in message.topics]
    return response_type(responses=sorted(responses, key=lambda response: not response.error_code))


def _delete(state: ClusterState, group_id: str, name: str) -> Any:
    response = protocol.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic(topic_name=name)
    states: ShareStates = state.part(ShareStates)
    topic = state.topics.by_name.get(name)
    if topic is None:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_message = NOT_HERE
    elif not states.forget(group_id, topic.topic_id):
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        response.error_message = "There is no offset information to delete."
    else:
        response.topic_id = topic.topic_id
    return response
