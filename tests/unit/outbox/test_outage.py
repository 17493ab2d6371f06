"""The waits of a relay after failures, and the failures that it reports."""

from __future__ import annotations

import pytest

from kafwire.outbox.outage import AGAIN_S, Outage


def test_waits_grow_up_to_the_longest_and_begin_again_after_a_success() -> None:
    outage = Outage(100, 1000)
    assert [outage.failed("gone", 0.0, 0.5)[0] for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert outage.failures == 6
    outage.succeeded()
    assert outage.failures == 0
    assert outage.failed("gone", 0.0, 0.5)[0] == pytest.approx(0.1)


def test_the_longest_wait_is_not_below_the_first() -> None:
    assert Outage(100, 10).failed("gone", 0.0, 0.5)[0] == pytest.approx(0.1)


def test_each_cause_is_reported_once_and_again_after_a_minute() -> None:
    outage = Outage(100, 1000)
    reported = [outage.failed(cause, now, 0.5)[1] for cause, now in (("a", 0.0), ("a", 1.0), ("b", 2.0), ("a", 3.0))]
    assert reported == [True, False, True, False]
    assert [outage.failed("a", now, 0.5)[1] for now in (AGAIN_S - 1, AGAIN_S, AGAIN_S + 1)] == [False, True, False]


def test_a_success_makes_the_next_failure_a_first_one() -> None:
    outage = Outage(100, 1000)
    assert outage.failed("a", 0.0, 0.5)[1]
    outage.succeeded()
    assert outage.failed("a", 1.0, 0.5)[1]
