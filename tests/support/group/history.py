"""Facts of one simulated group, in simulated seconds: the schedule's driver writes them, `judge.py` judges them.

A history has no behaviour but for its questions: a made one and a recorded one are judged alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Guarantee = Literal["at_least_once", "at_most_once", "exactly_once"]
Where = tuple[str, int]  # topic and partition
WAIT_S = 60.0  # an input has its result so soon, apart from the time that excuses cover


@dataclass(slots=True)
class Input:
    """One record of an input topic. `wanted`: whether the group owes its result; `wait_s`: how soon."""

    number: int
    where: Where
    offset: int
    at_s: float
    key: bytes = b"k"
    wanted: Literal["yes", "maybe", "no"] = "yes"
    wait_s: float = WAIT_S
    incarnation: int = 0  # of its topic: each recreation begins another log
    in_order: bool = True  # False: a retry topic or a failed write may move it behind later inputs


class Delivery(NamedTuple):
    """A member passed an input on: to the sink, or from `poll` to its user. `owns`: its consumer still listed it."""

    at_s: float
    member: str
    number: int
    owns: bool


class Settled(NamedTuple):
    """An input is processed: its result is at the sink, or a retry topic has it."""

    at_s: float
    member: str
    number: int


class Result(NamedTuple):
    """A committed result, in the order of the output's log."""

    at_s: float
    number: int


class Commit(NamedTuple):
    """An offset that the coordinator stored. `owners`: the members that it lists the partition for."""

    at_s: float
    member: str
    where: Where
    offset: int
    owners: frozenset[str] = frozenset()
    incarnation: int = 0


class Excuse(NamedTuple):
    """A span in which an input may wait, and why: a fault, or a handler's own time."""

    since_s: float
    until_s: float
    why: str


class Hold(NamedTuple):
    """A member held up the group's rebalance for so long while it only waited."""

    at_s: float
    member: str
    seconds: float
    limit_s: float


class Overlap(NamedTuple):
    """A member reads a partition that the coordinator lists for another member alone."""

    at_s: float
    where: Where
    member: str
    owner: str
    seconds: float


class Ended(NamedTuple):
    """A member's program ended by an error."""

    at_s: float
    member: str
    error: str


class Warned(NamedTuple):
    """A WARNING of a member's log."""

    at_s: float
    text: str


@dataclass(slots=True)
class GroupHistory:
    """The events of one schedule. `until_s`: when the run ended."""

    guarantee: Guarantee
    inputs: list[Input] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    excuses: list[Excuse] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    hung: dict[int, float] = field(default_factory=dict)  # inputs whose handler call never returned, and since when
    keeps_order: bool = True  # no member was cut off, so no stale write of a zombie is allowed
    until_s: float = 0.0

    def excused_s(self, since_s: float, until_s: float) -> float:
        """The seconds of a span that excuses cover; overlapping excuses count once."""
        spans = sorted((max(since_s, each.since_s), min(until_s, each.until_s)) for each in self.excuses)
        total, reached = 0.0, since_s
        for begin, end in spans:
            if end > max(begin, reached):
                total += end - max(begin, reached)
                reached = end
        return total
