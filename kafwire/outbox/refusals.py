"""Errors of a relay: which of them pass, and which of them refuse a row. Pure."""

from __future__ import annotations

from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortableError,
    TransactionFatalError,
)

# The coordinator did something without the relay: it has forgotten a transactional id that was not used for
# `transactional.id.expiration.ms`, or aborted a transaction that took longer than `transaction_timeout_ms`. Another
# relay may be behind that too: then aborting tells so.
GIVEN_UP = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
# The codes that depend on the record and its topic alone, whatever the relay may do.
OF_RECORDS = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
)


def is_passing(error: BaseException) -> bool:
    """Return whether an error of Kafka may not come again when the relay tries again."""
    if isinstance(error, TransactionFatalError | ConfigError):
        return False
    if isinstance(error, TransactionAbortableError) and isinstance(error.__cause__, KafkaError):
        return is_passing(error.__cause__)
    if isinstance(error, BrokerError):
        # The producer has waited for a topic before it gave it up.
        is_missing = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return (error.retriable and not is_missing) or error.code in (ErrorCode.TRANSACTION_ABORTABLE, *GIVEN_UP)
    retriable = getattr(error, "abortable", False) or getattr(error, "retriable", False)
    return retriable or isinstance(error, KafkaTimeoutError | KafkaConnectionError)


def is_of_record(error: KafkaError) -> bool:
    """Return whether an error refuses one record, so that others can be relayed without it.

    A missing ACL is none of these: it refuses all records of a topic, until it is added.
    """
    if isinstance(error, AuthorizationError):
        return False
    return isinstance(error, ConfigError) or (isinstance(error, BrokerError) and error.code in OF_RECORDS)
