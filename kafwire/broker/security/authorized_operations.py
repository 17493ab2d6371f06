"""The bit fields of a client's permissions for the cluster, a topic or a group (KIP-430)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from kafwire.protocol.spec import Struct

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

NO_OPERATIONS = -(1 << 31)  # the client has not requested them


def operations(state: ClusterState, request: Request, resource_type: ResourceType, name: str) -> int:
    """Return a client's operations on a resource; without an authorizer, all operations."""
    connection = request.connection
    return state.authorizer.operations(connection.principal, connection.peer, resource_type, name)


def topic_operations(state: ClusterState, request: Request, name: str) -> int:
    """Return the operations of a topic in Metadata."""
    if not request.message.include_topic_authorized_operations:
        return NO_OPERATIONS
    return operations(state, request, ResourceType.TOPIC, name)


def cluster_operations(state: ClusterState, request: Request) -> int:
    """Return the cluster's operations, in Metadata 8 to 10 and DescribeCluster; 0 if its description is denied."""
    if not request.message.include_cluster_authorized_operations:
        return NO_OPERATIONS
    if not state.allows(request, Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return operations(state, request, ResourceType.CLUSTER, CLUSTER_NAME)


def tell(state: ClusterState, request: Request) -> None:
    """Put the client's operations into the response, where they do not depend on the handler."""
    its = _PLACES.get(request.name)
    if its is not None and its[0](request.message):
        request.edits.append(lambda response: _with_operations(state, request, response))


def _with_operations(state: ClusterState, request: Request, response: Response) -> Response:
    _, array, name, resource_type, field = _PLACES[request.name]
    if not isinstance(response, Struct):
        return response
    if not array:
        setattr(response, field, cluster_operations(state, request))
        return response
    for each in getattr(response, array):
        if not each.error_code:
            setattr(each, field, operations(state, request, resource_type, getattr(each, name)))
    return response


def _is_asked(message: Any) -> bool:
    return bool(message.include_authorized_operations)


# By API: whether the request wants them, and their place in the response.
_PLACES = {
    "ConsumerGroupDescribe": (_is_asked, "groups", "group_id", ResourceType.GROUP, "authorized_operations"),
    "DescribeCluster": (
        lambda message: message.include_cluster_authorized_operations,
        "",
        "",
        ResourceType.CLUSTER,
        "cluster_authorized_operations",
    ),
    "DescribeGroups": (_is_asked, "groups", "group_id", ResourceType.GROUP, "authorized_operations"),
    "DescribeTopicPartitions": (lambda _: True, "topics", "name", ResourceType.TOPIC, "topic_authorized_operations"),
    "ShareGroupDescribe": (_is_asked, "groups", "group_id", ResourceType.GROUP, "authorized_operations"),
    "StreamsGroupDescribe": (_is_asked, "groups", "group_id", ResourceType.GROUP, "authorized_operations"),
}
