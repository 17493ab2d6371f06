"""CreateTopics (19): make topics. See KIP-4, KIP-464 (defaults), KIP-525 (configuration in the answer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.api.metadata import is_name
from kafwire.testing.broker.configs import TOPIC_CONFIGS
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Make each topic that may be made."""
    names = [topic.name for topic in request.message.topics]
    twice = {name for name in names if names.count(name) > 1}
    return protocol.CreateTopicsResponse(
        topics=[_create(state, request, topic, twice) for topic in request.message.topics]
    )


def _create(state: ClusterState, request: Request, asked: Any, twice: set[str]) -> Any:
    response = protocol.CreateTopicsResponse
    result = response.CreatableTopicResult(name=asked.name)

    def refuse(code: int, message: str | None = None) -> Any:
        result.error_code, result.error_message = code, message
        return result

    if asked.name in twice:
        return refuse(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if not is_name(asked.name):
        return refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {asked.name!r}")
    if state.topics.find(asked.name) is not None:
        return refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{asked.name}' already exists.")
    for config in asked.configs:
        known = TOPIC_CONFIGS.get(config.name)
        problem = f"Unknown topic config name: {config.name}" if known is None else known.problem(config.value)
        if problem:
            return refuse(ErrorCode.INVALID_CONFIG, problem)
    assignments = None
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            return refuse(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        by_index = {each.partition_index: each.broker_ids for each in asked.assignments}
        if sorted(by_index) != list(range(len(asked.assignments))):
            return refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence."
            )
        assignments = [by_index[index] for index in range(len(by_index))]
        if any(not ids or len(set(ids)) < len(ids) or not set(ids) <= state.nodes.keys() for ids in assignments):
            return refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment is invalid.")
        partitions, replicas = len(assignments), len(assignments[0])
    else:
        partitions = state.config_int("num.partitions") if asked.num_partitions == -1 else asked.num_partitions
        replicas = asked.replication_factor
        replicas = state.config_int("default.replication.factor") if replicas == -1 else replicas
        if partitions < 1:
            return refuse(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1 for the default."
            )
        up = sum(node.is_up for node in state.nodes.values())
        if not 1 <= replicas <= up:
            return refuse(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replicas} time(s): {up} broker(s) are there.",
            )
    configs = {config.name: config.value for config in asked.configs}
    if not request.message.validate_only:
        topic = state.topics.create(asked.name, partitions, replicas, assignments=assignments, configs=configs)
        result.topic_id = topic.topic_id
    result.num_partitions, result.replication_factor = partitions, replicas
    result.configs = [
        response.CreatableTopicConfigs(
            name=name,
            value=configs.get(name, state.config(known.broker_name)),
            config_source=1 if name in configs else 5,
        )
        for name, known in TOPIC_CONFIGS.items()
    ]
    return result
