"""Metadata (3): brokers, topics and the leaders of their partitions. See KIP-516 (topic ids), KIP-430, KIP-700."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.security.authorized_operations import cluster_operations, topic_operations
from kafwire.broker.topics.topics import NO_TOPIC_ID, Topic, name_problem
from kafwire.errors import ErrorCode
from kafwire.protocol import MetadataRequest

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState


def is_name(name: str) -> bool:
    """True if a topic may have this name."""
    return name_problem(name) is None


def handle(state: ClusterState, request: Request) -> Response:
    """Return brokers and topics; missing topics are created, if both sides allow it."""
    message, response_type = request.message, protocol.MetadataResponse
    asked = message.topics or []
    if code := _names_problem(request.version, asked):
        refused = [
            response_type.MetadataResponseTopic(error_code=code, name=t.name or "", topic_id=t.topic_id) for t in asked
        ]
        return response_type(
            controller_id=-1,
            topics=refused,
            error_code=code if request.version >= MetadataRequest.ERROR_CODE else 0,
        )
    topics = []
    if message.topics is None:
        shown = [topic for topic in state.topics if _may(state, request, Operation.DESCRIBE, topic.name)]
        topics = [_describe(state, request, topic) for topic in shown]
    else:
        by_id = [each for each in asked if each.topic_id != NO_TOPIC_ID]  # with an id in the request, names are ignored
        topics = [
            _look_up(state, request, None if by_id else each.name, each.topic_id if by_id else NO_TOPIC_ID)
            for each in by_id or asked
        ]
    up = [node for node in state.nodes.values() if node.is_up]
    response: Any = response_type(
        brokers=[
            response_type.MetadataResponseBroker(node_id=node.number, host=host, port=port, rack=node.rack)
            for node in up
            for host, port in [node.address(request.connection.listener)]
        ],
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(state, request),
    )
    return response


def _names_problem(version: int, asked: list[Any]) -> int:
    if version < MetadataRequest.BY_TOPIC_ID and any(
        each.name is None or each.topic_id != NO_TOPIC_ID for each in asked
    ):
        return ErrorCode.INVALID_REQUEST
    is_nameless = any(each.name is None and each.topic_id == NO_TOPIC_ID for each in asked)
    return ErrorCode.UNKNOWN_SERVER_ERROR if is_nameless else 0


def _look_up(state: ClusterState, request: Request, name: str | None, topic_id: Any) -> Any:
    response = protocol.MetadataResponse
    topic = None if name == "" else state.topics.find(name, topic_id)
    known = name if topic is None else topic.name
    if known and not _may(state, request, Operation.DESCRIBE, known):
        # The response hides whether a named topic exists; a client with its id knows that already.
        return response.MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=NO_TOPIC_ID if name else topic_id
        )
    if topic is not None:
        return _describe(state, request, topic)
    if name is None:
        return response.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif not (request.message.allow_auto_topic_creation and state.config_is("auto.create.topics.enable")):
        pass
    elif not (
        state.allows(request, Operation.CREATE, ResourceType.CLUSTER) or _may(state, request, Operation.CREATE, name)
    ):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        # As in Kafka, where the controller creates the topic meanwhile.
        state.after(
            state.creation_ms, lambda: state.topics.find(name) or state.topics.create(
                name, state.config_int("num.partitions"), state.replication_factor()
            )
        )  # fmt: skip
    return response.MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=NO_TOPIC_ID,
        topic_authorized_operations=topic_operations(state, request, name),
    )


def _may(state: ClusterState, request: Request, operation: Operation, name: str) -> bool:
    return state.allows(request, operation, ResourceType.TOPIC, name)


def _describe(state: ClusterState, request: Request, topic: Topic) -> Any:
    response = protocol.MetadataResponse
    return response.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(state, partition) for partition in topic.partitions],
        topic_authorized_operations=topic_operations(state, request, topic.name),
    )


def _partition(state: ClusterState, partition: Partition) -> Any:
    kind = protocol.MetadataResponse.MetadataResponsePartition
    return kind(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else 0,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[n for n in partition.replicas if n not in state.nodes or not state.nodes[n].is_up],
    )
