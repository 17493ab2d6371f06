"""AlterPartitionReassignments (45): moves replicas to other brokers, or cancels a move. See KIP-455, KIP-860."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.placement import assignment_problem
from kafwire.broker.topics.reassignments import Reassignments
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Begin or cancel each partition's move."""
    response, message = protocol.AlterPartitionReassignmentsResponse, request.message
    allow = message.allow_replication_factor_change
    topics = []
    for asked in message.topics:
        parts = []
        for each in asked.partitions:
            part = response.ReassignablePartitionResponse(partition_index=each.partition_index, error_message=None)
            problem = _alter(state, asked.name, each, allow_change=allow)
            if problem is not None:
                part.error_code, part.error_message = problem
            parts.append(part)
        topics.append(response.ReassignableTopicResponse(name=asked.name, partitions=parts))
    # For an empty request the broker itself makes the response, with the default.
    return response(allow_replication_factor_change=allow or not topics, error_message=None, responses=topics)


def _alter(state: ClusterState, name: str, asked: Any, *, allow_change: bool) -> tuple[ErrorCode, str | None] | None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    moves: Reassignments = state.part(Reassignments)
    if state.topics.find(name) is None:
        return unknown, f"Unable to find a topic named {name}."
    partition = state.topics.partition(name, asked.partition_index)
    if partition is None:
        return unknown, f"Unable to find partition {name}:{asked.partition_index}."
    if asked.replicas is None:
        return None if moves.cancel(partition) else (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    problem = assignment_problem(state, asked.replicas)
    if problem is not None:
        return problem
    move = moves.ongoing.get(partition)
    factor = len(partition.replicas if move is None else move.before)
    if not allow_change and len(asked.replicas) != factor:
        return ErrorCode.INVALID_REPLICATION_FACTOR, (
            f"The replication factor is changed from {factor} to {len(asked.replicas)}"
        )
    moves.begin(partition, asked.replicas)
    return None
