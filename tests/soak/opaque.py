"""The faults of an episode where proxies see bytes only, as of TLS: a pure function of the episode.

A rule for an API finds nothing there, so its fault is played now and then on all connections of one broker. Faults that
only the owner of the frames can make are left out: records damaged (a changed byte of TLS ends the connection, as a
reset does), requests and responses twice, responses out of order or missing while their connection goes on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Cut,
    Delay,
    DropResponse,
    Hold,
    Refuse,
    Reset,
    Rule,
    Throttle,
)
from tests.soak.script import BROKERS, Episode

# Between what keeps bytes back and the reset that ends their connection.
_MEANWHILE_S = 0.3
# A response of more bytes than pass meanwhile is cut in its middle.
_CUT_BYTES_PER_SECOND = 5_000.0

Played = Reset | BlackHole | Throttle | Refuse


@dataclass(frozen=True, slots=True)
class Play:
    """A fault of all connections of a broker, `at` seconds after the episode began."""

    at: float
    fault: Played
    broker: int


def opaque(episode: Episode) -> tuple[tuple[Rule, ...], tuple[Play, ...]]:
    """The rules that still find something, and the faults that are played in the place of the others, in order."""
    chance = random.Random(f"{episode.seed}/bytes")
    rules = tuple(rule for rule in episode.rules if rule.api == CONNECT)
    plays = [play for rule in episode.rules for play in _in_place_of(rule, episode.seconds, chance)]
    if episode.rules and not plays:
        plays = list(_in_place_of(Rule(Reset()), episode.seconds, chance))
    return rules, tuple(sorted(plays, key=lambda play: play.at))


def _in_place_of(rule: Rule, seconds: float, chance: random.Random) -> Iterator[Play]:
    lasts = isinstance(rule.fault, BlackHole | Throttle | Refuse)
    for _ in range(chance.choice((1, 2)) if lasts else chance.choice((3, 4, 5))):
        at = chance.uniform(0, seconds)
        broker = rule.broker if isinstance(rule.broker, int) else chance.choice(BROKERS)
        for later, fault in _of_bytes(rule, chance):
            yield Play(round(at + later, 3), fault, broker)


def _of_bytes(rule: Rule, chance: random.Random) -> list[tuple[float, Played]]:
    """Faults of bytes with the effect of a fault of frames, as steps: seconds later, and the fault."""
    if rule.api == CONNECT:  # which finds nothing while no client has to connect
        return [(0, Reset())]
    fault = rule.fault.drawn(chance.random)
    match fault:
        case Delay():
            return [(0, BlackHole(fault.way, seconds=fault.duration))]
        case DropResponse(reset=True):  # requests meanwhile are done, and their responses are lost
            return [(0, BlackHole("response", seconds=1.0)), (_MEANWHILE_S, Reset())]
        case Hold():  # and this arrives after its connection is gone
            later = min(_MEANWHILE_S, fault.duration / 2)
            return [(0, BlackHole("request", seconds=fault.duration)), (later, Reset())]
        case Cut():
            return [(0, Throttle(_CUT_BYTES_PER_SECOND, fault.way, seconds=1.0)), (_MEANWHILE_S, Reset())]
        case Refuse():  # seen by clients that must connect
            return [(0, fault), (0, Reset())]
        case Reset() | BlackHole() | Throttle():
            return [(0, fault)]
    return []
