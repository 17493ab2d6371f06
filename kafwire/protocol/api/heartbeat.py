"""Heartbeat (12): reports that a member of a classic group is alive. See KIP-345 (static members)."""

from kafwire.protocol.spec import Request, Response, field, int16, int32


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    """The response to `HeartbeatRequest`; after REBALANCE_IN_PROGRESS the member must join again."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")


class HeartbeatRequest(Request[HeartbeatResponse], key=12, versions="0-4", flexible="4+"):
    """Keeps a member's session with the coordinator open."""

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
