"""OffsetForLeaderEpoch (23): the end of a leader epoch, to find a truncated log. See KIP-101, KIP-279, KIP-320."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", removed="0-1", flexible="4+"):
    """The response to `OffsetForLeaderEpochRequest`; -1 and -1 if the leader knows no such epoch.

    `leader_epoch` is the greatest epoch up to the requested one, `end_offset` the offset after its last record.
    """

    class EpochEndOffset(Struct):
        error_code: int16 = field("0+")
        partition: int32 = field("0+")
        leader_epoch: int32 = field("1+", default=-1, ignorable=True)
        end_offset: int64 = field("0+", default=-1)

    class OffsetForLeaderTopicResult(Struct):
        topic: str = field("0+")
        partitions: list["OffsetForLeaderEpochResponse.EpochEndOffset"] = field("0+")

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field("0+")


class OffsetForLeaderEpochRequest(
    Request[OffsetForLeaderEpochResponse], key=23, versions="2-4", removed="0-1", flexible="4+"
):
    """Asks leaders for the end of an epoch. A consumer's `replica_id` is -1; the default, -2, is a debugging reader."""

    class OffsetForLeaderPartition(Struct):
        partition: int32 = field("0+")
        current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
        leader_epoch: int32 = field("0+")

    class OffsetForLeaderTopic(Struct):
        topic: str = field("0+")
        partitions: list["OffsetForLeaderEpochRequest.OffsetForLeaderPartition"] = field("0+")

    replica_id: int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field("0+")
