"""SyncGroup (14): the assignments of a classic group's generation. See KIP-345, KIP-559."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import LATER, Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import SyncGroupRequest

if TYPE_CHECKING:
    from kafwire.broker.groups.classic_group import ClassicGroup
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Respond when the leader has sent the assignments."""
    message, response = request.message, protocol.SyncGroupResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if request.version >= SyncGroupRequest.PROTOCOL and (
        message.protocol_type is None or message.protocol_name is None
    ):
        return response(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not message.group_id:
        return response(error_code=ErrorCode.INVALID_GROUP_ID)
    code = groups.refuses(request, message.group_id)
    if code:
        return response(error_code=code)
    mixed = groups.mixed(message.group_id)
    if mixed is not None:
        code, assignment = mixed.sync(message)
        said = {} if code else {"protocol_type": message.protocol_type, "protocol_name": message.protocol_name}
        return response(error_code=code, assignment=assignment, **said)
    group = groups.classic(message.group_id)
    if group is None:
        return response(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    code = _refuses(request, group)
    if code:
        return response(error_code=code)
    protocol_type, protocol_name = group.protocol_type, group.protocol_name

    def respond(error_code: int, assignment: bytes) -> None:
        found = response(error_code=error_code, assignment=assignment)
        if not error_code:
            found.protocol_type, found.protocol_name = protocol_type, protocol_name
        state.reply(request, found)

    given = {each.member_id: bytes(each.assignment) for each in message.assignments}
    group.sync(group.members[message.member_id], given, respond)
    return LATER


def _refuses(request: Request, group: ClassicGroup) -> int:
    message = request.message
    code = group.refuses_member(message.member_id, message.group_instance_id)
    if not code and message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    said = (message.protocol_type, group.protocol_type), (message.protocol_name, group.protocol_name)
    if not code and any(None not in (its, known) and its != known for its, known in said):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return code
