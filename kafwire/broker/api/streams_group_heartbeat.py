"""StreamsGroupHeartbeat (88): joins, stays in and leaves a streams group. See KIP-1071, KIP-1331.

The broker creates the internal topics that the group lacks, in the name of the member that sends the heartbeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api.create_topics import create
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.streams_member import LEFT_FOR_A_WHILE
from kafwire.broker.groups.streams_topics import Status
from kafwire.broker.groups.streams_topology import InternalTopic
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.topics.config_store import Refusal
from kafwire.broker.topics.creation_errors import CreationErrors
from kafwire.broker.topics.topics import INTERNAL_TOPICS, name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_MOST_SHOWN = 3  # errors in a status


def handle(state: ClusterState, request: Request) -> Response:
    """Respond at once: no heartbeat waits for another member."""
    response, message = protocol.StreamsGroupHeartbeatResponse, request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not state.features.get("streams.version"):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        if message.topology is not None:
            names = _topic_names(message.topology)
            _check_names(names)
            if not all(state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
                return response(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        _check(message)
        code = groups.refuses(request, message.group_id)
        if code:
            return response(error_code=code)
        found, missing = groups.streams_heartbeat(request)
    except Refusal as refusal:
        return response(error_code=refusal.code, error_message=refusal.message or None)
    if missing:
        _create(state, request, found, missing)
    return found


def _topic_names(topology: Any) -> list[str]:
    """All topics of a topology, each once."""
    return list(
        dict.fromkeys(
            name
            for each in topology.subtopologies
            for name in [
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            ]
        )
    )


def _check_names(names: Sequence[str]) -> None:
    if internal := [name for name in names if name in INTERNAL_TOPICS]:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if invalid := [name for name in names if name_problem(name)]:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)


def _check(message: Any) -> None:
    """Check what needs no group, in Kafka's order."""
    if message.topology is not None and any(each.source_topic_regex for each in message.topology.subtopologies):
        raise _invalid("Regular expressions for source topics are not supported yet.")
    for name, value in (
        ("MemberId", message.member_id),
        ("GroupId", message.group_id),
        ("InstanceId", message.instance_id),
        ("RackId", message.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    epoch = message.member_epoch
    tasks = {"Active": message.active_tasks, "Standby": message.standby_tasks, "Warmup": message.warmup_tasks}
    if epoch == 0:
        _check_first(message, tasks)
    elif epoch == LEFT_FOR_A_WHILE and message.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_A_WHILE:
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to {LEFT_FOR_A_WHILE}.")
    if len({listed is None for listed in tasks.values()}) > 1:
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if epoch != 0 and message.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_first(message: Any, tasks: dict[str, Any]) -> None:
    """Refuse a joining member whose heartbeat is incomplete, or reports tasks."""
    if message.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for kind, listed in tasks.items():
        if listed:
            raise _invalid(f"{kind}Tasks must be empty when (re-)joining.")
    if message.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    for each in message.topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions:
                raise Refusal(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )


# --- internal topics


def _create(state: ClusterState, request: Request, found: Any, missing: Sequence[InternalTopic]) -> None:
    """Create the topics. The response names the errors of earlier attempts."""
    (status,) = (each for each in found.status if each.status_code == Status.MISSING_INTERNAL_TOPICS)
    denied = [each.name for each in missing if not _may_create(state, request, each.name)]
    if denied:
        status.status_detail += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        return
    errors: CreationErrors = state.part(CreationErrors)
    refused = errors.of(each.name for each in missing)
    ttl_ms = 2 * state.group_config_int(request.message.group_id, "streams.heartbeat.interval.ms")
    for topic in missing:
        if topic.name not in refused:
            result = create(state, _creatable(topic), validate_only=False)
            if result.error_code:
                errors.keep(topic.name, result.error_message or ErrorCode(result.error_code).message, ttl_ms)
    if refused:
        shown = ", ".join([f"{name} ({text})" for name, text in refused.items()][:_MOST_SHOWN])
        rest = len(refused) - _MOST_SHOWN
        status.status_detail += f"; Creation failed: {shown}{f' and {rest} more' if rest > 0 else ''}."


def _may_create(state: ClusterState, request: Request, name: str) -> bool:
    return state.allows(request, Operation.CREATE, ResourceType.CLUSTER) or state.allows(
        request, Operation.CREATE, ResourceType.TOPIC, name
    )


def _creatable(topic: InternalTopic) -> Any:
    kind = protocol.CreateTopicsRequest
    return kind.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )
