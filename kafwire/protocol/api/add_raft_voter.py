"""AddRaftVoter (80): makes a controller a voter of the metadata quorum. See KIP-853.

Version 1 lets the leader respond before the change is committed (KIP-1186).
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, uint16


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """The response to `AddRaftVoterRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)


class AddRaftVoterRequest(Request[AddRaftVoterResponse], key=80, versions="0-1", flexible="0+"):
    """Adds a voter, identified by node and directory id: a node that lost its disk returns as another voter."""

    class Listener(Struct):
        name: str = field("0+")
        host: str = field("0+")
        port: uint16 = field("0+")

    cluster_id: str | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: UUID = field("0+")
    listeners: list[Listener] = field("0+")
    ack_when_committed: bool = field("1+", default=True)
