"""Heartbeat (12): keeps a member of a classic group alive. See KIP-345."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Keep the member's session, and return an error if the member must join again."""
    return protocol.HeartbeatResponse(error_code=_beat(state, request))


def _beat(state: ClusterState, request: Request) -> int:
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    code = groups.refuses(request, message.group_id)
    if code:  # while its group is loading, the member is unknown, but may well be in it
        return 0 if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
    mixed = groups.mixed(message.group_id)
    if mixed is not None:
        return mixed.beat(message)
    group = groups.classic(message.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.refuses_member(message.member_id, message.group_instance_id)
    if code:
        return code
    if message.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.keep_alive(group.members[message.member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else 0
