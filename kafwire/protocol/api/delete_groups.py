"""DeleteGroups (42): delete groups without members, and their offsets. See KIP-229."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class DeleteGroupsResponse(Response, key=42, versions="0-3", flexible="2+"):
    """The response to `DeleteGroupsRequest`, one result for each group; NON_EMPTY_GROUP for one with members."""

    class DeletableGroupResult(Struct):
        group_id: str = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("3+", nullable="3+", default=None, ignorable=True)

    throttle_time_ms: int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")


class DeleteGroupsRequest(Request[DeleteGroupsResponse], key=42, versions="0-3", flexible="2+"):
    """Deletes groups at their coordinator."""

    groups_names: list[str] = field("0+")
