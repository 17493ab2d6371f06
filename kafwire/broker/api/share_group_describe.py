"""ShareGroupDescribe (77): share groups and their members. See KIP-932."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.share_assignor import SIMPLE
from kafwire.broker.groups.share_member import ShareMember
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Describe each group. As in Kafka, groups without a name come first."""
    response = protocol.ShareGroupDescribeResponse
    names = sorted(request.message.group_ids, key=bool)
    if not state.features.get("share.version"):
        code = ErrorCode.UNSUPPORTED_VERSION
        return response(groups=[response.DescribedGroup(group_id=each, error_code=code) for each in names])
    return response(groups=[_describe(state, request, group_id) for group_id in names])


def _describe(state: ClusterState, request: Request, group_id: str) -> Any:
    groups: GroupCoordinator = state.part(GroupCoordinator)
    found = protocol.ShareGroupDescribeResponse.DescribedGroup(group_id=group_id)
    found.error_code = groups.refuses(request, group_id) if group_id else ErrorCode.INVALID_GROUP_ID
    if found.error_code:
        return found
    group = groups.share(group_id)
    if group is None:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_other = groups.exists(group_id)
        found.error_message = f"Group {group_id} {'is not a share group' if is_other else 'not found'}."
        return found
    found.group_state = group.state.value
    found.group_epoch, found.assignment_epoch = group.epoch, group.assignment_epoch
    found.assignor_name = SIMPLE
    found.members = [_member(state, each) for each in group.members.values()]
    topics = {topic.topic_name for member in found.members for topic in member.assignment.topic_partitions}
    if not all(state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        found = protocol.ShareGroupDescribeResponse.DescribedGroup(group_id=group_id)
        found.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found.error_message = "The group has described topic(s) that the client is not authorized to describe."
    return found


def _member(state: ClusterState, member: ShareMember) -> Any:
    return protocol.ShareGroupDescribeResponse.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.host,
        subscribed_topic_names=sorted(member.topics),
        assignment=_assignment(state, member.assigned),
    )


def _assignment(state: ClusterState, partitions: Collection[TopicPartition]) -> Any:
    response = protocol.ShareGroupDescribeResponse
    by_topic: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in sorted(partitions, key=lambda place: (place[0].int, place[1])):
        by_topic.setdefault(topic_id, []).append(index)
    known = state.topics.by_id
    return response.Assignment(
        topic_partitions=[
            response.TopicPartitions(topic_id=each, topic_name=known[each].name, partitions=its)
            for each, its in by_topic.items()
            if each in known
        ]
    )
