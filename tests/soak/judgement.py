"""The violations in the result of a segment: findings, doubt beyond measure, errors that no list allows."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.testing.history import Report

# Brokers look at the producer id of damaged records before they look at the checksum: so a damaged epoch or producer id
# is refused as what it says, which may be true, and cannot be tried again.
DAMAGED = {
    "BrokerError INVALID_PRODUCER_EPOCH": "the epoch was damaged; or the transaction was open for too long",
    "BrokerError INVALID_PRODUCER_ID_MAPPING": "the producer id was damaged, or one of several in the request",
    "AuthorizationError TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "damaged, records of no transaction are in one",
    "BrokerError TRANSACTION_ABORTABLE": "the transaction was open for too long, and is not known any more",
}
# A client may raise these under the faults that are played. No other refusal of a broker's is among them:
# numbers that are out of order, for one, would be kafwire's doing.
TOLERATED = {
    **{f"error {of}{name}": why for of in ("", "usurped ") for name, why in DAMAGED.items()},
    # A delivery or a transactional call that came to its time-out, and a deadline of a connection's.
    "error KafkaTimeoutError": "no response came in time",
    "error KafkaConnectionError": "no broker could be reached, or a connection broke",
    "error TransactionTimeoutError": "a transactional call came to its time-out; it is made again",
    "error init TransactionTimeoutError": "the same",
    "error again TransactionTimeoutError": "the same, of a commit",
    "error TransactionAbortableError": "a record of a transaction was not sent in time, or it was open for too long",
    "error TransactionAbortedError": "the record was in a transaction that was aborted",
    "error close KafkaTimeoutError": "a producer that can do nothing more is closed with records in hand",
    "error read CorruptBatchError": "records were damaged on their way",
    "error poll CorruptBatchError": "the same",
    "error read KafkaTimeoutError": "a consumer could not begin or commit in time",
    "error read KafkaConnectionError": "a consumer could not begin or commit: no broker could be reached",
    "error poll KafkaTimeoutError": "the same",
    "error hop KafkaTimeoutError": "a hop starts over after any error",
    "error hop KafkaConnectionError": "the same",
    "error hop CorruptBatchError": "the same",
    "error hop TransactionTimeoutError": "the same",
    "error hop TransactionAbortableError": "the same",
    "error hop ProducerFencedError": "a hop that was paused for longer than its transaction may be open",
    "error usurped ProducerFencedError": "another producer has its id",
    "error usurped TransactionAbortableError": "it could not send everything, and did not learn of the other",
    "error usurped TransactionTimeoutError": "the same",
    "error usurped TransactionAbortedError": "of its records, if it aborted for another reason",
    "error usurped KafkaError": "of its records, as it is closed with them in hand",
    "error usurped KafkaTimeoutError": "of its records",
    "error open": "a transaction ended before the outcome of a record was known",
}
# So many of the sent records may be in doubt: a share, and records beyond it. And of transactions.
UNKNOWN_SHARE, UNKNOWN_MORE = 0.1, 20_000
UNDECIDED_SHARE, UNDECIDED_MORE = 0.02, 10


def judged(report: Report, errors: Mapping[str, int]) -> list[str]:
    """The violations, in words."""
    counts = report.counts
    violations = [] if report.ok else [str(report)]
    violations += [f"{name}: {counts[name]}\n{report}" for name in ("unread", "unjudged") if counts[name]]
    bounds = (
        ("unknown", "records sent", counts["invoked"], UNKNOWN_SHARE, UNKNOWN_MORE),
        (
            "undecided",
            "transactions",
            counts["committed"] + counts["aborted"] + counts["undecided"],
            UNDECIDED_SHARE,
            UNDECIDED_MORE,
        ),
    )
    for name, of, all_of_them, share, more in bounds:
        if counts[name] > share * all_of_them + more:
            violations.append(f"{name}: {counts[name]} of {all_of_them} {of}, more than {share:.0%} and {more}")
    strange = {name: count for name, count in errors.items() if count and name not in TOLERATED}
    if strange:
        violations.append(f"errors that no list allows: {strange}")
    return violations
