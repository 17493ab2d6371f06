"""CreateTopics (19): creates topics. See KIP-4, KIP-464 (defaults), KIP-525 (configuration in the response)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_store import ConfigStore, Source
from kafwire.broker.topics.configs import TOPIC_CONFIGS
from kafwire.broker.topics.placement import Problem, assignment_problem, factor_problem, fenced_problem
from kafwire.broker.topics.topic_configs import topic_problem
from kafwire.broker.topics.topics import name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

RESERVED = "__cluster_metadata"
MOST = 10_000  # partitions in a request, and records that a controller writes for it


def handle(state: ClusterState, request: Request) -> Response:
    """Create each topic that may be created; a name that the request repeats has one result, after the others."""
    response, message = protocol.CreateTopicsResponse, request.message
    times = Counter(topic.name for topic in message.topics)
    once = [topic for topic in message.topics if times[topic.name] == 1]
    if problem := _size_problem(state, message.topics):
        code, text = problem
        return response(
            topics=[response.CreatableTopicResult(name=name, error_code=code, error_message=text) for name in times]
        )
    results = [create(state, topic, validate_only=message.validate_only) for topic in once if topic.name != RESERVED]
    results += [
        response.CreatableTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in times.items()
        if count > 1
    ]
    if times[RESERVED] == 1:
        results.append(
            response.CreatableTopicResult(
                name=RESERVED,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"Creation of internal topic {RESERVED} is prohibited.",
            )
        )
    return response(topics=results)


def _size_problem(state: ClusterState, topics: list[Any]) -> Problem | None:
    default = state.config_int("num.partitions")
    counts = [
        len(each.assignments) or (default if each.num_partitions == -1 else each.num_partitions) for each in topics
    ]
    partitions = sum(count for count in counts if count > 0)
    if partitions > MOST:
        return ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
    if partitions + len(topics) + sum(len(each.configs) for each in topics) > MOST:
        return ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    return None


def create(state: ClusterState, asked: Any, *, validate_only: bool) -> Any:
    """Create a topic, if it may be created. Return its part of the response."""
    result = protocol.CreateTopicsResponse.CreatableTopicResult(name=asked.name, error_message=None)
    problem = _name_problem(state, asked.name) or _config_problem(state, asked) or _placement_problem(state, asked)
    if problem is not None:
        result.error_code, result.error_message = problem
        return result
    assignments = None
    if asked.assignments:
        by_index = {each.partition_index: list(each.broker_ids) for each in asked.assignments}
        assignments = [by_index[index] for index in range(len(by_index))]
        count, factor = len(assignments), len(assignments[0])
    else:
        count = state.config_int("num.partitions") if asked.num_partitions == -1 else asked.num_partitions
        factor = state.replication_factor(asked.replication_factor)
    configs = {config.name: config.value for config in asked.configs}
    if validate_only:
        result.topic_id = state.make_id()
    else:
        topic = state.topics.create(asked.name, count, factor, assignments=assignments, configs=configs)
        result.topic_id = topic.topic_id
    result.num_partitions, result.replication_factor = count, factor
    result.configs = _describe(state, configs)
    return result


def _describe(state: ClusterState, configs: dict[str, str]) -> list[Any]:
    kind = protocol.CreateTopicsResponse.CreatableTopicConfigs
    store: ConfigStore = state.part(ConfigStore)
    found = []
    for name in sorted(TOPIC_CONFIGS):
        value, places = store.of_topic(configs, name)
        value = configs.get(name, value)  # here Kafka shows the value as given, with its spaces
        found.append(kind(name=name, value=value, config_source=places[0].source if places else Source.DEFAULT))
    return found


def _name_problem(state: ClusterState, name: str) -> Problem | None:
    if problem := name_problem(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}"
    if state.topics.find(name) is not None:
        return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
    other = state.topics.colliding(name)
    if other is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
    return None


def _config_problem(state: ClusterState, asked: Any) -> Problem | None:
    empty = [config.name for config in asked.configs if config.value is None]
    if empty:
        return ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(empty)}"
    configs = {config.name: config.value for config in asked.configs}
    store: ConfigStore = state.part(ConfigStore)
    problem = topic_problem(configs, store.effective(configs))
    return None if problem is None else (ErrorCode.INVALID_CONFIG, problem)


def _placement_problem(state: ClusterState, asked: Any) -> Problem | None:
    if asked.assignments:
        return _assignments_problem(state, asked)
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if asked.num_partitions < -1 or asked.num_partitions == 0:
        return ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
    return factor_problem(state, state.replication_factor(asked.replication_factor))


def _assignments_problem(state: ClusterState, asked: Any) -> Problem | None:
    where = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        return ErrorCode.INVALID_REQUEST, f"{where} replication factor was not set to -1."
    if asked.num_partitions != -1:
        return ErrorCode.INVALID_REQUEST, f"{where} numPartitions was not set to -1."
    code, factor, seen = ErrorCode.INVALID_REPLICA_ASSIGNMENT, None, set()
    for each in asked.assignments:
        index, nodes = each.partition_index, each.broker_ids
        if index in seen:
            return code, f"Found multiple manual partition assignments for partition {index}"
        problem = assignment_problem(state, nodes, factor) or fenced_problem(state, nodes, index)
        if problem is not None:
            return problem
        seen.add(index)
        factor = len(nodes)
    if seen != set(range(len(seen))):
        return code, "partitions should be a consecutive 0-based integer sequence"
    return None
