"""OffsetCommit (8): store a group's offsets. See KIP-211, KIP-320 (leader epochs), KIP-848 (next group protocol).

Version 10 names topics by id only, earlier ones by name only.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, since


class OffsetCommitResponse(Response, key=8, versions="2-10", removed="0-1", flexible="8+"):
    """The response to `OffsetCommitRequest`: an error code for each partition, and none for the whole."""

    class OffsetCommitResponsePartition(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class OffsetCommitResponseTopic(Struct):
        name: str = field("0-9", ignorable=True)
        topic_id: UUID = field("10+", ignorable=True)
        partitions: list["OffsetCommitResponse.OffsetCommitResponsePartition"] = field("0+")

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field("0+")


class OffsetCommitRequest(Request[OffsetCommitResponse], key=8, versions="2-10", removed="0-1", flexible="8+"):
    """Commits, for each partition, the offset of the next record to read.

    Generation -1 with an empty member id commits without a membership in the group. Members of the protocol of KIP-848
    need version 9 and send their member epoch as the generation. From version 5 on the broker decides how long offsets
    are kept.
    """

    class OffsetCommitRequestPartition(Struct):
        partition_index: int32 = field("0+")
        committed_offset: int64 = field("0+")
        committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
        commit_timestamp: int64 = field("1", default=-1)
        committed_metadata: str | None = field("0+", nullable="0+")

    class OffsetCommitRequestTopic(Struct):
        name: str = field("0-9", ignorable=True)
        topic_id: UUID = field("10+", ignorable=True)
        partitions: list["OffsetCommitRequest.OffsetCommitRequestPartition"] = field("0+")

    group_id: str = field("0+")
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", nullable="7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field("0+")

    MEMBER_EPOCHS = 9  # the generation may be a member epoch of the consumer protocol (KIP-848)
    MISSING_GROUP = 9  # a missing group has GROUP_ID_NOT_FOUND, not ILLEGAL_GENERATION (KIP-848)
    BY_TOPIC_ID = since(OffsetCommitRequestTopic.topic_id)  # KIP-848
