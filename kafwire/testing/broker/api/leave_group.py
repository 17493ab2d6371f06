"""LeaveGroup (13): members leave a classic group. See KIP-345 (several at once), KIP-800 (reasons)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.classic_group import ClassicGroup
    from kafwire.testing.broker.state import ClusterState

SEVERAL = 3


def handle(state: ClusterState, request: Request) -> Answer:
    """Remove each of the members."""
    message, response = request.message, protocol.LeaveGroupResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    code = groups.refuses(request, message.group_id)
    group = groups.groups.get(message.group_id)
    if code:
        return response(error_code=code)
    if request.version < SEVERAL:
        return response(error_code=_leave(group, message.member_id, None))
    return response(
        members=[
            response.MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=_leave(group, each.member_id, each.group_instance_id),
            )
            for each in message.members
        ]
    )


def _leave(group: ClassicGroup | None, member_id: str, instance_id: str | None) -> int:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if instance_id is not None and not member_id:
        member_id = group.static.get(instance_id, "")
    if group.pending_ends(member_id):
        return 0
    code = group.refuses_member(member_id, instance_id)
    if not code:
        group.remove(group.members[member_id])
    return code
