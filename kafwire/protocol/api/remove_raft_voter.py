"""RemoveRaftVoter (81): removes a controller from the voters of the metadata quorum. See KIP-853."""

from kafwire.protocol.spec import UUID, Request, Response, field, int16, int32


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """The response to `RemoveRaftVoterRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse], key=81, versions="0", flexible="0+"):
    """Removes a voter, which must match in node id and directory id."""

    cluster_id: str | None = field("0+", nullable="0+")
    voter_id: int32 = field("0+")
    voter_directory_id: UUID = field("0+")
