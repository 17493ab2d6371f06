"""The soak's faults where proxies see bytes only: the episode says everything."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)
from tests.soak.opaque import opaque
from tests.soak.script import Episode, episodes
from tests.support import seeds

QUIET = Episode(0, "nothing", 7, 0.0, 0.5, (), ())


def kinds(rule: Rule) -> set[str]:
    _, plays = opaque(replace(QUIET, seconds=6.0, rules=(rule,)))
    return {type(play.fault).__name__ for play in plays}


@seeds.several(20)
def test_each_episode_meets_something_and_all_of_it_can_be_played(seed: int) -> None:
    for episode in itertools.islice(episodes(seed), 120):
        rules, plays = opaque(episode)
        assert (rules, plays) == opaque(episode)
        assert bool(plays) == bool(episode.rules)
        assert rules == tuple(rule for rule in episode.rules if rule.api == CONNECT)
        assert [play.at for play in plays] == sorted(play.at for play in plays)
        for play in plays:
            assert 0 <= play.at < episode.seconds + 1
            assert play.broker in (1, 2, 3)
            assert isinstance(play.fault, Reset | BlackHole | Throttle | Refuse)
            assert isinstance(play.fault, Reset) or (play.fault.seconds is not None and play.fault.seconds <= 8)


@pytest.mark.parametrize(
    ("fault", "played"),
    [
        (Delay((0.1, 0.2)), {"BlackHole"}),
        (DropResponse(), {"BlackHole", "Reset"}),
        (Hold(1.0), {"BlackHole", "Reset"}),
        (Cut(), {"Throttle", "Reset"}),
        (Refuse(1.0), {"Refuse", "Reset"}),
        (BlackHole(seconds=1.0), {"BlackHole"}),
        (Throttle(5_000, seconds=1.0), {"Throttle"}),
        (Reset(), {"Reset"}),
        # An episode that has nothing else has resets instead.
        (DropResponse(reset=False), {"Reset"}),
        (Corrupt(), {"Reset"}),
        (Duplicate(), {"Reset"}),
        (Reorder(), {"Reset"}),
    ],
)
def test_equal_faults(fault: Fault, played: set[str]) -> None:
    assert kinds(Rule(fault, api="Produce")) == played


def test_faults_that_need_frames_are_left_out() -> None:
    rules = (Rule(Duplicate(), api="Fetch"), Rule(Throttle(5_000, seconds=1.0), api="Produce", broker=2))
    for seed in range(10):
        _, plays = opaque(replace(QUIET, seed=seed, seconds=6.0, rules=rules))
        assert {(type(play.fault), play.broker) for play in plays} == {(Throttle, 2)}


def test_open_connections_are_reset_where_new_connections_meet_a_fault() -> None:
    rule = Rule(Reset(), api=CONNECT, count=3)
    other = Rule(Throttle(5_000, seconds=1.0), api="Produce")
    rules, plays = opaque(replace(QUIET, seconds=6.0, rules=(rule, other)))
    assert rules == (rule,)
    assert {type(play.fault) for play in plays} == {Reset, Throttle}


def test_a_response_is_kept_back_before_its_connection_ends() -> None:
    """The order matters: the broker executes the request, and its response is lost."""
    _, plays = opaque(replace(QUIET, seconds=600.0, rules=(Rule(DropResponse(), broker=1),)))
    assert len(plays) >= 6
    for kept, ended in zip(plays[::2], plays[1::2], strict=True):
        assert isinstance(kept.fault, BlackHole)
        assert kept.fault.way == "response"
        assert isinstance(ended.fault, Reset)
        assert kept.fault.seconds is not None
        assert 0 < ended.at - kept.at < kept.fault.seconds
