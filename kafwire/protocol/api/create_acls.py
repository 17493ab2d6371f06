"""CreateAcls (30): add access rules. See KIP-140, KIP-290, KIP-373; `describe_acls` lists the numbers."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class CreateAclsResponse(Response, key=30, versions="1-3", removed="0", flexible="2+"):
    """The response to `CreateAclsRequest`: the results have no names, but are in the order of the request."""

    class AclCreationResult(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")

    throttle_time_ms: int32 = field("0+")
    results: list[AclCreationResult] = field("0+")


class CreateAclsRequest(Request[CreateAclsResponse], key=30, versions="1-3", removed="0", flexible="2+"):
    """Adds rules: a principal such as "User:alice", from a host or "*", may or may not use a resource."""

    class AclCreation(Struct):
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        resource_pattern_type: int8 = field("1+", default=3)
        principal: str = field("0+")
        host: str = field("0+")
        operation: int8 = field("0+")
        permission_type: int8 = field("0+")

    creations: list[AclCreation] = field("0+")

    USERS = 3  # users as resources (KIP-373)
