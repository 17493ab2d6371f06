"""`CommitSchedule`: by number and by time."""

from __future__ import annotations

from kafwire.stream.commit_schedule import CommitSchedule


def test_nothing_completed_is_not_committed() -> None:
    schedule = CommitSchedule(1, 0.0)
    assert (schedule.due_at, schedule.is_due(100.0), schedule.has_completed) == (None, False, False)


def test_time_begins_with_the_first_offset() -> None:
    schedule = CommitSchedule(None, 5.0)
    schedule.on_completed(1, 10.0)
    schedule.on_completed(1, 14.0)
    assert schedule.due_at == 15.0
    assert not schedule.is_due(14.9)
    assert schedule.is_due(15.0)
    schedule.on_commit()
    assert not schedule.has_completed
    assert not schedule.is_due(1e9)


def test_a_number_comes_before_its_time() -> None:
    schedule = CommitSchedule(3, 5.0)
    schedule.on_completed(2, 10.0)
    assert schedule.due_at == 15.0
    schedule.on_completed(1, 11.0)
    assert schedule.is_due(11.0)


def test_without_a_time_the_number_alone_counts() -> None:
    schedule = CommitSchedule(3, None)
    schedule.on_completed(2, 10.0)
    assert (schedule.due_at, schedule.has_completed) == (None, True)
    schedule.on_commit()
    schedule.on_completed(2, 10.0)
    assert schedule.due_at is None, "the number restarts with each commit"


def test_a_refused_commit_is_due_again_and_not_at_once() -> None:
    schedule = CommitSchedule(3, None)
    schedule.on_completed(3, 10.0)
    assert schedule.on_commit() == 3
    schedule.on_refused(3, 11.0)
    assert schedule.has_completed
    schedule.on_completed(5, 11.0)
    assert not schedule.is_due(11.9)
    assert schedule.is_due(12.0)
    assert schedule.on_commit() == 8
