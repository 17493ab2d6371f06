"""AlterShareGroupOffsets (91): moves a share group to other start offsets. See KIP-932."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """The response to `AlterShareGroupOffsetsRequest`, with errors for the whole and per partition."""

    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field("0+")
        topic_id: UUID = field("0+")
        partitions: list["AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = field("0+")


class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse], key=91, versions="0", flexible="0+"):
    """Sets the start offsets of a group, which must have no members (NON_EMPTY_GROUP)."""

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int32 = field("0+")
        start_offset: int64 = field("0+")

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field("0+")
        partitions: list["AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition"] = field("0+")

    group_id: str = field("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field("0+")
