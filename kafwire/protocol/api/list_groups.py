"""ListGroups (16): the groups that one broker coordinates. See KIP-518 (states), KIP-848 (types)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, since


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    """The response to `ListGroupsRequest`."""

    class ListedGroup(Struct):
        group_id: str = field("0+")
        protocol_type: str = field("0+")
        group_state: str = field("4+", ignorable=True)
        group_type: str = field("5+", ignorable=True)

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    groups: list[ListedGroup] = field("0+")


class ListGroupsRequest(Request[ListGroupsResponse], key=16, versions="0-5", flexible="3+"):
    """Asks one broker; the groups of a cluster are the union over its brokers. An empty filter matches all."""

    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")

    TYPES = since(types_filter)  # KIP-848
