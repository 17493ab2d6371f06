"""Inputs of simulated groups: records with a number, and what a handler does with each.

An input's value is its number. Its trait says how handlers and the sink treat it: some inputs take long, fail for a
while, ask for a later call, hang once, or fail once at the sink. The inputs go into the brokers' logs directly, so
that no producer's faults delay them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Literal

from kafwire.records import encode_batch
from kafwire.stream import NotNow
from kafwire.testing.simulation.clock import WALL_S
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.group.history import Excuse, GroupHistory, Input, Where

TOPIC, OUT, RETRY, DEAD = "in", "out", "in.retry", "dead"
LATER_S = 5.0  # what NotNow asks for
AFTER_S = 20.0  # what waited behind a slow or failing input may take so much longer
BACKOFF_S = 30.0  # the longest back-off of `.retry`
FOREVER_S = 1e6

Kind = Literal["plain", "slow", "bad", "later", "hung", "unsent"]


@dataclass(slots=True)
class Trait:
    """How an input behaves. `seconds`: how long a call takes, or until when (of the world) calls fail."""

    kind: Kind = "plain"
    seconds: float = 0.0


class Inputs:
    """All inputs of one run, and the behaviour of each."""

    def __init__(self, world: ClusterWorld, history: GroupHistory, *, patience_s: float, retry_delay_s: float) -> None:
        """`patience_s`: after so long a hung call costs its member the partitions; `retry_delay_s`: of the topic."""
        self.world, self.history = world, history
        self.traits: defaultdict[int, Trait] = defaultdict(Trait)
        self.by_number: dict[int, Input] = {}
        self.incarnations: dict[str, int] = {}
        self.noticed_s: dict[Where, float] = {}  # new partitions, and when members notice them at the latest
        self._patience_s, self._retry_delay_s = patience_s, retry_delay_s
        self._failed_once: set[int] = set()

    @property
    def now_s(self) -> float:
        """The world's time."""
        return self.world.loop.time()

    def excuse(self, seconds: float, why: str) -> None:
        """Inputs may wait for so long from now on."""
        self.history.excuses.append(Excuse(self.now_s, self.now_s + seconds, why))

    def append(self, where: Where, key: bytes, trait: Trait | None = None, **known: Any) -> Input:
        """One more input at the end of a partition's log."""
        partition = self.world.state.topics.partition(*where)
        assert partition is not None
        number, age_s = len(self.history.inputs), known.pop("age_s", 0.0)
        made = Input(number, where, partition.log.end_offset, self.now_s, key, **known)
        made.wait_s += max(0.0, self.noticed_s.get(where, 0.0) - self.now_s)
        made.incarnation = self.incarnations.get(where[0], 0)
        if trait is not None and trait.kind != "plain":
            self.traits[number] = trait
            made.in_order = trait.kind not in ("bad", "hung") or not self._retry_delay_s
            made.wait_s += {"bad": self._retry_delay_s, "hung": self._patience_s}.get(trait.kind, 0.0)
        self.history.inputs.append(made)
        self.by_number[number] = made
        wall_ms = int((WALL_S + self.now_s - age_s) * 1000)
        partition.append(encode_batch([{"key": key, "value": b"%d" % number, "timestamp_ms": wall_ms}]))
        self.world.changed()
        return made

    async def behave(self, number: int) -> None:
        """The behaviour of a handler's call with an input. Raises what the input's trait says."""
        trait = self.traits[number]
        match trait.kind:
            case "slow":
                self.excuse(trait.seconds + AFTER_S, f"#{number} takes {trait.seconds:.1f} s")
                await asyncio.sleep(trait.seconds)
            case "bad" if self.now_s < trait.seconds:
                self.excuse(min(trait.seconds - self.now_s + AFTER_S, BACKOFF_S + AFTER_S), f"#{number} fails")
                raise ConnectionError(f"#{number} fails for {trait.seconds - self.now_s:.0f} s more")
            case "later" if self.now_s < trait.seconds:
                self.excuse(LATER_S + AFTER_S, f"#{number} is not ready")
                raise NotNow(LATER_S)
            case "hung" if number not in self._failed_once:
                self._failed_once.add(number)
                self.history.hung[number] = self.now_s
                self.excuse(self._patience_s + AFTER_S, f"#{number} hangs")
                await asyncio.sleep(FOREVER_S)

    def fails_at_sink(self, number: int) -> bool:
        """True if this delivery of an input's result fails, which it does once."""
        if self.traits[number].kind != "unsent" or number in self._failed_once:
            return False
        self._failed_once.add(number)
        return True

    @staticmethod
    def due_s(trait: Trait) -> float:
        """When a trait has had its effect, at the latest."""
        return trait.seconds if trait.kind in ("bad", "later") else 0.0
