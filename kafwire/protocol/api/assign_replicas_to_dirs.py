"""AssignReplicasToDirs (73): a broker reports the log directory of each replica to the controller. See KIP-858.

Only controllers serve it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    """The response to `AssignReplicasToDirsRequest`, in the same shape, with an error code per partition."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class TopicData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["AssignReplicasToDirsResponse.PartitionData"] = field("0+")

    class DirectoryData(Struct):
        id: UUID = field("0+")
        topics: list["AssignReplicasToDirsResponse.TopicData"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    directories: list[DirectoryData] = field("0+")


class AssignReplicasToDirsRequest(Request[AssignReplicasToDirsResponse], key=73, versions="0", flexible="0+"):
    """Assigns replicas of one broker to its directories. Other replicas stay where they are."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")

    class TopicData(Struct):
        topic_id: UUID = field("0+")
        partitions: list["AssignReplicasToDirsRequest.PartitionData"] = field("0+")

    class DirectoryData(Struct):
        id: UUID = field("0+")
        topics: list["AssignReplicasToDirsRequest.TopicData"] = field("0+")

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    directories: list[DirectoryData] = field("0+")
