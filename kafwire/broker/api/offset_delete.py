"""OffsetDelete (47): deletes offsets of a group. See KIP-496."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._partition_answers import PartitionAnswers
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.request import Answer, Request
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
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
    answers = PartitionAnswers(response.OffsetDeleteResponsePartition)
    known = []
    for topic in message.topics:
        for asked in topic.partitions:
            if state.topics.partition(topic.name, asked.partition_index) is not None:
                known.append((topic, asked.partition_index))
            else:
                answers.add(topic, asked.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic, index in known:
        subscribed = groups.is_subscribed(message.group_id, topic.name)
        answers.add(topic, index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else 0)
        if not subscribed:
            store.delete(message.group_id, (topic.name, index))
    if state.before_4 and not store.has_offsets(message.group_id):
        groups.forget_if_empty(message.group_id)
    return response(
        topics=[response.OffsetDeleteResponseTopic(name=topic.name, partitions=parts) for topic, parts in answers]
    )
