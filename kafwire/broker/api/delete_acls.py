"""DeleteAcls (31): removes the ACL bindings that match filters. See KIP-140, KIP-290."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api.create_acls import NOT_ENABLED
from kafwire.broker.api.describe_acls import filter_of
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Acl
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Remove the bindings, and return those of each filter; one may match several filters."""
    response = protocol.DeleteAclsResponse
    result = response.DeleteAclsFilterResult
    if not state.authorizer.is_enabled:
        refused = [
            result(error_code=ErrorCode.SECURITY_DISABLED, error_message=NOT_ENABLED) for _ in request.message.filters
        ]
        return response(filter_results=refused)
    found = [state.authorizer.find(filter_of(asked)) for asked in request.message.filters]
    for acls in found:
        state.authorizer.remove(acls)
    return response(
        filter_results=[result(error_message=None, matching_acls=[_matching(acl) for acl in acls]) for acls in found]
    )


def _matching(acl: Acl) -> protocol.DeleteAclsResponse.DeleteAclsMatchingAcl:
    return protocol.DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
