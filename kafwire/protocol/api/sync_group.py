"""SyncGroup (14): distribute the assignments of a classic group's generation. See KIP-345, KIP-559."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, since


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    """The response to `SyncGroupRequest`: the member's own assignment, in the leader's bytes."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    protocol_type: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field("0+")


class SyncGroupRequest(Request[SyncGroupResponse], key=14, versions="0-5", flexible="4+"):
    """Asks for the member's assignment; the leader's request has all assignments, the others' lists are empty.

    Protocol type and name (version 5) must be those of the JoinGroup response.
    """

    class SyncGroupRequestAssignment(Struct):
        member_id: str = field("0+")
        assignment: bytes = field("0+")

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    protocol_type: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field("0+")

    PROTOCOL = since(protocol_type)  # KIP-559
