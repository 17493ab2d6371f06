"""AddOffsetsToTxn (25): a transaction is about to commit offsets of a group. See KIP-98, KIP-890."""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    """The response to `AddOffsetsToTxnRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")


class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse], key=25, versions="0-4", flexible="3+"):
    """Adds the group to the transaction at its coordinator; TxnOffsetCommit then sends the offsets to the group's."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    group_id: str = field("0+")

    FENCED_ERROR = 2  # PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588)
