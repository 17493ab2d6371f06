"""The violations of a segment, and the notes about the control."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.errors import ErrorCode, broker_error
from kafwire.testing.history import KINDS, Report
from tests.soak import judgement
from tests.soak import segment as module
from tests.soak.matrix import CONTROL, segment
from tests.soak.runner import name_of
from tests.soak.script import Episode
from tests.soak.segment import SegmentRun
from tests.soak.state import Tally
from tests.soak.workers import Broken, ControlBroken

EPISODE = Episode(4, "resets", 1, 1.0, 1.0, (), ())


class FakeProcess:
    """Settles what a mark asks for after `took` seconds, or never."""

    def __init__(self, name: str, took: float | None) -> None:
        self.name = name
        self.counts: dict[str, dict[str, int]] = {}
        self.recovered: dict[int, dict[str, float]] = {}
        self.crash: Exception | None = None
        self.killed = False
        self._took = took

    reads = False

    def reach(self, number: int, _ends: object) -> None:
        self.mark(number)

    def mark(self, number: int) -> None:
        if self._took is not None:
            self.recovered[number] = {"one": 0.1, "another": self._took}

    def check(self) -> None:
        if self.crash is not None:
            raise self.crash

    def kill(self) -> None:
        self.killed = True

    def totals(self) -> Counter[str]:
        return Counter()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SegmentRun:
    monkeypatch.setattr(module, "SETTLE_S", 0.3)
    cluster: Any = None
    return SegmentRun(segment(1, 0), 1, cluster, tmp_path, tell=lambda _: None)


def watch(readable: float) -> Any:
    return SimpleNamespace(wait_readable=lambda *_: readable, ends=lambda *_: {})


def report(**counts: int) -> Report:
    found = {kind: counts.pop(kind, 0) for kind in KINDS}
    names = ("unread", "unjudged", "invoked", "unknown", "committed", "aborted", "undecided")
    return Report(found=found, tolerated={}, counts=dict.fromkeys(names, 0) | counts, findings=())


@pytest.mark.parametrize("name", [*KINDS, "unread", "unjudged"])
def test_each_finding_is_a_violation(run: SegmentRun, name: str) -> None:
    run._accuse(report(), Tally())
    assert run.outcome.violations == []
    run._accuse(report(**{name: 2}), Tally())
    assert len(run.outcome.violations) == 1
    assert f"{name}=2" in run.outcome.violations[0] or f"{name}: 2" in run.outcome.violations[0]


def test_memory_is_reported_at_the_beginning_at_the_end_and_at_the_most() -> None:
    reported = [(float(second), 100.0 + second) for second in range(0, 300, 7)]
    assert module.trend(reported, 431.27) == {"begun": 135.0, "end": 394.0, "peak": 431.3}
    assert module.trend([], 5.0) == {"begun": 0.0, "end": 0.0, "peak": 5.0}


def test_doubt_has_its_measure(run: SegmentRun) -> None:
    run._accuse(report(invoked=1_000_000, unknown=120_000, committed=800, aborted=180, undecided=20), Tally())
    assert run.outcome.violations == []
    run._accuse(report(invoked=1_000_000, unknown=120_001, committed=800, aborted=180, undecided=31), Tally())
    assert [violation.split(":")[0] for violation in run.outcome.violations] == ["unknown", "undecided"]


def test_an_error_that_no_list_allows_is_a_violation(run: SegmentRun) -> None:
    run._accuse(report(), Tally(errors=Counter(dict.fromkeys(judgement.TOLERATED, 3))))
    assert run.outcome.violations == []
    for name in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "CORRUPT_MESSAGE"):
        run.outcome.violations.clear()
        run._accuse(report(), Tally(errors=Counter({f"error BrokerError {name}": 1})))
        assert len(run.outcome.violations) == 1
        assert name in run.outcome.violations[0]


def test_a_reader_that_does_not_come_to_the_end_is_a_violation(run: SegmentRun) -> None:
    reader = FakeProcess("kafwire-readers", None)
    reader.reads = True
    run.processes = [FakeProcess("kafwire", 0.1), reader]  # type: ignore[list-item]
    run._recover(watch(0.1), EPISODE)
    assert len(run.outcome.violations) == 1
    assert "kafwire-readers has not settled" in run.outcome.violations[0]


def test_a_recovery_in_time_is_none(run: SegmentRun) -> None:
    run.processes = [FakeProcess("kafwire", 12.5), FakeProcess(CONTROL, 40.0)]  # type: ignore[list-item]
    run._recover(watch(3.5), EPISODE)
    assert run.outcome.violations == []
    assert (run.outcome.recovery_s, run.outcome.settled_s) == (3.5, 12.5)


def test_records_that_cannot_be_read_in_time_are_a_violation(run: SegmentRun) -> None:
    run.processes = [FakeProcess("kafwire", 0.1)]  # type: ignore[list-item]
    run._recover(watch(60.1), EPISODE)
    assert len(run.outcome.violations) == 1
    assert "not all is readable 60 s after episode 4 (resets)" in run.outcome.violations[0]


def test_a_process_that_is_not_settled_in_time_is_a_violation(run: SegmentRun) -> None:
    run.processes = [FakeProcess("kafwire", 0.1), FakeProcess("kafwire-transactions", None)]  # type: ignore[list-item]
    run._recover(watch(0.1), EPISODE)
    assert len(run.outcome.violations) == 1
    assert "kafwire-transactions has not settled" in run.outcome.violations[0]


def test_a_control_that_hangs_is_noted(run: SegmentRun) -> None:
    run.processes = [FakeProcess("kafwire", 0.1), FakeProcess(CONTROL, None)]  # type: ignore[list-item]
    run._recover(watch(0.1), EPISODE)
    assert run.outcome.violations == []
    assert run.outcome.control.errors == {"error not settled": 1}


def test_a_control_that_ends_by_itself_is_noted_and_the_segment_goes_on(run: SegmentRun) -> None:
    """librdkafka may fail one of its assertions: that is to be known, and says nothing of kafwire."""
    own, control = FakeProcess("kafwire", 0.1), FakeProcess(CONTROL, None)
    control.crash = ControlBroken("confluent-kafka ended with -6")
    run.processes = [own, control]  # type: ignore[list-item]
    run._wait(0.0)
    assert [process.name for process in run.processes] == ["kafwire"]
    assert (own.killed, control.killed) == (False, True)
    run._recover(watch(0.1), EPISODE)
    assert run.outcome.violations == []
    assert run.outcome.control.errors == {"error ended by itself": 1}
    own.crash = Broken("kafwire ended with -6")
    with pytest.raises(Broken):
        run._wait(0.0)


def test_refusals_that_are_tolerated_are_named_as_they_are_raised() -> None:
    for tolerated in judgement.TOLERATED:
        if (match := re.search(r"(\w+Error) ([A-Z_]+)$", tolerated)) is not None:
            assert name_of(broker_error(ErrorCode[match[2]])) == match[0]
