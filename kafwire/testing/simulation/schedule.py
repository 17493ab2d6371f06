"""The faults of one run of the simulated world and their times: drawn from a seed, saved, loaded, shortened.

A schedule is data; `events.py` carries it out. Its seed repeats a run. If `shrink.py` or a person shortened the
schedule, the schedule itself repeats the run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

MAIN, SECOND, SIDE = "main", "second", "side"  # the topics
CHAIN = "chain"  # the group and the transactional id of the client that reads the first topic and writes the second
# Every kind of fault and its weight in the draw. `events.py` explains the kinds.
WEIGHTS: Mapping[str, int] = {
    "crash": 4,
    "stop": 3,
    "move_leader": 4,
    "move_coordinator": 3,
    "reset_connections": 4,
    "delay": 3,
    "cut_requests": 3,
    "cut_responses": 3,
    "half_open": 3,
    "drip": 2,
    "lose_response": 8,
    "response_error": 20,
    "forget_producers": 2,
    "forgetful_restart": 8,
    "crash_all": 2,
    "store_and_fail": 6,
    "unready_leader": 4,
    "no_leader": 3,
    "stale_metadata": 4,
    "recreate_in_doubt": 3,
    "late_requests": 3,
    "lag_followers": 3,
    "lag_metadata": 3,
    "controller_failover": 2,
    "disk_full": 2,
    "jump_clock": 2,
    "move_address": 2,
    "add_partitions": 2,
    "recreate_topic": 3,
    "delete_records": 3,
    "refuse_connections": 2,
    "forget_sessions": 2,
    "throttle": 2,
}
# Faults that may lose acknowledged records: drawn only where producers get no promise against that.
LOSSY: Mapping[str, int] = {"unclean_election": 20, "crash_unflushed": 5}
# Faults that may be drawn to outlast the time-outs of clients that are not patient.
OUTLASTING = (
    "crash",
    "stop",
    "cut_requests",
    "cut_responses",
    "half_open",
    "refuse_connections",
    "controller_failover",
    "crash_all",
    "no_leader",
)
LONG_S = (15.0, 60.0)
EVERY_S = (4.0, 10.0, 10.0)
FEW = 5  # kinds of faults
# Duration of each, in seconds. The others happen at one moment.
LASTS: Mapping[str, tuple[float, float]] = {
    "crash": (0.5, 12.0),
    "crash_unflushed": (0.5, 12.0),
    "stop": (0.5, 8.0),
    "delay": (1.0, 15.0),
    "cut_requests": (0.5, 20.0),
    "cut_responses": (0.5, 20.0),
    "half_open": (0.5, 20.0),
    "drip": (1.0, 10.0),
    "lag_followers": (0.5, 10.0),
    "lag_metadata": (0.5, 8.0),
    "disk_full": (0.5, 8.0),
    "refuse_connections": (0.5, 8.0),
    "late_requests": (0.5, 20.0),
    "controller_failover": (0.5, 6.0),
    "throttle": (1.0, 8.0),
    "forgetful_restart": (1.0, 12.0),
    "crash_all": (0.5, 12.0),
    "no_leader": (0.5, 8.0),
    "stale_metadata": (1.0, 12.0),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One fault. `at_s`: simulated time from the start of the load; `node`, `place`, `amount`: its parameters."""

    at_s: float
    kind: str
    node: int
    lasts_s: float = 0.0
    place: int = 0  # a number that selects a topic and a partition among those that exist then
    amount: float = 0.0  # in [0, 1): of a delay, a rate, a jump

    @property
    def ends_s(self) -> float:
        """The time of its end."""
        return self.at_s + self.lasts_s

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:8.3f} s  {self.kind.replace('_', ' ')} of node {self.node}{lasts}"


@dataclass(frozen=True, slots=True)
class Load:
    """The work of the clients of a run. See `workload.py`."""

    nodes: int = 3
    seconds: float = 300.0
    records_per_s: float = 200.0
    bursts_per_s: float = 2.0
    partitions: int = 3
    is_durable: bool = True  # three replicas, two of them in sync, no unclean election
    is_patient: bool = True  # no time-out ends before the fault does, so no client gets an error
    transactional: bool = False
    chained: bool = False  # a client writes a second topic from the first, by transactions with the offsets
    blocking: bool = False  # one thread that sends and polls by the blocking clients
    is_alone: bool = False  # one sender and one reader alone
    is_slow: bool = False  # some transactions take longer than their time-out
    transaction_version: int = 2
    linger_ms: int = 50
    options: Mapping[str, Any] = field(default_factory=dict)  # of the producers and consumers

    def __str__(self) -> str:
        kinds = (("blocking", self.blocking), ("chained", self.chained), ("transactional", self.transactional))
        kind = next((name for name, is_so in kinds if is_so), "idempotent")
        kind = f"patient {kind}" if self.is_patient else f"slow {kind}" if self.is_slow else kind
        durable = "" if self.is_durable else ", unclean elections allowed"
        return (
            f"{kind} producers, {self.records_per_s:g} records/s for {self.seconds:g} s, {self.partitions} partitions, "
            f"linger {self.linger_ms} ms, transaction.version {self.transaction_version}{durable}"
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run: its seed, the work of its clients, and its faults."""

    seed: int
    load: Load
    events: tuple[Event, ...]

    @classmethod
    def draw(cls, seed: int, *, seconds: float = 300.0, every_s: float | None = None) -> Self:
        """Draw the run of a seed, with a fault every `every_s` seconds on average, and three at least.

        If `every_s` is not given, it is drawn too. Half of all runs draw all kinds of faults. The others draw only a
        few kinds, which then meet each other more often.
        """
        chance = random.Random(f"schedule {seed}")
        load = _draw_load(chance, seconds)
        weights = {**WEIGHTS, **({} if load.is_durable else LOSSY)}
        if chance.random() < 0.5:
            weights = {kind: weights[kind] for kind in chance.sample(list(weights), FEW)}
        every_s = chance.choice(EVERY_S) if every_s is None else every_s
        count = max(3, round(seconds / every_s * chance.uniform(0.7, 1.3)))
        events = sorted((_draw_event(chance, weights, load) for _ in range(count)), key=lambda event: event.at_s)
        return cls(seed, load, tuple(events))

    def with_events(self, events: Sequence[Event]) -> Schedule:
        """Return the same run with other faults."""
        return Schedule(self.seed, self.load, tuple(events))

    def to_json(self) -> str:
        """Return the schedule as text, for a file."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the schedule that `to_json` wrote."""
        given = json.loads(text)
        return cls(given["seed"], Load(**given["load"]), tuple(Event(**event) for event in given["events"]))


def _draw_load(chance: random.Random, seconds: float) -> Load:
    kind = chance.choices(("idempotent", "transactional", "chained", "blocking"), (5, 3, 3, 2))[0]
    is_patient = chance.random() < 0.6
    return Load(
        seconds=seconds,
        records_per_s=chance.choice((10.0, 50.0, 50.0, 200.0)),
        partitions=chance.choice((1, 1, 2, 3, 6)),
        # An unclean election tears transactions, whatever clients do.
        is_durable=chance.random() < 0.6 or kind in ("transactional", "chained"),
        is_patient=is_patient,
        transactional=kind in ("transactional", "chained"),
        chained=kind == "chained",
        blocking=kind == "blocking",
        transaction_version=chance.choice((1, 2, 2)),
        linger_ms=chance.choice((0, 5, 50, 200)),
        bursts_per_s=chance.choice((0.5, 0.5, 2.0)),
        options={
            "compression_type": chance.choice(("none", "none", "lz4")),
            # Small batches put many in flight.
            "batch_size": chance.choice((200, 200, 200, 500, 2_000, 1 << 20)),
            "delivery_timeout_ms": 300_000 if is_patient else chance.choice((8_000, 12_000, 20_000)),
            "fetch_strategy": chance.choice(("hybrid", "hybrid", "per_partition", "per_node")),
        },
        is_slow=not is_patient and kind in ("transactional", "chained") and chance.random() < 0.4,
    )


def _draw_event(chance: random.Random, weights: Mapping[str, int], load: Load) -> Event:
    kind = chance.choices(list(weights), list(weights.values()))[0]
    at_s = round(chance.uniform(1.0, max(load.seconds - 1.0, 1.0)), 3)
    low, high = LASTS.get(kind, (0.0, 0.0))
    if not load.is_patient and kind in OUTLASTING and chance.random() < 0.5:
        low, high = LONG_S
    return Event(
        at_s,
        kind,
        node=chance.randrange(1, load.nodes + 1),
        # Most faults are short, some are long: a fault longer than a time-out meets other code.
        lasts_s=round(low + (high - low) * chance.random() ** 2, 3),
        place=chance.randrange(1 << 16),
        amount=round(chance.random(), 4),
    )
