"""AlterReplicaLogDirs (34): moves a broker's replicas between its directories. See KIP-113."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.log_dirs import LogDirs
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

# The folder of a moving replica is named "<topic>-<partition>.<32 digits>-future".
_LONGEST_FOLDER = 255
_SUFFIX = len(".-future") + 32


def handle(state: ClusterState, request: Request) -> Response:
    """Begin the move of each replica; of several directories for a replica, the last one counts."""
    response = protocol.AlterReplicaLogDirsResponse
    paths = {
        (topic.name, index): each.path
        for each in request.message.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    topics: dict[str, list[Any]] = {}
    for (name, index), path in paths.items():
        code = _move(state, request.node, name, index, path)
        part = response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        topics.setdefault(name, []).append(part)
    return response(
        results=[
            response.AlterReplicaLogDirTopicResult(topic_name=name, partitions=parts) for name, parts in topics.items()
        ]
    )


def _move(state: ClusterState, node: int, name: str, index: int, path: str) -> int:
    log_dirs: LogDirs = state.part(LogDirs)
    if len(f"{name}-{index}") + _SUFFIX > _LONGEST_FOLDER:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path not in log_dirs.paths(node):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not state.replication.can_lead(node):
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = state.topics.partition(name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if node not in partition.replicas:
        log_dirs.prefer(node, partition, path)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    log_dirs.move(node, partition, path)
    return ErrorCode.NONE
