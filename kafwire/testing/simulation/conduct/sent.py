"""A request that a client sent, and the parts that all rules share: time, order, violations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST = 20  # violations that are kept
BACKOFF_S, LONGEST_BACKOFF_S, SPREAD = 0.1, 1.0, 1.2  # `retry_backoff_ms`, `retry_backoff_max_ms`, and KIP-580's jitter
LATE_S = 0.05  # time that a client may take besides its backoff; a response takes 2 ms

Place = tuple[Hashable, int]  # a topic, by its name or id, and a partition
FlowKey = tuple[int, int, Place]  # a producer's id and epoch, and the partition of its batches


@dataclass(slots=True)
class Sent:
    """A request in flight. `number`: its place in the order of all events.

    `batches`: of Produce, by partition; each by its flow and its first sequence number.
    """

    number: int
    name: str
    client: Hashable
    node: int
    version: int
    message: Any
    batches: dict[Place, tuple[FlowKey, int]] = field(default_factory=dict)


class Notes:
    """The parts that all rules share.

    `clock`: the time in seconds. `calm_since`: the time since which brokers and network have no fault. `delivery_s`:
    the age at which a producer gives a batch up. `violations`: in words.
    """

    def __init__(self, clock: Callable[[], float], calm_since: Callable[[], float], delivery_s: float) -> None:
        self.clock = clock
        self.calm_since = calm_since
        self.delivery_s = delivery_s
        self.violations: list[str] = []
        self._numbers = itertools.count()

    def number(self) -> int:
        """Return the next number in the order of all events."""
        return next(self._numbers)

    def wrong(self, sent: Sent, problem: str) -> None:
        """Note a broken rule."""
        if len(self.violations) < MOST:
            self.violations.append(f"{sent.name} to broker {sent.node}: {problem}")


def parts(topics: Any, partitions: str, number: str) -> Iterator[tuple[Place, Any]]:
    """Yield the partitions of a message."""
    for topic in topics:
        name = getattr(topic, "name", "") or getattr(topic, "topic", "") or topic.topic_id
        for data in getattr(topic, partitions):
            yield (name, getattr(data, number)), data


def codes(response: Any) -> set[int]:
    """Return all error codes of a message."""
    found: set[int] = set()
    waiting = [response]
    while waiting:
        each = waiting.pop()
        for its in getattr(each, "__fields__", ()):
            value = getattr(each, its.name)
            if its.name.endswith("error_code"):
                found.add(value)
            elif isinstance(value, list):
                waiting += [one for one in value if hasattr(one, "__fields__")]
    return found
