"""The choice of the frame that a fault meets: rules that aim, and a script that decides. Pure: no clock, no randomness.

    script = FaultScript(chance)                     # chance("name") returns a function that draws from [0, 1)
    script.add(Rule(Delay((0.1, 0.5)), api="Fetch", probability=0.05))
    decision = script.decide(occasion, now)          # None: let it pass
    script.give_back(decision)                       # it could not be played: a rule counts only played faults

Each rule has its own random stream for each broker. So its nth match at a broker always gives the same choice, whatever
else happens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafwire.protocol import MESSAGES
from kafwire.similar_names import similar
from kafwire.testing.faults.kinds import BlackHole, Chance, Fault, Refuse, Reset, Throttle

__all__ = ["CONNECT", "Decision", "FaultEvent", "FaultScript", "Occasion", "Rule"]

CONNECT: Final = "connect"
"""The `api` of a rule for new connections instead of requests."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """A request, or a new connection (`CONNECT`), that a fault could meet; a proxy's connections count from 1."""

    broker: int
    connection: int
    api: str
    version: int = -1
    correlation_id: int = -1
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault, and its target. A rule aims a fault of responses by their requests.

    The first `skip` matches pass. Each other match meets the fault with `probability`, until `count` have met it.

    Args:
        fault: the fault.
        api: Kafka's name without "Request" ("Produce", "EndTxn"), several names, None for every request, or `CONNECT`
            for new connections.
        broker: one id, several, or None for all.
        client_id: the client's id, or None for all.
        probability: from 0 to 1.
        count: how many times at most; None: no limit.
        skip: how many matches pass first.
        after: seconds since the start, from which on the rule holds.
        until: seconds since the start, up to which the rule holds.

    Raises:
        ValueError: there is no such API, a number is out of range, or a fault of frames is aimed at connections.

    Example:
        >>> from kafwire.testing.faults import DropResponse, Rule
        >>> Rule(DropResponse(), api="Produce", count=2).probability
        1.0
    """

    fault: Fault
    api: str | tuple[str, ...] | None = None
    broker: int | tuple[int, ...] | None = None
    client_id: str | None = None
    probability: float = 1.0
    count: int | None = None
    skip: int = 0
    after: float = 0.0
    until: float = math.inf

    def __post_init__(self) -> None:
        for name in self._apis() or ():
            if name != CONNECT and f"{name}Request" not in MESSAGES:
                known = [message.removesuffix("Request") for message in MESSAGES if message.endswith("Request")]
                close = similar(name, known)
                message = f"no API is called {name!r}" + (f"; {close[0]!r}?" if close else "")
                raise ValueError(message)
        if not 0 <= self.probability <= 1:
            message = f"a probability is 0 to 1, not {self.probability}"
            raise ValueError(message)
        if self.skip < 0 or (self.count is not None and self.count < 0):
            message = f"skip and count are not negative: {self.skip}, {self.count}"
            raise ValueError(message)

        if CONNECT in (self._apis() or ()) and not isinstance(self.fault, Reset | BlackHole | Throttle | Refuse):
            message = f"a connection without a request meets Reset, BlackHole, Throttle or Refuse, not {self.fault!r}"
            raise ValueError(message)

    def matches(self, occasion: Occasion, now: float) -> bool:
        """Return True if an occasion is the rule's target; `probability`, `skip` and `count` are not applied.

        Args:
            occasion: a request or a new connection.
            now: seconds since the start.

        Returns:
            True if it matches.
        """
        apis = self._apis()
        return (
            (occasion.api in apis if apis is not None else occasion.api != CONNECT)
            and (self.broker is None or occasion.broker in _several(self.broker))
            and (self.client_id is None or occasion.client_id == self.client_id)
            and self.after <= now < self.until
        )

    def _apis(self) -> tuple[str, ...] | None:
        return (self.api,) if isinstance(self.api, str) else self.api


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault that was injected, with all random choices filled in.

    Args:
        at: `time.monotonic()` when it took effect.
        broker: the broker's id.
        connection: the connection's number, from 1; 0 for a fault that `FaultProxy.play` plays on a broker.
        client_id: the client's id, or None.
        api: the request's API.
        correlation_id: the request's correlation id.
        fault: the fault.

    Example:
        >>> from kafwire.testing.faults import FaultEvent, Reset
        >>> FaultEvent(12.5, 1, 3, "test", "Produce", 7, Reset()).kind
        'Reset'
    """

    at: float
    broker: int
    connection: int
    client_id: str | None
    api: str
    correlation_id: int
    fault: Fault

    @property
    def kind(self) -> str:
        """The fault's name: "Delay", "DropResponse", ..."""
        return type(self.fault).__name__


@dataclass(slots=True)
class _Aimed:
    """A rule with its counts and random streams."""

    rule: Rule
    number: int
    matched: int = 0
    played: int = 0
    chances: dict[int, Chance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """A drawn fault for an occasion."""

    fault: Fault
    occasion: Occasion
    by: _Aimed


class FaultScript:
    """Rules with their counts and random streams. Not thread-safe."""

    def __init__(self, chance: Callable[[str], Chance]) -> None:
        self._chance = chance
        self._aimed: list[_Aimed] = []

    def add(self, rule: Rule) -> None:
        """Add a rule after the present ones."""
        self._aimed.append(_Aimed(rule, len(self._aimed)))

    def decide(self, occasion: Occasion, now: float) -> Decision | None:
        """Return the fault of the first rule that matches, `now` seconds after the start; None: let it pass."""
        for aimed in self._aimed:
            rule = aimed.rule
            if not rule.matches(occasion, now):
                continue
            aimed.matched += 1
            if aimed.matched <= rule.skip or aimed.played == rule.count:
                continue
            chance = aimed.chances.get(occasion.broker)
            if chance is None:
                chance = aimed.chances[occasion.broker] = self._chance(f"{aimed.number}/{occasion.broker}")
            if rule.probability < 1 and chance() >= rule.probability:
                continue
            aimed.played += 1
            return Decision(rule.fault.drawn(chance), occasion, aimed)
        return None

    def give_back(self, decision: Decision) -> None:
        """Note that a fault was not applied: its rule may meet another occasion instead."""
        decision.by.played -= 1


def _several(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value
