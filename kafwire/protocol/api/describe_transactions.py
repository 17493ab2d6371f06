"""DescribeTransactions (65): the state of a coordinator's transactional ids. See KIP-664."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """The response to `DescribeTransactionsRequest`. Errors are per transactional id; there is none for the whole."""

    class TopicData(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    class TransactionState(Struct):
        error_code: int16 = field("0+")
        transactional_id: str = field("0+")
        transaction_state: str = field("0+")
        transaction_timeout_ms: int32 = field("0+")
        transaction_start_time_ms: int64 = field("0+")
        producer_id: int64 = field("0+")
        producer_epoch: int16 = field("0+")
        topics: list["DescribeTransactionsResponse.TopicData"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    transaction_states: list[TransactionState] = field("0+")


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse], key=65, versions="0", flexible="0+"):
    """Asks the coordinator of these transactional ids for their state. Other brokers return NOT_COORDINATOR."""

    transactional_ids: list[str] = field("0+")
