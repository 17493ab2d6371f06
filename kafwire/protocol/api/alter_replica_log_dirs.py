"""AlterReplicaLogDirs (34): move a broker's replicas between its log directories. See KIP-113."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", removed="0", flexible="2+"):
    """The response to `AlterReplicaLogDirsRequest`, by topic rather than by directory."""

    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = field("0+")
        partitions: list["AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    results: list[AlterReplicaLogDirTopicResult] = field("0+")


class AlterReplicaLogDirsRequest(
    Request[AlterReplicaLogDirsResponse], key=34, versions="1-2", removed="0", flexible="2+"
):
    """Assigns replicas to the directories, by absolute path, of one broker."""

    class AlterReplicaLogDirTopic(Struct):
        name: str = field("0+")
        partitions: list[int32] = field("0+")

    class AlterReplicaLogDir(Struct):
        path: str = field("0+")
        topics: list["AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic"] = field("0+")

    dirs: list[AlterReplicaLogDir] = field("0+")
