"""The ACL checks of each request, as in Kafka's `KafkaApis` and `ControllerApis`.

`check` runs before a handler. It refuses a request, or removes the elements that its client may not use: these get
errors in the response, beside the handler's results for the rest. Fetch, Metadata and AddPartitionsToTxn do the checks
themselves that need their own data.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.error_responses import ErrorPlace, error_response, refuse_elements
from kafwire.broker.log.batch_header import read_header
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol import AddPartitionsToTxnRequest, CreateTopicsRequest, FindCoordinatorRequest, OffsetFetchRequest
from kafwire.protocol.spec import Struct

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_O, _T = Operation, ResourceType
# By the resource type in a request.
_CONFIGURED = {2: _T.TOPIC, 4: _T.CLUSTER, 8: _T.CLUSTER, 16: _T.CLUSTER, 32: _T.GROUP}

Refusal = Callable[["ClusterState", Request], "Response | None"]


def check(state: ClusterState, request: Request) -> Response | None:
    """Return the response to a client without permission; None: the handler gets the rest of the request."""
    for each in _CHECKS.get(request.name, ()):
        response = each(state, request)
        if response is not None:
            return response
    return None


# --- whole requests


def _refuse(state: ClusterState, request: Request, resource_type: ResourceType) -> Response:
    return error_response(state, request, ErrorPlace(FAILED[resource_type]))


def _needs(operation: Operation, resource_type: ResourceType, field: str = "") -> Refusal:
    """Require permission for the resource that a field of the request names; without a field, for the cluster."""

    def refusal(state: ClusterState, request: Request) -> Response | None:
        name = getattr(request.message, field) if field else CLUSTER_NAME
        if state.allows(request, operation, resource_type, name or ""):
            return None
        return _refuse(state, request, resource_type)

    return refusal


def _cluster(operation: Operation) -> tuple[Refusal, ...]:
    return (_needs(operation, _T.CLUSTER),)


def _init_producer_id(state: ClusterState, request: Request) -> Response | None:
    if request.message.transactional_id is not None:
        return _needs(_O.WRITE, _T.TRANSACTIONAL_ID, "transactional_id")(state, request)
    connection = request.connection
    if state.allows(request, _O.IDEMPOTENT_WRITE, _T.CLUSTER) or state.authorizer.allows_any(
        connection.principal, connection.peer, _O.WRITE, _T.TOPIC
    ):
        return None
    return _refuse(state, request, _T.CLUSTER)


def _transaction_of_records(state: ClusterState, request: Request) -> Response | None:
    name = request.message.transactional_id
    if not _has_transactional_records(request.message):
        return None
    if name is not None and state.allows(request, _O.WRITE, _T.TRANSACTIONAL_ID, name):
        return None
    return _refuse(state, request, _T.TRANSACTIONAL_ID)


def _has_transactional_records(message: Any) -> bool:
    for topic in message.topic_data:
        for each in topic.partition_data:
            try:
                if each.records and read_header(each.records).is_transactional:
                    return True
            except ProtocolError:
                continue  # the handler reports the problem with the batch
    return False


def _partitions_for_transaction(state: ClusterState, request: Request) -> Response | None:
    if request.version >= AddPartitionsToTxnRequest.FOR_BROKERS:
        return _needs(_O.CLUSTER_ACTION, _T.CLUSTER)(state, request)
    return _needs(_O.WRITE, _T.TRANSACTIONAL_ID, "v3_and_below_transactional_id")(state, request)


def _find_coordinator(state: ClusterState, request: Request) -> Response | None:
    kinds = {0: _T.GROUP, 1: _T.TRANSACTIONAL_ID}
    resource_type = kinds.get(request.message.key_type)
    if resource_type is None:
        return _needs(_O.CLUSTER_ACTION, _T.CLUSTER)(state, request)  # the state of share groups is for brokers
    if request.version < FindCoordinatorRequest.KEY_LISTS:
        return _needs(_O.DESCRIBE, resource_type, "key")(state, request)
    return _each(_O.DESCRIBE, resource_type)(state, request)


def _write_markers(state: ClusterState, request: Request) -> Response | None:
    if state.allows(request, _O.ALTER, _T.CLUSTER) or state.allows(request, _O.CLUSTER_ACTION, _T.CLUSTER):
        return None
    response = protocol.WriteTxnMarkersResponse
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [
        response.WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                response.WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.message.markers
    ]
    return response(markers=results)


def _alter_log_dirs(state: ClusterState, request: Request) -> Response | None:
    if state.allows(request, _O.ALTER, _T.CLUSTER):
        return None
    response = protocol.AlterReplicaLogDirsResponse
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refused: dict[str, list[Any]] = {}
    for each in request.message.dirs:
        for topic in each.topics:
            refused.setdefault(topic.name, []).extend(
                response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                for index in topic.partitions
            )
    return response(
        results=[
            response.AlterReplicaLogDirTopicResult(topic_name=name, partitions=parts) for name, parts in refused.items()
        ]
    )


# --- parts of requests


def _name_of(state: ClusterState, element: Any) -> str | None:
    """Return the resource name of a request's element; None: a topic with an unknown id."""
    if isinstance(element, str):
        return element
    for field in ("name", "topic", "topic_name", "group_id"):
        found = getattr(element, field, None)
        if found:
            return str(found)
    topic_id: uuid.UUID | None = getattr(element, "topic_id", None)
    topic = None if topic_id is None else state.topics.by_id.get(topic_id)
    return None if topic is None else topic.name


def _each(operation: Operation, resource_type: ResourceType, depth: int = 0, message: str | None = None) -> Refusal:
    """Require permission for each resource that a request names, `depth` arrays inwards."""

    def refusal(state: ClusterState, request: Request) -> Response | None:
        def code_of(element: Any) -> int:
            name = _name_of(state, element)
            is_allowed = name is None or state.allows(request, operation, resource_type, name)
            return 0 if is_allowed else FAILED[resource_type]

        return refuse_elements(request, code_of, depth=depth, message=message)

    return refusal


def _topics(operation: Operation) -> Refusal:
    return _each(operation, _T.TOPIC)


def _configs(operation: Operation) -> Refusal:
    def refusal(state: ClusterState, request: Request) -> Response | None:
        def code_of(resource: Any) -> int:
            resource_type = _CONFIGURED.get(resource.resource_type)
            if resource_type is None:
                return 0  # the handler reports that there is no such type
            name = CLUSTER_NAME if resource_type is _T.CLUSTER else resource.resource_name
            return 0 if state.allows(request, operation, resource_type, name) else FAILED[resource_type]

        return refuse_elements(request, code_of)

    return refusal


def _committed_topics(state: ClusterState, request: Request) -> Response | None:
    """Hide offsets of topics that the client may not describe; for all topics, leave these out."""

    def hide(struct: Any) -> None:
        struct.topics = [topic for topic in struct.topics if _describes(state, request, _name_of(state, topic))]

    message = request.message
    if request.version >= OffsetFetchRequest.GROUPS:
        of_all = {group.group_id for group in message.groups if group.topics is None}

        def hide_in_groups(response: Any) -> None:
            for group in response.groups:
                if group.group_id in of_all:
                    hide(group)

        if of_all:
            request.edits.append(partial(_edited, hide_in_groups))
        return _each(_O.DESCRIBE, _T.TOPIC, depth=1)(state, request)
    if message.topics is None:
        request.edits.append(partial(_edited, hide))
        return None
    return _each(_O.DESCRIBE, _T.TOPIC)(state, request)


def _create_topics(state: ClusterState, request: Request) -> Response | None:
    names = [topic.name for topic in request.message.topics]

    def code_of(topic: Any) -> int:
        if names.count(topic.name) > 1 or state.allows(request, _O.CREATE, _T.CLUSTER):
            return 0
        is_allowed = state.allows(request, _O.CREATE, _T.TOPIC, topic.name)
        return 0 if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def hide(response: Any) -> None:
        for topic in response.topics:
            if not topic.error_code and not state.allows(request, _O.DESCRIBE_CONFIGS, _T.TOPIC, topic.name):
                topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []

    if request.version >= CreateTopicsRequest.CONFIGS:
        request.edits.append(partial(_edited, hide))
    return refuse_elements(request, code_of, message="Authorization failed.")


def _delete_topics(state: ClusterState, request: Request) -> Response | None:
    if state.allows(request, _O.DELETE, _T.CLUSTER) or not state.config_is("delete.topic.enable"):
        return None

    def code_of(element: Any) -> int:
        name = _name_of(state, element)
        if name is None:
            return 0
        if not _describes(state, request, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if state.topics.find(name) is None or state.allows(request, _O.DELETE, _T.TOPIC, name):
            return 0
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    return refuse_elements(request, code_of)


# --- parts of responses


def _edited(edit: Callable[[Any], object], response: Response) -> Response:
    if isinstance(response, Struct):
        edit(response)
    return response


def _describes(state: ClusterState, request: Request, name: str | None) -> bool:
    return name is None or state.allows(request, _O.DESCRIBE, _T.TOPIC, name)


def _only(array: str, field: str, resource_type: ResourceType, *, or_cluster: bool = False) -> Refusal:
    """Keep only the elements of a response that the client may describe."""

    def refusal(state: ClusterState, request: Request) -> None:
        def hide(response: Any) -> None:
            shown = [
                each
                for each in getattr(response, array)
                if state.allows(request, _O.DESCRIBE, resource_type, getattr(each, field))
            ]
            setattr(response, array, shown)

        if not (or_cluster and state.allows(request, _O.DESCRIBE, _T.CLUSTER)):
            request.edits.append(partial(_edited, hide))

    return refusal


def _topics_of_transactions(state: ClusterState, request: Request) -> None:
    def hide(response: Any) -> None:
        for each in response.transaction_states:
            each.topics = [topic for topic in each.topics if _describes(state, request, topic.topic)]

    request.edits.append(partial(_edited, hide))


def _described_partitions(state: ClusterState, request: Request) -> Response | None:
    if request.message.topics:
        return _topics(_O.DESCRIBE)(state, request)
    return _only("topics", "name", _T.TOPIC)(state, request)


def _epochs(state: ClusterState, request: Request) -> Response | None:
    if state.allows(request, _O.CLUSTER_ACTION, _T.CLUSTER):
        return None
    return _topics(_O.DESCRIBE)(state, request)


_READ_GROUP = _needs(_O.READ, _T.GROUP, "group_id")
_WRITE_TRANSACTION = _needs(_O.WRITE, _T.TRANSACTIONAL_ID, "transactional_id")


def _subscribed(state: ClusterState, request: Request) -> Response | None:
    names = request.message.subscribed_topic_names or ()
    if all(_describes(state, request, name) for name in names):
        return None
    return error_response(state, request, ErrorPlace(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _offset_fetch(state: ClusterState, request: Request) -> Response | None:
    if request.version >= OffsetFetchRequest.GROUPS:
        return _each(_O.DESCRIBE, _T.GROUP)(state, request)
    return _needs(_O.DESCRIBE, _T.GROUP, "group_id")(state, request)


_CHECKS: Mapping[str, tuple[Refusal, ...]] = {
    "AddOffsetsToTxn": (_WRITE_TRANSACTION, _READ_GROUP),
    "AddPartitionsToTxn": (_partitions_for_transaction,),
    "AddRaftVoter": _cluster(_O.ALTER),
    "AlterClientQuotas": _cluster(_O.ALTER_CONFIGS),
    "AlterConfigs": (_configs(_O.ALTER_CONFIGS),),
    "AlterPartitionReassignments": _cluster(_O.ALTER),
    "AlterReplicaLogDirs": (_alter_log_dirs,),
    "AlterShareGroupOffsets": (_READ_GROUP, _topics(_O.READ)),
    "AlterUserScramCredentials": _cluster(_O.ALTER),
    "ConsumerGroupDescribe": (_each(_O.DESCRIBE, _T.GROUP),),
    "ConsumerGroupHeartbeat": (_READ_GROUP, _subscribed),
    "CreateAcls": _cluster(_O.ALTER),
    "CreatePartitions": (_each(_O.ALTER, _T.TOPIC, message="The topic authorization is failed."),),
    "CreateTopics": (_create_topics,),
    "DeleteAcls": _cluster(_O.ALTER),
    "DeleteGroups": (_each(_O.DELETE, _T.GROUP),),
    "DeleteRecords": (_topics(_O.DELETE),),
    "DeleteShareGroupOffsets": (_needs(_O.DELETE, _T.GROUP, "group_id"), _topics(_O.READ)),
    "DeleteTopics": (_delete_topics,),
    "DescribeAcls": _cluster(_O.DESCRIBE),
    "DescribeClientQuotas": _cluster(_O.DESCRIBE_CONFIGS),
    "DescribeConfigs": (_configs(_O.DESCRIBE_CONFIGS),),
    "DescribeGroups": (_each(_O.DESCRIBE, _T.GROUP),),
    "DescribeLogDirs": _cluster(_O.DESCRIBE),
    "DescribeProducers": (_topics(_O.READ),),
    "DescribeQuorum": _cluster(_O.DESCRIBE),
    "DescribeShareGroupOffsets": (_each(_O.DESCRIBE, _T.GROUP),),
    "DescribeTopicPartitions": (_described_partitions,),
    "DescribeTransactions": (_each(_O.DESCRIBE, _T.TRANSACTIONAL_ID), _topics_of_transactions),
    "DescribeUserScramCredentials": _cluster(_O.DESCRIBE),
    "ElectLeaders": _cluster(_O.ALTER),
    "EndTxn": (_WRITE_TRANSACTION,),
    "FindCoordinator": (_find_coordinator,),
    "Heartbeat": (_READ_GROUP,),
    "IncrementalAlterConfigs": (_configs(_O.ALTER_CONFIGS),),
    "InitProducerId": (_init_producer_id,),
    "JoinGroup": (_READ_GROUP,),
    "LeaveGroup": (_READ_GROUP,),
    "ListConfigResources": _cluster(_O.DESCRIBE_CONFIGS),
    "ListGroups": (_only("groups", "group_id", _T.GROUP, or_cluster=True),),
    "ListOffsets": (_topics(_O.DESCRIBE),),
    "ListPartitionReassignments": _cluster(_O.DESCRIBE),
    "ListTransactions": (_only("transaction_states", "transactional_id", _T.TRANSACTIONAL_ID),),
    "OffsetCommit": (_READ_GROUP, _topics(_O.READ)),
    "OffsetDelete": (_needs(_O.DELETE, _T.GROUP, "group_id"), _topics(_O.READ)),
    "OffsetFetch": (_offset_fetch, _committed_topics),
    "OffsetForLeaderEpoch": (_epochs,),
    "Produce": (_transaction_of_records, _topics(_O.WRITE)),
    "RemoveRaftVoter": _cluster(_O.ALTER),
    "ShareAcknowledge": (_READ_GROUP,),
    "ShareFetch": (_READ_GROUP,),
    "ShareGroupDescribe": (_each(_O.DESCRIBE, _T.GROUP),),
    "ShareGroupHeartbeat": (_READ_GROUP,),
    "StreamsGroupDescribe": (_each(_O.DESCRIBE, _T.GROUP),),
    "StreamsGroupHeartbeat": (_READ_GROUP,),
    "StreamsGroupTopologyDescriptionUpdate": (_READ_GROUP,),
    "SyncGroup": (_READ_GROUP,),
    "TxnOffsetCommit": (_WRITE_TRANSACTION, _READ_GROUP, _topics(_O.READ)),
    "UnregisterBroker": _cluster(_O.ALTER),
    "UnregisterController": _cluster(_O.ALTER),
    "UpdateFeatures": _cluster(_O.ALTER),
    "WriteTxnMarkers": (_write_markers,),
}
# APIs for all clients, or whose handlers do the checks.
OPEN = frozenset(
    {
        "ApiVersions",
        "CreateDelegationToken",
        "DescribeCluster",
        "DescribeDelegationToken",
        "ExpireDelegationToken",
        "Fetch",
        "GetTelemetrySubscriptions",
        "Metadata",
        "PushTelemetry",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
    }
)
CHECKED = frozenset(_CHECKS)
