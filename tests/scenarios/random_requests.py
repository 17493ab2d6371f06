"""Short sequences of requests, drawn at random, played in two worlds, and cut down to what they differ by.

A sequence is data: it does not depend on responses, but for sequence numbers, which count on from the accepted ones. So
it can be played in any world, and with steps left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafwire.errors import ErrorCode
from tests.scenarios.scene import Kafka, Scene, error

LENGTH = 25
PLAYERS = {"a": "x", "b": "x", "c": "y", "i": None}  # and their transactional ids
PLACES = (("t", 0), ("t", 1))
GROUPS = ("g", "h")
WAITS = error(ErrorCode.CONCURRENT_TRANSACTIONS)


@dataclass(frozen=True)
class Step:
    """One request: a method of `Play` and its arguments."""

    name: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Play:
    """A scene in which steps are made."""

    def __init__(self, kafka: Kafka, transaction_version: int) -> None:
        self.scene = Scene(kafka, transaction_version=transaction_version)
        self.next: dict[tuple[int, int, tuple[str, int]], int] = {}  # by producer id, epoch and partition
        self.scene.topic(partitions=len(PLACES))
        for producer in ("a", "c", "i"):
            self.init(producer, PLAYERS[producer], None)
        self.scene.identities["b"] = replace(self.scene.identities["a"])  # the same producer, as it was when it began

    def make(self, step: Step) -> None:
        """One step, and what it starts comes to its end."""
        getattr(self, step.name)(*step.arguments)
        if step.name in ("init", "end"):
            for transactional_id in ("x", "y"):
                self.scene.settle(transactional_id)

    def init(self, producer: str, transactional_id: str | None, current: tuple[str, int] | None) -> None:
        self.scene.init(producer, transactional_id, current=current)

    def produce(
        self, producer: str, to: tuple[str, int], shift: int, count: int, epoch: int, transactional: bool
    ) -> None:
        known = self.scene.identities[producer]
        key = known.producer_id, known.epoch + epoch, to
        sequence = max(self.next.get(key, 0) + shift, 0)
        if key[1] < 0:
            return
        self.scene.produce(
            producer,
            sequence,
            count,
            to=to,
            epoch=epoch,
            transactional=transactional and known.transactional_id is not None,
        )
        if " -> ok" in self.scene.lines[-1]:
            self.next[key] = max(sequence + count, self.next.get(key, 0))

    def add(self, producer: str, to: tuple[str, int], epoch: int) -> None:
        self.scene.add(producer, to, epoch=epoch)

    def add_offsets(self, producer: str, group: str, epoch: int) -> None:
        self.scene.add_offsets(producer, group, epoch=epoch)

    def txn_commit(self, producer: str, group: str, to: tuple[str, int], offset: int, epoch: int) -> None:
        if self.scene.identities[producer].epoch + epoch >= 0:  # 3.9 sends no response to such a number
            self.scene.txn_commit(producer, {to: offset}, group, epoch=epoch)

    def end(self, producer: str, commit: bool, epoch: int) -> None:
        self.scene.end(producer, commit=commit, epoch=epoch, settle=False)

    def commit(self, group: str, to: tuple[str, int], offset: int) -> None:
        self.scene.commit({to: offset}, group)

    def delete_offsets(self, group: str, to: tuple[str, int]) -> None:
        self.scene.delete_offsets(to, group=group)

    def look(self, place: tuple[str, int]) -> None:
        """All that can be seen."""
        topic, partition = place
        self.scene.read(topic, partition, committed=True)
        self.scene.ends(topic, partition)
        self.scene.producers(topic, partition)

    def look_at_coordinators(self) -> None:
        for transactional_id in ("x", "y"):
            self.scene.transaction(transactional_id)
        for stable in (False, True):
            self.scene.committed(*GROUPS, places=PLACES, stable=stable)
        self.scene.committed(*GROUPS, places=None)


def draw(chance: random.Random, transaction_version: int, version: str) -> list[Step]:
    """A sequence of requests for a version of Kafka: most of them make sense, so that some get somewhere.

    3.9 accepts a commit with an epoch to come, and never gets rid of the transaction: its markers' is lower.
    """
    steps: list[Step] = []

    def off(wrong: float = 0.08) -> int:
        return chance.choice([-1, 1] if version >= "4" else [-1]) if chance.random() < wrong else 0

    makers: list[tuple[int, Callable[[str], Step]]] = [
        (
            10,
            lambda producer: Step(
                "produce",
                (
                    producer,
                    chance.choice(PLACES),
                    chance.choice([0, 0, 0, 0, 0, -1, -2, -5, 1]),
                    chance.choice([1, 1, 2]),
                    off(),
                    chance.random() < 0.95,
                ),
            ),
        ),
        (5, lambda producer: Step("end", (producer, chance.random() < 0.6, off(0.15)))),
        (6 if transaction_version == 1 else 1, lambda producer: Step("add", (producer, chance.choice(PLACES), off()))),
        (
            3,
            lambda producer: Step(
                "txn_commit", (producer, chance.choice(GROUPS), chance.choice(PLACES), chance.randrange(99), off())
            ),
        ),
        (
            3 if transaction_version == 1 else 0,
            lambda producer: Step("add_offsets", (producer, chance.choice(GROUPS), off())),
        ),
        (
            1,
            lambda producer: Step(
                "init", (producer, PLAYERS[producer], chance.choice([None, (producer, 0), (producer, off())]))
            ),
        ),
        (1, lambda _: Step("commit", (chance.choice(GROUPS), chance.choice(PLACES), chance.randrange(99)))),
        (1, lambda _: Step("delete_offsets", (chance.choice(GROUPS), chance.choice(PLACES)))),
        (2, lambda _: Step("look", (chance.choice(PLACES),))),
    ]
    weights = [weight for weight, _ in makers]
    while len(steps) < LENGTH:
        (_, make) = chance.choices(makers, weights)[0]
        producer = chance.choice("aaaabcci")
        step = make(producer)
        if producer == "i" and step.name in ("end", "add", "txn_commit", "add_offsets"):
            continue
        steps.append(step)
    return [*steps, *(Step("look", (place,)) for place in PLACES), Step("look_at_coordinators", ())]


def play_steps(kafka: Kafka, steps: Sequence[Step], transaction_version: int) -> list[str]:
    """The lines that these steps write."""
    play = Play(kafka, transaction_version)
    for step in steps:
        play.make(step)
    return play.scene.lines


def shrink(steps: list[Step], differs: Callable[[list[Step]], bool]) -> list[Step]:
    """Fewer steps that differ as well: halves are left out, then quarters, then single ones."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if differs(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def first_difference(real: Sequence[str], other: Sequence[str]) -> str:
    """The lines up to where the two differ; empty if they do not."""
    for number, (mine, its) in enumerate(zip(real, other, strict=False)):
        if mine != its:
            before = "".join(f"    {line}\n" for line in real[:number])
            return f"{before}    Kafka: {mine}\n    here:  {its}"
    return ""


def compare(
    real: Callable[[Sequence[Step]], list[str]], other: Callable[[Sequence[Step]], list[str]], steps: list[Step]
) -> str:
    """The difference of the worlds, in the fewest steps; empty if they do not differ."""

    def difference(some: Sequence[Step]) -> str:
        return first_difference(real(some), other(some))

    if not difference(steps):
        return ""
    fewest = shrink(steps, lambda some: bool(difference(some)))
    return "\n".join([*map(str, fewest), difference(fewest) or "(not again)"])
