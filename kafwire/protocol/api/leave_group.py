"""LeaveGroup (13): members leave a classic group. See KIP-345 (several at once), KIP-800 (reasons)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, since


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    """The response to `LeaveGroupRequest`; from version 3 each member has its own error."""

    class MemberResponse(Struct):
        member_id: str = field("3+")
        group_instance_id: str | None = field("3+", nullable="3+")
        error_code: int16 = field("3+")

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    members: list[MemberResponse] = field("3+")


class LeaveGroupRequest(Request[LeaveGroupResponse], key=13, versions="0-5", flexible="4+"):
    """Removes members from a group: `members` from version 3, the one `member_id` before it.

    A static member may be named by its `group_instance_id` alone, with an empty `member_id`.
    """

    class MemberIdentity(Struct):
        member_id: str = field("3+")
        group_instance_id: str | None = field("3+", nullable="3+", default=None)
        reason: str | None = field("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = field("0+")
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")

    MEMBERS = since(members)  # KIP-345
    REASONS = since(MemberIdentity.reason)  # KIP-800
