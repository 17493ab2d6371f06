"""The entries of a segment's transaction index (`.txnindex`): one for each aborted transaction. See KIP-98."""

from kafwire.protocol.spec import Data, field, int64


class AbortedTxn(Data, versions="0"):
    """An aborted transaction of one partition, after an int16 version; offsets are the log's."""

    producer_id: int64 = field("0+")
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    last_stable_offset: int64 = field("0+")
