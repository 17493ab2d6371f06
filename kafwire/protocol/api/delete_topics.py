"""DeleteTopics (20). From version 6 by name or by topic id (KIP-516)."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, since


class DeleteTopicsResponse(Response, key=20, versions="1-6", removed="0", flexible="4+"):
    """The response to `DeleteTopicsRequest`, one result for each topic."""

    class DeletableTopicResult(Struct):
        name: str | None = field("0+", nullable="6+")
        topic_id: UUID = field("6+", ignorable=True)
        error_code: int16 = field("0+")
        error_message: str | None = field("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field("0+")


class DeleteTopicsRequest(Request[DeleteTopicsResponse], key=20, versions="1-6", removed="0", flexible="4+"):
    """Deletes topics: `topics` from version 6, `topic_names` before it."""

    class DeleteTopicState(Struct):
        name: str | None = field("6+", nullable="6+", default=None)
        topic_id: UUID = field("6+")

    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: int32 = field("0+")

    DELETION_DISABLED = 3  # TOPIC_DELETION_DISABLED instead of INVALID_REQUEST (KIP-322)
    BY_TOPIC_ID = since(DeleteTopicState.topic_id)  # KIP-516
