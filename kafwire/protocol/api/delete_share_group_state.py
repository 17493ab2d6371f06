"""DeleteShareGroupState (86): deletes the stored state of share-partitions. See KIP-932.

Sent by a group's coordinator to the share coordinator, not by clients, which have DeleteShareGroupOffsets.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    """The response to `DeleteShareGroupStateRequest`, with errors per partition. It has no throttle time."""

    class PartitionResult(Struct):
        partition: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    class DeleteStateResult(Struct):
        topic_id: UUID = field("0+")
        partitions: list["DeleteShareGroupStateResponse.PartitionResult"] = field("0+")

    results: list[DeleteStateResult] = field("0+")


class DeleteShareGroupStateRequest(Request[DeleteShareGroupStateResponse], key=86, versions="0", flexible="0+"):
    """Deletes the state of these partitions for one group."""

    class PartitionData(Struct):
        partition: int32 = field("0+")

    class DeleteStateData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["DeleteShareGroupStateRequest.PartitionData"] = field("0+")

    group_id: str = field("0+")
    topics: list[DeleteStateData] = field("0+")
