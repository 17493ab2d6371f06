"""Vote (52): ask for votes in the election of the metadata quorum's leader. See KIP-595, KIP-853, KIP-996.

Controllers send it to each other.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, uint16


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    """The response to `VoteRequest`: the vote, and the leader that the voter knows, -1 if none."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        vote_granted: bool = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["VoteResponse.PartitionData"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class VoteRequest(Request[VoteResponse], key=52, versions="0-2", flexible="0+"):
    """Asks a voter for its vote; the end of the candidate's log shows whether the candidate is eligible.

    With `pre_vote` (version 2) it only asks whether the vote would be given, and no epoch begins.
    """

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        replica_epoch: int32 = field("0+")
        replica_id: int32 = field("0+")
        replica_directory_id: UUID = field("1+", ignorable=True)
        voter_directory_id: UUID = field("1+", ignorable=True)
        last_offset_epoch: int32 = field("0+")
        last_offset: int64 = field("0+")
        pre_vote: bool = field("2+")

    class TopicData(Struct):
        topic_name: str = field("0+")
        partitions: list["VoteRequest.PartitionData"] = field("0+")

    cluster_id: str | None = field("0+", nullable="0+", default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[TopicData] = field("0+")
