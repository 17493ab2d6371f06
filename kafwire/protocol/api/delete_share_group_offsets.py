"""DeleteShareGroupOffsets (92): deletes a share group's offsets of whole topics. See KIP-932."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    """The response to `DeleteShareGroupOffsetsRequest`, with errors for the whole and per topic."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = field("0+")
        topic_id: UUID = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field("0+")


class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse], key=92, versions="0", flexible="0+"):
    """Deletes the offsets of these topics for a group, which must have no members (NON_EMPTY_GROUP)."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = field("0+")

    group_id: str = field("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field("0+")
