"""The records of `__transaction_state`. See KIP-98, KIP-890, KIP-939.

`coordinator_record` has the layout of keys and values.
"""

from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import Struct, field, int8, int16, int32, int64


class TransactionLogKey(CoordinatorKey, record_type=0):
    """The key of a transactional id."""

    transactional_id: str = field("0")


class TransactionLogValue(CoordinatorValue, record_type=0, versions="0-1", flexible="1+"):
    """The state of a transactional id.

    `transaction_status`: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort,
    6 dead, 7 prepare epoch fence.
    """

    class PartitionsSchema(Struct):
        topic: str = field("0+")
        partition_ids: list[int32] = field("0+")

    producer_id: int64 = field("0+")
    previous_producer_id: int64 = field("1+", default=-1, tag=0)
    next_producer_id: int64 = field("1+", default=-1, tag=1)
    producer_epoch: int16 = field("0+")
    next_producer_epoch: int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: int32 = field("0+")
    transaction_status: int8 = field("0+")
    transaction_partitions: list[PartitionsSchema] | None = field("0+", nullable="0+")
    transaction_last_update_timestamp_ms: int64 = field("0+")
    transaction_start_timestamp_ms: int64 = field("0+")
    client_transaction_version: int16 = field("1+", tag=2)
