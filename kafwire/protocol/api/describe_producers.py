"""DescribeProducers (61): the idempotent producers that the leader of a partition remembers. See KIP-664."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """The response to `DescribeProducersRequest`. Outside a transaction, `current_txn_start_offset` is -1."""

    class ProducerState(Struct):
        producer_id: int64 = field("0+")
        producer_epoch: int32 = field("0+")
        last_sequence: int32 = field("0+", default=-1)
        last_timestamp: int64 = field("0+", default=-1)
        coordinator_epoch: int32 = field("0+")
        current_txn_start_offset: int64 = field("0+", default=-1)

    class PartitionResponse(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        active_producers: list["DescribeProducersResponse.ProducerState"] = field("0+")

    class TopicResponse(Struct):
        name: str = field("0+")
        partitions: list["DescribeProducersResponse.PartitionResponse"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    topics: list[TopicResponse] = field("0+")


class DescribeProducersRequest(Request[DescribeProducersResponse], key=61, versions="0", flexible="0+"):
    """Asks the leader of each partition for its active producers. A hanging transaction shows here."""

    class TopicRequest(Struct):
        name: str = field("0+")
        partition_indexes: list[int32] = field("0+")

    topics: list[TopicRequest] = field("0+")
