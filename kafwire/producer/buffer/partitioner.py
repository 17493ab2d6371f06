"""Partitioning of records that name no partition: the rules by name, and the weights (KIP-480, KIP-794).

Belongs here: decisions. Hashing, drawing and counting bytes belong to `_partitioner` and `_accumulator`; randomness and
time come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import Literal

from kafwire.lazy_dataclass import dataclass

# (topic, key, number of partitions, those to choose from) -> partition
Function = Callable[[str, bytes | None, int, tuple[int, ...]], int]

NULL_TOO, EMPTY_TOO, NOT_EMPTY = -1, 0, 1
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """How a producer chooses partitions.

    A key of `hashed_from` bytes or more (a null key has -1) goes by its `hash`. Other records stick to a partition for
    a batch, go to random ones, take turns, or go where `function` says.
    """

    hash: Literal["murmur2", "crc32", "fnv1a"] | None
    hashed_from: int
    spread: Literal["sticky", "random", "turns", "function"] = "sticky"
    function: Function | None = None


# `consistent_random` treats an empty key as none, as librdkafka does; the others do not.
RULES = {
    "murmur2_random": Rule("murmur2", EMPTY_TOO),
    "murmur2": Rule("murmur2", NULL_TOO),
    "consistent_random": Rule("crc32", NOT_EMPTY),
    "consistent": Rule("crc32", NULL_TOO),
    "fnv1a_random": Rule("fnv1a", EMPTY_TOO),
    "fnv1a": Rule("fnv1a", NULL_TOO),
    "random": Rule(None, NULL_TOO, "random"),
    "round_robin": Rule(None, NULL_TOO, "turns"),
}


def rule_of(partitioner: str | Function, *, ignore_keys: bool) -> Rule:
    """Return the rule for a producer's options."""
    if not isinstance(partitioner, str):
        return Rule(None, NULL_TOO, "function", partitioner)
    rule = RULES[partitioner]
    return Rule(None, NULL_TOO, rule.spread) if ignore_keys else rule


# Partitions, and where each one's share ends when the shares are laid end to end.
Split = tuple[Sequence[int], Sequence[int]]


def even(partitions: Sequence[int]) -> Split:
    """Give each partition the same share."""
    return partitions, range(1, len(partitions) + 1)


def weighted(partitions: Sequence[int], backlog: Mapping[int, int], slow: Collection[int]) -> Split:
    """Weight partitions by how few batches wait (KIP-794); `slow` ones get none, unless all are slow.

    `backlog` maps partitions to waiting batches; a missing one has none. The longest queue has share 1; each batch less
    adds 1.
    """
    chosen = [partition for partition in partitions if partition not in slow] if slow else partitions
    if not chosen:
        return even(partitions)
    waiting = [backlog.get(partition, 0) for partition in chosen]
    above = max(waiting) + 1
    return chosen, list(accumulate(above - size for size in waiting))


class Balance:
    """The weights of one producer's topics as leaders and backlogs change; a method returns new weights on a change.

    `timeout_ms`: a broker that accepted no batch for longer than this, while there was one for it, gets no more records
    that may go elsewhere; 0: never.
    """

    def __init__(self, *, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._with_leader: dict[str, Sequence[int]] = {}
        self._uneven: dict[str, tuple[Mapping[int, int], frozenset[int]]] = {}
        self._in_vain: dict[int, tuple[float, float]] = {}  # broker: when it first and last accepted no batch

    @property
    def uneven(self) -> Collection[str]:
        """Topics with unequal weights: they must be checked again."""
        return self._uneven.keys()

    def lead(self, topic: str, leaders: Sequence[int]) -> Split:
        """Set the leaders (-1: none) of a topic's partitions; return weights of those with a leader, or of all."""
        partitions = [partition for partition, leader in enumerate(leaders) if leader >= 0]
        self._with_leader[topic] = partitions or range(len(leaders))
        return weighted(self._with_leader[topic], *self._uneven.get(topic, ({}, _NONE)))

    def weights(self, topic: str, backlog: Mapping[int, int], slow: frozenset[int] = _NONE) -> Split | None:
        """Set how many batches wait and which partitions are slow; return new weights, or None if unchanged."""
        if (backlog, slow) == self._uneven.get(topic, ({}, _NONE)):
            return None
        if backlog or slow:
            self._uneven[topic] = backlog, slow
        else:
            del self._uneven[topic]
        return weighted(self._with_leader[topic], backlog, slow)

    def note(self, broker: int, now_ms: float, *, taken: bool) -> None:
        """Note that a batch for a broker could be handed over, or could not."""
        if taken:
            self._in_vain.pop(broker, None)
        elif self._timeout_ms:
            first, _ = self._in_vain.get(broker, (now_ms, now_ms))
            self._in_vain[broker] = first, now_ms

    def is_slow(self, broker: int) -> bool:
        """True if a broker has accepted no batch for too long, although batches waited for it.

        Idle time does not count, unlike in Java's client: a broker that was not needed may have to be connected to
        first.
        """
        first, last = self._in_vain.get(broker, (0.0, 0.0))
        return last - first > self._timeout_ms
