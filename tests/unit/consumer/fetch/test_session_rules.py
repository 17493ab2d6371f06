"""`consumer.fetch.session_rules`: epochs, and the retry after an error, of fetch and share sessions."""

from __future__ import annotations

import pytest

from kafwire.consumer.fetch.session_rules import LAST_EPOCH, OPEN, SESSION_ERRORS, SessionBackoff, next_epoch
from kafwire.errors import ErrorCode, KafkaConnectionError, KafkaError, broker_error

MIDDLE = 0.5  # no jitter


def test_epochs_begin_again_after_the_last() -> None:
    assert [next_epoch(epoch) for epoch in (OPEN, 1, LAST_EPOCH - 1, LAST_EPOCH)] == [1, 2, LAST_EPOCH, 1]


@pytest.mark.parametrize("code", sorted(SESSION_ERRORS))
def test_the_first_session_error_is_retried_at_once(code: int) -> None:
    backoff = SessionBackoff(100, 1_000)
    error = broker_error(code, "fetching")
    assert not backoff.failed(error, 5_000, MIDDLE)
    assert backoff.not_before_ms <= 5_000
    assert backoff.failed(error, 5_000, MIDDLE)
    assert backoff.not_before_ms == 5_200
    backoff.succeeded()
    assert not backoff.failed(error, 6_000, MIDDLE)


@pytest.mark.parametrize("error", [KafkaConnectionError("lost"), broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, "x")])
def test_other_errors_wait_for_the_backoff(error: KafkaError) -> None:
    backoff = SessionBackoff(100, 1_000)
    assert [backoff.failed(error, 0, MIDDLE) and backoff.not_before_ms for _ in range(5)] == [
        *(100, 200, 400),
        *(800, 1_000),
    ]
    backoff.succeeded()
    assert backoff.failed(error, 0, MIDDLE)
    assert backoff.not_before_ms == 100
