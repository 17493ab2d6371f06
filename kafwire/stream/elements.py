"""The elements of a running pipeline: values, their origin records, and the offsets that they complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafwire.records._records import Batch, Record
from kafwire.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Gathered:
    """The origin of a gathered list: the origins of its values, and the offset after those that end in it."""

    origins: Sequence[Origin]
    next_offset: int


Origin = Record | Batch | Gathered


class Abandoned(Exception):
    """A record is left to the next owner of its partition, or to the next run, and is not completed.

    It was waiting when the stream stopped or the partition was revoked, or the partition is another member's.
    """


def end_of(origin: Origin) -> int:
    """Return the offset after the origin."""
    return origin.offset + 1 if isinstance(origin, Record) else origin.next_offset


def first_of(origin: Origin) -> int:
    """Return the offset of the origin's first record."""
    if isinstance(origin, Gathered):
        return first_of(origin.origins[0])
    return origin.offset if isinstance(origin, Record) else origin.base_offset


def records_of(origin: Origin) -> Iterator[Record]:
    """Iterate over the origin's records, each once, with keys and values as bytes."""
    if isinstance(origin, Record):
        yield origin
    elif isinstance(origin, Batch):
        records = iter(origin)
        for _ in range(len(origin)):
            yield records.peek()
            records.skip()
    else:
        before: Origin | None = None
        for one in origin.origins:
            if one is not before:  # several values may have the same origin
                yield from records_of(one)
            before = one


class Cover:
    """Offsets that are completed together, when all elements that cover them are finished."""

    __slots__ = ("complete", "first_offset", "next_offset", "pending")

    def __init__(self, complete: Callable[[int, int], object], first_offset: int, next_offset: int) -> None:
        self.complete = complete
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.pending = 1

    def has(self, offset: int) -> bool:
        """True if the cover has the offset."""
        return self.first_offset <= offset < self.next_offset

    def finish(self) -> None:
        """Finish one of the elements."""
        self.pending -= 1
        if not self.pending:
            self.complete(self.first_offset, self.next_offset)


def covers(
    complete: Callable[[int, int], object], first_offset: int, origins: Sequence[Origin], next_offset: int
) -> list[Cover]:
    """Return a cover for each element, in order, so that all of [first_offset, next_offset) is covered.

    Offsets without a value (filtered, or never written) belong to the element after them, and those after the last
    element to the last one. Elements of the same record share a cover.
    """
    found: list[Cover] = []
    before: Origin | None = None
    for origin in origins:
        if origin is before:
            found[-1].pending += 1
            found.append(found[-1])
            continue
        end = end_of(origin)
        found.append(Cover(complete, first_offset, end))
        first_offset, before = end, origin
    if found:
        found[-1].next_offset = max(found[-1].next_offset, next_offset)
    elif next_offset > first_offset:
        complete(first_offset, next_offset)
    return found


def described(step: str, origin: Origin, where: TopicPartition) -> str:
    """Describe a call of a step for logs and errors."""
    return f"{step} of the record at offset {first_of(origin)} of {where.topic}-{where.partition}"


class Element:
    """One value on its way through workers and sink. It is finished when all its results are stored."""

    __slots__ = (
        "attempt",
        "cover",
        "is_done",
        "is_failed",
        "lane",
        "origin",
        "output",
        "owner",
        "pending",
        "problem",
        "run",
        "since",
        "value",
        "write_lane",
    )

    def __init__(self, value: Any, origin: Origin, cover: Cover, owner: Any) -> None:
        self.value = value
        self.origin = origin
        self.cover = cover
        self.owner = owner
        self.lane: Any = None
        self.write_lane: Any = None  # writes its values one after the other, until it is finished
        self.problem: Exception | None = None  # the error if no lane could be found for it
        self.attempt = 1
        self.pending = 1  # itself, and each value that a sink has not stored
        self.run: Any = None  # the run of the steps after the handler, once it has returned
        self.output: list[Any] | None = None  # values that the sink has not taken yet, once all steps are done
        self.since = 0.0  # when its current call began
        self.is_done = False
        self.is_failed = False  # skipped, or written to another topic

    def age_s(self, now: float) -> float:
        """Return how many seconds the element's current call has run. From any thread."""
        return now - self.since

    @property
    def step(self) -> str:
        """The element's current step, once a worker has the element. From any thread."""
        if self.output is not None:
            return "sink"
        return str(self.owner.handler_name if self.run is None else self.run.step)

    def __str__(self) -> str:
        return described(self.step, self.origin, self.owner.where)

    def finish(self) -> None:
        """Finish it, or one of its values."""
        self.pending -= 1
        if not self.pending:
            self.is_done = True
            self.cover.finish()
            self.owner.on_finished(self, succeeded=not self.is_failed)

    def abandon(self) -> None:
        """Abandon the element without completing its offsets: the next reader processes them."""
        if not self.is_done:
            self.is_done = True
            self.pending = -1
            self.owner.is_torn = True
            self.owner.on_finished(self, succeeded=False)
