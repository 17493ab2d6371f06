"""AddPartitionsToTxn (24): partitions that a transaction is about to write. See KIP-98, KIP-890.

Clients use versions up to 3, about one transaction, in the fields with `v3_and_below`. Versions 4 and 5 are for
brokers, about several transactions.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64, since


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    """The response to `AddPartitionsToTxnRequest`, one result for each partition."""

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int32 = field("0+")
        partition_error_code: int16 = field("0+")

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = field("0+")
        results_by_partition: list["AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult"] = field("0+")

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = field("4+")
        topic_results: list["AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult"] = field("4+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")


class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse], key=24, versions="0-5", flexible="3+"):
    """Adds partitions to transactions at their coordinator; with `verify_only`, checks that they are in them."""

    class AddPartitionsToTxnTopic(Struct):
        name: str = field("0+")
        partitions: list[int32] = field("0+")

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = field("4+")
        producer_id: int64 = field("4+")
        producer_epoch: int16 = field("4+")
        verify_only: bool = field("4+")
        topics: list["AddPartitionsToTxnRequest.AddPartitionsToTxnTopic"] = field("4+")

    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: str = field("0-3")
    v3_and_below_producer_id: int64 = field("0-3")
    v3_and_below_producer_epoch: int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")

    FENCED_ERROR = 2  # PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588)
    FOR_BROKERS = since(transactions)  # several transactions, some only verified (KIP-890)
