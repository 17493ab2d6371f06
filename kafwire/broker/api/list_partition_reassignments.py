"""ListPartitionReassignments (46): the ongoing moves of replicas. See KIP-455."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.reassignments import Reassignments

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the ongoing moves, of all partitions or of some."""
    response, asked = protocol.ListPartitionReassignmentsResponse, request.message.topics
    wanted = None if asked is None else {(topic.name, index) for topic in asked for index in topic.partition_indexes}
    moves: Reassignments = state.part(Reassignments)
    topics: dict[str, list[Any]] = {}
    for partition, move in moves.ongoing.items():
        if wanted is None or (partition.topic.name, partition.index) in wanted:
            topics.setdefault(partition.topic.name, []).append(
                response.OngoingPartitionReassignment(
                    partition_index=partition.index,
                    replicas=list(partition.replicas),
                    adding_replicas=move.adding,
                    removing_replicas=move.removing,
                )
            )
    return response(
        error_message=None,
        topics=[response.OngoingTopicReassignment(name=name, partitions=parts) for name, parts in topics.items()],
    )
