"""WriteShareGroupState (85): stores changes of the delivery state of share-partitions. See KIP-932.

Sent by a partition's leader to the share coordinator, not by clients. Version 1 adds the count from which the group's
lag is computed (KIP-1226).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    """The response to `WriteShareGroupStateRequest`, with errors per partition. It has no throttle time."""

    class PartitionResult(Struct):
        partition: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    class WriteStateResult(Struct):
        topic_id: UUID = field("0+")
        partitions: list["WriteShareGroupStateResponse.PartitionResult"] = field("0+")

    results: list[WriteStateResult] = field("0+")


class WriteShareGroupStateRequest(Request[WriteShareGroupStateResponse], key=85, versions="0-1", flexible="0+"):
    """Writes batches over the stored ones; `start_offset` -1 leaves the start unchanged.

    `delivery_state` is as in `ReadShareGroupStateResponse`. Old epochs of leader or state are fenced.
    """

    class StateBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        delivery_state: int8 = field("0+")
        delivery_count: int16 = field("0+")

    class PartitionData(Struct):
        partition: int32 = field("0+")
        state_epoch: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        start_offset: int64 = field("0+")
        delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
        state_batches: list["WriteShareGroupStateRequest.StateBatch"] = field("0+")

    class WriteStateData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["WriteShareGroupStateRequest.PartitionData"] = field("0+")

    group_id: str = field("0+")
    topics: list[WriteStateData] = field("0+")
