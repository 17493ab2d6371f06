"""DescribeLogDirs (35): sizes of a broker's replicas, and the directories that they are in. See KIP-113, KIP-827."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.log.partition import Partition
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.log_dirs import LogDirs
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the sizes in each of the broker's directories."""
    response, asked, node = protocol.DescribeLogDirsResponse, request.message.topics, request.node
    wanted = None if asked is None else {(each.topic, index) for each in asked for index in each.partitions}
    log_dirs: LogDirs = state.part(LogDirs)
    if not state.replication.can_lead(node):
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return response(
            results=[
                response.DescribeLogDirsResult(error_code=code, log_dir=path, topics=[])
                for path in log_dirs.paths(node)
            ]
        )
    results = []
    for path in log_dirs.paths(node):
        topics = []
        for topic in state.topics:
            parts = [
                part
                for partition in topic.partitions
                if node in partition.replicas and (wanted is None or (topic.name, partition.index) in wanted)
                for part in _parts(log_dirs, node, partition, path)
            ]
            if parts:
                topics.append(response.DescribeLogDirsTopic(name=topic.name, partitions=parts))
        results.append(response.DescribeLogDirsResult(log_dir=path, topics=topics))
    return response(results=results)


def _parts(log_dirs: LogDirs, node: int, partition: Partition, path: str) -> list[Any]:
    """Return the replica if it is in the directory, and the replica that moves there, which is empty until then."""
    kind: Any = protocol.DescribeLogDirsResponse.DescribeLogDirsPartition
    index, log = partition.index, partition.log
    found = []
    if log_dirs.current(node, partition) == path:
        lag = log.end_offset - partition.end_at(node)
        found.append(kind(partition_index=index, partition_size=log.size, offset_lag=lag))
    if log_dirs.future(node, partition) == path:
        lag = log.end_offset - log.start_offset
        found.append(kind(partition_index=index, partition_size=0, offset_lag=lag, is_future_key=True))
    return found
