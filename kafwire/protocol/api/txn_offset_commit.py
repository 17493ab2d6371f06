"""TxnOffsetCommit (28): a group's offsets, as part of a transaction. See KIP-98, KIP-447, KIP-890, KIP-1319."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, since


class TxnOffsetCommitResponse(Response, key=28, versions="0-6", flexible="3+"):
    """The response to `TxnOffsetCommitRequest`, one result for each partition."""

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = field("0-5", ignorable=True)
        topic_id: UUID = field("6+", ignorable=True)
        partitions: list["TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    topics: list[TxnOffsetCommitResponseTopic] = field("0+")


class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse], key=28, versions="0-6", flexible="3+"):
    """Commits offsets at the group's coordinator; they become valid when the transaction commits.

    From version 3 the group's generation and member fence members that have lost the partitions. Version 5 also adds
    the group to the transaction, as AddOffsetsToTxn does, and is for transactions of version 2 (KIP-890) only. Version
    6 names topics by their ids.
    """

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int32 = field("0+")
        committed_offset: int64 = field("0+")
        committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
        committed_metadata: str | None = field("0+", nullable="0+")

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = field("0-5", ignorable=True)
        topic_id: UUID = field("6+", ignorable=True)
        partitions: list["TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition"] = field("0+")

    transactional_id: str = field("0+")
    group_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    generation_id_or_member_epoch: int32 = field("3+", default=-1)
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field("0+")

    COORDINATOR_LOADING = 2  # COORDINATOR_LOAD_IN_PROGRESS instead of COORDINATOR_NOT_AVAILABLE
    ABORTABLE = 4  # TRANSACTION_ABORTABLE instead of INVALID_TXN_STATE (KIP-890)
    ADDS_GROUP = 5  # the coordinator adds the group to the transaction: transactions of version 2 (KIP-890)
    BY_TOPIC_ID = since(TxnOffsetCommitRequestTopic.topic_id)  # topics have the errors of OffsetCommit too (KIP-1319)
