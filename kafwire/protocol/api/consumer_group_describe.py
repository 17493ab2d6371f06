"""ConsumerGroupDescribe (69): state, members and assignments of groups of the consumer protocol. See KIP-848.

DescribeGroups describes groups of the classic protocol. Version 1 distinguishes members of the two (KIP-1099).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    """The response to `ConsumerGroupDescribeRequest`, with errors per group.

    A member moves from `assignment` to `target_assignment`. `member_type`: 0 classic, 1 consumer, -1 unknown.
    """

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")
        partitions: list[int32] = field("0+")

    class Assignment(Struct):
        topic_partitions: list["ConsumerGroupDescribeResponse.TopicPartitions"] = field("0+")

    class Member(Struct):
        member_id: str = field("0+")
        instance_id: str | None = field("0+", nullable="0+", default=None)
        rack_id: str | None = field("0+", nullable="0+", default=None)
        member_epoch: int32 = field("0+")
        client_id: str = field("0+")
        client_host: str = field("0+")
        subscribed_topic_names: list[str] = field("0+")
        subscribed_topic_regex: str | None = field("0+", nullable="0+", default=None)
        assignment: "ConsumerGroupDescribeResponse.Assignment" = field("0+")
        target_assignment: "ConsumerGroupDescribeResponse.Assignment" = field("0+")
        member_type: int8 = field("1+", default=-1, ignorable=True)

    class DescribedGroup(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        group_id: str = field("0+")
        group_state: str = field("0+")
        group_epoch: int32 = field("0+")
        assignment_epoch: int32 = field("0+")
        assignor_name: str = field("0+")
        members: list["ConsumerGroupDescribeResponse.Member"] = field("0+")
        authorized_operations: int32 = field("0+", default=-0x80000000)

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribedGroup] = field("0+")


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse], key=69, versions="0-1", flexible="0+"):
    """Asks the coordinator of these groups for their description."""

    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")
