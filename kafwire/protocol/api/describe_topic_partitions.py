"""DescribeTopicPartitions (75): partitions with their eligible leader replicas, page by page. See KIP-966."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    """The response to `DescribeTopicPartitionsRequest`. `next_cursor` is None on the last page."""

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int16 = field("0+")
        partition_index: int32 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+", default=-1, ignorable=True)
        replica_nodes: list[int32] = field("0+")
        isr_nodes: list[int32] = field("0+")
        eligible_leader_replicas: list[int32] | None = field("0+", nullable="0+", default=None)
        last_known_elr: list[int32] | None = field("0+", nullable="0+", default=None)
        offline_replicas: list[int32] = field("0+", ignorable=True)

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int16 = field("0+")
        name: str | None = field("0+", nullable="0+")
        topic_id: UUID = field("0+", ignorable=True)
        is_internal: bool = field("0+", ignorable=True)
        partitions: list["DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition"] = field("0+")
        topic_authorized_operations: int32 = field("0+", default=-0x80000000)

    class Cursor(Struct):
        topic_name: str = field("0+")
        partition_index: int32 = field("0+")

    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: Cursor | None = field("0+", nullable="0+", default=None)


class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse], key=75, versions="0", flexible="0+"):
    """Asks for a page of partitions, topics in order of name. An empty list: all topics.

    `cursor` is where the page begins; its topic must be in the list, if there is one.
    """

    class TopicRequest(Struct):
        name: str = field("0+")

    class Cursor(Struct):
        topic_name: str = field("0+")
        partition_index: int32 = field("0+")

    topics: list[TopicRequest] = field("0+")
    response_partition_limit: int32 = field("0+", default=2000)
    cursor: Cursor | None = field("0+", nullable="0+", default=None)
