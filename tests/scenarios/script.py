"""The list of scenarios, and how they are played."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from tests.scenarios.scene import Kafka, Scene

MODULES = ("producer_state", "transactions", "transactional_offsets", "group_offsets")  # they fill the list
SCENARIOS: list[Scenario] = []


class Restart(enum.Enum):
    """How brokers end and come back, where a scenario yields."""

    CLEAN = "stopped in order, and started"
    CRASH = "killed, and started"


class Needs(enum.Enum):
    """Abilities that not every world has."""

    RESTART = "brokers that can be restarted"
    HELD_MARKERS = "markers that can be held back"
    SOON_TIMED_OUT = "a coordinator that looks often for transactions that take too long"


class Restarting(Kafka, Protocol):
    """A world whose brokers can be restarted."""

    def restart(self, how: Restart) -> None:
        """Restart the leading brokers, and return when they lead again."""


@dataclass(frozen=True)
class Scenario:
    """A function of a scene, which yields where the brokers end. `transaction_version` is the client's."""

    play: Callable[[Scene], Any]
    transaction_version: int
    versioned: bool
    restart: Restart | None
    needs: frozenset[Needs] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        name = self.play.__name__
        return f"{name} (version {self.transaction_version})" if self.versioned else name

    def runs_on(self, version: str) -> bool:
        """True if brokers of this version of Kafka have the APIs that it needs."""
        return self.transaction_version == 1 or version >= "4"


def scenario(
    *, versions: tuple[int, ...] = (), needs: Collection[Needs] = (), restart: Restart | None = None
) -> Callable[[Callable[[Scene], Any]], Callable[[Scene], Any]]:
    """Put a function into the list, once for each of the transaction versions that it is about."""

    def put(play: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
        all_needs = frozenset(needs) | ({Needs.RESTART} if restart else frozenset())
        SCENARIOS.extend(Scenario(play, each, bool(versions), restart, all_needs) for each in versions or (1,))
        return play

    return put


def scenarios(version: str, *, needs: Collection[Needs] | None = None) -> list[Scenario]:
    """Those that run on this version of Kafka; with `needs`, those that need something, and nothing but that."""
    for module in MODULES:
        import_module(f"tests.scenarios.{module}")

    found = [each for each in SCENARIOS if each.runs_on(version)]
    return found if needs is None else [each for each in found if each.needs <= set(needs)]


def play(scenario: Scenario, kafka: Kafka) -> list[str]:
    """Play a scenario to its end, and return what was said."""
    (lines,) = play_together([scenario], kafka)
    return lines


def play_together(several: Iterable[Scenario], kafka: Kafka) -> list[list[str]]:
    """Play scenarios that wait for the same restart, or for none, to their ends: one restart is enough for all."""
    several = list(several)
    scenes = [Scene(kafka, transaction_version=each.transaction_version) for each in several]
    played: list[Iterator[None]] = []
    for each, scene in zip(several, scenes, strict=True):
        rest = each.play(scene)
        if each.restart is not None:
            next(rest)
            scene.lines.append(f"--- {each.restart.value}")
            played.append(rest)
    (restart,) = {each.restart for each in several} or {None}
    if restart is not None:
        kafka.restart(restart)  # type: ignore[attr-defined]
    for rest in played:
        assert next(rest, ...) is ...
    return [scene.lines for scene in scenes]
