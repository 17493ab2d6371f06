"""The meaning of each error code for a transaction: done, sent again, aborted, fatal, or fenced. Pure.

Leaders and group coordinators refuse a stale epoch without its cause, so their refusal only aborts: the transaction
coordinator alone reports fencing.
"""

from __future__ import annotations

from enum import IntEnum, auto

from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES
from kafwire.producer.transactions.actions import Action, AddOffsets, AddPartitions, CommitOffsets


class Meaning(IntEnum):
    """The producer's reaction to an error code; the worst last."""

    DONE = auto()
    RETRY = auto()
    FIND_COORDINATOR = auto()  # send again, after looking up the coordinator
    ABORT = auto()
    FATAL = auto()
    FENCED = auto()


# The coordinator does not know this producer id (any more): it has no transaction of it.
UNKNOWN_THERE = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID)

# For all requests, unless `_OWN` differs. Codes missing here: RETRY if `errors` says so, else the request's
# `_OTHERWISE`.
_ALL: dict[int, Meaning] = {
    ErrorCode.NONE: Meaning.DONE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Meaning.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Meaning.FIND_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    ErrorCode.PRODUCER_FENCED: Meaning.FENCED,
    ErrorCode.INVALID_TXN_STATE: Meaning.FATAL,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning.FATAL,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Meaning.ABORT,
    ErrorCode.UNKNOWN_PRODUCER_ID: Meaning.ABORT,
    ErrorCode.TRANSACTION_ABORTABLE: Meaning.ABORT,
}
_OWN: dict[type[Action], dict[int, Meaning]] = {
    AddPartitions: {ErrorCode.OPERATION_NOT_ATTEMPTED: Meaning.RETRY},  # another partition's code has the cause
    CommitOffsets: {
        ErrorCode.REQUEST_TIMED_OUT: Meaning.FIND_COORDINATOR,
        ErrorCode.INVALID_PRODUCER_EPOCH: Meaning.ABORT,  # the group coordinator's: the transaction coordinator decides
        ErrorCode.PRODUCER_FENCED: Meaning.ABORT,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Meaning.FATAL,
    },
}
_OTHERWISE = {AddPartitions: Meaning.ABORT, AddOffsets: Meaning.ABORT, CommitOffsets: Meaning.ABORT}
# After these errors of a batch the producer cannot continue; any other fails only its transaction. So does a stale
# epoch, until the coordinator reports fencing: a late marker may have raised it.
FATAL_FOR_BATCHES: dict[int, Meaning] = {
    ErrorCode.PRODUCER_FENCED: Meaning.FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning.FATAL,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Meaning.FATAL,
}
# These codes refuse the producer's epoch, and say nothing about the batch.
REFUSED_EPOCH = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


def meaning_of(kind: type[Action], code: int) -> Meaning:
    """Return the meaning of an error code in the response to a request."""
    found = _OWN.get(kind, {}).get(code, _ALL.get(code))
    if found is not None:
        return found
    known = ERROR_CODES.get(code)
    if known is not None and known.retriable:
        return Meaning.RETRY
    return _OTHERWISE.get(kind, Meaning.FATAL)
