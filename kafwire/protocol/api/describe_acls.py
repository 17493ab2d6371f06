"""DescribeAcls (29): lists access rules. See KIP-140, KIP-290 (patterns), KIP-373 (users as resources).

The numbers of this API, CreateAcls and DeleteAcls; 1 matches anything, in filters only:

- resource type: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user (from version 3)
- pattern type: 3 literal, 4 prefixed; in filters also 2, every pattern that applies to the name
- operation: 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs,
  11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit
- permission type: 2 deny, 3 allow
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DescribeAclsResponse(Response, key=29, versions="1-3", removed="0", flexible="2+"):
    """The response to `DescribeAclsRequest`, by resource."""

    class AclDescription(Struct):
        principal: str = field("0+")
        host: str = field("0+")
        operation: int8 = field("0+")
        permission_type: int8 = field("0+")

    class DescribeAclsResource(Struct):
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        pattern_type: int8 = field("1+", default=3)
        acls: list["DescribeAclsResponse.AclDescription"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resources: list[DescribeAclsResource] = field("0+")


class DescribeAclsRequest(Request[DescribeAclsResponse], key=29, versions="1-3", removed="0", flexible="2+"):
    """Asks for the rules that match a filter; None matches every name, principal or host."""

    resource_type_filter: int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")

    USERS = 3  # users as resources (KIP-373)
