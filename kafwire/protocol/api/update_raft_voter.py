"""UpdateRaftVoter (82): a voter reports its endpoints to the leader of the metadata quorum. See KIP-853.

Only controllers serve it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, uint16


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """The response to `UpdateRaftVoterRequest`. `current_leader` redirects a voter that asked the wrong node."""

    class CurrentLeader(Struct):
        leader_id: int32 = field("0+", default=-1)
        leader_epoch: int32 = field("0+", default=-1)
        host: str = field("0+")
        port: int32 = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    current_leader: CurrentLeader = field("0+", tag=0)


class UpdateRaftVoterRequest(Request[UpdateRaftVoterResponse], key=82, versions="0", flexible="0+"):
    """Replaces the leader's entries of the voter's listeners and its range of `kraft.version`."""

    class Listener(Struct):
        name: str = field("0+")
        host: str = field("0+")
        port: uint16 = field("0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int16 = field("0+")
        max_supported_version: int16 = field("0+")

    cluster_id: str | None = field("0+", nullable="0+")
    current_leader_epoch: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: UUID = field("0+")
    listeners: list[Listener] = field("0+")
    k_raft_version_feature: KRaftVersionFeature = field("0+")
