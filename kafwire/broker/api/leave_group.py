"""LeaveGroup (13): removes members from a classic group. See KIP-345 (several at once), KIP-800 (reasons)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import LeaveGroupRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Remove all of the members, and then rebalance."""
    message, response = request.message, protocol.LeaveGroupResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    code = groups.refuses(request, message.group_id) if message.group_id else ErrorCode.INVALID_GROUP_ID
    if code:
        return response(error_code=code)
    several = request.version >= LeaveGroupRequest.MEMBERS
    leaving: list[tuple[str, str | None]] = (
        [(each.member_id, each.group_instance_id) for each in message.members]
        if several
        else [(message.member_id, None)]
    )
    group = groups.groups.get(message.group_id)
    codes = [int(ErrorCode.UNKNOWN_MEMBER_ID)] * len(leaving) if group is None else group.leave_classic(leaving)
    if not several:
        return response(error_code=codes[0])
    return response(
        members=[
            response.MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
            for (member_id, instance_id), code in zip(leaving, codes, strict=True)
        ]
    )
