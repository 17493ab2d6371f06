"""ElectLeaders (43): makes the preferred replica the leader, or any running one. See KIP-183, KIP-460."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.log.partition import NO_LEADER
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = "Leader election not needed for topic partition."

Problem = tuple[ErrorCode, str | None]


def handle(state: ClusterState, request: Request) -> Response:
    """Elect leaders where needed; if the request means all partitions, the response leaves out the others."""
    response, message = protocol.ElectLeadersResponse, request.message
    asked = message.topic_partitions
    wanted = (
        [(topic.name, range(len(topic.partitions))) for topic in state.topics]
        if asked is None
        else [(each.topic, each.partitions) for each in asked]
    )
    if message.election_type not in (PREFERRED, UNCLEAN):
        problem: Problem = (ErrorCode.INVALID_REQUEST, f"Unknown election type {message.election_type}")
        return response(
            error_code=ErrorCode.INVALID_REQUEST,
            replica_election_results=[_results(name, [(i, problem) for i in parts]) for name, parts in wanted],
        )
    results = []
    for name, parts in wanted:
        found = [(index, _elect(state, message.election_type, name, index)) for index in parts]
        if asked is None:
            found = [each for each in found if each[1] is None or each[1][0] != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(_results(name, found))
    return response(replica_election_results=results)


def _results(name: str, found: list[tuple[int, Problem | None]]) -> Any:
    response = protocol.ElectLeadersResponse
    return response.ReplicaElectionResult(
        topic=name,
        partition_result=[
            response.PartitionResult(partition_id=index, error_code=code, error_message=text)
            for index, problem in found
            for code, text in [problem or (0, None)]
        ],
    )


def _elect(state: ClusterState, kind: int, name: str, index: int) -> Problem | None:
    topic = state.topics.find(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    partition = state.topics.partition(name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    preferred = partition.replicas[0]
    if partition.leader == preferred or (kind == UNCLEAN and partition.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED
    if kind == PREFERRED:
        if preferred not in partition.isr or not state.replication.can_lead(preferred):
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None
        _lead(partition, preferred)
        return None
    able = [node for node in partition.replicas if state.replication.can_lead(node)]
    if not able:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, None
    in_sync = [node for node in able if node in partition.isr]
    if not in_sync:
        partition.isr = [able[0]]
    partition.lead((in_sync or able)[0])
    for node in able:
        state.replication.come(node)
    return None


def _lead(partition: Partition, node: int) -> None:
    """Change the leader cleanly: no record is lost, since the new leader gets all records first."""
    partition.replicate(node)
    partition.lead(node)
