"""ConsumerGroupDescribe (69): groups of the consumer protocol (KIP-848). There are none here: all groups are classic.

A client that looks for groups of both kinds asks this first, and asks with DescribeGroups for what is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.groups.group_coordinator import GroupCoordinator
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Say of each group that it is not one of these. As in Kafka, groups without a name come first."""
    response = protocol.ConsumerGroupDescribeResponse
    names = sorted(request.message.group_ids, key=bool)
    return response(groups=[_describe(state, request, group_id) for group_id in names])


def _describe(state: ClusterState, request: Request, group_id: str) -> Any:
    groups: GroupCoordinator = state.part(GroupCoordinator)
    found = protocol.ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id)
    found.error_code = groups.refuses(request, group_id) if group_id else ErrorCode.INVALID_GROUP_ID
    if not found.error_code:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_classic = groups.exists(group_id)
        found.error_message = f"Group {group_id} {'is not a consumer group' if is_classic else 'not found'}."
    return found
