"""Produce (0): record batches to partitions. See KIP-467 (record errors), KIP-516 (topic ids), KIP-951 (leader hints).

Version 13 and later name topics by id only, earlier ones by name only.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, record_bytes, since


class ProduceResponse(Response, key=0, versions="3-13", removed="0-2", flexible="9+"):
    """The response to `ProduceRequest`; there is none with `acks=0`."""

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int32 = field("8+")
        batch_index_error_message: str | None = field("8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = field("10+", default=-1)
        leader_epoch: int32 = field("10+", default=-1)

    class PartitionProduceResponse(Struct):
        index: int32 = field("0+")
        error_code: int16 = field("0+")
        base_offset: int64 = field("0+")
        log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        record_errors: list["ProduceResponse.BatchIndexAndErrorMessage"] = field("8+", ignorable=True)
        error_message: str | None = field("8+", nullable="8+", default=None, ignorable=True)
        current_leader: "ProduceResponse.LeaderIdAndEpoch" = field("10+", tag=0)

    class TopicProduceResponse(Struct):
        name: str = field("0-12", ignorable=True)
        topic_id: UUID = field("13+", ignorable=True)
        partition_responses: list["ProduceResponse.PartitionProduceResponse"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("10+")
        host: str = field("10+")
        port: int32 = field("10+")
        rack: str | None = field("10+", nullable="10+", default=None)

    responses: list[TopicProduceResponse] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)


class ProduceRequest(Request[ProduceResponse], key=0, versions="3-13", removed="0-2", flexible="9+"):
    """Appends one batch to each of the partitions; `acks` is 0, 1 or -1 for all in-sync replicas."""

    class PartitionProduceData(Struct):
        index: int32 = field("0+")
        records: record_bytes | None = field("0+", nullable="0+")

    class TopicProduceData(Struct):
        name: str = field("0-12", ignorable=True)
        topic_id: UUID = field("13+", ignorable=True)
        partition_data: list["ProduceRequest.PartitionProduceData"] = field("0+")

    transactional_id: str | None = field("3+", nullable="3+", default=None)
    acks: int16 = field("0+")
    timeout_ms: int32 = field("0+")
    topic_data: list[TopicProduceData] = field("0+")

    # The last int64 of a partition: direct sends read all three.
    LOG_START = since(ProduceResponse.PartitionProduceResponse.log_start_offset)
    ZSTD = 7  # KIP-110
    NAMES_LEADERS = since(ProduceResponse.NodeEndpoint.node_id)  # KIP-951
    ABORTABLE = 11  # a partition outside the transaction has TRANSACTION_ABORTABLE (KIP-890)
    ADDS_PARTITIONS = 12  # the leader adds the partition to the transaction: transactions of version 2 (KIP-890)
    BY_TOPIC_ID = since(TopicProduceData.topic_id)  # KIP-516
