"""OffsetDelete (47): delete a group's committed offsets of some partitions. See KIP-496."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class OffsetDeleteResponse(Response, key=47, versions="0"):
    """The response to `OffsetDeleteRequest`; GROUP_SUBSCRIBED_TO_TOPIC if members still read the topic."""

    class OffsetDeleteResponsePartition(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class OffsetDeleteResponseTopic(Struct):
        name: str = field("0+")
        partitions: list["OffsetDeleteResponse.OffsetDeleteResponsePartition"] = field("0+")

    error_code: int16 = field("0+")
    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field("0+")


class OffsetDeleteRequest(Request[OffsetDeleteResponse], key=47, versions="0"):
    """Deletes committed offsets at the group's coordinator. No version is flexible."""

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int32 = field("0+")

    class OffsetDeleteRequestTopic(Struct):
        name: str = field("0+")
        partitions: list["OffsetDeleteRequest.OffsetDeleteRequestPartition"] = field("0+")

    group_id: str = field("0+")
    topics: list[OffsetDeleteRequestTopic] = field("0+")
