"""CreateAcls (30): add ACL bindings. See KIP-140, KIP-290."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.acls import ANY, CLUSTER_NAME, MATCH, Acl, Operation, PatternType, Permission, ResourceType
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

NOT_ENABLED = "No Authorizer is configured."
# What is there for filters only, in Kafka's words.
_FOR_FILTERS: Mapping[object, str] = {ANY: "ANY", ("patternType", MATCH): "MATCH"}


def handle(state: ClusterState, request: Request) -> Answer:
    """Add each binding that is right; one that is there already is added, too."""
    result = protocol.CreateAclsResponse.AclCreationResult
    results = []
    for asked in request.message.creations:
        code, text = ErrorCode.SECURITY_DISABLED, NOT_ENABLED
        if state.authorizer.is_enabled:
            code, text = ErrorCode.INVALID_REQUEST, _problem(asked)
        if text:
            results.append(result(error_code=code, error_message=text))
            continue
        results.append(result())
        state.authorizer.add([_acl(asked)])
    return protocol.CreateAclsResponse(results=results)


def _problem(asked: Any) -> str:
    """What is wrong with a binding, in words; "": nothing."""
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not asked.resource_name:
        return "Invalid empty resource name"
    for name, value, kind in (
        ("resourceType", asked.resource_type, ResourceType),
        ("patternType", asked.resource_pattern_type, PatternType),
        ("operation", asked.operation, Operation),
        ("permissionType", asked.permission_type, Permission),
    ):
        if value not in list(kind):
            return f"Invalid {name} {_FOR_FILTERS.get(value if value == ANY else (name, value), 'UNKNOWN')}"
    if ":" not in asked.principal:
        return f'expected a string in format principalType:principalName but got "{asked.principal}"'
    return ""


def _acl(asked: Any) -> Acl:
    return Acl(
        asked.principal,
        asked.operation,
        asked.resource_type,
        asked.resource_name,
        pattern=asked.resource_pattern_type,
        permission=asked.permission_type,
        host=asked.host,
    )
