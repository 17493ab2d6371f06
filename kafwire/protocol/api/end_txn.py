"""EndTxn (26): commit or abort a transaction. See KIP-98, KIP-890 (a new epoch after every transaction)."""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64, since


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    """The response to `EndTxnRequest`; from version 5, id and epoch for the producer's next transaction."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id: int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: int16 = field("5+", default=-1, ignorable=True)


class EndTxnRequest(Request[EndTxnResponse], key=26, versions="0-5", flexible="3+"):
    """Ends the transaction of a producer: `committed` or not."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    committed: bool = field("0+")

    FENCED_ERROR = 2  # PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588)
    NEW_EPOCH = since(EndTxnResponse.producer_epoch)  # transactions of version 2 (KIP-890)
