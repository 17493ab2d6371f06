"""DescribeGroups (15): state and members of classic groups. See KIP-345, KIP-430 (operations), KIP-1043."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    """The response to `DescribeGroupsRequest`.

    An unknown group has GROUP_ID_NOT_FOUND and a message from version 6; before it, no error and the state "Dead".
    """

    class DescribedGroupMember(Struct):
        member_id: str = field("0+")
        group_instance_id: str | None = field("4+", nullable="4+", default=None, ignorable=True)
        client_id: str = field("0+")
        client_host: str = field("0+")
        member_metadata: bytes = field("0+")
        member_assignment: bytes = field("0+")

    class DescribedGroup(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("6+", nullable="6+", default=None)
        group_id: str = field("0+")
        group_state: str = field("0+")
        protocol_type: str = field("0+")
        protocol_data: str = field("0+")
        members: list["DescribeGroupsResponse.DescribedGroupMember"] = field("0+")
        authorized_operations: int32 = field("3+", default=-0x80000000)

    throttle_time_ms: int32 = field("1+", ignorable=True)
    groups: list[DescribedGroup] = field("0+")


class DescribeGroupsRequest(Request[DescribeGroupsResponse], key=15, versions="0-6", flexible="5+"):
    """Asks a coordinator for the description of its groups."""

    groups: list[str] = field("0+")
    include_authorized_operations: bool = field("3+")

    GROUP_NOT_FOUND = 6  # GROUP_ID_NOT_FOUND instead of the state "Dead" (KIP-1043)
