"""Plans of combined schedules: all that a seed decides before the run begins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from kafwire.stream import Pipeline, RetryTopic
from kafwire.stream.steps import Lane
from tests.support.group.consumers import PROTOCOLS
from tests.support.group.history import Guarantee
from tests.support.group.inputs import BACKOFF_S, DEAD, RETRY, TOPIC, Kind
from tests.support.group.programs import Program

SESSION_MS, HEARTBEAT_MS = 10_000, 1_000
PATTERN = "in(-.*)?"
METADATA_S = 10.0  # between classic members' looks at the topics, where topics change
REFRESH_S = 300.0  # the default
PATIENCE_MS = 60_000  # max_poll_interval_ms, in schedules with handlers that hang
BROKERS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
}


@dataclass(frozen=True)
class Theme:
    """The theme of a schedule: the steps it is drawn from, the inputs, and how many steps it has."""

    steps: dict[str, int]
    kinds: dict[Kind, int] = field(default_factory=lambda: {"plain": 1})
    guarantees: tuple[Guarantee, ...] = (
        "exactly_once",
        "exactly_once",
        "at_least_once",
        "at_least_once",
        "at_most_once",
    )
    programs: tuple[str, ...] = ("stream", "stream", "loop", "tasks", "transactions")
    most_steps: int = 9


REBALANCES = {"join": 3, "leave": 2}
FAULTS = {"withhold": 2, "fence": 2, "cut_off": 1, "break_connections": 1, "move_coordinator": 1}
METADATA = {"lag": 3, "slow_metadata": 3, "grow": 3}
THEMES: dict[str, Theme] = {
    "revocation": Theme(REBALANCES | {"traffic": 1, "in_hand": 5}, {"plain": 3, "slow": 2}),
    "waits": Theme(REBALANCES | {"in_hand": 4}, {"plain": 4, "bad": 1, "later": 1}, programs=("stream",)),
    "zombies": Theme(REBALANCES | FAULTS | {"in_hand": 3, "delete_group": 2}, {"plain": 3, "slow": 1}),
    "lag": Theme(REBALANCES | METADATA | {"fence": 1, "lose_while_looking": 4, "traffic": 1}),
    "patterns": Theme(METADATA | {"create": 3, "grant": 3, "join": 1}),
    "latest": Theme({"grow": 2, "create": 2, "grant": 2, "traffic": 1}, most_steps=4),
    "recreate": Theme({"recreate": 3, "traffic": 1}, most_steps=3),
    "hung": Theme({"join": 2, "in_hand": 3, "traffic": 2}, {"plain": 6, "hung": 1}, programs=("stream",), most_steps=4),
    "unsent": Theme({"in_hand": 3, "join": 1}, {"plain": 3, "unsent": 1}, ("at_least_once",), ("stream",), 4),
    "mixture": Theme(
        REBALANCES | FAULTS | METADATA | {"in_hand": 6},
        {"plain": 8, "slow": 3, "bad": 1, "later": 1},
        most_steps=10,
    ),
}
WEIGHTS = {"revocation": 3, "waits": 3, "zombies": 3, "lag": 3, "mixture": 4}


class Plan:
    """The schedule of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = random.Random(f"{seed}/combined")
        (self.theme_name,) = chance.choices([*THEMES], [WEIGHTS.get(name, 1) for name in THEMES])
        self.theme = THEMES[self.theme_name]
        self.guarantee: Guarantee = chance.choice(self.theme.guarantees)
        self.protocol = chance.choice([*PROTOCOLS])
        self.partitions = chance.randrange(1, 6)
        self.steps = chance.randrange(2, self.theme.most_steps + 1)
        is_latest = self.theme_name == "latest" or (self.theme_name == "recreate" and chance.random() < 0.5)
        self.reset = "latest" if is_latest else "earliest"
        self.by_pattern = self.theme_name in ("patterns", "latest") or chance.random() < 0.1
        can_retry = self.guarantee != "at_most_once" and not self.by_pattern
        self.retries_by_topic = can_retry and "bad" in self.theme.kinds and chance.random() < 0.4
        self.retry_delay_s = chance.choice([60.0, 400.0]) if self.retries_by_topic else 0.0
        self.has_short_windows = chance.random() < {"revocation": 0.9, "mixture": 0.6}.get(self.theme_name, 0.2)
        # A transaction ends in time, though the inputs in it wait; that of a lost member soon.
        is_exact_mixture = self.guarantee == "exactly_once" and self.theme_name == "mixture"
        self.bad_s = 20.0 if is_exact_mixture else 50.0 if self.retries_by_topic else 200.0
        self.transaction_ms = 60_000 if self.theme_name != "waits" else 600_000
        self.by: Lane | None = chance.choice(["key", "key", "partition", None])
        self.is_patient = self.theme_name != "hung"
        self.metadata_s = METADATA_S if chance.random() < 0.5 else REFRESH_S

    @property
    def topics(self) -> list[str]:
        """The topics that members name."""
        return [TOPIC, RETRY] if self.retries_by_topic else [TOPIC]

    @property
    def notices_topics_s(self) -> float:
        """How long a classic member may take to see that a topic changed: it asks so often."""
        return self.metadata_s if self.protocol != "consumer" else 0.0

    def consumer(self) -> dict[str, Any]:
        """Options of one more member's consumer."""
        chance = self.chance
        options: dict[str, Any] = PROTOCOLS[self.protocol] | {"group_id": "g", "auto_offset_reset": self.reset}
        options |= {"pattern": PATTERN} if self.by_pattern else {"topics": self.topics}
        if self.protocol != "consumer":
            options |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
            options["metadata_max_age_ms"] = int(self.metadata_s * 1000)
        if self.has_short_windows:
            options |= chance.choice(
                [{"on_revocation": "discard"}, {"revocation_timeout_ms": chance.choice([500, 2_000])}]
            )
        if not self.is_patient:
            options["max_poll_interval_ms"] = PATIENCE_MS
        return options

    def program(self) -> str:
        """The program of one more member."""
        fits = {
            "exactly_once": ("stream", "transactions"),
            "at_least_once": ("stream", "loop", "tasks"),
            "at_most_once": ("stream",),
        }[self.guarantee]
        return self.chance.choice([each for each in self.theme.programs if each in fits])

    def make_pipeline(self, program: Program) -> Pipeline:
        """A stream's pipeline: handlers in parallel, or steps where no handler is needed."""
        chance = self.chance
        if self.theme_name == "unsent" and chance.random() < 0.3:
            pipeline = Pipeline().map(program.pass_on)
        else:
            pipeline = Pipeline().for_each(program.handle, workers=chance.choice([1, 4, 16]), by=self.by)
        if self.guarantee == "at_most_once":
            pipeline = pipeline.dead_letters(DEAD)
        elif self.retries_by_topic:
            pipeline = pipeline.retry_topics(RetryTopic(RETRY, self.retry_delay_s)).dead_letters(DEAD)
        else:
            pipeline = pipeline.retry(1000, backoff_s=1.0, max_backoff_s=BACKOFF_S)
        return pipeline.commit(within=chance.choice([0.1, 0.1, 1.0]))

    def kind(self) -> Kind:
        """The kind of one more input."""
        (kind,) = self.chance.choices([*self.theme.kinds], [*self.theme.kinds.values()])
        return kind

    def __str__(self) -> str:
        windows = ", short windows" if self.has_short_windows else ""
        by = "pattern" if self.by_pattern else "retry topic" if self.retries_by_topic else "topic"
        what = f"{self.theme_name}: {self.guarantee}, {self.protocol}, {self.partitions} partitions, by {by}{windows}"
        return f"{what}, reset {self.reset}, order by {self.by}, metadata every {self.metadata_s:.0f} s"
