"""InitializeShareGroupState (83): creates the stored state of share-partitions. See KIP-932.

Sent by a group's coordinator to the share coordinator, not by clients.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    """The response to `InitializeShareGroupStateRequest`, with errors per partition. It has no throttle time."""

    class PartitionResult(Struct):
        partition: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    class InitializeStateResult(Struct):
        topic_id: UUID = field("0+")
        partitions: list["InitializeShareGroupStateResponse.PartitionResult"] = field("0+")

    results: list[InitializeStateResult] = field("0+")


class InitializeShareGroupStateRequest(Request[InitializeShareGroupStateResponse], key=83, versions="0", flexible="0+"):
    """Sets the group's start in each partition; with `start_offset` -1 the partition's leader decides."""

    class PartitionData(Struct):
        partition: int32 = field("0+")
        state_epoch: int32 = field("0+")
        start_offset: int64 = field("0+")

    class InitializeStateData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["InitializeShareGroupStateRequest.PartitionData"] = field("0+")

    group_id: str = field("0+")
    topics: list[InitializeStateData] = field("0+")
