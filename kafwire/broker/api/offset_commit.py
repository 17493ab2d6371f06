"""OffsetCommit (8): commits a group's offsets. See KIP-848 (member epochs), KIP-1251 (topic ids, from version 10)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._partition_responses import PartitionResponses
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import OffsetCommitRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Commit the offsets that may be committed."""
    message, response = request.message, protocol.OffsetCommitResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    store: OffsetStore = state.part(OffsetStore)
    responses = PartitionResponses(response.OffsetCommitResponsePartition)
    known = []
    for topic in message.topics:
        name, unknown = name_of(state, topic.name, topic.topic_id)
        if unknown:
            responses.begin(topic)  # also if the request names no partitions
        for asked in topic.partitions:
            if not unknown and state.topics.partition(name, asked.partition_index) is not None:
                known.append((topic, name, asked))
            else:
                responses.add(topic, asked.partition_index, unknown or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = _refuses(state, request) if known else 0
    refusal = refusal or groups.check_partitions(
        message.group_id,
        message.member_id,
        message.generation_id_or_member_epoch,
        [(name, asked.partition_index) for _, name, asked in known],
    )
    longest = state.config_int("offset.metadata.max.bytes")
    for topic, name, asked in known:
        metadata = asked.committed_metadata or ""
        code = refusal or (ErrorCode.OFFSET_METADATA_TOO_LARGE if len(metadata.encode()) > longest else 0)
        responses.add(topic, asked.partition_index, code)
        if not code:
            groups.ensure(message.group_id)
            committed = Committed(asked.committed_offset, asked.committed_leader_epoch, metadata, state.wall_ms)
            store.commit(message.group_id, (name, asked.partition_index), committed)
    return response(
        topics=[
            response.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            for topic, parts in responses
        ]
    )


def _refuses(state: ClusterState, request: Request) -> int:
    """Return the error code for the whole request, or 0."""
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    refusal = groups.refuses(request, message.group_id)
    if not refusal:
        generation = message.generation_id_or_member_epoch
        refusal = groups.check_commit(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            generation,
            is_transactional=False,
            version=request.version,
        )
        if refusal == ErrorCode.ILLEGAL_GENERATION and not groups.exists(message.group_id):
            knows_code = request.version >= OffsetCommitRequest.MEMBER_EPOCHS and not state.before_4
            return ErrorCode.GROUP_ID_NOT_FOUND if knows_code else refusal
    return refusal


def name_of(state: ClusterState, name: str, topic_id: uuid.UUID) -> tuple[str, int]:
    """Return a topic's name, and the error code if it does not exist."""
    topic = state.topics.find(name, topic_id)
    if topic is not None:
        return topic.name, 0
    return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
