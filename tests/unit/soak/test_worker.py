"""The parts of the soak's processes that need no broker: the pace, marks, outcomes, and what a run says of itself."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafwire.errors import KafkaError, KafkaTimeoutError, broker_error
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.testing.history import History, check, entries
from kafwire.testing.history.log import LogReader
from tests.soak.__main__ import status
from tests.soak.access import Access
from tests.soak.idempotent import BatchSender, partition_of
from tests.soak.matrix import SEND, Workload, segment
from tests.soak.runner import Runner, name_of
from tests.soak.state import State
from tests.soak.worker import Mark
from tests.support.deadlines import until
from tests.support.java import reference_partitions


class Idle(Runner):
    """Does what a test says."""

    def work(self) -> None:
        while not self.stopping:
            self.pace(1)
            self.started += 1


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history") as opened:
        yield opened


def workload(**changes: object) -> Workload:
    one = next(one for one in segment(1, 0).workloads if one.kind == SEND)
    return replace(one, **changes)  # type: ignore[arg-type]


def test_a_pace_is_kept(history: History) -> None:
    runner = Idle(workload(rate=200.0), history, Access({}), 1)
    began = time.monotonic()
    runner.start()
    until(lambda: runner.started >= 60)
    runner.stop()
    until(lambda: not runner.running)
    assert runner.started <= 200 * (time.monotonic() - began) + 2
    assert runner.crash == ""


def test_a_workload_that_breaks_says_how(history: History) -> None:
    class Broken(Idle):
        def work(self) -> None:
            raise ZeroDivisionError

    runner = Broken(workload(), history, Access({}), 1)
    runner.start()
    until(lambda: not runner.running)
    assert "ZeroDivisionError" in runner.crash
    assert runner.workload.name in runner.crash


def test_a_mark_is_reached_after_outcomes_of_earlier_work_and_a_new_acknowledgement(
    history: History,
) -> None:
    runner = Idle(workload(), history, Access({}), 1)
    runner.started, runner.settled = 10, 7
    runner.work = lambda: runner._stop.wait(60)  # type: ignore[method-assign,assignment]
    runner.start()
    mark = Mark(1, [runner])
    assert not mark.reached()
    runner.settled = 10
    assert not mark.reached()  # all settled, but by errors
    runner.succeeded(1)
    runner.settled = 9
    assert not mark.reached()
    runner.settled = 10
    assert mark.reached()
    assert list(mark.after) == [runner.workload.name]
    runner.stop()


def test_outcomes_are_written_down_as_they_are(history: History, tmp_path: Path) -> None:
    runner = Idle(workload(producer=1), history, Access({}), 1)
    runner.writer.invoke([1, 2, 3])
    runner.failed([0], "refused", certain=True)
    runner.failed([1], KafkaTimeoutError("?"), certain=False)
    runner.failed([], KafkaError("nobody"), certain=False)
    history.close()
    counts = check(tmp_path / "history").counts
    assert (counts["failed"], counts["unknown"]) == (1, 2)
    assert runner.counts["error refused"] == runner.counts["error KafkaTimeoutError"] == 1


def test_refusals_are_printed_with_their_time_and_not_without_end(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Idle(workload(producer=1), history, Access({}), 1)
    runner.writer.invoke([1] * 100)
    for sequence in range(50):
        runner.failed([sequence], broker_error(47, "producing to t-0"), certain=True)
    runner.failed([50], KafkaTimeoutError("late"), certain=False)
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 20
    assert all("producing to t-0" in line and "INVALID_PRODUCER_EPOCH" in line for line in reported)
    assert re.match(rf"\d\d:\d\d:\d\d {re.escape(runner.workload.name)}: records \[0\]: ", reported[0])


class Sent:
    """A batch of a `send_batch` that is done; `outcomes` are those of what it was divided into."""

    def __init__(self, partition: int, outcomes: list[tuple[int, KafkaError | None]], base_offset: int = -1) -> None:
        self.queue = PartitionQueue("t", partition)
        self.base_offset = base_offset
        assert all(hasattr(ProducerBatch, name) for name in ("queue", "base_offset", "outcomes"))
        self._outcomes = outcomes

    def outcomes(self) -> list[tuple[int, KafkaError | None]]:
        return self._outcomes


class Failed:
    """A `send_batch` of which some failed."""

    def __init__(self, *parts: tuple[Sent, int, int], done: bool = True) -> None:
        self.parts = parts
        self.done = lambda: done

    def result(self, _timeout: float) -> object:
        raise KafkaTimeoutError("the first that failed")


@pytest.mark.parametrize("done", [True, False])
def test_of_a_table_each_part_has_its_outcome(history: History, tmp_path: Path, *, done: bool) -> None:
    runner = BatchSender(workload(producer=1), history, Access({}), 1)
    runner.writer.invoke([1] * 20)
    placed = {0: [0, 2, 4, 6, 8, 10, 12], 1: [1, 3, 5, 7, 9, 11, 13, 14, 15, 16]}
    doubtful = KafkaTimeoutError("?")
    doubtful.in_doubt = True
    delivery: Any = Failed(
        (Sent(0, [(6, None)], base_offset=100), 2, 4),  # behind two of another table
        (
            Sent(1, [(2, None), (3, None), (2, KafkaTimeoutError("not sent")), (3, doubtful)]),
            3,
            6,
        ),  # divided; what comes first and last is another's
        (Sent(0, [(3, KafkaTimeoutError("not sent"))]), 0, 3),
        (Sent(1, [(4, doubtful)]), 0, 4),
        done=done,
    )
    runner.pending = deque([(placed, delivery)])
    runner._settle(wait=True)
    history.close()
    oks: dict[int, int] = {}
    others: dict[int, bool] = {}
    with LogReader(tmp_path / "history") as reader:
        written = list(reader.entries())
    for entry in written:
        if entry.kind == entries.Ok.KIND:
            ok = entries.Ok.unpack(entry.body)
            oks |= dict(zip(ok.sequences, ok.offsets, strict=True))
        elif entry.kind == entries.Outcome.KIND:
            outcome = entries.Outcome.unpack(entry.body)
            others |= dict.fromkeys(outcome.sequences, outcome.certain)
    if done:
        assert oks == {0: 102, 2: 103, 4: 104, 6: 105, 1: -1, 3: -1}
        assert others == dict.fromkeys([5, 7, 8, 10, 12], True) | dict.fromkeys([9, 11, 13, 14, 15, 16], False)
        assert runner.counts["acked"] == 6
    else:
        assert oks == {}
        assert others == dict.fromkeys([*placed[0], *placed[1]], False)


def test_an_error_has_a_name() -> None:
    assert name_of(broker_error(45)) == "BrokerError OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert name_of(KafkaError("x")) == "KafkaError"


def test_keys_are_placed_as_java_does() -> None:
    for key in (b"", b"1", b"17", b"999", b"1234", b"-12345"):
        for partitions in (1, 2, 3, 4, 7):
            assert partition_of(key, partitions) == reference_partitions.partition_of(key, partitions)


@pytest.mark.parametrize(
    ("phase", "alive", "says", "code"),
    [
        ("segment 1, from episode 4", True, "running", 0),
        ("segment 1, from episode 4", False, "cut off", 1),
        ("finished", False, "ended", 0),
        ("violated", False, "ended", 1),
        ("failed: no port", True, "ended", 1),
    ],
)
def test_a_run_says_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], phase: str, alive: bool, says: str, code: int
) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    State(7, 3, pid=os.getpid() if alive else gone, phase=phase).save(tmp_path)
    assert status(tmp_path) == code
    said = capsys.readouterr().out
    assert f": {says} (process" in said
    assert ("--resume" in said) == (phase != "finished" and says != "running")


def test_a_folder_without_a_run_has_no_status(tmp_path: Path) -> None:
    assert status(tmp_path) == 2
