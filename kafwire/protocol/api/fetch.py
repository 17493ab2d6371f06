"""Fetch (1): record batches from partitions. See KIP-227 (sessions), KIP-516 (topic ids), KIP-951 (leader hints).

Version 13 and later name topics by id only, earlier ones by name only.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64, record_bytes, since


class FetchResponse(Response, key=1, versions="4-18", removed="0-3", flexible="12+"):
    """The response to `FetchRequest`.

    `records` may begin before the requested offset and end in an incomplete batch.
    """

    class EpochEndOffset(Struct):
        epoch: int32 = field("12+", default=-1)
        end_offset: int64 = field("12+", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = field("12+", default=-1)
        leader_epoch: int32 = field("12+", default=-1)

    class SnapshotId(Struct):
        end_offset: int64 = field("0+", default=-1)
        epoch: int32 = field("0+", default=-1)

    class AbortedTransaction(Struct):
        producer_id: int64 = field("4+")
        first_offset: int64 = field("4+")

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        high_watermark: int64 = field("0+")
        last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        diverging_epoch: "FetchResponse.EpochEndOffset" = field("12+", tag=0)
        current_leader: "FetchResponse.LeaderIdAndEpoch" = field("12+", tag=1)
        snapshot_id: "FetchResponse.SnapshotId" = field("12+", tag=2)
        aborted_transactions: list["FetchResponse.AbortedTransaction"] | None = field(
            "4+", nullable="4+", ignorable=True
        )
        preferred_read_replica: int32 = field("11+", default=-1)
        records: record_bytes | None = field("0+", nullable="0+")

    class FetchableTopicResponse(Struct):
        topic: str = field("0-12", ignorable=True)
        topic_id: UUID = field("13+", ignorable=True)
        partitions: list["FetchResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("16+")
        host: str = field("16+")
        port: int32 = field("16+")
        rack: str | None = field("16+", nullable="16+", default=None)

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("7+", ignorable=True)
    session_id: int32 = field("7+")
    responses: list[FetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)


class FetchRequest(Request[FetchResponse], key=1, versions="4-18", removed="0-3", flexible="12+"):
    """Asks a broker for the records of partitions, waiting up to `max_wait_ms` for `min_bytes` of them."""

    class ReplicaState(Struct):
        replica_id: int32 = field("15+", default=-1)
        replica_epoch: int64 = field("15+", default=-1)

    class FetchPartition(Struct):
        partition: int32 = field("0+")
        current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
        fetch_offset: int64 = field("0+")
        last_fetched_epoch: int32 = field("12+", default=-1)
        log_start_offset: int64 = field("5+", default=-1, ignorable=True)
        partition_max_bytes: int32 = field("0+")
        replica_directory_id: UUID = field("17+", tag=0, ignorable=True)
        high_watermark: int64 = field("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)

    class FetchTopic(Struct):
        topic: str = field("0-12", ignorable=True)
        topic_id: UUID = field("13+", ignorable=True)
        partitions: list["FetchRequest.FetchPartition"] = field("0+")

    class ForgottenTopic(Struct):
        topic: str = field("7-12", ignorable=True)
        topic_id: UUID = field("13+", ignorable=True)
        partitions: list[int32] = field("7+")

    cluster_id: str | None = field("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field("4+", ignorable=True)
    session_id: int32 = field("7+", ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)

    SESSIONS = since(session_id)  # KIP-227
    FROM_FOLLOWERS = since(rack_id)  # a replica in the reader's rack serves it (KIP-392)
    BY_TOPIC_ID = since(FetchTopic.topic_id)  # KIP-516
    REPLICA_STATE = since(replica_state)
    NAMES_LEADERS = since(FetchResponse.NodeEndpoint.node_id)  # KIP-951
