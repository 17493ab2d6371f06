"""CreatePartitions (37): give topics more partitions. See KIP-195, KIP-599 (quota on it)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    """The response to `CreatePartitionsRequest`, one result for each topic.

    Only version 3 has THROTTLING_QUOTA_EXCEEDED: repeat the request after `throttle_time_ms`.
    """

    class CreatePartitionsTopicResult(Struct):
        name: str = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)

    throttle_time_ms: int32 = field("0+")
    results: list[CreatePartitionsTopicResult] = field("0+")


class CreatePartitionsRequest(Request[CreatePartitionsResponse], key=37, versions="0-3", flexible="2+"):
    """Asks for partitions; `count` is the new total number of the topic.

    `assignments` has an entry for each added partition; None: the controller chooses.
    """

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int32] = field("0+")

    class CreatePartitionsTopic(Struct):
        name: str = field("0+")
        count: int32 = field("0+")
        assignments: list["CreatePartitionsRequest.CreatePartitionsAssignment"] | None = field("0+", nullable="0+")

    topics: list[CreatePartitionsTopic] = field("0+")
    timeout_ms: int32 = field("0+")
    validate_only: bool = field("0+")
