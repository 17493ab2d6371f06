"""ConsumerGroupHeartbeat (68): joins, stays in and leaves a group of the consumer protocol. See KIP-848.

Version 1 adds the pattern of topics, and the member chooses its own id (KIP-1082).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    """The response to `ConsumerGroupHeartbeatRequest`. `assignment=None`: the assignment is unchanged."""

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    class Assignment(Struct):
        topic_partitions: list["ConsumerGroupHeartbeatResponse.TopicPartitions"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+", default=None)
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    assignment: Assignment | None = field("0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse], key=68, versions="0-1", flexible="0+"):
    """Reports the member's subscription and partitions.

    `member_epoch` 0 joins, -1 leaves, -2 leaves until a static return.

    None, or -1 for the timeout, means "unchanged since the last heartbeat", so the first one must be complete.
    """

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", nullable="0+", default=None)
    rack_id: str | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    subscribed_topic_names: list[str] | None = field("0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = field("1+", nullable="1+", default=None)
    server_assignor: str | None = field("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field("0+", nullable="0+", default=None)

    OWN_ID = 1  # the member chooses its id (KIP-1082)
