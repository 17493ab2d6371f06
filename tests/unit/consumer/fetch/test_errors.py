"""`consumer.fetch.errors`: which errors may pass, and which are reported again."""

from __future__ import annotations

import pytest

from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.consumer.fetch.errors import CAUSES, GONE_MS, SESSION_ERRORS, FetchErrors, SessionBackoff, may_pass
from kafwire.errors import ERROR_CODES, ErrorCode, KafkaConnectionError, KafkaError, broker_error

MIDDLE = 0.5  # no jitter


@pytest.mark.parametrize("code", [*sorted(LEADER_ERRORS), ErrorCode.UNKNOWN_SERVER_ERROR, 30_000])
def test_transient_errors(code: int) -> None:
    assert may_pass(code)


@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 35, 43])
def test_permanent_errors(code: int) -> None:
    assert not may_pass(code)


def test_whatever_kafka_calls_retriable_may_pass_but_for_damage() -> None:
    retriable = {code for code, known in ERROR_CODES.items() if known.retriable}
    assert {code for code in retriable if not may_pass(code)} == {ErrorCode.CORRUPT_MESSAGE}


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


def test_an_error_is_reported_once_until_it_was_gone_for_long() -> None:
    errors = FetchErrors()
    assert errors.note("t-0", "NOT_LEADER", 0)
    assert not errors.note("t-0", "NOT_LEADER", GONE_MS - 1)
    assert not errors.note("t-0", "NOT_LEADER", 2 * GONE_MS - 2), "since it came last, not since it was reported"
    assert errors.note("t-0", "NOT_LEADER", 3 * GONE_MS - 2)
    assert errors.note("t-1", "NOT_LEADER", 0)
    assert errors.note("t-0", "another", 0)
    assert errors.counts == {"t-0": {"NOT_LEADER": 4, "another": 1}, "t-1": {"NOT_LEADER": 1}}


def test_after_a_success_it_is_reported_however_soon_it_comes() -> None:
    errors = FetchErrors()
    errors.note("t-0", "a", 0)
    errors.note("t-0", "b", 0)
    errors.note("t-1", "a", 0)
    errors.end("t-0")
    assert [errors.note("t-0", "a", 1), errors.note("t-0", "b", 1), errors.note("t-1", "a", 1)] == [True, True, False]
    assert errors.counts == {"t-0": {"a": 2, "b": 2}, "t-1": {"a": 2}}


def test_the_latest_causes_are_remembered() -> None:
    errors = FetchErrors()
    for number in range(CAUSES):
        errors.note(f"t-{number}", "a", 0)
    assert not errors.note("t-0", "a", 1), "none is forgotten yet, and this one is the latest now"
    errors.note("another", "a", 1)
    assert len(errors.counts) == CAUSES
    assert "t-1" not in errors.counts
    assert not errors.note("t-0", "a", 2)
