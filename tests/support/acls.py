"""ACLs of a cluster with an authorizer, set past it: by the plain listener, whose clients are superusers."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import kafwire
from kafwire.protocol import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import until

_LITERAL, _MATCH = 3, 1
_DENY, _ALLOW, _ANY = 2, 3, 1

Rule = tuple[str, int, str, int, int]
Cluster = KafkaCluster | EmbeddedKafka


class Resource(IntEnum):
    """The resource type of an ACL; the cluster's name is `kafka-cluster`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """The operation of an ACL."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13


def allow(cluster: Cluster, user: str, operation: Operation, resource: Resource, name: str) -> None:
    """Let a user do something; returns when all nodes know it."""
    _create(cluster, user, operation, resource, name, _ALLOW)


def deny(cluster: Cluster, user: str, operation: Operation, resource: Resource, name: str) -> None:
    """Forbid it, whatever else is allowed; returns when all nodes know it."""
    _create(cluster, user, operation, resource, name, _DENY)


def forget(cluster: Cluster, user: str) -> None:
    """Remove all that `allow` and `deny` said of a user; returns when all nodes know it."""
    filters = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_MATCH,
            principal_filter=f"User:{user}",
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
    ]
    with kafwire.Client(cluster.direct) as client:
        (result,) = client.call(DeleteAclsRequest(filters=filters)).filter_results
        assert not result.error_code, result.error_message
        _wait(cluster, client, lambda rules: all(whose != f"User:{user}" for whose, *_ in rules))


def _create(cluster: Cluster, user: str, operation: int, resource: int, name: str, permission: int) -> None:
    rule = CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=_LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=permission,
    )
    with kafwire.Client(cluster.direct) as client:
        (result,) = client.call(CreateAclsRequest(creations=[rule])).results
        assert not result.error_code, result.error_message
        wanted = (f"User:{user}", resource, name, operation, permission)
        _wait(cluster, client, lambda rules: wanted in rules)


def _wait(cluster: Cluster, client: kafwire.Client, known: Callable[[set[Rule]], bool]) -> None:
    nodes = [*cluster.state.nodes] if isinstance(cluster, EmbeddedKafka) else [node.id for node in cluster.nodes]
    until(lambda: all(known(_rules(client, node)) for node in nodes), "the rules known to all nodes")


def _rules(client: kafwire.Client, node: int) -> set[Rule]:
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    response = client.call(request, broker=node)
    assert not response.error_code, response.error_message
    return {
        (acl.principal, each.resource_type, each.resource_name, acl.operation, acl.permission_type)
        for each in response.resources
        for acl in each.acls
    }
