"""DescribeQuorum (55): leader, voters and observers of the metadata log. See KIP-595, KIP-836 (times), KIP-853."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, since, uint16


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """The response to `DescribeQuorumRequest`; -1: unknown to the leader.

    Times are in ms since 1970 by the leader's clock. Version 2 adds directory ids, messages and the nodes' endpoints.
    """

    class ReplicaState(Struct):
        replica_id: int32 = field("0+")
        replica_directory_id: UUID = field("2+")
        log_end_offset: int64 = field("0+")
        last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
        last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("2+", nullable="2+", ignorable=True)
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        high_watermark: int64 = field("0+")
        current_voters: list["DescribeQuorumResponse.ReplicaState"] = field("0+")
        observers: list["DescribeQuorumResponse.ReplicaState"] = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["DescribeQuorumResponse.PartitionData"] = field("0+")

    class Listener(Struct):
        name: str = field("2+")
        host: str = field("2+")
        port: uint16 = field("2+")

    class Node(Struct):
        node_id: int32 = field("2+")
        listeners: list["DescribeQuorumResponse.Listener"] = field("2+")

    error_code: int16 = field("0+")
    error_message: str | None = field("2+", nullable="2+", ignorable=True)
    topics: list[TopicData] = field("0+")
    nodes: list[Node] = field("2+")


class DescribeQuorumRequest(Request[DescribeQuorumResponse], key=55, versions="0-2", flexible="0+"):
    """Asks about the quorum; the only valid topic is "__cluster_metadata", partition 0."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["DescribeQuorumRequest.PartitionData"] = field("0+")

    topics: list[TopicData] = field("0+")

    NODES = since(DescribeQuorumResponse.nodes)  # with directory ids (KIP-853)
