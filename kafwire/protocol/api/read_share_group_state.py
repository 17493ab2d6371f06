"""ReadShareGroupState (84): the stored delivery state of share-partitions. See KIP-932.

Sent by a partition's leader to the share coordinator, not by clients.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    """The response to `ReadShareGroupStateRequest`. `delivery_state`: 0 available, 2 acknowledged, 4 archived."""

    class StateBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        delivery_state: int8 = field("0+")
        delivery_count: int16 = field("0+")

    class PartitionResult(Struct):
        partition: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        state_epoch: int32 = field("0+")
        start_offset: int64 = field("0+")
        state_batches: list["ReadShareGroupStateResponse.StateBatch"] = field("0+")

    class ReadStateResult(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ReadShareGroupStateResponse.PartitionResult"] = field("0+")

    results: list[ReadStateResult] = field("0+")


class ReadShareGroupStateRequest(Request[ReadShareGroupStateResponse], key=84, versions="0", flexible="0+"):
    """Reads state for a leader; a greater `leader_epoch` fences earlier leaders."""

    class PartitionData(Struct):
        partition: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class ReadStateData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ReadShareGroupStateRequest.PartitionData"] = field("0+")

    group_id: str = field("0+")
    topics: list[ReadStateData] = field("0+")
