"""InitProducerId (22): a producer id and epoch. See KIP-98, KIP-360; version 6 (KIP-939) is unstable."""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64, since


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    """The response to `InitProducerIdRequest`."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    error_code: int16 = field("0+")
    producer_id: int64 = field("0+", default=-1)
    producer_epoch: int16 = field("0+")
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)


class InitProducerIdRequest(
    Request[InitProducerIdResponse], key=22, versions="0-6", flexible="2+", latest_unstable=True
):
    """Asks for a producer id: any broker for an idempotent producer, the coordinator for a transactional one."""

    transactional_id: str | None = field("0+", nullable="0+")
    transaction_timeout_ms: int32 = field("0+")
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable2_pc: bool = field("6+")
    keep_prepared_txn: bool = field("6+")

    FENCED_ERROR = 4  # PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588)
    TWO_PHASE = since(enable2_pc)  # KIP-939
