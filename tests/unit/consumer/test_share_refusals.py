"""Acknowledgements that brokers refuse: reported once, by `commit` or by the log."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import ShareConsumer
from kafwire.consumer.share.refusals import Refusals
from kafwire.errors import BrokerError, ErrorCode
from tests.support.share.world import BATCH, ShareWorld

LOCK_S = 30.0
PATIENCE_S = 60.0
EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
LATE = "INVALID_RECORD_STATE"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if LATE in each.message]


def test_one_error_reports_all_refusals_and_is_taken_once() -> None:
    refusals = Refusals()
    assert refusals.take() is None
    for number in range(1000):
        refusals.add(ErrorCode.INVALID_RECORD_STATE, f"acknowledging t-{number}", "t")
    assert len(refusals) == 1000
    error = refusals.take()
    assert error is not None
    assert error.code == ErrorCode.INVALID_RECORD_STATE
    assert "acknowledging t-0 (999 more acknowledgements were refused)" in str(error)
    assert refusals.take() is None
    assert len(refusals) == 0


def test_a_commit_reports_refusals_once_and_the_log_does_not(caplog: pytest.LogCaptureFixture) -> None:
    with ShareWorld() as world, world.consumer(**EXPLICIT) as consumer, world.consumer(**EXPLICIT) as other:
        consumer.commit()
        too_late(world, consumer, other)
        consumer.poll(PATIENCE_S)
        consumer.poll(PATIENCE_S)
        with pytest.raises(BrokerError, match=f"t-0, offsets 0 to {BATCH - 1}: their locks expired"):
            consumer.commit()
        consumer.commit()
    assert warnings(caplog) == []


def test_the_log_reports_a_refusal_once_where_nothing_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    with ShareWorld() as world, world.consumer(**EXPLICIT) as consumer, world.consumer(**EXPLICIT) as other:
        too_late(world, consumer, other)
        consumer.poll(PATIENCE_S)
        assert warnings(caplog) == [], "a commit may come"
        consumer.poll(PATIENCE_S)
        assert len(warnings(caplog)) == 1
        consumer.commit()
    assert len(warnings(caplog)) == 1


def test_close_reports_unreported_refusals(caplog: pytest.LogCaptureFixture) -> None:
    with ShareWorld() as world, world.consumer(**EXPLICIT) as other:
        with world.consumer(**EXPLICIT) as consumer:
            too_late(world, consumer, other)
            world.pass_time(1)
            assert warnings(caplog) == []
        assert len(warnings(caplog)) == 1


def too_late(world: ShareWorld, consumer: ShareConsumer, other: ShareConsumer) -> None:
    """Accept records whose locks are over, and which another member has."""
    (batch,) = consumer.poll(PATIENCE_S)
    world.pass_time(LOCK_S + 1)
    assert batch.base_offset in [each.base_offset for each in other.poll(PATIENCE_S)]
    batch.accept()
