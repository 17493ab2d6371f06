"""`FailurePolicy`: in place, then retry topics, then dead letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafwire.stream.errors import HandlerTimeoutError
from kafwire.stream.failure_policy import (
    FailurePolicy,
    RetryTopic,
    SendDeadLetter,
    SendLater,
    Skip,
    StopStream,
    TryAgain,
)

TOPICS = (RetryTopic("soon", 60), RetryTopic("later", 600))
POLICY = FailurePolicy(
    attempts=3, backoff_s=1.0, max_backoff_s=1.5, on=(OSError,), retry_topics=TOPICS, dead_letter_topic="dead"
)
ERROR = ConnectionError("gone")


def test_waits_double_up_to_the_longest() -> None:
    assert POLICY.decide(ERROR, 1, "orders", 0, 0.5) == TryAgain(1.0)
    assert POLICY.decide(ERROR, 2, "orders", 0, 0.5) == TryAgain(1.5)


@pytest.mark.parametrize(("randomness", "after_s"), [(0.0, 0.8), (0.999_999, 1.2)])
def test_chance_spreads_the_wait(randomness: float, after_s: float) -> None:
    decision = POLICY.decide(ERROR, 1, "orders", 0, randomness)
    assert isinstance(decision, TryAgain)
    assert decision.after_s == pytest.approx(after_s, rel=1e-5)


def test_each_topic_leads_to_the_next() -> None:
    assert POLICY.decide(ERROR, 3, "orders", 5, 0.5) == SendLater("soon", 60_005)
    assert POLICY.decide(ERROR, 3, "soon", 5, 0.5) == SendLater("later", 600_005)
    assert POLICY.decide(ERROR, 3, "later", 5, 0.5) == SendDeadLetter("dead")
    assert POLICY.decide(ERROR, 1, "later", 5, 0.5) == TryAgain(1.0)


def test_other_errors_are_not_tried_again() -> None:
    assert POLICY.decide(ValueError("bad"), 1, "orders", 0, 0.5) == SendDeadLetter("dead")


def test_a_thread_that_still_runs_is_not_tried_beside() -> None:
    assert POLICY.decide(HandlerTimeoutError("", still_runs=True), 1, "orders", 0, 0.5) == SendLater("soon", 60_000)
    assert POLICY.decide(HandlerTimeoutError(""), 1, "orders", 0, 0.5) == TryAgain(1.0)


def test_without_dead_letters_the_stream_ends_unless_it_skips() -> None:
    policy = FailurePolicy()
    assert policy.decide(ERROR, 1, "orders", 0, 0.5) == StopStream()
    assert replace(policy, otherwise="skip").decide(ERROR, 1, "orders", 0, 0.5) == Skip()
    assert replace(POLICY, otherwise="skip").decide(ERROR, 3, "later", 0, 0.5) == SendDeadLetter("dead")


def test_policies_that_write_to_topics() -> None:
    assert not FailurePolicy(attempts=3, otherwise="skip").writes
    assert FailurePolicy(dead_letter_topic="dead").writes
    assert FailurePolicy(retry_topics=TOPICS).writes
