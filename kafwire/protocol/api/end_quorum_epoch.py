"""EndQuorumEpoch (54): the leader of the metadata quorum resigns. See KIP-595, KIP-853 (directory ids, endpoints).

Controllers send it to each other.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, uint16


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    """The response to `EndQuorumEpochRequest`: the leader that the voter knows, -1 if none."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["EndQuorumEpochResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class EndQuorumEpochRequest(Request[EndQuorumEpochResponse], key=54, versions="0-1", flexible="1+"):
    """Asks the voters to elect another leader, best successor first.

    Version 0 names the successors by id (`preferred_successors`), version 1 by id and directory
    (`preferred_candidates`).
    """

    class ReplicaInfo(Struct):
        candidate_id: int32 = field("1+")
        candidate_directory_id: UUID = field("1+")

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        preferred_successors: list[int32] = field("0", ignorable=True)
        preferred_candidates: list["EndQuorumEpochRequest.ReplicaInfo"] = field("1+", ignorable=True)

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["EndQuorumEpochRequest.PartitionData"] = field("0+")

    class LeaderEndpoint(Struct):
        name: str = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    topics: list[TopicData] = field("0+")
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)
