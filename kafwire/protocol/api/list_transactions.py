"""ListTransactions (66): the transactional ids that one broker coordinates. See KIP-664.

Version 1 filters by duration (KIP-994), version 2 by a pattern of the transactional id (KIP-1152).
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64, since


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    """The response to `ListTransactionsRequest`. It returns the state filters that the broker does not know."""

    class TransactionState(Struct):
        transactional_id: str = field("0+")
        producer_id: int64 = field("0+")
        transaction_state: str = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    unknown_state_filters: list[str] = field("0+")
    transaction_states: list[TransactionState] = field("0+")


class ListTransactionsRequest(Request[ListTransactionsResponse], key=66, versions="0-2", flexible="0+"):
    """Asks one broker; the list of the whole cluster takes one request per broker.

    An empty filter matches all, as does a negative duration. `duration_filter` is in milliseconds;
    `transactional_id_pattern` is a regular expression in RE2 syntax, checked by the broker.
    """

    state_filters: list[str] = field("0+")
    producer_id_filters: list[int64] = field("0+")
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", nullable="2+", default=None)

    DURATION = since(duration_filter)  # KIP-994
    PATTERN = since(transactional_id_pattern)  # KIP-1152
