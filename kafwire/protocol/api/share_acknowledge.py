"""ShareAcknowledge (79): acknowledges records of a share group without fetching more. See KIP-932.

Version 0 was for early access, and is removed. Version 2 adds the renewal of acquisition locks (KIP-1222).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64, since


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", removed="0", flexible="0+"):
    """The response to `ShareAcknowledgeRequest`."""

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        current_leader: "ShareAcknowledgeResponse.LeaderIdAndEpoch" = field("0+")

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ShareAcknowledgeResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("0+")
        host: str = field("0+")
        port: int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int32 = field("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("0+")


class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse], key=79, versions="1-2", removed="0", flexible="0+"):
    """Acknowledges within the share session that ShareFetch opened; -1 as `share_session_epoch` closes it.

    `acknowledge_types` are those of `ShareFetchRequest`.
    """

    class AcknowledgementBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        acknowledge_types: list[int8] = field("0+")

    class AcknowledgePartition(Struct):
        partition_index: int32 = field("0+")
        acknowledgement_batches: list["ShareAcknowledgeRequest.AcknowledgementBatch"] = field("0+")

    class AcknowledgeTopic(Struct):
        topic_id: UUID = field("0+")
        partitions: list["ShareAcknowledgeRequest.AcknowledgePartition"] = field("0+")

    group_id: str | None = field("0+", nullable="0+", default=None)
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    is_renew_ack: bool = field("2+")
    topics: list[AcknowledgeTopic] = field("0+")

    RENEWALS = since(is_renew_ack)  # KIP-1222
