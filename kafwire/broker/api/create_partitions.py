"""CreatePartitions (37): adds partitions to topics. See KIP-195."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.placement import Problem, assignment_problem, factor_problem, fenced_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


MOST = 10_000  # records that a controller writes for one request


def handle(state: ClusterState, request: Request) -> Response:
    """Add partitions to each topic that may grow."""
    response, message = protocol.CreatePartitionsResponse, request.message
    times = Counter(topic.name for topic in message.topics)
    results = [
        response.CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in times.items()
        if count > 1
    ]
    for asked in message.topics:
        if times[asked.name] > 1:
            continue
        result = response.CreatePartitionsTopicResult(name=asked.name)
        results.append(result)
        if message.timeout_ms <= 0:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            continue
        problem = _problem(state, asked)
        if problem is not None:
            result.error_code, result.error_message = problem
        elif not message.validate_only:
            _grow(state, asked)
    return response(results=results)


def _problem(state: ClusterState, asked: Any) -> tuple[ErrorCode, str | None] | None:
    topic = state.topics.find(asked.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    count = len(topic.partitions)
    if asked.count == count:
        return ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s)."
    if asked.count < count:
        return ErrorCode.INVALID_PARTITIONS, (
            f"The topic {asked.name} currently has {count} partition(s); {asked.count} would not be an increase."
        )
    if asked.count - count > MOST:  # a check before any partition is created: the controller's list of records is full
        return ErrorCode.UNKNOWN_SERVER_ERROR, None
    factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        return factor_problem(state, factor)
    return _assignments_problem(state, asked.assignments, count, asked.count - count, factor)


def _assignments_problem(
    state: ClusterState, assignments: list[Any], count: int, additional: int, factor: int
) -> Problem | None:
    if len(assignments) != additional:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, (
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified."
        )
    for index, each in enumerate(assignments, count):
        problem = assignment_problem(state, each.broker_ids, factor) or fenced_problem(state, each.broker_ids, index)
        if problem is not None:
            return problem
    return None


def _grow(state: ClusterState, asked: Any) -> None:
    topic = state.topics.by_name[asked.name]
    assignments = None if asked.assignments is None else [list(each.broker_ids) for each in asked.assignments]
    additional = asked.count - len(topic.partitions)
    state.topics.add_partitions(topic, additional, len(topic.partitions[0].replicas), assignments=assignments)
