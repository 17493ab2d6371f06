"""JoinGroup (11): enter a group of the classic protocol. See KIP-62, KIP-345, KIP-394, KIP-559, KIP-800, KIP-814."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, since


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    """The response to `JoinGroupRequest`, once the group has formed; only the leader's has `members`.

    With `skip_assignment` (version 9) the leader computes no assignment: the coordinator keeps the last one.
    """

    class JoinGroupResponseMember(Struct):
        member_id: str = field("0+")
        group_instance_id: str | None = field("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = field("0+")

    throttle_time_ms: int32 = field("2+", ignorable=True)
    error_code: int16 = field("0+")
    generation_id: int32 = field("0+", default=-1)
    protocol_type: str | None = field("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field("0+", nullable="7+")
    leader: str = field("0+")
    skip_assignment: bool = field("9+")
    member_id: str = field("0+")
    members: list[JoinGroupResponseMember] = field("0+")


class JoinGroupRequest(Request[JoinGroupResponse], key=11, versions="0-9", flexible="6+"):
    """Asks the coordinator for membership, with the member's assignment protocols, best first.

    From version 4 a first join with an empty `member_id` is refused with MEMBER_ID_REQUIRED and an id for the next
    join, unless there is a `group_instance_id`. Version 0 has one timeout for both purposes.
    """

    class JoinGroupRequestProtocol(Struct):
        name: str = field("0+")
        metadata: bytes = field("0+")

    group_id: str = field("0+")
    session_timeout_ms: int32 = field("0+")
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", nullable="5+", default=None)
    protocol_type: str = field("0+")
    protocols: list[JoinGroupRequestProtocol] = field("0+")
    reason: str | None = field("8+", nullable="8+", default=None, ignorable=True)

    REBALANCE_TIMEOUT = since(rebalance_timeout_ms)  # KIP-62
    ID_FIRST = 4  # MEMBER_ID_REQUIRED (KIP-394)
    NULL_PROTOCOL = 7  # instead of an empty protocol name (KIP-559)
    SKIPS_ASSIGNMENT = 9  # KIP-814
