"""The plan of a cycle of `hidden_inputs`, decided by its seed, and the judgement on its sinks. Pure.

A member's journal says which inputs it has written on, and which transactions were reported as committed. Every reader
of committed records must see the results of these inputs, and of those before the group's committed offset.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Input = tuple[int, int]  # partition, offset
Order = Literal["stop first", "kill first", "hold markers"]
Victim = Literal["transactions", "offsets"]
# Where a member stops itself within a transaction: see `hidden_member`.
STAGES = ("written", "flushed", "offsets", "commit")
READERS = tuple(
    (client, level) for level in ("read_committed", "read_uncommitted") for client in ("kafwire", "confluent-kafka")
)
ORDERS: tuple[Order, ...] = ("stop first", "stop first", "kill first", "hold markers")
VICTIMS: tuple[Victim, ...] = ("transactions", "offsets")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LanePlan:
    """The faults of one transactional id.

    Its process stands still at `stage` (`commit_ms` into a commit) for `paused_s`. With a `successor`, another process
    begins the next producer of the id meanwhile, after `successor_s`; the first one then goes on for `overlap_s`, and
    leaves the group, or is `killed`.
    """

    stage: str
    commit_ms: float
    paused_s: float
    successor: bool
    successor_s: float
    overlap_s: float
    killed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of the cluster: `leaders` are the nodes that lead transactions' state, groups' offsets, and sinks.

    The coordinator of `victim` is killed `gap_s` before or after the stop, and restarted after `down_s`. With "hold
    markers" it cannot reach the leader of the sinks from before the commit on.
    """

    cycle: int
    leaders: tuple[int, int, int]
    victim: Victim
    order: Order
    gap_s: float
    down_s: float
    lanes: tuple[LanePlan, ...]


def plan(seed: int, cycle: int, lanes: int) -> Plan:
    """The plan of a cycle: the same for the same seed and number."""
    chance = random.Random(f"{seed}/{cycle}")
    transactions, offsets, sink = chance.sample((1, 2, 3), 3)
    order = chance.choice(ORDERS)
    victim: Victim = "transactions" if order == "hold markers" else chance.choice(VICTIMS)
    return Plan(
        cycle,
        (transactions, offsets, sink),
        victim,
        order,
        chance.choice((0.0, chance.uniform(0.0, 0.1), chance.uniform(0.0, 1.5))),
        chance.choice((0.0, chance.uniform(0.0, 5.0))),
        tuple(
            LanePlan(
                "offsets" if order == "hold markers" else chance.choice(STAGES),
                chance.choice((0.0, chance.uniform(0.0, 5.0), chance.uniform(0.0, 50.0))),
                chance.choice((chance.uniform(2.4, 4.4), chance.uniform(2.4, 4.4), chance.uniform(8.0, 13.0))),
                chance.random() < 0.6,
                chance.choice((0.0, chance.uniform(0.0, 2.0))),
                chance.uniform(0.5, 2.0),
                chance.random() < 0.3,
            )
            for _ in range(lanes)
        ),
    )


def reported(journals: Iterable[Iterable[str]]) -> set[Input]:
    """The inputs of transactions that members had reported as committed.

    Each journal is that of one process, with its lines in order. A transaction ends with "C", which reports it, or "E".
    """
    found: set[Input] = set()
    for lines in journals:
        open_inputs: dict[int, list[tuple[int, int]]] = {}
        for line in lines:
            kind, _, *rest = line.split(" ")
            if kind == "R":
                partition, first, following = map(int, rest)
                open_inputs.setdefault(partition, []).append((first, following))
            elif kind == "C" and rest == ["ok"]:
                for partition, ranges in open_inputs.items():
                    found |= {(partition, offset) for first, following in ranges for offset in range(first, following)}
                open_inputs = {}
            elif kind in {"E", "C", "L"}:
                open_inputs = {}
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The faults of one sink. `hidden` are in the log, and a committed reader does not see them."""

    hidden: frozenset[Input] = frozenset()
    lost: frozenset[Input] = frozenset()
    twice: frozenset[Input] = frozenset()
    stray: frozenset[Input] = frozenset()
    disagreed: frozenset[Input] = frozenset()

    @property
    def lines(self) -> list[str]:
        """A line for each kind of fault, with the first inputs of it."""
        kinds = {
            "hidden from a reader of committed records": self.hidden,
            "lost from the log": self.lost,
            "seen twice by a reader of committed records": self.twice,
            "seen, and no input": self.stray,
            "seen by one reader of committed records and not by the other": self.disagreed,
        }
        return [
            f"{len(inputs)} {what}, as {', '.join(f'{p}/{o}' for p, o in sorted(inputs)[:_SHOWN])}"
            for what, inputs in kinds.items()
            if inputs
        ]


def judge(
    ends: Mapping[int, int],
    reported: set[Input],
    committed: Mapping[int, int],
    seen: Mapping[tuple[str, str], Iterable[bytes]],
) -> Verdict:
    """Compare the records of a sink that each of `READERS` has seen with the owed ones.

    `ends` is where the inputs end, `reported` the inputs that members reported as committed, `committed` the group's
    offsets.
    """
    counts = {reader: Counter(map(_input_of, seen[reader])) for reader in READERS}
    strict = [counts[reader] for reader in READERS if reader[1] == "read_committed"]
    shown = [set(counted) for counted in strict]
    by_all, by_any = shown[0].intersection(*shown[1:]), shown[0].union(*shown[1:])
    logged: set[Input] = set().union(*(counts[reader] for reader in READERS))
    owed = reported | {(partition, offset) for partition, end in committed.items() for offset in range(end)}
    lacking = owed - by_all
    return Verdict(
        hidden=frozenset(lacking & logged),
        lost=frozenset(lacking - logged),
        twice=frozenset(one for counted in strict for one, count in counted.items() if count > 1),
        stray=frozenset(one for one in logged if not 0 <= one[1] < ends.get(one[0], 0)),
        disagreed=frozenset(by_any - by_all),
    )


def _input_of(value: bytes) -> Input:
    partition, _, offset = value.partition(b"/")
    return int(partition), int(offset)
