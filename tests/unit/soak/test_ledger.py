"""The judgement of a peril: nothing where only what the log lost is missing, and each planted mistake as what it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafwire.types import TopicPartition
from tests.soak.ledger import BEGINS, CUT, HOLES, NOTHING, Acked, How, Ledger, Reading, Reported, judge, same

T0 = TopicPartition("t", 0)
Logs = dict[TopicPartition, list[tuple[int, bytes]]]
Case = tuple[Ledger, Logs, Callable[[Acked], bool], How]


def value(number: int) -> bytes:
    return b"v%03d" % number


def made(count: int = 20) -> tuple[Ledger, Logs]:
    """All acknowledged and there, and one reader that read all."""
    ledger = Ledger()
    for number in range(count):
        ledger.acked.append(Acked(T0, number, value(number), b"%d" % (number % 3), float(number)))
        ledger.order["p", T0].append(value(number))
    logs = {T0: [(number, value(number)) for number in range(count)]}
    ledger.readings[T0].append(Reading("reader", [(number, value(number)) for number in range(count)]))
    return ledger, logs


def nothing() -> Case:
    return *made(), lambda _: False, NOTHING


def cut() -> Case:
    """The log was lost from offset 10 on, and rewritten; the reader had read to 15, and its error named 10 as next."""
    ledger, logs = made()
    new = [(10 + number, value(100 + number)) for number in range(5)]
    logs[T0][10:] = new
    ledger.acked += [Acked(T0, offset, seen, b"", 50.0) for offset, seen in new]
    ledger.order["p", T0] += [seen for _, seen in new]
    (reading,) = ledger.readings[T0]
    reading.events[16:] = [Reported(10, "LogTruncatedError"), *new]
    return ledger, logs, lambda one: one.offset >= 10 and one.at < 50, CUT


def begins() -> Case:
    """Records before 8 were deleted; the reader had read to 3, and its error named 8 as the next start."""
    ledger, logs = made()
    del logs[T0][:8]
    (reading,) = ledger.readings[T0]
    reading.events[4:8] = [Reported(8, "OFFSET_OUT_OF_RANGE")]
    return ledger, logs, lambda one: one.offset < 8, BEGINS


def holes() -> Case:
    """Each key's last record was left; the reader had read to 5."""
    ledger, logs = made()
    logs[T0] = logs[T0][-3:]
    (reading,) = ledger.readings[T0]
    reading.events[6:17] = []
    return ledger, logs, lambda one: one.offset < 17, HOLES


CASES = [nothing, cut, begins, holes]


@pytest.mark.parametrize("case", CASES)
def test_missing_records_that_the_log_lost_are_no_finding(case: Callable[[], Case]) -> None:
    judgement = judge(*case())
    assert judgement.violations == []
    assert judgement.acked >= 20
    assert judgement.missing == {nothing: 0, cut: 10, begins: 8, holes: 17}[case]
    assert judgement.reported == {nothing: 0, cut: 1, begins: 1, holes: 0}[case]


def lose_another(case: Case) -> str:
    case[1][T0].pop(-2)
    return "1 lost, and no log lost them"


def keep_what_was_lost(case: Case) -> str:
    where = TopicPartition("t", 1)
    case[0].acked.append(Acked(where, 9, b"kept", b"", 9.0))
    case[1][where] = [(9, b"kept")]
    return "1 lost by the log, and in it"


def have_a_record_twice(case: Case) -> str:
    case[1][T0].append((99, case[1][T0][-1][1]))
    return "1 in the logs more than once"


def have_a_record_never_sent(case: Case) -> str:
    case[1][T0].append((99, b"stranger"))
    return "1 never sent, as b'stranger'"


def have_what_failed(case: Case) -> str:
    case[0].failed.add(b"no")
    case[1][T0].append((99, b"no"))
    return "1 certainly not stored, and there, as b'no'"


def swap(case: Case) -> str:
    order = case[0].order["p", T0]
    order[-1], order[-2] = order[-2], order[-1]
    return "1 out of order in"


def give_again(case: Case) -> str:
    events = case[0].readings[T0][0].events
    events.append(events[-1])
    return "after"


def pass_over(case: Case) -> str:
    del case[0].readings[T0][0].events[-2]
    return "1 passed over by reader"


def give_something_else(case: Case) -> str:
    events = case[0].readings[T0][0].events
    last = events[-1]
    assert not isinstance(last, Reported)
    events[-1] = (last[0], b"else")
    return "was given b'else' at"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "mistake",
    [
        lose_another,
        have_a_record_twice,
        have_a_record_never_sent,
        have_what_failed,
        swap,
        give_again,
        pass_over,
        give_something_else,
    ],
)
def test_a_mistake_is_reported(mistake: Callable[[Case], str], case: Callable[[], Case]) -> None:
    planted = case()
    expected = mistake(planted)
    first, *more = judge(*planted).violations
    assert expected in first
    # The reader had seen the one that is lost, and got no error.
    assert len(more) == (mistake is lose_another and case is cut)


def test_a_lost_record_that_is_in_the_log_is_a_violation() -> None:
    planted = cut()
    ledger, logs, _, how = planted
    keep_what_was_lost(planted)
    (violation,) = judge(
        ledger, logs, lambda one: one.value == b"kept" or (one.offset >= 10 and one.at < 50), how
    ).violations
    assert "1 lost by the log, and in it" in violation


@pytest.mark.parametrize(("case", "says"), [(cut, "got no error that b'v015' is gone"), (begins, "4 passed over")])
def test_a_reader_without_an_error_is_a_violation(case: Callable[[], Case], says: str) -> None:
    planted = case()
    events = planted[0].readings[T0][0].events
    reported = next(event for event in events if isinstance(event, Reported))
    events.remove(reported)
    if case is cut:  # it goes on behind what it was given
        del events[16:]
        planted[1][T0] += [(20, value(120))]
        planted[0].acked.append(Acked(T0, 20, value(120), b"", 50.0))
        events.append((20, value(120)))
    assert any(says in violation for violation in judge(*planted).violations)


def test_a_record_before_its_cleaning_is_no_violation() -> None:
    ledger, logs, lost, how = holes()
    logs[T0].insert(0, (16, value(16)))
    ledger.readings[T0][0].events.insert(-3, (16, value(16)))
    judgement = judge(ledger, logs, lost, how)
    assert judgement.violations == []
    assert judgement.missing == 16


def test_two_readings_differ_only_by_the_cleaner() -> None:
    _, log = made()
    fewer, changed = {T0: log[T0][5:]}, {T0: [*log[T0][:-1], (19, b"else")]}
    for how in (NOTHING, CUT, BEGINS, HOLES):
        assert same(log, dict(log), how)
        assert not same(log, changed, how)
        assert not same(log, {}, how)
        assert not same(fewer, log, how)
        assert same(log, fewer, how) == (how == HOLES)
