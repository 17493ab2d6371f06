"""SyncGroup (14): the assignments of a classic group's generation. See KIP-345, KIP-559."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.request import LATER, Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Answer when the leader has brought the assignments."""
    message, response = request.message, protocol.SyncGroupResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    code = groups.refuses(request, message.group_id)
    group = groups.groups.get(message.group_id)
    if not code and group is None:
        code = ErrorCode.UNKNOWN_MEMBER_ID
    if code or group is None:
        return response(error_code=code)
    code = group.refuses_member(message.member_id, message.group_instance_id)
    if not code and message.generation_id != group.generation:
        code = ErrorCode.ILLEGAL_GENERATION
    if not code and (
        (message.protocol_type is not None and message.protocol_type != group.protocol_type)
        or (message.protocol_name is not None and message.protocol_name != group.protocol_name)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code:
        return response(error_code=code)
    protocol_type, protocol_name = group.protocol_type, group.protocol_name

    def answer(error_code: int, assignment: bytes) -> None:
        found = response(error_code=error_code, assignment=assignment)
        if not error_code:
            found.protocol_type, found.protocol_name = protocol_type, protocol_name
        state.reply(request, found)

    given = [(each.member_id, bytes(each.assignment)) for each in message.assignments]
    group.sync(group.members[message.member_id], given, answer)
    return LATER
