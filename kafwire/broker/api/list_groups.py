"""ListGroups (16): the groups that a broker coordinates. See KIP-518 (states), KIP-848 (types)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the groups that match the filters, which ignore the letters' case."""
    message, response = request.message, protocol.ListGroupsResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if any(state.coordinator(group_id) == request.node for group_id in groups.loading):
        return response(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {name.strip().lower() for name in message.states_filter}
    types = {name.strip().lower() for name in message.types_filter}
    return response(
        groups=[
            response.ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=group.type.value,
            )
            for group_id, group in groups.groups.items()
            if state.coordinator(group_id) == request.node
            and (not states or group.state.filter_name in states)
            and (not types or group.type.value in types)
        ]
    )
