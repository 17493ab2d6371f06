"""StreamsGroupDescribe (89): streams groups, their topologies, members and tasks. See KIP-1071, KIP-1331, KIP-1357."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.errors import ErrorCode
from kafwire.protocol import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

NOT_STORED = 1  # the status of a topology's description: a broker without the plugin stores none


def handle(state: ClusterState, request: Request) -> Response:
    """Describe each group. As in Kafka, groups without a name come first."""
    response = protocol.StreamsGroupDescribeResponse
    names = sorted(request.message.group_ids, key=bool)
    if not state.features.get("streams.version"):
        code = ErrorCode.UNSUPPORTED_VERSION
        return response(groups=[response.DescribedGroup(group_id=each, error_code=code) for each in names])
    return response(groups=[_describe(state, request, group_id) for group_id in names])


def _describe(state: ClusterState, request: Request, group_id: str) -> Any:
    groups: GroupCoordinator = state.part(GroupCoordinator)
    kind = protocol.StreamsGroupDescribeResponse.DescribedGroup
    code = groups.refuses(request, group_id) if group_id else ErrorCode.INVALID_GROUP_ID
    if code:
        return kind(group_id=group_id, error_code=code)
    group = groups.streams(group_id)
    if group is None:
        text = f"Group {group_id} {'is not a streams group' if groups.exists(group_id) else 'not found'}."
        return kind(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
    found = group.described()
    topics = [
        name
        for each in found.topology.subtopologies
        for name in [
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in [*each.repartition_source_topics, *each.state_changelog_topics]),
        ]
    ]
    if not all(state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return kind(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The described group uses topics that the client is not authorized to describe.",
        )
    if (
        request.version >= StreamsGroupDescribeRequest.TOPOLOGY_DESCRIPTION
        and request.message.include_topology_description
    ):
        found.topology_description_status = NOT_STORED
    return found
