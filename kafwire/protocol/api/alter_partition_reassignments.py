"""AlterPartitionReassignments (45): move partitions to other brokers. See KIP-455, KIP-860 (replication factor)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """The response to `AlterPartitionReassignmentsRequest`: the move was accepted, but need not be finished."""

    class ReassignablePartitionResponse(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")

    class ReassignableTopicResponse(Struct):
        name: str = field("0+")
        partitions: list["AlterPartitionReassignmentsResponse.ReassignablePartitionResponse"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field("0+")


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse], key=45, versions="0-1", flexible="0+"
):
    """Requests these brokers as a partition's replicas; `replicas=None` cancels a move in progress."""

    class ReassignablePartition(Struct):
        partition_index: int32 = field("0+")
        replicas: list[int32] | None = field("0+", nullable="0+", default=None)

    class ReassignableTopic(Struct):
        name: str = field("0+")
        partitions: list["AlterPartitionReassignmentsRequest.ReassignablePartition"] = field("0+")

    timeout_ms: int32 = field("0+", default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field("0+")
