"""Runs of the simulated world: what they found stays found, they repeat themselves, and they see planted mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafwire.broker.log.partition import Partition
from kafwire.broker.log.producer_state import ProducerStates
from kafwire.errors import ErrorCode
from kafwire.testing.simulation.campaign import Tally, main
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.testing.simulation.events import Faults
from kafwire.testing.simulation.run import run
from kafwire.testing.simulation.schedule import LASTS, LOSSY, WEIGHTS, Event, Load, Schedule
from kafwire.testing.simulation.shrink import shrink

# Schedules that found something once: docs/internals/results/simulation.md describes them.
FOUND = sorted((Path(__file__).parents[2] / "data" / "simulation").glob("*.json"))
OPTIONS = {"compression_type": "none", "fetch_strategy": "hybrid"}


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_found_cases_stay_mended(path: Path) -> None:
    assert run(Schedule.from_json(path.read_text())).violations == []


def test_a_run_is_decided_by_its_seed() -> None:
    schedule = Schedule.draw(5, seconds=60)
    first, second = run(schedule), run(schedule)
    assert first.violations == []
    assert first.timeline == second.timeline
    assert first.counts == second.counts
    assert first.met == second.met
    assert first.simulated_s == second.simulated_s
    assert run(Schedule.draw(6, seconds=60)).timeline != first.timeline


def test_a_schedule_is_read_as_it_was_written() -> None:
    schedule = Schedule.draw(3)
    assert Schedule.from_json(schedule.to_json()) == schedule
    assert Schedule.draw(3) == schedule
    assert len(schedule.events) >= 3


def test_every_fault_is_carried_out() -> None:
    """Each kind begins, and those that last end, with clients under way."""
    for kind in {**WEIGHTS, **LOSSY}:
        assert hasattr(Faults, f"_{kind}"), kind
    events = tuple(
        Event(3.0 + number, kind, node=1 + number % 3, lasts_s=0.5 if kind in LASTS else 0.0, place=number, amount=0.3)
        for number, kind in enumerate(WEIGHTS)
    )
    outcome = run(Schedule(1, Load(seconds=40, records_per_s=20, options=OPTIONS), events))
    assert outcome.violations == []
    assert {kind for kind, _ in outcome.met} == set(WEIGHTS)


@pytest.mark.parametrize("kind", ["transactional", "chained", "blocking"])
def test_every_kind_of_client_runs(kind: str) -> None:
    load = Load(
        seconds=20,
        records_per_s=20,
        transactional=kind in ("transactional", "chained"),
        chained=kind == "chained",
        blocking=kind == "blocking",
        options=OPTIONS,
    )
    outcome = run(Schedule(2, load, (Event(4.0, "crash", node=1, lasts_s=2.0), Event(9.0, "lose_response", node=2))))
    assert outcome.violations == []
    assert outcome.counts["acknowledged"] > 100
    assert outcome.counts["read"] > 100
    assert (outcome.counts["committed"] > 5) == load.transactional


def test_a_broker_that_stores_repeated_batches_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStates, "duplicate", lambda *_: None)
    monkeypatch.setattr(ProducerStates, "refuses", lambda *_: 0)
    events = tuple(Event(2.0 + number, "lose_response", node=1 + number % 3, place=1) for number in range(12))
    outcome = run(Schedule(3, Load(seconds=20, options=OPTIONS), events))
    assert any("duplicated" in violation for violation in outcome.violations)


def test_a_broker_that_loses_acknowledged_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Partition.lead

    def losing(self: Partition, node: int) -> None:
        self.truncate(max(0, self.log.end_offset - 60))
        lead(self, node)

    monkeypatch.setattr(Partition, "lead", losing)
    assert not run(Schedule(4, Load(seconds=20, options=OPTIONS), (Event(12.0, "move_leader", node=2),))).is_good


def test_markers_that_never_come_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "write_marker", lambda *_, **__: 0)
    load = Load(seconds=10, records_per_s=20, transactional=True, options=OPTIONS)
    assert not run(Schedule(5, load, ())).is_good


def test_shrinking_keeps_the_events_that_make_a_run_fail() -> None:
    schedule = Schedule.draw(11, seconds=100)
    guilty = schedule.events[3]
    short = shrink(schedule, lambda candidate: guilty.kind in {event.kind for event in candidate.events})
    assert [event.kind for event in short.events] == [guilty.kind]
    assert short.load.partitions == 1
    assert short.load.seconds <= schedule.load.seconds
    assert shrink(schedule, lambda _: False) == schedule


def test_a_campaign_counts_which_fault_met_which_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "2", "--seconds", "30", "--jobs", "1", "--folder", f"{tmp_path}"]
    assert main(arguments) == 0
    reported = capsys.readouterr().out
    assert "2 runs" in reported
    assert "0 runs failed" in reported
    assert "| fault |" in (tmp_path / "report.md").read_text()
    tally = Tally()
    tally.add(run(Schedule.draw(0, seconds=30)))
    assert sum(tally.met.values()) >= tally.events


def test_a_seed_that_fails_leaves_a_short_schedule_and_a_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def deaf(self: ClusterWorld, node: int) -> None:
        raise AssertionError(f"planted: node {node}")

    monkeypatch.setattr(ClusterWorld, "break_connections", deaf)
    seed = next(s for s in range(50) if any(e.kind == "reset_connections" for e in Schedule.draw(s, seconds=30).events))
    arguments = ["--seeds", "1", "--seed", f"{seed}", "--seconds", "30", "--jobs", "1", "--folder", f"{tmp_path}"]
    assert main(arguments) == 1
    assert "planted" in capsys.readouterr().out
    schedule = Schedule.from_json((tmp_path / f"seed-{seed}.json").read_text())
    assert len(schedule.events) == 1
    assert "planted" in (tmp_path / f"seed-{seed}.txt").read_text()


def test_a_fenced_world_responds_with_kafka_s_codes() -> None:
    with ClusterWorld(brokers=2, seed=1) as world:
        world.state.topics.create("t", 1, 2)
        world.kill(world.state.topics.by_name["t"].partitions[0].leader)
        assert world.state.topics.by_name["t"].partitions[0].refuses(1, 0) in (
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
