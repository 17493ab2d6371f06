"""ListOffsets (2): the offset of a timestamp, or of an end of the log. See KIP-79, KIP-734, KIP-1005."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, int64, since


class ListOffsetsResponse(Response, key=2, versions="1-11", removed="0", flexible="6+"):
    """The response to `ListOffsetsRequest`; offset -1 if no record is that late."""

    class ListOffsetsPartitionResponse(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        old_style_offsets: list[int64] = field("0")
        timestamp: int64 = field("1+", default=-1)
        offset: int64 = field("1+", default=-1)
        leader_epoch: int32 = field("4+", default=-1)

    class ListOffsetsTopicResponse(Struct):
        name: str = field("0+")
        partitions: list["ListOffsetsResponse.ListOffsetsPartitionResponse"] = field("0+")

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field("0+")


class ListOffsetsRequest(Request[ListOffsetsResponse], key=2, versions="1-11", removed="0", flexible="6+"):
    """Asks partitions for the first offset at or after a timestamp in ms; -1 is the end, -2 the start.

    A consumer's `replica_id` is -1, although the default is 0, as for all fields in Kafka's definition.
    """

    class ListOffsetsPartition(Struct):
        partition_index: int32 = field("0+")
        current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
        timestamp: int64 = field("0+")
        max_num_offsets: int32 = field("0", default=1)

    class ListOffsetsTopic(Struct):
        name: str = field("0+")
        partitions: list["ListOffsetsRequest.ListOffsetsPartition"] = field("0+")

    replica_id: int32 = field("0+")
    isolation_level: int8 = field("2+")
    topics: list[ListOffsetsTopic] = field("0+")
    timeout_ms: int32 = field("10+", ignorable=True)

    LEADER_EPOCH = since(ListOffsetsResponse.ListOffsetsPartitionResponse.leader_epoch)  # KIP-320
    MAX_TIMESTAMP = 7  # timestamp -3 (KIP-734)
    EARLIEST_LOCAL = 8  # timestamp -4 (KIP-405)
    LATEST_TIERED = 9  # timestamp -5 (KIP-1005)
    EARLIEST_PENDING_UPLOAD = 11  # timestamp -6 (KIP-1023)
