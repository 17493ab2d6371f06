"""BeginQuorumEpoch (53): a new leader of the metadata quorum announces itself. See KIP-595, KIP-853 (endpoints).

Controllers send it to each other.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, uint16


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    """The response to `BeginQuorumEpochRequest`: the leader that the voter knows, -1 if none."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["BeginQuorumEpochResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class BeginQuorumEpochRequest(Request[BeginQuorumEpochResponse], key=53, versions="0-1", flexible="1+"):
    """Announces the leader of this epoch to a voter and, from version 1, the leader's endpoints."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        voter_directory_id: UUID = field("1+", ignorable=True)
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["BeginQuorumEpochRequest.PartitionData"] = field("0+")

    class LeaderEndpoint(Struct):
        name: str = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("0+")
    leader_endpoints: list[LeaderEndpoint] = field("1+", ignorable=True)
