"""ReadShareGroupStateSummary (87): the state of share-partitions without their batches. See KIP-932.

Sent by a group's coordinator to the share coordinator, not by clients, which have DescribeShareGroupOffsets. Version 1
adds the count from which the group's lag is computed (KIP-1226).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    """The response to `ReadShareGroupStateSummaryRequest`. `delivery_complete_count` -1 is unknown."""

    class PartitionResult(Struct):
        partition: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        state_epoch: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        start_offset: int64 = field("0+")
        delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)

    class ReadStateSummaryResult(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ReadShareGroupStateSummaryResponse.PartitionResult"] = field("0+")

    results: list[ReadStateSummaryResult] = field("0+")


class ReadShareGroupStateSummaryRequest(
    Request[ReadShareGroupStateSummaryResponse], key=87, versions="0-1", flexible="0+"
):
    """Reads the summary of these partitions for one group."""

    class PartitionData(Struct):
        partition: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class ReadStateSummaryData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ReadShareGroupStateSummaryRequest.PartitionData"] = field("0+")

    group_id: str = field("0+")
    topics: list[ReadStateSummaryData] = field("0+")
