"""DescribeLogDirs (35): the replicas in a broker's log directories.

See KIP-113, KIP-827 (space), KIP-1066 (cordons).
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class DescribeLogDirsResponse(Response, key=35, versions="1-5", removed="0", flexible="2+"):
    """The response to `DescribeLogDirsRequest`, one result for each directory; sizes are in bytes.

    A replica that is moving into the directory has `is_future_key`. A cordoned directory (version 5) gets no further
    partitions.
    """

    class DescribeLogDirsPartition(Struct):
        partition_index: int32 = field("0+")
        partition_size: int64 = field("0+")
        offset_lag: int64 = field("0+")
        is_future_key: bool = field("0+")

    class DescribeLogDirsTopic(Struct):
        name: str = field("0+")
        partitions: list["DescribeLogDirsResponse.DescribeLogDirsPartition"] = field("0+")

    class DescribeLogDirsResult(Struct):
        error_code: int16 = field("0+")
        log_dir: str = field("0+")
        topics: list["DescribeLogDirsResponse.DescribeLogDirsTopic"] = field("0+")
        total_bytes: int64 = field("4+", default=-1, ignorable=True)
        usable_bytes: int64 = field("4+", default=-1, ignorable=True)
        is_cordoned: bool = field("5+", ignorable=True)

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field("0+")


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse], key=35, versions="1-5", removed="0", flexible="2+"):
    """Asks one broker about its replicas of some partitions, or of all with `topics=None`."""

    class DescribableLogDirTopic(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    topics: list[DescribableLogDirTopic] | None = field("0+", nullable="0+")
