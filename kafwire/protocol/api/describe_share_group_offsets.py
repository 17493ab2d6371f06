"""DescribeShareGroupOffsets (90): the progress of share groups. See KIP-932. Version 1 adds the lag (KIP-1226)."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """The response to `DescribeShareGroupOffsetsRequest`, with errors per group and partition. -1 is an unknown lag."""

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int32 = field("0+")
        start_offset: int64 = field("0+")
        leader_epoch: int32 = field("0+")
        lag: int64 = field("1+", default=-1, ignorable=True)
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field("0+")
        topic_id: UUID = field("0+")
        partitions: list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition"] = field("0+")

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = field("0+")
        topics: list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic"] = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field("0+")


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse], key=90, versions="0-1", flexible="0+"
):
    """Asks the coordinator of these groups; `topics=None`: all partitions with state of the group."""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field("0+")
        partitions: list[int32] = field("0+")

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = field("0+")
        topics: list["DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic"] | None = field(
            "0+", nullable="0+"
        )

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field("0+")
