"""OffsetFetch (9): committed offsets of groups. See KIP-447 (stable offsets), KIP-709 (several groups), KIP-848."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api.offset_commit import name_of
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import NOTHING, OffsetStore
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import OffsetFetchRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the offsets of each group."""
    message = request.message
    response: Any = protocol.OffsetFetchResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if request.version < OffsetFetchRequest.GROUPS:
        refusal = groups.refuses(request, message.group_id)
        topics = [] if refusal else _offsets(state, request, message.group_id, message.topics)
        return response(topics=topics, error_code=refusal)
    found = []
    for group in message.groups:
        refusal = groups.refuses(request, group.group_id) or groups.check_fetch(
            group.group_id, getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
        )
        topics = [] if refusal else _offsets(state, request, group.group_id, group.topics)
        found.append(response.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=refusal))
    return response(groups=found)


def _offsets(state: ClusterState, request: Request, group: str, asked: list[Any] | None) -> list[Any]:
    """Return the committed offsets of the requested partitions; None: of all."""
    response: Any = protocol.OffsetFetchResponse
    store: OffsetStore = state.part(OffsetStore)
    in_groups = request.version >= OffsetFetchRequest.GROUPS
    topic_kind = response.OffsetFetchResponseTopics if in_groups else response.OffsetFetchResponseTopic
    kind = response.OffsetFetchResponsePartitions if in_groups else response.OffsetFetchResponsePartition
    committed = store.of(group)
    no_id = uuid.UUID(int=0)
    wanted: list[tuple[str, uuid.UUID, list[int]]]
    if asked is None:
        names = sorted({name for name, _ in committed if state.topics.find(name) is not None})
        ids = {name: state.topics.by_name[name].topic_id for name in names}
        wanted = [(name, ids[name], sorted(index for n, index in committed if n == name)) for name in names]
    else:
        wanted = [(t.name, t.topic_id if in_groups else no_id, t.partition_indexes) for t in asked]
    wants_stable = request.version >= OffsetFetchRequest.STABLE and bool(request.message.require_stable)
    responses = []
    for given, topic_id, indexes in wanted:
        name, error = name_of(state, given, topic_id)
        parts = []
        for index in indexes:
            # A coordinator does not check whether such a partition exists.
            code = error if error == ErrorCode.UNKNOWN_TOPIC_ID else 0
            if wants_stable and store.is_unstable(group, (name, index)):
                code = ErrorCode.UNSTABLE_OFFSET_COMMIT
            its = NOTHING if code else committed.get((name, index), NOTHING)
            parts.append(
                kind(
                    partition_index=index,
                    committed_offset=its.offset,
                    committed_leader_epoch=its.leader_epoch,
                    metadata=its.metadata,
                    error_code=code,
                )
            )
        responses.append(topic_kind(name=given, partitions=parts))
        if in_groups:
            responses[-1].topic_id = topic_id
    return responses
