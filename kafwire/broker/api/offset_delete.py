"""OffsetDelete (47): deletes offsets of a group. See KIP-496."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._partition_responses import PartitionResponses
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Delete the offsets of topics to which no member of the group subscribes."""
    message, response = request.message, protocol.OffsetDeleteResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    store: OffsetStore = state.part(OffsetStore)
    refusal: int = ErrorCode.INVALID_GROUP_ID if not message.group_id else groups.refuses(request, message.group_id)
    if not refusal and not groups.exists(message.group_id):
        refusal = ErrorCode.GROUP_ID_NOT_FOUND
    if not refusal:
        refusal = groups.check_offset_delete(message.group_id)
    if refusal:
        return response(error_code=refusal)
    responses = PartitionResponses(response.OffsetDeleteResponsePartition)
    known = []
    for topic in message.topics:
        for asked in topic.partitions:
            if state.topics.partition(topic.name, asked.partition_index) is not None:
                known.append((topic, asked.partition_index))
            else:
                responses.add(topic, asked.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic, index in known:
        subscribed = groups.is_subscribed(message.group_id, topic.name)
        responses.add(topic, index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else 0)
        if not subscribed:
            store.delete(message.group_id, (topic.name, index))
    if state.before_4 and not store.has_offsets(message.group_id):
        groups.forget_if_empty(message.group_id)
    return response(
        topics=[response.OffsetDeleteResponseTopic(name=topic.name, partitions=parts) for topic, parts in responses]
    )
