"""`StreamStatus`: a running stream at one moment, and the place where it is stuck.

`StreamMonitor` fills these from the running stream. This module has the classes, and decides whether a stream is stuck.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from kafwire.stream.summary import StreamSummary
from kafwire.types import TopicPartition

State = Literal["new", "running", "stopping", "ended", "failed"]


@dataclass(frozen=True, slots=True)
class OldestRecord:
    """The first record of a partition that was read and is not completed: the partition's commits wait for it.

    Args:
        topic: the topic.
        partition: the partition's number.
        offset: the record's offset.
        age_s: for how many seconds it has been the first one.
        step: the step that it is in: `map(parse)`, `for_each(bill)`, `queue of for_each(bill)`, `batch`, `sink`,
            `source` (not due, or read and not begun).
        step_s: for how many seconds it has been in that step.
        is_waiting: whether it waits deliberately: for a worker, its key, its next attempt, or more records of a list.

    Example:
        >>> kafwire.stream.OldestRecord("orders", 0, 7, 1.5, "for_each(bill)", 1.5, False).offset
        7
    """

    __module__ = "kafwire.stream"
    topic: str
    partition: int
    offset: int
    age_s: float
    step: str
    step_s: float
    is_waiting: bool


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a running stream.

    Args:
        topic: the topic.
        partition: the partition's number.
        in_flight: how many values wait for workers or the sink, or are in them.
        uncommitted: how many offsets after the committable one were read.
        completed: the offset up to which all is completed; None: nothing was read yet.
        is_waiting: whether it waits deliberately: for `NotNow`, a back-off, or a retry topic's next record.
        lag_s: how many seconds the oldest uncompleted batch is behind the clock; 0.0: there is none; None: nothing was
            read yet, or its records have no time.
        oldest: the first uncompleted record; None: there is none.

    Example:
        >>> kafwire.stream.PartitionStatus("orders", 0, 0, 0, 7, False, 0.0, None).completed
        7
    """

    __module__ = "kafwire.stream"
    topic: str
    partition: int
    in_flight: int
    uncommitted: int
    completed: int | None
    is_waiting: bool
    lag_s: float | None
    oldest: OldestRecord | None


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream at one moment.

    Args:
        state: "new", "running", "stopping", "ended" or "failed".
        problem: why the stream is not alive; None: it is.
        counts: the counts of the stream so far.
        retrying: how many values of `for_each` wait for their next attempt.
        transaction_s: for how many seconds a transaction has been open; None: none is.
        partitions: the current partitions of the stream.

    Example:
        >>> monitor = kafwire.stream.StreamMonitor()
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> summary = kafwire.stream.Pipeline().run(source, monitor=monitor)
        >>> monitor.status().state, monitor.status().counts.records
        ('ended', 1)
    """

    __module__ = "kafwire.stream"
    state: State
    problem: str | None
    counts: StreamSummary
    retrying: int
    transaction_s: float | None
    partitions: tuple[PartitionStatus, ...]

    @property
    def in_flight(self) -> int:
        """How many values wait for workers or the sink, or are in them."""
        return sum(one.in_flight for one in self.partitions)

    @property
    def waiting_partitions(self) -> int:
        """How many partitions wait deliberately."""
        return sum(one.is_waiting for one in self.partitions)

    @property
    def lag_s(self) -> float | None:
        """The greatest lag of a partition; None: no partition has one."""
        return max((one.lag_s for one in self.partitions if one.lag_s is not None), default=None)

    @property
    def oldest(self) -> OldestRecord | None:
        """The record that has been the first uncompleted one of its partition for the longest time."""
        found = [one.oldest for one in self.partitions if one.oldest is not None]
        return max(found, key=lambda record: record.age_s, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for example for JSON.

        Returns:
            The fields by name, and the totals.
        """
        oldest = self.oldest
        totals = {"in_flight": self.in_flight, "waiting_partitions": self.waiting_partitions, "lag_s": self.lag_s}
        return {**asdict(self), **totals, "oldest": None if oldest is None else asdict(oldest)}


def stuck(status: StreamStatus, after_s: float) -> tuple[str, float] | None:
    """Return where a stream has been stuck for `after_s` seconds, and the seconds; None: it is not stuck."""
    records = [one.oldest for one in status.partitions if one.oldest is not None and not one.oldest.is_waiting]
    slow = max((one for one in records if one.step_s >= after_s), key=lambda one: one.step_s, default=None)
    if slow is not None:
        return f"the record at offset {slow.offset} of {slow.topic}-{slow.partition} is in {slow.step}", slow.step_s
    if status.transaction_s is not None and status.transaction_s >= after_s:
        return "a transaction is open", status.transaction_s
    return None


@dataclass(slots=True)
class Sighting:
    """The oldest record of a partition at the last look, and since when."""

    offset: int
    step: str
    is_waiting: bool
    since: float
    step_since: float


class Sightings:
    """Remembers since when each partition's oldest record has been the same, and in the same step."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[TopicPartition, Sighting] = {}

    def look(self, where: TopicPartition, offset: int | None, step: str, is_waiting: bool, now: float) -> None:
        """Note a partition's oldest record; None: it has no uncompleted record."""
        before = self._found.get(where)
        if offset is None:
            self._found.pop(where, None)
            return
        if before is None or before.offset != offset:
            self._found[where] = Sighting(offset, step, is_waiting, now, now)
        elif (before.step, before.is_waiting) != (step, is_waiting):
            self._found[where] = Sighting(offset, step, is_waiting, before.since, now)

    def keep(self, partitions: set[TopicPartition]) -> None:
        """Forget all other partitions."""
        for where in [where for where in self._found if where not in partitions]:
            del self._found[where]

    def age(self, where: TopicPartition, offset: int, step: str, is_waiting: bool, now: float) -> tuple[float, float]:
        """Return how many seconds the record has been the oldest one, and in its step."""
        found = self._found.get(where)
        if found is None or found.offset != offset:
            return 0.0, 0.0
        is_same = (found.step, found.is_waiting) == (step, is_waiting)
        return now - found.since, now - found.step_since if is_same else 0.0
