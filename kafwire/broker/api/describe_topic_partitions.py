"""DescribeTopicPartitions (75): topics in order of their names, page by page. See KIP-966."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.security.authorized_operations import operations
from kafwire.broker.topics.topics import name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

MOST = 2000  # max.request.partition.size.limit


def handle(state: ClusterState, request: Request) -> Response:
    """Return a page. Requested topics that the client may not describe come after it."""
    response_type, message = protocol.DescribeTopicPartitionsResponse, request.message
    cursor = message.cursor
    begin = "" if cursor is None else cursor.topic_name
    names = [topic.name for topic in message.topics] or list(state.topics.by_name)
    names = sorted({name for name in names if name >= begin})
    if cursor is not None and (cursor.partition_index < 0 or (message.topics and begin not in names)):
        code = ErrorCode.INVALID_REQUEST
        return response_type(
            topics=[
                response_type.DescribeTopicPartitionsResponseTopic(error_code=code, name=t.name) for t in message.topics
            ]
        )
    allowed = [name for name in names if state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name)]
    left = max(min(MOST, message.response_partition_limit), 1)
    response: Any = response_type()
    for name in allowed:
        if left <= 0:
            response.next_cursor = response_type.Cursor(topic_name=name, partition_index=0)
            break
        first = cursor.partition_index if cursor is not None and name == begin else 0
        topic, rest = _describe(state, request, name, first, left)
        response.topics.append(topic)
        left -= len(topic.partitions)
        if rest is not None:
            response.next_cursor = response_type.Cursor(topic_name=name, partition_index=rest)
            break
    if message.topics and len(allowed) < len(names):
        shown = set(allowed)
        response.topics += [
            response_type.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
            )
            for name in names
            if name not in shown
        ]
    return response


def _describe(state: ClusterState, request: Request, name: str, first: int, left: int) -> tuple[Any, int | None]:
    """Return a topic from a partition on, and the partition where the next page begins."""
    found = protocol.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(name=name)
    topic = state.topics.find(name)
    if topic is None:  # others get their operations after the handler
        found.topic_authorized_operations = operations(state, request, ResourceType.TOPIC, name)
        unknown = name_problem(name) is None
        found.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else ErrorCode.INVALID_TOPIC_EXCEPTION
        return found, None
    found.topic_id, found.is_internal = topic.topic_id, topic.is_internal
    found.partitions = [_partition(state, partition) for partition in topic.partitions[first : first + left]]
    return found, first + left if first + left < len(topic.partitions) else None


def _partition(state: ClusterState, partition: Partition) -> Any:
    kind = protocol.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
    return kind(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else 0,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[n for n in partition.replicas if n not in state.nodes or not state.nodes[n].is_up],
    )
