"""Outcomes of prepared transactions: the meaning of EndTxn's error codes and of DescribeTransactions. Pure.

EndTxn by handle gives, by the level of `transaction.version`:

| state of the transaction | commit | abort |
|---|---|---|
| ongoing, or ended so already | NONE | NONE |
| ended the other way | INVALID_TXN_STATE | INVALID_TXN_STATE |
| timed out | INVALID_TXN_STATE; PRODUCER_FENCED on 0 and 1 | NONE; PRODUCER_FENCED on 0 and 1 |
| InitProducerId since | PRODUCER_FENCED: says nothing of the outcome | PRODUCER_FENCED |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, broker_error
from kafwire.spark.exactly_once.decisions import Decision, Prepared
from kafwire.types import TransactionHandle

ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT = "Ongoing", "CompleteCommit", "CompleteAbort"
_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
)


class Outcome(Enum):
    """The fate of a transaction that a decision names."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Described:
    """A transactional id at its coordinator; `started_ms` is -1 without an open transaction."""

    state: str
    producer_id: int
    epoch: int
    started_ms: int = -1
    timeout_ms: int = 0

    def is_open(self, handle: TransactionHandle) -> bool:
        """Return True if the transaction of `handle` is open."""
        return (self.state, self.producer_id, self.epoch) == (ONGOING, handle.producer_id, handle.producer_epoch)

    def left_ms(self, now_ms: int) -> int:
        """The time until the coordinator aborts the open transaction."""
        return self.started_ms + self.timeout_ms - now_ms


def committed(handle: TransactionHandle, code: int) -> Outcome:
    """The fate after EndTxn(commit) with this error code; raises `BrokerError` for a code that says nothing of it."""
    if code == ErrorCode.NONE:
        return Outcome.COMMITTED
    if code == ErrorCode.INVALID_TXN_STATE:
        return Outcome.ABORTED
    if code in _FENCED:
        return Outcome.UNKNOWN
    raise broker_error(
        code, "committing a prepared transaction", api="EndTxn", transactional_id=handle.transactional_id
    )


def found(handle: TransactionHandle, described: Described | None) -> Outcome:
    """The fate by DescribeTransactions, after an EndTxn(commit) that was fenced."""
    if described is None or described.producer_id != handle.producer_id:
        return Outcome.UNKNOWN
    ahead = described.epoch - handle.producer_epoch
    if described.state == COMPLETE_COMMIT and ahead == 0:
        return Outcome.COMMITTED
    # One epoch ahead: the coordinator's own abort, after the time-out or for a new producer.
    if described.state == COMPLETE_ABORT and ahead in (0, 1):
        return Outcome.ABORTED
    return Outcome.UNKNOWN


class HalfCommittedError(KafkaError):
    """A decided batch that cannot be committed in whole: `aborted` is lost, `unknown` may be lost.

    Args:
        sink: the sink's name.
        decision: the batch.
        outcomes: the fate of each prepared transaction.
    """

    def __init__(self, sink: str, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Make the error."""
        fates = list(zip(decision.prepared, outcomes, strict=True))
        self.sink = sink
        self.decision = decision
        self.outcomes = tuple(outcomes)
        self.aborted = tuple(each for each, outcome in fates if outcome is Outcome.ABORTED)
        self.unknown = tuple(each for each, outcome in fates if outcome is Outcome.UNKNOWN)
        said = [
            f"{sum(each.records for each in some)} records {what} in {places(some)}"
            for some, what in ((self.aborted, "were aborted"), (self.unknown, "may have been aborted"))
            if some
        ]
        super().__init__(
            f"batch {decision.batch} of query {decision.query} was decided, and then not committed in whole: "
            f"{'; '.join(said)}. The transactions ended before their commit, by transaction.timeout.ms or by another "
            f"producer. `kafwire spark recover {sink}` shows them and goes on with --accept-loss or --rewrite"
        )


class BatchAbortedError(KafkaError):
    """A batch was aborted before its decision: nothing of it is visible, and Spark may run it again."""


class OvertakenError(BatchAbortedError):
    """Another driver, or `kafwire spark recover`, took over the sink while the batch ran."""


def places(prepared: Iterable[Prepared]) -> str:
    """The partitions of prepared transactions, as text."""
    named = sorted(
        {(topic, number) for each in prepared for topic, numbers in each.partitions.items() for number in numbers}
    )
    return ", ".join(f"{topic}-{number}" for topic, number in named)
