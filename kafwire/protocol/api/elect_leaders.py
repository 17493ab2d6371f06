"""ElectLeaders (43): trigger leader elections. See KIP-183 (preferred leaders), KIP-460 (unclean ones)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """The response to `ElectLeadersRequest`; ELECTION_NOT_NEEDED if the wanted leader already leads."""

    class PartitionResult(Struct):
        partition_id: int32 = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")

    class ReplicaElectionResult(Struct):
        topic: str = field("0+")
        partition_result: list["ElectLeadersResponse.PartitionResult"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field("0+")


class ElectLeadersRequest(Request[ElectLeadersResponse], key=43, versions="0-2", flexible="2+"):
    """Asks for elections in some partitions, or in all with `topic_partitions=None`.

    Type 0 makes the first replica of the list the leader; type 1, if no in-sync replica lives, any living one, which
    may lose records.
    """

    class TopicPartitions(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    election_type: int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+", default=60000)
