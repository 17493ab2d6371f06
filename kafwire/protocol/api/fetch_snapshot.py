"""FetchSnapshot (59): read a snapshot of the metadata log in pieces. See KIP-630, KIP-853.

Controllers and brokers send it to the quorum's leader, when a Fetch response showed that the log's start is gone.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, record_bytes, uint16


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    """The response to `FetchSnapshotRequest`: the bytes from `position` on of a snapshot of `size` bytes.

    A piece may end anywhere: `unaligned_records` need not begin or end with a batch.
    """

    class SnapshotId(Struct):
        end_offset: int64 = field("0+")
        epoch: int32 = field("0+")

    class LeaderIdAndEpoch(Struct):
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")

    class PartitionSnapshot(Struct):
        index: int32 = field("0+")
        error_code: int16 = field("0+")
        snapshot_id: "FetchSnapshotResponse.SnapshotId" = field("0+")
        current_leader: "FetchSnapshotResponse.LeaderIdAndEpoch" = field("0+", tag=0)
        size: int64 = field("0+")
        position: int64 = field("0+")
        unaligned_records: record_bytes | None = field("0+")

    class TopicSnapshot(Struct):
        name: str = field("0+")
        partitions: list["FetchSnapshotResponse.PartitionSnapshot"] = field("0+")

    class NodeEndpoint(Struct):
        node_id: int32 = field("1+")
        host: str = field("1+")
        port: uint16 = field("1+")

    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    topics: list[TopicSnapshot] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0)


class FetchSnapshotRequest(Request[FetchSnapshotResponse], key=59, versions="0-1", flexible="0+"):
    """Asks for at most `max_bytes` of the snapshot that ends before `end_offset` of `epoch`."""

    class SnapshotId(Struct):
        end_offset: int64 = field("0+")
        epoch: int32 = field("0+")

    class PartitionSnapshot(Struct):
        partition: int32 = field("0+")
        current_leader_epoch: int32 = field("0+")
        snapshot_id: "FetchSnapshotRequest.SnapshotId" = field("0+")
        position: int64 = field("0+")
        replica_directory_id: UUID = field("1+", tag=0, ignorable=True)

    class TopicSnapshot(Struct):
        name: str = field("0+")
        partitions: list["FetchSnapshotRequest.PartitionSnapshot"] = field("0+")

    cluster_id: str | None = field("0+", nullable="0+", tag=0, default=None)
    replica_id: int32 = field("0+", default=-1)
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    topics: list[TopicSnapshot] = field("0+")
