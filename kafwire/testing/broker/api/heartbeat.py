"""Heartbeat (12): a member of a classic group is alive. See KIP-345."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.classic_group import GroupState
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Keep the member's session, and say whether it has to join again."""
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    code = groups.refuses(request, message.group_id)
    group = groups.groups.get(message.group_id)
    if not code and group is None:
        code = ErrorCode.UNKNOWN_MEMBER_ID
    if not code and group is not None:
        code = group.refuses_member(message.member_id, message.group_instance_id)
        if not code and message.generation_id != group.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code:
            group.keep_alive(group.members[message.member_id])
            if group.state is GroupState.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
    return protocol.HeartbeatResponse(error_code=code)
