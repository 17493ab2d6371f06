"""A run of the soak over its segments: it adds up, goes on where it was cut off, and ends with what it found."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from kafwire.broker.security.security import Security
from kafwire.testing.cluster import ClusterError
from tests.soak import __main__ as program
from tests.soak import evidence, perils, summary
from tests.soak.access import RENEWALS
from tests.soak.matrix import Segment
from tests.soak.perils import PERILS, Result
from tests.soak.script import Episode
from tests.soak.segment import Outcome
from tests.soak.state import State, Tally
from tests.soak.workers import Broken, ControlBroken

Played = list[tuple[int, int, float]]


class FakeCluster:
    version = "4.4.0"

    def __init__(self, *_: Any, **__: Any) -> None:
        self.nodes: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class World:
    """Segments that take no time: each plays ten episodes, and what a test says happens in it."""

    def __init__(self) -> None:
        self.played: Played = []
        self.happens: Callable[[int, Outcome], None] = lambda _number, _outcome: None
        self.kept: list[Path] = []
        self.perils: list[str] = []
        self.spoilt: dict[str, str] = {}

    def run_perils(self, names: list[str], _tell: object) -> list[Result]:
        self.perils += names
        return [Result(name, acked=10, missing=4, reported=1, violations=self._found(name)) for name in names]

    def _found(self, name: str) -> list[str]:
        return [self.spoilt[name]] if name in self.spoilt else []

    def segment_run(self, segment: Segment, *_: Any, **__: Any) -> SimpleNamespace:
        outcome = Outcome()

        def run(episodes: Iterator[Episode], seconds: float) -> Outcome:
            first = next(episodes).number
            self.played.append((segment.number, first, seconds))
            outcome.seconds, outcome.episode = seconds, first + 10
            outcome.kafwire = Tally(Counter(acked=1_000, committed=5), Counter(lost=0))
            outcome.faults = Counter({"Reset": 7})
            outcome.recovery_s = float(segment.number)
            self.happens(segment.number, outcome)
            return outcome

        return SimpleNamespace(run=run, outcome=outcome)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()
    monkeypatch.setattr(program, "KafkaCluster", FakeCluster)
    monkeypatch.setattr(program, "SegmentRun", made.segment_run)
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(perils, "run", made.run_perils)
    monkeypatch.setattr(evidence, "keep", lambda folder, *_: made.kept.append(folder))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return made


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["soak", *arguments])
    return program.main()


def test_segments_add_up(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, "--minutes", "12", "--seed", "7", "--folder", str(tmp_path / "run")) == 0
    assert world.played == [(0, 0, 300.0), (1, 10, 300.0), (2, 20, 120.0)]
    state = State.load(tmp_path / "run")
    assert (state.seed, state.segment, state.episode, state.attempts) == (7, 3, 30, 3)
    assert (state.seconds, state.phase) == (720.0, "finished")
    assert state.kafwire.counts == {"acked": 3_000, "committed": 15}
    assert (state.faults, state.recovery_s) == ({"Reset": 21}, 2.0)
    assert "3,000" in (tmp_path / "run" / "summary.md").read_text()


def test_a_run_that_was_cut_off_goes_on(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The segment that was cut off is run again from its first episode, and counts once."""

    def cut_off(number: int, _outcome: Outcome) -> None:
        if number == 1:
            raise KeyboardInterrupt  # no more than the process's end is

    folder = str(tmp_path / "run")
    world.happens = cut_off
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, "--minutes", "12", "--seed", "7", "--folder", folder)
    state = json.loads((tmp_path / "run" / "state.json").read_text())
    state["pid"] = 0  # it ended
    (tmp_path / "run" / "state.json").write_text(json.dumps(state))
    world.happens = lambda _number, _outcome: None
    assert run(monkeypatch, "--resume", folder) == 0
    assert world.played == [(0, 0, 300.0), (1, 10, 300.0), (1, 10, 300.0), (2, 20, 120.0)]
    resumed = State.load(tmp_path / "run")
    assert (resumed.segment, resumed.attempts) == (3, 4)
    assert resumed.kafwire.counts["acked"] == 3_000
    assert "1 more segment(s) were begun and cut off" in (tmp_path / "run" / "summary.md").read_text()


@pytest.mark.parametrize("during", ["a peril", "a segment"])
def test_a_run_that_is_stopped_has_not_finished(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, during: str
) -> None:
    """Where no code looks for the signal, the next segment is not begun."""
    handlers: dict[int, Callable[[int, object], None]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    folder, play = tmp_path / "run", world.run_perils

    def play_and_stop(names: list[str], tell: object) -> list[Result]:
        if during == "a peril":
            handlers[signal.SIGTERM](signal.SIGTERM, None)
        return play(names, tell)

    def stop(number: int, _outcome: Outcome) -> None:
        if number == 1:
            handlers[signal.SIGTERM](signal.SIGTERM, None)

    monkeypatch.setattr(perils, "run", play_and_stop)
    world.happens = stop
    assert run(monkeypatch, "--minutes", "30", "--perils", "disk-full", "--folder", str(folder)) == 130
    state = State.load(folder)
    assert (state.phase, state.segment) == ("stopped", 0 if during == "a peril" else 2)
    state.pid = 0  # it ended
    state.save(folder)
    world.happens = lambda _number, _outcome: None
    assert run(monkeypatch, "--resume", str(folder)) == 0
    assert (State.load(folder).segment, world.perils) == (6, ["disk-full"])


def test_a_running_run_is_not_resumed(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    State(7, 3, pid=1, phase="segment 0, from episode 0").save(tmp_path)
    assert run(monkeypatch, "--resume", str(tmp_path)) == 2
    assert world.played == []


@pytest.mark.parametrize("broken", [False, True])
def test_a_violation_ends_it(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    broken: bool,
) -> None:
    def find(number: int, outcome: Outcome) -> None:
        if number == 1:
            (folder / "segment-1" / "kafwire-readers.stderr").write_text("reading goes on at earliest\n")
            (folder / "segment-1" / "kafwire.stderr").write_text("")
            if broken:
                raise Broken("lost soak-1-0-0@17: it is nowhere")
            outcome.violations.append("lost soak-1-0-0@17: it is nowhere")

    world.happens = find
    folder = tmp_path / "run"
    (folder / "segment-1").mkdir(parents=True)
    assert run(monkeypatch, "--minutes", "60", "--seed", "7", "--folder", str(folder)) == 1
    assert len(world.played) == 2
    assert world.kept == [folder / "segment-1"]
    said = capsys.readouterr().out
    assert "segment 1: lost soak-1-0-0@17" in said
    assert "kafwire-readers.stderr ends with:\nreading goes on at earliest" in said
    assert "kafwire.stderr" not in said
    assert said.endswith("violated: segment 1: lost soak-1-0-0@17: it is nowhere\n")
    assert "python -m tests.soak --seed 7 --segment 1 --episode 10" in said
    assert (folder / "segment-1" / "violations.txt").read_text() in said
    assert State.load(folder).phase == "violated"


@pytest.mark.parametrize("error", [ClusterError("no port"), ControlBroken("confluent-kafka crashed")])
def test_a_fault_outside_of_kafwire_is_another_exit_code(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def fail(_number: int, _outcome: Outcome) -> None:
        raise error

    world.happens = fail
    assert run(monkeypatch, "--seed", "7", "--folder", str(tmp_path / "run")) == 2
    assert State.load(tmp_path / "run").phase == f"failed: {error}"


def test_a_long_run_plays_the_perils_first(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run(monkeypatch, "--minutes", "30", "--seed", "7", "--folder", str(folder)) == 0
    assert world.perils == list(PERILS)
    state = State.load(folder)
    assert {name: (one["acked"], one["missing"]) for name, one in state.perils.items()} == dict.fromkeys(
        PERILS, (10, 4)
    )
    assert "unclean" in (folder / "summary.md").read_text()
    assert json.loads((folder / "summary.json").read_text())["perils"]["unclean"]["reported"] == 1


def test_perils_are_named(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ("--minutes", "3", "--seed", "7", "--folder")
    assert run(monkeypatch, *arguments, str(tmp_path / "none")) == 0
    assert world.perils == []
    assert run(monkeypatch, *arguments, str(tmp_path / "two"), "--perils", "grown,unclean") == 0
    assert world.perils == ["grown", "unclean"]
    with pytest.raises(SystemExit, match="no peril is called flood"):
        run(monkeypatch, *arguments, str(tmp_path / "wrong"), "--perils", "flood")


def test_a_violation_in_a_peril_ends_a_run(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world.spoilt["grown"] = "1 lost, and no log lost them"
    folder = tmp_path / "run"
    assert run(monkeypatch, "--seed", "7", "--folder", str(folder), "--perils", "delete-records,grown,unclean") == 1
    assert world.perils == ["delete-records", "grown"]
    assert world.played == []
    assert State.load(folder).violations == ["1 lost, and no log lost them"]


def test_one_segment_alone(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ("--seed", "7", "--segment", "3", "--episode", "44", "--folder", str(tmp_path / "run"))
    assert run(monkeypatch, *arguments) == 0
    assert world.played == [(3, 44, 180.0)]


@pytest.fixture
def spoken(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Security | None]:
    """The listeners of the clusters that are made."""
    listeners: list[Security | None] = []

    class Noted(FakeCluster):
        def __init__(self, *_: Any, security: Security | None, **__: Any) -> None:
            super().__init__()
            listeners.append(security)

    monkeypatch.setattr(program, "KafkaCluster", Noted)
    world.happens = lambda _number, outcome: outcome.kafwire.counts.update({RENEWALS: 1_234})
    return listeners


def test_the_clients_protocol_is_kept_and_reported(
    spoken: list[Security | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A long run on TLS and SASL does not take the place of the plain one in the document."""
    folder, document = tmp_path / "run", tmp_path / "docs" / "internals" / "results" / "soak.md"
    document.parent.mkdir(parents=True)
    document.write_text(f"{summary.START}{summary.END}")
    arguments = ("--minutes", "60", "--perils", "", "--seed", "7", "--security", "sasl_ssl", "--folder", str(folder))
    assert run(monkeypatch, *arguments) == 0
    assert spoken[0] is not None
    assert spoken[0].protocol == "SASL_SSL"
    assert State.load(folder).security == "sasl_ssl"
    reported = (folder / "summary.md").read_text()
    assert "| of these again, KIP-368 | 14,808 | 0 |" in reported
    assert "SASL_SSL" in reported
    assert "Seed 7" not in document.read_text()


def test_a_resumed_run_keeps_the_protocol_of_clients(
    world: World, spoken: list[Security | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is in the command that shows a violation again, too."""
    world.happens = lambda _number, outcome: outcome.violations.append("lost: 1")
    (tmp_path / "segment-0").mkdir()
    State(7, 1, security="sasl_ssl").save(tmp_path)
    assert run(monkeypatch, "--resume", str(tmp_path)) == 1
    assert spoken[0] is not None
    assert "--security sasl_ssl" in (tmp_path / "segment-0" / "violations.txt").read_text()


def test_a_run_is_plain_by_default(
    spoken: list[Security | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(monkeypatch, "--minutes", "1", "--seed", "7", "--folder", str(tmp_path / "run")) == 0
    assert spoken == [None]
    assert "KIP-368" not in (tmp_path / "run" / "summary.md").read_text()
