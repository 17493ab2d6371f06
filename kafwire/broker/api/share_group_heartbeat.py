"""ShareGroupHeartbeat (76): joins, stays in and leaves a share group. See KIP-932."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._share_requests import check_member_id
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

LEAVES = -1


def handle(state: ClusterState, request: Request) -> Response:
    """Respond at once: no heartbeat waits for another member."""
    response = protocol.ShareGroupHeartbeatResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not state.features.get("share.version"):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=ErrorCode.UNSUPPORTED_VERSION.message)
    try:
        check_member_id(request.message.member_id)
        if not _may_see_topics(state, request):
            return response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check(request)
        code = groups.refuses(request, request.message.group_id)
        if code:
            return response(error_code=code, error_message=ErrorCode(code).message)
        return groups.share_heartbeat(request)
    except Refusal as refusal:
        return response(error_code=refusal.code, error_message=refusal.message)


def _may_see_topics(state: ClusterState, request: Request) -> bool:
    names = request.message.subscribed_topic_names or ()
    return all(state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


def _check(request: Request) -> None:
    message = request.message
    for name, value in (("MemberId", message.member_id), ("GroupId", message.group_id), ("RackId", message.rack_id)):
        if value is not None and not value.strip():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if message.member_epoch == 0:
        if not message.subscribed_topic_names:
            raise Refusal(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    elif message.member_epoch < LEAVES:
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
