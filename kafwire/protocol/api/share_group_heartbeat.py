"""ShareGroupHeartbeat (76): joins, stays in and leaves a share group. See KIP-932.

Version 0 was for early access, and is removed.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", removed="0", flexible="0+"):
    """The response to `ShareGroupHeartbeatRequest`. `assignment=None`: the assignment is unchanged."""

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    class Assignment(Struct):
        topic_partitions: list["ShareGroupHeartbeatResponse.TopicPartitions"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: Assignment | None = field("0+", nullable="0+", default=None)


class ShareGroupHeartbeatRequest(
    Request[ShareGroupHeartbeatResponse], key=76, versions="1", removed="0", flexible="0+"
):
    """Reports the member's subscription; the member chooses its id. `member_epoch` 0 joins, -1 leaves.

    None means "unchanged since the last heartbeat".
    """

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    rack_id: str | None = field("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field("0+", nullable="0+", default=None)
