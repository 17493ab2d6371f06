"""DeleteRecords (21): delete the start of partitions' logs. See KIP-107."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    """The response to `DeleteRecordsRequest`: `low_watermark` is the lowest start offset among the replicas."""

    class DeleteRecordsPartitionResult(Struct):
        partition_index: int32 = field("0+")
        low_watermark: int64 = field("0+")
        error_code: int16 = field("0+")

    class DeleteRecordsTopicResult(Struct):
        name: str = field("0+")
        partitions: list["DeleteRecordsResponse.DeleteRecordsPartitionResult"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")


class DeleteRecordsRequest(Request[DeleteRecordsResponse], key=21, versions="0-2", flexible="2+"):
    """Asks leaders to delete the records before `offset`; -1 is the high watermark."""

    class DeleteRecordsPartition(Struct):
        partition_index: int32 = field("0+")
        offset: int64 = field("0+")

    class DeleteRecordsTopic(Struct):
        name: str = field("0+")
        partitions: list["DeleteRecordsRequest.DeleteRecordsPartition"] = field("0+")

    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: int32 = field("0+")
