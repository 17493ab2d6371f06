"""Which errors a relay tries again after, and which of them refuse a record."""

from __future__ import annotations

import pytest

from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthorizationError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionTimeoutError,
    broker_error,
)
from kafwire.outbox.refusals import is_of_record, is_passing


def aborted(cause: KafkaError) -> KafkaError:
    error = TransactionAbortableError("it can only be aborted")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (KafkaTimeoutError("late"), True),
        (KafkaConnectionError("gone"), True),
        (TransactionTimeoutError("late"), True),
        (TransactionAbortableError("by the coordinator"), True),
        (ProducerFencedError("another"), False),
        (ConfigError("wrong"), False),
        (KafkaError("closed"), False),
        (broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""), True),
        (broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""), False),
        (broker_error(ErrorCode.TRANSACTION_ABORTABLE, ""), True),
        (broker_error(ErrorCode.INVALID_PRODUCER_EPOCH, ""), True),
        (broker_error(ErrorCode.INVALID_RECORD, ""), False),
    ],
)
def test_errors_that_pass(error: KafkaError, passes: bool) -> None:
    assert is_passing(error) is passes
    if not isinstance(error, ProducerFencedError):
        assert is_passing(aborted(error)) is passes, "an aborted transaction is as its cause is"


@pytest.mark.parametrize(
    ("error", "is_of_one"),
    [
        (ConfigError("no record"), True),
        (RecordTooLargeError("large"), True),
        (broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""), True),
        (broker_error(ErrorCode.INVALID_TOPIC_EXCEPTION, ""), True),
        (broker_error(ErrorCode.INVALID_RECORD, ""), True),
        (broker_error(ErrorCode.INVALID_TIMESTAMP, ""), True),
        (broker_error(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ""), False),
        (broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ""), False),
        (KafkaError("closed"), False),
    ],
)
def test_errors_of_one_record(error: KafkaError, is_of_one: bool) -> None:
    assert is_of_record(error) is is_of_one


def test_a_missing_acl_is_an_error_of_its_own() -> None:
    assert isinstance(broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ""), AuthorizationError)
