"""Members, tasks and topologies of streams groups in responses. See KIP-1071."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafwire import protocol
from kafwire.broker.groups.streams_member import StreamsMember, Tasks
from kafwire.broker.groups.streams_topics import ConfiguredTopology
from kafwire.broker.groups.streams_topology import InternalTopic, StreamsTopology, Task, failure


def task_ids(response: type[Any], tasks: Iterable[Task]) -> list[Any]:
    """Return tasks by subtopology. `response`: the class of the response."""
    return [
        response.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in _by_subtopology(tasks).items()
    ]


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return found


def endpoints(members: Iterable[StreamsMember], configured: ConfiguredTopology, counts: Mapping[str, int]) -> list[Any]:
    """Return the partitions whose records each member with an endpoint holds. `counts`: the partition counts of topics.

    Raises:
        Refusal: the topology is not configured, where Kafka fails.
    """
    response = protocol.StreamsGroupHeartbeatResponse
    return [
        response.EndpointToPartitions(
            user_endpoint=response.Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
            active_partitions=_partitions(member.active, configured, counts),
            standby_partitions=_partitions(member.standby, configured, counts),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(tasks: Iterable[Task], configured: ConfiguredTopology, counts: Mapping[str, int]) -> list[Any]:
    if configured.subtopologies is None:
        raise failure()
    found = []
    for name, indexes in _by_subtopology(tasks).items():
        subtopology = configured.subtopologies.get(name)
        if subtopology is None:
            raise failure()
        for topic in sorted({*subtopology.subtopology.inputs()}):
            if topic not in counts:
                raise failure()
            inside = [index for index in indexes if index < counts[topic]]
            if inside:
                found.append(protocol.StreamsGroupHeartbeatResponse.TopicPartition(topic=topic, partitions=inside))
    return found


def described_topology(topology: StreamsTopology, configured: ConfiguredTopology | None) -> Any:
    """Return a topology, with partition counts if it is configured and its topics exist."""
    response = protocol.StreamsGroupDescribeResponse
    ready = configured.subtopologies if configured is not None and configured.is_ready else None
    found = []
    for each in sorted(topology.subtopologies, key=lambda its: its.subtopology_id):
        counted = each if ready is None else ready[each.subtopology_id]
        found.append(
            response.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=sorted({*each.sources} if ready is not None else each.sources),
                repartition_sink_topics=sorted(
                    {*each.repartition_sinks} if ready is not None else each.repartition_sinks
                ),
                state_changelog_topics=_topics(counted.changelogs),
                repartition_source_topics=_topics(counted.repartition_sources),
            )
        )
    return response.Topology(epoch=topology.epoch, subtopologies=found)


def _topics(topics: Iterable[InternalTopic]) -> list[Any]:
    response = protocol.StreamsGroupDescribeResponse
    return [
        response.TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[response.KeyValue(key=key, value=value) for key, value in each.configs],
        )
        for each in sorted(topics)
    ]


def described_member(
    member: StreamsMember, target: Tasks, offsets: Mapping[Task, int], end_offsets: Mapping[Task, int]
) -> Any:
    """Return a member, its tasks, and the offsets that it has reported."""
    response = protocol.StreamsGroupDescribeResponse
    end = member.endpoint
    return response.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if end is None else response.Endpoint(host=end[0], port=end[1]),
        client_tags=[response.KeyValue(key=key, value=value) for key, value in member.tags.items()],
        task_offsets=_offsets(offsets),
        task_end_offsets=_offsets(end_offsets),
        assignment=response.Assignment(
            active_tasks=task_ids(response, member.active), standby_tasks=task_ids(response, member.standby)
        ),
        target_assignment=response.Assignment(
            active_tasks=task_ids(response, target.active), standby_tasks=task_ids(response, target.standby)
        ),
    )


def _offsets(offsets: Mapping[Task, int]) -> list[Any]:
    return [
        protocol.StreamsGroupDescribeResponse.TaskOffset(
            subtopology_id=task.subtopology_id, partition=task.partition, offset=offset
        )
        for task, offset in sorted(offsets.items())
    ]
