"""ListPartitionReassignments (46): the moves of partitions in progress. See KIP-455."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """The response to `ListPartitionReassignmentsRequest`; it leaves out partitions that are not being moved.

    `replicas` are all current replicas of the partition, including those to be added and removed.
    """

    class OngoingPartitionReassignment(Struct):
        partition_index: int32 = field("0+")
        replicas: list[int32] = field("0+")
        adding_replicas: list[int32] = field("0+")
        removing_replicas: list[int32] = field("0+")

    class OngoingTopicReassignment(Struct):
        name: str = field("0+")
        partitions: list["ListPartitionReassignmentsResponse.OngoingPartitionReassignment"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field("0+")


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse], key=46, versions="0", flexible="0+"
):
    """Asks about some partitions, or about all with `topics=None`, which is the default."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = field("0+")
        partition_indexes: list[int32] = field("0+")

    timeout_ms: int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field("0+", nullable="0+", default=None)
