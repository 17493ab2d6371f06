"""ConsumerGroupDescribe (69): groups of the consumer protocol, and their members. See KIP-848, KIP-1099.

A client that looks for groups of both types sends this first, and DescribeGroups for groups that are not found.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.consumer_member import ConsumerMember, TopicPartition
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.groups.consumer_group import ConsumerGroup
    from kafwire.broker.state import ClusterState

CLASSIC, CONSUMER = 0, 1  # the types of members, by their protocol


def handle(state: ClusterState, request: Request) -> Response:
    """Describe each group. As in Kafka, groups without a name come first."""
    response = protocol.ConsumerGroupDescribeResponse
    names = sorted(request.message.group_ids, key=bool)
    return response(groups=[_describe(state, request, group_id) for group_id in names])


def _describe(state: ClusterState, request: Request, group_id: str) -> Any:
    groups: GroupCoordinator = state.part(GroupCoordinator)
    found = protocol.ConsumerGroupDescribeResponse.DescribedGroup(group_id=group_id)
    found.error_code = groups.refuses(request, group_id) if group_id else ErrorCode.INVALID_GROUP_ID
    if found.error_code:
        return found
    group = groups.consumer(group_id)
    if group is None:
        found.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        is_classic = groups.exists(group_id)
        found.error_message = f"Group {group_id} {'is not a consumer group' if is_classic else 'not found'}."
        return found
    found.group_state = group.state.value
    found.group_epoch, found.assignment_epoch = group.epoch, group.assignment_epoch
    found.assignor_name = group.assignor
    found.members = [_member(state, group, each) for each in group.members.values()]
    topics = {
        topic.topic_name
        for member in found.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not all(state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        found.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found.error_message = "The group has described topic(s) that the client is not authorized to describe."
        found.members = []
    return found


def _member(state: ClusterState, group: ConsumerGroup, member: ConsumerMember) -> Any:
    return protocol.ConsumerGroupDescribeResponse.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(state, [*member.assigned, *member.revoking]),
        target_assignment=_assignment(state, group.targets.get(member.member_id, ())),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(state: ClusterState, partitions: Collection[TopicPartition]) -> Any:
    response = protocol.ConsumerGroupDescribeResponse
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
