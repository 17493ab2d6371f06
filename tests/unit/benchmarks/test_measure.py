"""The benchmark's own arithmetic: choosing rows, turns, medians, verdicts, tables. No process is started."""

import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import ROOT, Bench, converse
from benchmarks.payload import make_pool, split_pool
from benchmarks.processes import PROGRAMS, time_processes
from benchmarks.report import END, START, render, update_readme
from benchmarks.rounds import ContenderError, Figure, Measured, as_json, judge, run_row
from benchmarks.row import Contender, Goal, Kind, Row, Topic
from benchmarks.rows import ROWS, choose
from benchmarks.trickle import GREETING, STAMP
from benchmarks.workers.common import Options
from benchmarks.workers.delays import Delays, percentile

TOPIC = Topic(100, "lz4", 1_000_000)


def make_row(*contenders: Contender, kind: Kind = "consume", goals: Sequence[Goal] = ()) -> Row:
    return Row("consume-test", kind, "M records/s", TOPIC, contenders, goals)


def test_names_of_rows_are_unique_and_choose_finds_them() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(["import"], short=False)] == ["import"]
    assert {row.kind for row in choose(["consume"], short=False)} == {"consume"}
    assert {row.topic.codec for row in choose(["consume-*-lz4-*"], short=False)} == {"lz4"}
    assert len(choose([], short=False)) == len(ROWS) > len(choose([], short=True)) > 0
    with pytest.raises(ValueError, match="no row is called 'consum'"):
        choose(["consum"], short=False)


def test_goals_name_contenders_of_their_row() -> None:
    for row in ROWS:
        names = {contender.name for contender in row.contenders}
        for goal in row.goals:
            assert goal.of in names
            assert not goal.over or goal.over in names


def test_rows_of_whole_processes_have_programs() -> None:
    tasks = {one.task for row in ROWS if row.kind == "start" for one in row.contenders}
    assert tasks == set(PROGRAMS)
    for task in PROGRAMS:
        compile(PROGRAMS[task], task, "exec")


def test_a_process_is_timed_from_its_start_to_its_end(tmp_path: Path) -> None:
    measured = time_processes("floor", "127.0.0.1:1", ROOT, tmp_path, count=2)
    assert measured.cpu is not None
    assert 1 < measured.figure < measured.seconds * 1000
    with pytest.raises(ContenderError, match="bootstrap_servers"):
        time_processes("kafwire first-send", "", ROOT, tmp_path, count=1)


def test_contenders_take_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        order.append(contender.name)
        return Measured(1.0, 0.5)

    row = make_row(*(Contender(name, "x", "consume") for name in "abc"))
    figures = run_row(row, row.contenders, 3, measure, lambda _line: None)
    assert "".join(order) == "abcbcacab"
    assert figures["a"].rounds == [1.0, 1.0, 1.0]
    assert figures["a"].seconds == 1.5


@pytest.mark.parametrize(
    ("kind", "best"),
    [("consume", "fast"), ("memory", "slow"), ("latency", "slow"), ("trickle", "slow"), ("cpu", "slow")],
)
def test_the_best_variant_runs_the_rounds(kind: Kind, best: str) -> None:
    given = {"slow": 1.0, "fast": 3.0}
    seen: list[str] = []

    def measure(_row: Row, _contender: Contender, variant: Mapping[str, str]) -> Measured:
        seen.append(variant["name"])
        return Measured(given[variant["name"]], 1.0)

    contender = Contender("a", "x", "consume", variants={name: {"name": name} for name in given})
    row = make_row(contender, kind=kind)
    figure = run_row(row, row.contenders, 2, measure, lambda _line: None)["a"]
    assert seen == ["slow", "fast", best, best]
    assert figure.variant == best
    assert figure.tried == given
    assert figure.rounds == [given[best]] * 2


def test_a_contender_that_fails_is_out_and_says_why() -> None:
    calls: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        calls.append(contender.name)
        if contender.name == "b" and calls.count("b") == 2:
            raise ContenderError("lost 3 records")
        return Measured(float(len(calls)), 1.0)

    row = make_row(Contender("a", "x", "consume"), Contender("b", "x", "consume"), goals=[Goal("a", "b", 1.0)])
    figures = run_row(row, row.contenders, 4, measure, lambda _line: None)
    assert calls.count("a") == 4
    assert calls.count("b") == 2
    assert figures["b"].median is None
    assert figures["b"].error == "lost 3 records"
    assert judge(row, figures)[0].value is None
    assert not judge(row, figures)[0].met
    tables = render([(row, figures)], {}, {})
    assert "| failed |" in tables
    assert "lost 3 records" in tables
    assert as_json(row, figures)["contenders"]["b"]["median"] is None


def test_a_contender_whose_every_variant_fails_is_failed() -> None:
    def measure(_row: Row, _contender: Contender, _variant: Mapping[str, str]) -> Measured:
        raise ContenderError("no")

    contender = Contender("a", "x", "consume", variants={"one": {}, "two": {}})
    row = make_row(contender)
    assert run_row(row, row.contenders, 2, measure, lambda _line: None)["a"].error == "failed: no"


def test_verdicts() -> None:
    goals = [Goal("a", "b", least=4.0), Goal("a", most=40.0), Goal("gone", "b", least=1.0), Goal("b", "a", most=1 / 8)]
    row = make_row(goals=goals)
    figures = {"a": Figure([30.0, 41.0, 39.0]), "b": Figure([10.0])}
    ratio, ceiling, gone, fraction = judge(row, figures)
    assert fraction.as_text("ms") == "b / a 0.26 x (goal <= 0.125 x): NOT MET"
    assert judge(make_row(goals=[Goal("b", "a", most=0.3)]), figures)[0].met
    assert (ratio.value, ratio.met) == (3.9, False)
    assert (ceiling.value, ceiling.met) == (39.0, True)
    assert (gone.value, gone.met) == (None, False)
    assert ratio.as_text("ms") == "a / b 3.90 x (goal >= 4 x): NOT MET"
    assert ceiling.as_text("ms") == "a 39.0 ms (goal <= 40 ms): met"


class Scripted(Bench):
    """Returns results without running anything, and remembers the runs."""

    def __init__(self) -> None:
        nothing: dict[Any, Any] = {}
        topics: Any = None
        path = Path("unused")
        super().__init__("unused", topics, path, path, 1.0, nothing, nothing, nothing, nothing, nothing)
        self.ran: list[str] = []

    def _read(self, row: Row, contender: Contender, options: dict[str, str]) -> dict[str, Any]:
        self.ran.append(contender.name)
        number = len(self.ran)
        memory = {"before": 0, "peak": 1024 * number}
        passes = [{"seconds": 1.0, "records": 10**6 * number}]
        return {"passes": passes, "cpu_seconds": 2.0, "memory_kib": memory, "note": ""}


def test_rows_that_do_the_same_share_their_rounds() -> None:
    bench = Scripted()
    contender = Contender("a", "x", "consume")
    speed = make_row(contender)
    cpu = replace(speed, name="cpu-test", kind="cpu", figure="cpu")
    assert [bench.measure(speed, contender, {}).figure for _ in range(2)] == [1.0, 2.0]
    assert [bench.measure(cpu, contender, {}).figure for _ in range(3)] == pytest.approx([2.0, 1.0, 2 / 3])
    assert len(bench.ran) == 3
    assert bench.measure(speed, contender, {}).figure == 3.0
    assert len(bench.ran) == 3
    bench.measure(replace(speed, name="x8", topic=replace(TOPIC, partitions=8)), contender, {})
    bench.measure(replace(speed, name="other"), contender, {"conf.x": "1"})
    assert len(bench.ran) == 5


def test_rounds_of_two_trees_are_not_shared() -> None:
    bench = Scripted()
    this, base = (Contender("a", "x", "consume", folder=Path(name)) for name in ("this", "base"))
    speed = make_row(this, base)
    cpu = replace(speed, name="cpu-test", kind="cpu", figure="cpu")
    assert [bench.measure(speed, one, {}).figure for one in (this, base)] == [1.0, 2.0]
    assert [bench.measure(cpu, one, {}).figure for one in (base, this)] == pytest.approx([1.0, 2.0])
    assert len(bench.ran) == 2


def test_a_worker_starts_where_its_library_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ready").touch()
    code = "from pathlib import Path; print('{}'); print('{\"found\": %d}' % Path('ready').exists())"
    assert converse([sys.executable, "-c", code], tmp_path) == {"found": 1}
    assert converse([sys.executable, "-c", code]) == {"found": 0}
    folders: list[Path] = []

    def start(_command: Sequence[str], folder: Path) -> dict[str, Any]:
        folders.append(folder)
        return {
            "passes": [{"seconds": 1.0, "records": 1}],
            "cpu_seconds": 1.0,
            "memory_kib": {"before": 0, "peak": 0},
            "note": "",
        }

    monkeypatch.setattr("benchmarks.measure.converse", start)
    for contender in (Contender("a", "x", "metadata", folder=tmp_path), Contender("a", "x", "metadata")):
        Scripted().measure(make_row(contender, kind="message"), contender, {})
    assert folders == [tmp_path, ROOT]


def test_memory_is_measured_by_itself() -> None:
    bench = Scripted()
    contender = Contender("a", "x", "consume")
    bench.measure(make_row(contender), contender, {})
    assert bench.measure(replace(make_row(contender, kind="memory"), name="memory"), contender, {}).figure == 2.0


class Log:
    """Topics that hold a given number of records."""

    stored = 0

    def create(self, _topic: str) -> None:
        pass

    def delete(self, _topic: str) -> None:
        pass

    def inspect(self, _topic: str) -> dict[str, Any]:
        return {"records": self.stored, "batches": 1, "batch_bytes": {"median": 1}}


class Claiming(Bench):
    """A contender that claims what the test says."""

    def __init__(self, claimed: int, unsure: int) -> None:
        nothing: dict[Any, Any] = {}
        self.log = Log()
        topics: Any = self.log
        path = Path("unused")
        super().__init__(
            "unused", topics, path, path, 1.0, nothing, {100: 10}, {100: path}, nothing, nothing, broker_pid=os.getpid()
        )
        self.passed = {"seconds": 1.0, "records": claimed, "figures": {"unsure": unsure, "p50": 0.5}}

    def _run(self, row: Row, contender: Contender, options: Mapping[str, str]) -> dict[str, Any]:
        memory = {"before": 0, "peak": 2048}
        return {"passes": [self.passed], "cpu_seconds": 1.0, "memory_kib": memory, "note": ""}


@pytest.mark.parametrize(
    ("stored", "unsure", "fails"), [(10, 0, False), (9, 0, True), (11, 0, True), (11, 1, False), (12, 1, True)]
)
def test_the_claimed_records_of_a_contender_are_counted_in_the_log(stored: int, unsure: int, fails: bool) -> None:
    kinds: list[tuple[Kind, float]] = [("produce", 1e-5), ("wait", 0.5), ("pressure", 2.0)]
    for kind, value in kinds:
        bench = Claiming(10, unsure)
        bench.log.stored = stored
        contender = Contender("a", "x", "send")
        row = replace(make_row(contender), kind=kind, figure="p50" if kind == "wait" else "")
        if fails:
            with pytest.raises(ContenderError, match=f"claims 10 records, the broker has {stored}"):
                bench.measure(row, contender, {})
        else:
            assert bench.measure(row, contender, {}).figure == value


def test_percentiles_are_values_that_were_seen() -> None:
    values = list(range(1, 101))
    random.Random(7).shuffle(values)
    assert [percentile(values, percent) for percent in (50, 99, 100)] == [50, 99, 100]
    assert percentile([3], 99) == 3
    assert percentile([1, 9], 50) == 1


def test_delays_are_counted_after_the_warm_up_only() -> None:
    numbers = {"warmup": "10", "records": "60", "value_bytes": "32", "partitions": "3"}
    let_go: list[int] = []
    delays: Delays = Delays(Options("latency", numbers), go=lambda: let_go.append(delays.records))
    for _ in range(3):
        assert not let_go
        delays.add(STAMP.pack(time.monotonic_ns() - 10**10, GREETING))
    assert let_go == [0]
    for number in range(70):
        assert not delays.done
        late = 10**10 if number < 30 else 5_000_000
        delays.add(STAMP.pack(time.monotonic_ns() - late, number) + bytes(16))
    assert delays.done
    found = delays.as_pass()
    assert (found.records, found.bytes) == (70, 70 * 32)
    assert 5 <= found.figures["p50"] <= found.figures["p99"] <= found.figures["worst"] < 10_000


def test_the_readme_keeps_the_text_around_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    update_readme(path, "| new |\n")
    update_readme(path, "| newer |\n")
    assert path.read_text() == f"before\n{START}\n\n| newer |\n\n{END}\nafter\n"


@pytest.mark.parametrize("value_bytes", [100, 1000])
def test_values_are_the_same_every_time_and_compress_like_real_data(value_bytes: int) -> None:
    from lz4 import frame

    pool = make_pool(value_bytes)
    assert make_pool(value_bytes) == pool
    values = split_pool(pool, value_bytes)
    assert {len(value) for value in values} == {value_bytes}
    assert len(set(values)) == len(values)
    at = random.Random(1).randrange(8) * 1_000_000
    assert 2 <= 1_000_000 / len(frame.compress(pool[at : at + 1_000_000], block_linked=False)) <= 3
