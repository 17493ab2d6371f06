"""Errors of a relay: which ones pass, and which ones refuse a row. Pure."""

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

# The coordinator acted without the relay: it has forgotten a transactional id that was unused for
# `transactional.id.expiration.ms`, or aborted a transaction that took longer than `transaction_timeout_ms`. Or another
# relay fenced this one: then the abort reports it.
GIVEN_UP = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
# Codes that depend only on the record and its topic, not on the relay.
OF_RECORDS = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
)


def is_passing(error: BaseException) -> bool:
    """Return True if a retry may not get this Kafka error again."""
    if isinstance(error, TransactionFatalError | ConfigError):
        return False
    if isinstance(error, TransactionAbortableError) and isinstance(error.__cause__, KafkaError):
        return is_passing(error.__cause__)
    if isinstance(error, BrokerError):
        # The producer has already waited for the topic.
        is_missing = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return (error.retriable and not is_missing) or error.code in (ErrorCode.TRANSACTION_ABORTABLE, *GIVEN_UP)
    retriable = getattr(error, "abortable", False) or getattr(error, "retriable", False)
    return retriable or isinstance(error, KafkaTimeoutError | KafkaConnectionError)


def is_of_record(error: KafkaError) -> bool:
    """Return True if an error refuses one record, so that others can be relayed without it.

    A missing ACL does not count: it refuses all records of a topic, until it is added.
    """
    if isinstance(error, AuthorizationError):
        return False
    return isinstance(error, ConfigError) or (isinstance(error, BrokerError) and error.code in OF_RECORDS)
