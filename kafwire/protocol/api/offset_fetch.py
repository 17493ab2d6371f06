"""OffsetFetch (9): the committed offsets of groups. See KIP-88, KIP-447, KIP-709 (several groups), KIP-848.

Up to version 7 a message is about one group, in its own fields; from version 8 everything is inside `groups`. Version
10 names topics by id only, earlier ones by name only.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, since


class OffsetFetchResponse(Response, key=9, versions="1-10", removed="0", flexible="6+"):
    """The response to `OffsetFetchRequest`; offset -1 if the group has committed none."""

    class OffsetFetchResponsePartition(Struct):
        partition_index: int32 = field("0-7")
        committed_offset: int64 = field("0-7")
        committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
        metadata: str | None = field("0-7", nullable="0-7")
        error_code: int16 = field("0-7")

    class OffsetFetchResponseTopic(Struct):
        name: str = field("0-7")
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartition"] = field("0-7")

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int32 = field("8+")
        committed_offset: int64 = field("8+")
        committed_leader_epoch: int32 = field("8+", default=-1, ignorable=True)
        metadata: str | None = field("8+", nullable="8+")
        error_code: int16 = field("8+")

    class OffsetFetchResponseTopics(Struct):
        name: str = field("8-9", ignorable=True)
        topic_id: UUID = field("10+", ignorable=True)
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartitions"] = field("8+")

    class OffsetFetchResponseGroup(Struct):
        group_id: str = field("8+")
        topics: list["OffsetFetchResponse.OffsetFetchResponseTopics"] = field("8+")
        error_code: int16 = field("8+")

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")


class OffsetFetchRequest(Request[OffsetFetchResponse], key=9, versions="1-10", removed="0", flexible="6+"):
    """Asks for committed offsets; `topics=None` asks for all of the group, in version 2 and later.

    With `require_stable` the broker refuses, with UNSTABLE_OFFSET_COMMIT, a partition whose offset an open transaction
    is about to change.
    """

    class OffsetFetchRequestTopic(Struct):
        name: str = field("0-7")
        partition_indexes: list[int32] = field("0-7")

    class OffsetFetchRequestTopics(Struct):
        name: str = field("8-9", ignorable=True)
        topic_id: UUID = field("10+", ignorable=True)
        partition_indexes: list[int32] = field("8+")

    class OffsetFetchRequestGroup(Struct):
        group_id: str = field("8+")
        member_id: str | None = field("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int32 = field("9+", default=-1, ignorable=True)
        topics: list["OffsetFetchRequest.OffsetFetchRequestTopics"] | None = field("8+", nullable="8+")

    group_id: str = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: bool = field("7+")

    LEAST = STABLE = since(require_stable)  # earlier versions return offsets that a transaction may undo (KIP-447)
    GROUPS = since(groups)  # several groups in one request (KIP-709)
    BY_TOPIC_ID = since(OffsetFetchRequestTopics.topic_id)  # KIP-848
