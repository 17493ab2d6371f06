"""ShareGroupDescribe (77): state, members and assignments of share groups. See KIP-932.

Version 0 was for early access, and is removed.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class ShareGroupDescribeResponse(Response, key=77, versions="1", removed="0", flexible="0+"):
    """The response to `ShareGroupDescribeRequest`, with errors per group. Several members may share a partition."""

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")
        partitions: list[int32] = field("0+")

    class Assignment(Struct):
        topic_partitions: list["ShareGroupDescribeResponse.TopicPartitions"] = field("0+")

    class Member(Struct):
        member_id: str = field("0+")
        rack_id: str | None = field("0+", nullable="0+", default=None)
        member_epoch: int32 = field("0+")
        client_id: str = field("0+")
        client_host: str = field("0+")
        subscribed_topic_names: list[str] = field("0+")
        assignment: "ShareGroupDescribeResponse.Assignment" = field("0+")

    class DescribedGroup(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        group_id: str = field("0+")
        group_state: str = field("0+")
        group_epoch: int32 = field("0+")
        assignment_epoch: int32 = field("0+")
        assignor_name: str = field("0+")
        members: list["ShareGroupDescribeResponse.Member"] = field("0+")
        authorized_operations: int32 = field("0+", default=-0x80000000)

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribedGroup] = field("0+")


class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse], key=77, versions="1", removed="0", flexible="0+"):
    """Asks the coordinator of these share groups for their description."""

    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")
