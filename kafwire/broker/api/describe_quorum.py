"""DescribeQuorum (55): the controller, and the brokers that follow its log. See KIP-595, KIP-836, KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.metadata_log import NAME, MetadataLog
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the controller as the voter, and the other running brokers as observers."""
    response: Any = protocol.DescribeQuorumResponse
    asked = [(topic.topic_name, each.partition_index) for topic in request.message.topics for each in topic.partitions]
    if asked != [(NAME, 0)] or len(request.message.topics) != 1:
        return response(topics=[_unknown(topic) for topic in request.message.topics])
    log: MetadataLog = state.part(MetadataLog)
    leader, epoch = log.leader()
    end = log.end_offset

    has_nodes = request.version >= protocol.DescribeQuorumRequest.NODES

    def replica(node: int) -> Any:
        return response.ReplicaState(
            replica_id=node,
            **({"replica_directory_id": log.directory_id(node)} if has_nodes else {}),
            log_end_offset=end,
            last_fetch_timestamp=state.wall_ms,
            last_caught_up_timestamp=state.wall_ms,
        )

    running = [node.number for node in state.nodes.values() if node.is_up]
    partition = response.PartitionData(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        high_watermark=end,
        current_voters=[replica(node) for node in running if node == leader],
        observers=[replica(node) for node in running if node != leader],
    )
    listener = request.connection.listener
    host, port = state.nodes[leader].address(listener) if leader in state.nodes else ("", 0)
    nodes = [response.Node(node_id=leader, listeners=[response.Listener(name=listener, host=host, port=max(0, port))])]
    return response(
        topics=[response.TopicData(topic_name=NAME, partitions=[partition])], nodes=nodes if has_nodes else []
    )


def _unknown(topic: Any) -> Any:
    response: Any = protocol.DescribeQuorumResponse
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response.TopicData(
        topic_name=topic.topic_name,
        partitions=[
            response.PartitionData(
                partition_index=each.partition_index, error_code=code, current_voters=[], observers=[]
            )
            for each in topic.partitions
        ],
    )
