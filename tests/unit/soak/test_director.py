"""How the soak's director plays an episode: rules where proxies see frames, else faults of bytes at their times."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.soak import director
from tests.soak.director import Director
from tests.soak.opaque import Played, opaque
from tests.soak.script import Episode, Strike, episodes


class Proxy:
    """Notes its calls, and when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events = [SimpleNamespace(kind="Reset")]
        self.rules: list[tuple[Any, ...]] = []
        self.played: list[tuple[float, Played, int]] = []

    def restart(self, *rules: Any, seed: int | None = None) -> None:
        self.rules.append(rules)

    def play(self, fault: Played, broker: int) -> None:
        self.played.append((self._clock.now, fault, broker))


class Clock:
    """Time passes as far as a wait goes; a node takes 10 s to come up."""

    def __init__(self) -> None:
        self.now = 100.0
        self.proxy = Proxy(self)
        node = SimpleNamespace(id=1, kill=lambda: None, start=lambda **_: self.wait(10.0))
        self.cluster: Any = SimpleNamespace(proxy=self.proxy, node=lambda _: node)
        self.watch: Any = SimpleNamespace(node_of=lambda *_: 1, wait_whole=lambda _, wait: wait(1.0))

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(director, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def play(clock: Clock, episode: Episode, *, frames: bool) -> Director:
    made = Director(clock.cluster, clock.watch, clock.wait, lambda _: None, frames=frames)
    made.play(episode, ())
    return made


def some() -> list[Episode]:
    return [one for one in itertools.islice(episodes(1), 30) if one.rules and not one.strikes]


def test_rules_are_for_proxies_that_see_frames(clock: Clock) -> None:
    episode = some()[0]
    assert play(clock, episode, frames=True).faults == {"Reset": 1}
    assert clock.proxy.rules == [episode.rules, ()]
    assert clock.proxy.played == []


def test_where_they_see_bytes_all_is_played_when_it_is_due(clock: Clock) -> None:
    for episode in some():
        began = clock.now
        clock.proxy.rules.clear()
        clock.proxy.played.clear()
        play(clock, episode, frames=False)
        rules, plays = opaque(episode)
        assert clock.proxy.rules == [rules, ()]
        due = [play for play in plays if play.at <= episode.seconds]
        assert [(fault, broker) for _, fault, broker in clock.proxy.played] == [(one.fault, one.broker) for one in due]
        assert [at - began for at, *_ in clock.proxy.played] == pytest.approx([one.at for one in due])


def test_strikes_due_during_a_nodes_start_are_played_after_it(clock: Clock) -> None:
    """Nothing more is played once the episode is healed."""
    episode = replace(some()[0], seconds=3.0, strikes=(Strike("kill", "node", 1, 0.5),))
    began = clock.now
    play(clock, episode, frames=False)
    times = [at - began for at, *_ in clock.proxy.played]
    assert len(times) == len(opaque(episode)[1]) > 1
    assert {at for at in times if at > 0.5} == {10.5}
