"""ShareFetch (78): records for a member of a share group, and its acknowledgements of earlier ones. See KIP-932.

Version 0 was for early access, and is removed. Version 2 adds the acquire mode (KIP-1206) and the renewal of
acquisition locks (KIP-1222).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64, record_bytes


class ShareFetchResponse(Response, key=78, versions="1-2", removed="0", flexible="0+"):
    """The response to `ShareFetchRequest`.

    `records` are whole batches; only the offsets in `acquired_records`, both ends included, are the member's own. In
    the versions that exist `records` may be empty but not null, though the default is None.
    """

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class AcquiredRecords(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        delivery_count: int16 = field("0+")

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        acknowledge_error_code: int16 = field("0+")
        acknowledge_error_message: str | None = field("0+", nullable="0+", default=None)
        current_leader: "ShareFetchResponse.LeaderIdAndEpoch" = field("0+")
        records: record_bytes | None = field("0+", nullable="0")
        acquired_records: list["ShareFetchResponse.AcquiredRecords"] = field("0+")

    class ShareFetchableTopicResponse(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ShareFetchResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("0+")
        host: str = field("0+")
        port: int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field("1+")
    responses: list[ShareFetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("0+")


class ShareFetchRequest(Request[ShareFetchResponse], key=78, versions="1-2", removed="0", flexible="0+"):
    """Acquires records within a share session, and acknowledges records that the member has finished.

    `share_session_epoch`: 0 opens the session, -1 closes it, in between it counts up. `acknowledge_types`: 0 gap, 1
    accept, 2 release, 3 reject, 4 renew (version 2, with `is_renew_ack`); one for the whole batch, or one per offset.
    """

    class AcknowledgementBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        acknowledge_types: list[int8] = field("0+")

    class FetchPartition(Struct):
        partition_index: int32 = field("0+")
        partition_max_bytes: int32 = field("0")
        acknowledgement_batches: list["ShareFetchRequest.AcknowledgementBatch"] = field("0+")

    class FetchTopic(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ShareFetchRequest.FetchPartition"] = field("0+")

    class ForgottenTopic(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    group_id: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    max_records: int32 = field("1+")
    batch_size: int32 = field("1+")
    share_acquire_mode: int8 = field("2+", ignorable=True)
    is_renew_ack: bool = field("2+")
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("0+")
