"""DescribeAcls (29): the ACL bindings that match a filter, by resource. See KIP-140, KIP-290."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import AclFilter
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return all bindings that match the filter."""
    response = protocol.DescribeAclsResponse
    if not state.authorizer.is_enabled:
        text = "No Authorizer is configured on the broker"
        return response(error_code=ErrorCode.SECURITY_DISABLED, error_message=text)
    resources: dict[tuple[int, str, int], Any] = {}
    for acl in state.authorizer.find(filter_of(request.message)):
        kind, name, pattern = acl.resource_type, acl.name, acl.pattern
        resource = resources.setdefault(
            (kind, name, pattern),
            response.DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=[]),
        )
        resource.acls.append(
            response.AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
    return response(resources=list(resources.values()))


def filter_of(asked: Any) -> AclFilter:
    """Return the filter of a request, or one of several."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
