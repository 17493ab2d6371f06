"""CreateAcls (30): adds ACL bindings. See KIP-140, KIP-290."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

NOT_ENABLED = "No Authorizer is configured."


def handle(state: ClusterState, request: Request) -> Response:
    """Add each valid binding; an existing one gets no error."""
    result = protocol.CreateAclsResponse.AclCreationResult
    creations = request.message.creations
    if not state.authorizer.is_enabled:
        refused = [result(error_code=ErrorCode.SECURITY_DISABLED, error_message=NOT_ENABLED) for _ in creations]
        return protocol.CreateAclsResponse(results=refused)
    if any(_is_for_filters(asked) for asked in creations):
        # Kafka does not expect such a binding: it adds none of them, without an error message.
        refused = [result(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=None) for _ in creations]
        return protocol.CreateAclsResponse(results=refused)
    results = []
    for asked in creations:
        text = _problem(asked)
        if text:
            results.append(result(error_code=ErrorCode.INVALID_REQUEST, error_message=text))
        else:
            results.append(result())
            state.authorizer.add([_acl(asked)])
    return protocol.CreateAclsResponse(results=results)


def _is_for_filters(asked: Any) -> bool:
    """True if a binding has an unknown value, or one that is for filters only."""
    return (
        asked.resource_type not in list(ResourceType)
        or asked.resource_pattern_type not in list(PatternType)
        or asked.operation not in list(Operation)
        or asked.permission_type not in list(Permission)
    )


def _problem(asked: Any) -> str:
    """Return the problem of a binding, or ""."""
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not asked.resource_name:
        return "Invalid empty resource name"
    if ":" not in asked.principal:
        missing = "no colon is present separating the principal type from the principal name"
        return f"Could not parse principal from `{asked.principal}` ({missing})"
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
