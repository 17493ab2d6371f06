"""DeleteAcls (31): remove access rules. See KIP-140, KIP-290, KIP-373; `describe_acls` lists the numbers."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DeleteAclsResponse(Response, key=31, versions="1-3", removed="0", flexible="2+"):
    """The response to `DeleteAclsRequest`: for each filter, in the order of the request, the rules that it removed."""

    class DeleteAclsMatchingAcl(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        pattern_type: int8 = field("1+", default=3)
        principal: str = field("0+")
        host: str = field("0+")
        operation: int8 = field("0+")
        permission_type: int8 = field("0+")

    class DeleteAclsFilterResult(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        matching_acls: list["DeleteAclsResponse.DeleteAclsMatchingAcl"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    filter_results: list[DeleteAclsFilterResult] = field("0+")


class DeleteAclsRequest(Request[DeleteAclsResponse], key=31, versions="1-3", removed="0", flexible="2+"):
    """Removes every rule that matches one of the filters; None matches every name, principal or host."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: int8 = field("0+")
        resource_name_filter: str | None = field("0+", nullable="0+")
        pattern_type_filter: int8 = field("1+", default=3)
        principal_filter: str | None = field("0+", nullable="0+")
        host_filter: str | None = field("0+", nullable="0+")
        operation: int8 = field("0+")
        permission_type: int8 = field("0+")

    filters: list[DeleteAclsFilter] = field("0+")

    USERS = 3  # users as resources (KIP-373)
