"""OffsetDelete (47): offsets of a group are forgotten. See KIP-496."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.offsets import OffsetStore
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Forget those of topics that no member of the group has subscribed to."""
    message, response = request.message, protocol.OffsetDeleteResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    store: OffsetStore = state.part(OffsetStore)
    refusal = groups.refuses(request, message.group_id)
    if not refusal and not groups.exists(message.group_id):
        refusal = ErrorCode.GROUP_ID_NOT_FOUND
    if not refusal:
        refusal = groups.check_offset_delete(message.group_id)
    if refusal:
        return response(error_code=refusal)
    topics = []
    for topic in message.topics:
        parts = []
        for asked in topic.partitions:
            index = asked.partition_index
            code: int = 0
            if state.topics.partition(topic.name, index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif groups.is_subscribed(message.group_id, topic.name):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            parts.append(response.OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            if not code:
                store.delete(message.group_id, (topic.name, index))
        topics.append(response.OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
    if state.before_4 and not store.has_offsets(message.group_id):
        groups.forget_if_empty(message.group_id)
    return response(topics=topics)
