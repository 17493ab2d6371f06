"""`consumer/fetch/cursor.py`: the meaning of responses for a cursor."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.errors import FetchDisposition
from kafwire.consumer.fetch.session import Asked
from kafwire.errors import ERROR_CODES


@dataclass
class Part:
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_read_replica: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1


def cursor() -> FetchCursor:
    return FetchCursor(0, "t", uuid.UUID(int=1), 0)


def bounded(position: int, end: int = 10) -> FetchCursor:
    """A cursor that is read up to an end."""
    return FetchCursor(3, "t", uuid.UUID(int=1), 3, position=position, end=end, asked_for=True)


def test_the_lowest_offset_that_was_asked_for() -> None:
    assert bounded(5).lowest == 5
    read = cursor()
    assert read.lowest == -1
    read.seek(7, 1)
    read.advance(9, 0)
    read.seek(-1, 1)  # by time: where that is is not known yet
    assert read.lowest == 7
    read.seek(3, 2)
    read.seek(8, 3)
    assert (read.lowest, read.end) == (3, cursor().end)


# ---- verdicts


@pytest.mark.parametrize(
    ("part", "from_leader", "from_replica"),
    [
        (Part(), FetchDisposition.TAKE, FetchDisposition.TAKE),
        (Part(preferred_read_replica=3), FetchDisposition.FOLLOW, FetchDisposition.FOLLOW),
        (Part(diverging_epoch=0, diverging_end_offset=5), FetchDisposition.TRUNCATED, FetchDisposition.DOUBT),
        (Part(diverging_epoch=4, preferred_read_replica=3), FetchDisposition.TRUNCATED, FetchDisposition.DOUBT),
        (Part(1), FetchDisposition.OUT_OF_RANGE, FetchDisposition.RETURN),
        (Part(1, diverging_epoch=4), FetchDisposition.OUT_OF_RANGE, FetchDisposition.RETURN),
        (Part(6), FetchDisposition.FIND_LEADER, FetchDisposition.RETURN),
        (Part(74), FetchDisposition.FIND_LEADER, FetchDisposition.RETURN),
        (Part(-1), FetchDisposition.FIND_LEADER, FetchDisposition.FIND_LEADER),
        (Part(2), FetchDisposition.FAILED, FetchDisposition.RETURN),
        (Part(29), FetchDisposition.FAILED, FetchDisposition.FAILED),
        (Part(32_000), FetchDisposition.FIND_LEADER, FetchDisposition.FIND_LEADER),  # an unknown code
    ],
)
def test_verdicts(part: Part, from_leader: FetchDisposition, from_replica: FetchDisposition) -> None:
    assert cursor().judge(part, from_replica=False) is from_leader
    assert cursor().judge(part, from_replica=True) is from_replica


@pytest.mark.parametrize(
    "code", sorted(code for code, kind in ERROR_CODES.items() if kind.retriable and code not in (1, 2))
)
def test_transient_errors_look_up_the_leader(code: int) -> None:
    assert cursor().judge(Part(code), from_replica=False) is FetchDisposition.FIND_LEADER


@given(st.integers(-1, 200), st.integers(-1, 9), st.integers(-1, 9), st.integers(-1, 9), st.booleans())
def test_a_response_with_an_error_says_nothing_about_the_log(
    code: int, watermark: int, stable: int, start: int, replica: bool
) -> None:
    it = cursor()
    it.high_watermark, it.last_stable, it.log_start = 100, 90, 10
    it.failures, it.failing_since_ms = 3, 5.0
    it.judge(Part(code, watermark, stable, start), from_replica=replica)
    if code:
        assert (it.high_watermark, it.last_stable, it.log_start, it.failures) == (100, 90, 10, 3)
        return
    assert (it.high_watermark, it.last_stable) == ((watermark, stable) if watermark >= 0 else (100, 90))
    assert it.log_start == (start if start >= 0 else 10)
    assert it.failures == 0
    assert it.failing_since_ms is None


@pytest.mark.parametrize("committed_only", [True, False])
@pytest.mark.parametrize("part", [Part(0, 20, 9), Part(0, 9, 9), Part(0, -1, -1), Part(0, 20, -1), Part(0, 10, 10)])
def test_a_response_counts_as_a_success_if_the_broker_can_serve_the_log_to_the_end(
    part: Part, *, committed_only: bool
) -> None:
    """Another may have lost what was there, or not know yet that it is committed."""
    it = bounded(0)
    it.failures, it.failing_since_ms = 3, 5.0
    assert it.judge(part, from_replica=False, committed_only=committed_only) is FetchDisposition.TAKE
    good = part.high_watermark >= 10 and not (committed_only and 0 <= part.last_stable_offset < 10)
    assert (it.failures, it.failing_since_ms) == ((0, None) if good else (3, 5.0))


def test_it_is_wanted_only_while_no_state_prevents_fetching() -> None:
    it = cursor()
    it.position, it.asked_for = 1, True
    assert it.is_wanted
    for name, value in (("asked_for", False), ("paused", True), ("halted", True), ("doubted", True), ("position", -1)):
        before = getattr(it, name)
        setattr(it, name, value)
        assert not it.is_wanted, name
        setattr(it, name, before)
    assert it.is_wanted


def test_a_seek_forgets_the_errors_of_the_old_position() -> None:
    it = cursor()
    it.halted = it.doubted = True
    it.failing_since_ms, it.last_epoch = 7.0, 3
    it.seek(40, 2)
    assert (it.position, it.generation, it.last_epoch, it.halted, it.doubted) == (40, 2, -1, False, False)
    assert it.failing_since_ms is None
    it.advance(50, 6)
    assert it.asked(9) == Asked(50, 9, -1, 6)


def test_it_is_done_at_its_end_and_wanted_until_then() -> None:
    assert (bounded(9).done, bounded(9).is_wanted) == (False, True)
    assert (bounded(10).done, bounded(10).is_wanted) == (True, False)
    it = bounded(5)
    it.advance(100, -1)
    assert it.done
    it.seek(5, 1)
    assert not it.done


def test_records_are_progress() -> None:
    it = bounded(5)
    it.failing_since_ms, it.failures, it.warned = 1.0, 2, True
    it.advance(7, -1)
    assert (it.position, it.failures, it.warned) == (7, 0, False)
    assert it.failing_since_ms is None
    assert it.failing_ms(30.0) == 0
    assert it.failing_ms(35.0) == 5


def test_it_is_done_where_there_is_nothing_more() -> None:
    it = bounded(5)
    it.ended = True
    assert (it.done, it.is_wanted, it.position) == (True, False, 5)
    it.seek(5, 1)
    assert it.is_wanted


@pytest.mark.parametrize(("reported", "may_end"), [(11, True), (10, True), (9, False), (-1, False)])
def test_an_empty_response_may_end_partitions_whose_end_the_broker_has_passed(reported: int, *, may_end: bool) -> None:
    assert bounded(0).may_end(Part(0, reported, 0), committed_only=False) is may_end
    assert bounded(0).may_end(Part(0, 50, reported), committed_only=True) is (may_end or reported < 0), (
        "-1: it does not say"
    )
    assert not cursor().may_end(Part(0, reported, reported), committed_only=False)


def test_why_there_were_no_records() -> None:
    it = bounded(5)
    it.judge(Part(0, 20, 6), from_replica=False)
    text = "t-3 gave no records from offset 5 on for 60 s"
    assert it.why_stalled(60, committed_only=True).startswith(f"{text}: its last stable offset is 6, and the read ends")
    lost = f"{text}, although it had some up to 10; now it ends at 20"
    assert it.why_stalled(60, committed_only=False).startswith(lost)


def test_epochs_are_named_if_the_plan_says_so() -> None:
    it = bounded(5)
    it.leader_epoch, it.last_epoch = 3, 2
    assert it.asked(9) == Asked(5, 9, 3, 2)
    assert it.asked(9, names_epochs=False) == Asked(5, 9)


def test_the_lease_of_a_replica_ends() -> None:
    it = cursor()
    it.replica, it.replica_until_ms = 3, 100.0
    assert it.read_from(1, 99.9) == 3
    assert it.read_from(1, 100.0) == 1
    assert it.replica == -1


@pytest.mark.parametrize(
    ("watermark", "stable", "delivered", "all_of_it", "committed"),
    [(-1, -1, 5, None, None), (10, 8, -1, None, None), (10, 8, 4, 6, 4), (10, 8, 9, 1, 0), (10, 8, 12, 0, 0)],
)
def test_lag(watermark: int, stable: int, delivered: int, all_of_it: int | None, committed: int | None) -> None:
    it = cursor()
    it.high_watermark, it.last_stable = watermark, stable
    assert it.lag(delivered, committed_only=False) == all_of_it
    assert it.lag(delivered, committed_only=True) == committed


@pytest.mark.parametrize(
    ("delivered", "fed_end", "lag"),
    [
        (9, 15, 1),  # the cursor's own state counts
        (10, 15, 0),
        (11, 15, 4),  # the reader has records of a response that the cursor has not seen
        (11, 11, 0),
        (11, -1, 0),
    ],
)
@pytest.mark.parametrize("committed_only", [True, False])
def test_lag_of_a_reader_that_is_ahead_of_the_engine(
    delivered: int, fed_end: int, lag: int, *, committed_only: bool
) -> None:
    it = cursor()
    it.high_watermark = 10 if not committed_only else 12
    it.last_stable = 10 if committed_only else 8
    assert it.lag(delivered, committed_only=committed_only, fed_end=fed_end) == lag
