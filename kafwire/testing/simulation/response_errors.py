"""The errors that brokers of a simulated world return, by API: errors that clients have to get over."""

from __future__ import annotations

_LEADERS = ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR")
_COORDINATORS = ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
# Errors of Produce: of a broker that stored the batch, of one that may have stored it, and of a new leader.
STORED = ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")
MAYBE_STORED = "NOT_LEADER_OR_FOLLOWER"
UNREADY = (*_LEADERS, "NOT_ENOUGH_REPLICAS")
# The error of a broker that knows a later epoch of an idempotent producer. It ends a transaction.
LATER_EPOCH = "INVALID_PRODUCER_EPOCH"
# Errors of Produce are drawn more often.
ERRORS = [
    (api, error)
    for api, errors in {
        "Produce": (*_LEADERS, "NOT_ENOUGH_REPLICAS", *STORED, LATER_EPOCH),
        "Fetch": (*_LEADERS, "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "UNKNOWN_TOPIC_ID"),
        "ListOffsets": (*_LEADERS, "OFFSET_NOT_AVAILABLE"),
        "OffsetForLeaderEpoch": (*_LEADERS, "UNKNOWN_LEADER_EPOCH"),
        "Metadata": ("LEADER_NOT_AVAILABLE",),
        "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
        "OffsetCommit": _COORDINATORS,
        "OffsetFetch": (*_COORDINATORS, "UNSTABLE_OFFSET_COMMIT"),
        "TxnOffsetCommit": _COORDINATORS,
        "InitProducerId": (*_COORDINATORS, "CONCURRENT_TRANSACTIONS"),
        "AddPartitionsToTxn": (*_COORDINATORS, "CONCURRENT_TRANSACTIONS"),
        "AddOffsetsToTxn": (*_COORDINATORS, "CONCURRENT_TRANSACTIONS"),
        "EndTxn": (*_COORDINATORS, "CONCURRENT_TRANSACTIONS"),
    }.items()
    for error in errors
    for _ in range(4 if api == "Produce" else 1)
]
