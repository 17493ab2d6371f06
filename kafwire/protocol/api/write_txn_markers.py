"""WriteTxnMarkers (27): write the end markers of transactions to logs; sent by brokers. See KIP-98, KIP-1228."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, int64


class WriteTxnMarkersResponse(Response, key=27, versions="1-2", removed="0", flexible="1+"):
    """The response to `WriteTxnMarkersRequest`, one result for each partition of each marker."""

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class WritableTxnMarkerTopicResult(Struct):
        name: str = field("0+")
        partitions: list["WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult"] = field("0+")

    class WritableTxnMarkerResult(Struct):
        producer_id: int64 = field("0+")
        topics: list["WriteTxnMarkersResponse.WritableTxnMarkerTopicResult"] = field("0+")

    markers: list[WritableTxnMarkerResult] = field("0+")


class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse], key=27, versions="1-2", removed="0", flexible="1+"):
    """Makes leaders write commit markers (`transaction_result` true) or abort markers.

    `transaction_version` is that of the cluster's feature: 2 if a producer's epoch grows with every transaction.
    """

    class WritableTxnMarkerTopic(Struct):
        name: str = field("0+")
        partition_indexes: list[int32] = field("0+")

    class WritableTxnMarker(Struct):
        producer_id: int64 = field("0+")
        producer_epoch: int16 = field("0+")
        transaction_result: bool = field("0+")
        topics: list["WriteTxnMarkersRequest.WritableTxnMarkerTopic"] = field("0+")
        coordinator_epoch: int32 = field("0+")
        transaction_version: int8 = field("2+", ignorable=True)

    markers: list[WritableTxnMarker] = field("0+")
