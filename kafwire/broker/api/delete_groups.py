"""DeleteGroups (42): deletes groups without members, with their offsets. See KIP-229."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Delete each group that may be deleted."""
    response = protocol.DeleteGroupsResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    return response(
        results=[
            response.DeletableGroupResult(
                group_id=group_id, error_code=groups.refuses(request, group_id) or groups.delete(group_id)
            )
            for group_id in dict.fromkeys(request.message.groups_names)
        ]
    )
