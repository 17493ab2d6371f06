"""ConsumerGroupHeartbeat (68): joins, stays in and leaves a group of the consumer protocol. See KIP-848, KIP-1082."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.consumer_member import LEFT_FOR_A_WHILE
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_def import elements
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from kafwire.protocol import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

LEAVES = -1


def handle(state: ClusterState, request: Request) -> Response:
    """Respond at once: no heartbeat waits for another member."""
    response = protocol.ConsumerGroupHeartbeatResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not state.features.get("group.version"):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        _check(state, request)
        code = groups.refuses(request, request.message.group_id)
        if code:
            return response(error_code=code, error_message=ErrorCode(code).message)
        return groups.heartbeat(request)
    except Refusal as refusal:
        return response(error_code=refusal.code, error_message=refusal.message)


def _check(state: ClusterState, request: Request) -> None:
    message = request.message
    epoch = message.member_epoch
    has_id = request.version >= ConsumerGroupHeartbeatRequest.OWN_ID or epoch > 0 or epoch == LEAVES
    if has_id and not message.member_id.strip():
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    for name, value in (
        ("GroupId", message.group_id),
        ("InstanceId", message.instance_id),
        ("RackId", message.rack_id),
    ):
        if value is not None and not value.strip():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if epoch == 0:
        _check_first(message)
    elif epoch == LEFT_FOR_A_WHILE and message.instance_id is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEFT_FOR_A_WHILE:
        raise Refusal(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    known = elements(state.config("group.consumer.assignors"))
    if message.server_assignor is not None and message.server_assignor not in known:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {message.server_assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def _check_first(message: protocol.ConsumerGroupHeartbeatRequest) -> None:
    """Refuse a first heartbeat that is not complete."""
    if message.rebalance_timeout_ms == -1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if message.topic_partitions is None or message.topic_partitions:
        raise Refusal(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
