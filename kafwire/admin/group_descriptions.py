"""Descriptions of groups, read from the responses of the four APIs that describe them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kafwire.admin.group_types import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupDescription,
    GroupMember,
    InternalTopic,
    StreamsAssignment,
    StreamsMember,
    StreamsSubtopology,
    StreamsTask,
    StreamsTopology,
    TopologyDescription,
    TopologyNode,
)
from kafwire.admin.operations import operations_of
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assigned, member_of
from kafwire.errors import ProtocolError
from kafwire.types import TopicPartition

__all__ = ["classic_group", "consumer_group", "share_group", "source_topics", "streams_group"]

_MEMBER_PROTOCOLS = {0: CLASSIC, 1: CONSUMER}  # KIP-1099
_NODE_TYPES = {1: "source", 2: "processor", 3: "sink"}
_STATUSES = ("not_requested", "not_stored", "error", "available")


def classic_group(its: Any, coordinator: int) -> GroupDescription:
    """Read a group of DescribeGroups."""
    return GroupDescription(
        its.group_id,
        CLASSIC,
        its.group_state,
        coordinator,
        tuple(_classic_member(each, its.protocol_type) for each in its.members),
        assignor=its.protocol_data,
        protocol_type=its.protocol_type,
        authorized_operations=operations_of(its.authorized_operations),
    )


def _classic_member(its: Any, protocol_type: str) -> GroupMember:
    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    rack_id: str | None = None
    problem = ""
    if protocol_type == PROTOCOL_TYPE:
        try:  # the group's leader may be any client, with its own assignor
            partitions = tuple(TopicPartition(*where) for where in assigned(its.member_assignment))
            if its.member_metadata:
                subscription = member_of(its.member_id, its.group_instance_id, its.member_metadata)
                topics, rack_id = tuple(subscription.topics), subscription.rack
        except ProtocolError as error:
            problem = str(error)
    return GroupMember(
        its.member_id,
        its.group_instance_id,
        its.client_id,
        its.client_host,
        CLASSIC,
        None,
        partitions,
        topics=topics,
        rack_id=rack_id,
        problem=problem,
    )


def consumer_group(its: Any, coordinator: int) -> GroupDescription:
    """Read a group of ConsumerGroupDescribe."""
    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _MEMBER_PROTOCOLS.get(each.member_type),
            each.member_epoch,
            _partitions(each.assignment),
            _partitions(each.target_assignment),
            tuple(each.subscribed_topic_names),
            each.subscribed_topic_regex or None,
            each.rack_id,
        )
        for each in its.members
    )
    return _described(its, CONSUMER, coordinator, members, its.assignor_name)


def share_group(its: Any, coordinator: int) -> GroupDescription:
    """Read a group of ShareGroupDescribe."""
    members = tuple(
        GroupMember(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            SHARE,
            each.member_epoch,
            _partitions(each.assignment),
            topics=tuple(each.subscribed_topic_names),
            rack_id=each.rack_id,
        )
        for each in its.members
    )
    return _described(its, SHARE, coordinator, members, its.assignor_name)


def streams_group(its: Any, coordinator: int, existing: Collection[TopicPartition]) -> GroupDescription:
    """Read a group of StreamsGroupDescribe. `existing`: the partitions of its source topics that exist.

    A subtopology has as many tasks as its largest source topic has partitions, so a task may have a partition number
    that a smaller topic lacks.
    """
    sources = source_topics(its)
    members = tuple(_streams_member(each, sources, existing) for each in its.members)
    topology = None if its.topology is None else _topology(its)
    return _described(its, STREAMS, coordinator, members, its.assignor_name or "", topology)


def source_topics(its: Any) -> dict[str, list[str]]:
    """Return the topics that each subtopology of a streams group reads."""
    subtopologies = () if its.topology is None else its.topology.subtopologies or ()
    return {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies
    }


def _described(
    its: Any,
    kind: str,
    coordinator: int,
    members: tuple[GroupMember, ...],
    assignor: str,
    topology: StreamsTopology | None = None,
) -> GroupDescription:
    """Return a group of a type that has epochs."""
    return GroupDescription(
        its.group_id,
        kind,
        its.group_state,
        coordinator,
        members,
        assignor,
        kind,
        its.group_epoch,
        its.assignment_epoch,
        topology,
        operations_of(its.authorized_operations),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _streams_member(its: Any, sources: dict[str, list[str]], existing: Collection[TopicPartition]) -> GroupMember:
    assignment = _assignment(its.assignment)
    read = {
        TopicPartition(topic, task.partition)
        for task in assignment.active
        for topic in sources.get(task.subtopology_id, ())
    }
    return GroupMember(
        its.member_id,
        its.instance_id,
        its.client_id,
        its.client_host,
        CLASSIC if its.is_classic else STREAMS,
        its.member_epoch,
        tuple(sorted(where for where in read if where in existing)),
        rack_id=its.rack_id,
        streams=StreamsMember(
            its.topology_epoch,
            its.process_id,
            None if its.user_endpoint is None else (its.user_endpoint.host, its.user_endpoint.port),
            {tag.key: tag.value for tag in its.client_tags},
            assignment,
            _assignment(its.target_assignment),
            {StreamsTask(each.subtopology_id, each.partition): each.offset for each in its.task_offsets},
            {StreamsTask(each.subtopology_id, each.partition): each.offset for each in its.task_end_offsets},
        ),
    )


def _assignment(its: Any) -> StreamsAssignment:
    return StreamsAssignment(_tasks(its.active_tasks), _tasks(its.standby_tasks), _tasks(its.warmup_tasks))


def _tasks(given: Iterable[Any]) -> tuple[StreamsTask, ...]:
    return tuple(StreamsTask(each.subtopology_id, number) for each in given for number in each.partitions)


def _topology(its: Any) -> StreamsTopology:
    status = getattr(its, "topology_description_status", 0)
    description = getattr(its, "topology_description", None)
    return StreamsTopology(
        its.topology.epoch,
        tuple(
            StreamsSubtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.repartition_sink_topics),
                _internal_topics(each.repartition_source_topics),
                _internal_topics(each.state_changelog_topics),
            )
            for each in its.topology.subtopologies or ()
        ),
        None if description is None else _description(description),
        _STATUSES[status] if 0 <= status < len(_STATUSES) else "error",
    )


def _internal_topics(topics: Iterable[Any]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            {each.key: each.value for each in topic.topic_configs},
        )
        for topic in topics
    )


def _description(its: Any) -> TopologyDescription:
    return TopologyDescription(
        {each.subtopology_id: tuple(map(_node, each.nodes)) for each in its.subtopologies},
        tuple((_node(each.source), _node(each.processor)) for each in its.global_stores),
    )


def _node(its: Any) -> TopologyNode:
    return TopologyNode(
        its.name,
        _NODE_TYPES.get(its.node_type, "unknown"),
        tuple(its.source_topics),
        its.sink_topic,
        tuple(its.stores),
        tuple(its.successors),
    )
