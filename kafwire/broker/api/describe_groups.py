"""DescribeGroups (15): classic groups and their members. See KIP-345, KIP-1043."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import DescribeGroupsRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Describe each group."""
    return protocol.DescribeGroupsResponse(
        groups=[_describe(state, request, group_id) for group_id in request.message.groups]
    )


def _describe(state: ClusterState, request: Request, group_id: str) -> Any:
    response = protocol.DescribeGroupsResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    found = response.DescribedGroup(group_id=group_id)
    found.error_code = groups.refuses(request, group_id)
    if found.error_code:
        return found
    group = groups.classic(group_id)
    if group is None:
        found.group_state = GroupState.DEAD.value
        if request.version >= DescribeGroupsRequest.GROUP_NOT_FOUND:
            found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            is_other = groups.exists(group_id)
            found.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
        return found
    is_stable = group.state is GroupState.STABLE
    found.group_state = group.state.value
    found.protocol_type = group.protocol_type or ""
    found.protocol_data = (group.protocol_name or "") if is_stable else ""
    found.members = [
        response.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.host,
            member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return found
