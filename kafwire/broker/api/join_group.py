"""JoinGroup (11): joins a classic group. See KIP-62, KIP-345 (static members), KIP-394, KIP-559, KIP-800, KIP-814."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.classic_member import Joined, member_of
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import LATER, Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import JoinGroupRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Respond when all members have joined."""
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    least, most = (state.config_int(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
    if not message.group_id:
        return _response(request, Joined(ErrorCode.INVALID_GROUP_ID, message.member_id))
    if not least <= message.session_timeout_ms <= most:
        return _response(request, Joined(ErrorCode.INVALID_SESSION_TIMEOUT, message.member_id))
    code = groups.refuses(request, message.group_id)
    if code:
        return _response(request, Joined(code, ""))
    if not groups.can_be_classic(message.group_id):
        return _response(request, Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    joined = groups.join_mixed(request)
    if joined is not None:
        return _response(request, joined)
    if message.member_id and not groups.exists(message.group_id):
        return _response(request, Joined(ErrorCode.UNKNOWN_MEMBER_ID, message.member_id))
    groups.to_join(message.group_id).join(
        member_of(request), lambda joined: state.reply(request, _response(request, joined)), version=request.version
    )
    return LATER


def _response(request: Request, joined: Joined) -> Any:
    response = protocol.JoinGroupResponse
    no_name = None if request.version >= JoinGroupRequest.NULL_PROTOCOL else ""
    return response(
        error_code=joined.error_code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=no_name if joined.protocol_name is None else joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            response.JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )
