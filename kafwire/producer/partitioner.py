"""Where records go that name no partition: the rules by name, and whose share of them is how large (KIP-480, KIP-794).

May hold: decisions. Hashing, drawing and counting bytes is `_partitioner`'s and `_accumulator`'s, chance and time are
the caller's.
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
    """How a producer places records.

    A key of `hashed_from` bytes or more (a null key has -1) goes by its `hash`. What is left sticks to a partition for
    a batch, goes anywhere, takes turns, or where `function` says.
    """

    hash: Literal["murmur2", "crc32", "fnv1a"] | None
    hashed_from: int
    spread: Literal["sticky", "random", "turns", "function"] = "sticky"
    function: Function | None = None


# `consistent_random` takes an empty key for none, as librdkafka does; the others do not.
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
    """The rule that a producer's options mean."""
    if not isinstance(partitioner, str):
        return Rule(None, NULL_TOO, "function", partitioner)
    rule = RULES[partitioner]
    return Rule(None, NULL_TOO, rule.spread) if ignore_keys else rule


# Partitions, and where the share of each ends when they are laid end to end.
Split = tuple[Sequence[int], Sequence[int]]


def even(partitions: Sequence[int]) -> Split:
    """The same share for each."""
    return partitions, range(1, len(partitions) + 1)


def weighted(partitions: Sequence[int], backlog: Mapping[int, int], slow: Collection[int]) -> Split:
    """PartitionWeights by how little waits to be sent (KIP-794): none for `slow` ones, unless all are slow.

    `backlog` has the batches that wait, by partition; for those that it leaves out none do. The longest queue's share
    is 1, and one more for each batch less.
    """
    chosen = [partition for partition in partitions if partition not in slow] if slow else partitions
    if not chosen:
        return even(partitions)
    waiting = [backlog.get(partition, 0) for partition in chosen]
    above = max(waiting) + 1
    return chosen, list(accumulate(above - size for size in waiting))


class Balance:
    """The weights of one producer's topics as leaders and backlogs come and go; each is told when it changes.

    `timeout_ms`: a broker that has had something to take for longer than that, and took nothing, gets no more of what
    may go elsewhere; 0: never.
    """

    def __init__(self, *, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._with_leader: dict[str, Sequence[int]] = {}
        self._uneven: dict[str, tuple[Mapping[int, int], frozenset[int]]] = {}
        self._in_vain: dict[int, tuple[float, float]] = {}  # when a broker first and last took nothing

    @property
    def uneven(self) -> Collection[str]:
        """Topics whose weights are not all alike: they have to be looked at again."""
        return self._uneven.keys()

    def lead(self, topic: str, leaders: Sequence[int]) -> Split:
        """Take in the leaders (-1: none) of a topic's partitions; the weights of those that have one, or of all."""
        partitions = [partition for partition, leader in enumerate(leaders) if leader >= 0]
        self._with_leader[topic] = partitions or range(len(leaders))
        return weighted(self._with_leader[topic], *self._uneven.get(topic, ({}, _NONE)))

    def weights(self, topic: str, backlog: Mapping[int, int], slow: frozenset[int] = _NONE) -> Split | None:
        """Take in how many batches wait and which partitions are slow; new weights, or None if they stay as they
        are.
        """
        if (backlog, slow) == self._uneven.get(topic, ({}, _NONE)):
            return None
        if backlog or slow:
            self._uneven[topic] = backlog, slow
        else:
            del self._uneven[topic]
        return weighted(self._with_leader[topic], backlog, slow)

    def note(self, broker: int, now_ms: float, *, taken: bool) -> None:
        """There was a batch for a broker, and it could be handed over, or could not."""
        if taken:
            self._in_vain.pop(broker, None)
        elif self._timeout_ms:
            first, _ = self._in_vain.get(broker, (now_ms, now_ms))
            self._in_vain[broker] = first, now_ms

    def is_slow(self, broker: int) -> bool:
        """Whether a broker has had something to take for too long, and took nothing.

        Idle time does not count, where Java's client counts it: one that was not needed for a while may have to be
        connected to first.
        """
        first, last = self._in_vain.get(broker, (0.0, 0.0))
        return last - first > self._timeout_ms
