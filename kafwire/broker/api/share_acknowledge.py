"""ShareAcknowledge (79): acknowledgements of a share group's member for its records. See KIP-932, KIP-1222."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._share_requests import acknowledged, check_member
from kafwire.broker.request import Request, Response
from kafwire.broker.share.share_partitions import SharePartitions
from kafwire.broker.share.share_sessions import CLOSES, OPENS
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Respond when all acknowledgements are applied."""
    message, response = request.message, protocol.ShareAcknowledgeResponse
    partitions: SharePartitions = state.part(SharePartitions)
    if not state.features.get("share.version"):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        check_member(message)
        member, epoch = (message.group_id, message.member_id), message.share_session_epoch
        if epoch == OPENS:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
        partitions.sessions(request.node).find(member, epoch)
    except Refusal as refusal:
        return response(error_code=refusal.code, error_message=refusal.message)
    results = acknowledged(state, request)
    if epoch == CLOSES:
        partitions.close(request.node, member)
    topics = [
        response.ShareAcknowledgeTopicResponse(
            topic_id=topic_id,
            partitions=[
                response.PartitionData(
                    partition_index=place[1], error_code=results[place][0], error_message=results[place][1]
                )
                for place in places
            ],
        )
        for topic_id, places in itertools.groupby(results, key=lambda place: place[0])
    ]
    return response(responses=topics, acquisition_lock_timeout_ms=partitions.lock_ms(message.group_id))
