"""The records that one reader got of one partition since it started or moved, and their comparison with the log.

A reader gets every record from there on, once and in order, if acknowledged records cannot be lost. If elections may be
unclean, a reader whose position is at or beyond the lost records goes back (KIP-320): in the end its records are those
of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.broker.log.log import FileSpan, read_span
from kafwire.records import decode_batches

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.types import TopicPartition

Content = tuple[list[int], list[Any]]  # offsets, and the values there


@dataclass(slots=True)
class Trace:
    """Records from `start` up to `next`; `start` is None until the first record shows the result of a reset.

    `is_lost`: the reader went to an offset outside the log, and got no record since.
    """

    reader: str
    where: TopicPartition
    start: int | None
    why: str
    committed_only: bool
    is_durable: bool
    is_lost: bool = False
    next: int = 0
    offsets: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next = self.start or 0

    def add(self, batch: Any) -> str:
        """Add a batch. Return the problem with it, or ""."""
        records = list(batch)
        offsets = [record.offset for record in records]
        if offsets:
            if self.start is None:
                self.start = self.next = offsets[0]
            if offsets[0] < self.next:
                if self.is_durable:
                    return f"{self} got offset {offsets[0]} after {self.next - 1}"
                self._go_back(offsets[0])
            self.is_lost = False
            self.offsets += offsets
            self.values += [record.value for record in records]
        if not self.is_lost and self.start is not None:
            self.next = max(self.next, batch.next_offset)
        return ""

    def reach(self, position: int) -> str:
        """Note that the reader's position is `position`. Return the problem with it, or ""."""
        if self.is_lost or self.start is None:
            return ""
        if position < self.next:
            if self.is_durable:
                return f"{self} is at {position} after offset {self.next - 1}"
            self._go_back(position)
        self.next = position
        return ""

    def _go_back(self, offset: int) -> None:
        kept = bisect_left(self.offsets, offset)
        del self.offsets[kept:], self.values[kept:]
        self.next = offset
        self.start = min(self.start or 0, offset)

    def judge(self, content: Content) -> str:
        """Return the differences between these records and the log, or ""."""
        if self.start is None or self.is_lost:
            return ""
        first, last = bisect_left(content[0], self.start), bisect_left(content[0], self.next)
        offsets, values = content[0][first:last], content[1][first:last]
        if (self.offsets, self.values) == (offsets, values):
            return ""
        mine = dict(zip(self.offsets, self.values, strict=True))
        there = dict(zip(offsets, values, strict=True))
        skipped, invented = sorted(there.keys() - mine.keys()), sorted(mine.keys() - there.keys())
        other = sorted(offset for offset in mine.keys() & there.keys() if mine[offset] != there[offset])
        kinds = (("passed over", skipped), ("got absent records at", invented), ("got other records at", other))
        found = "; ".join(f"{what} {_few(offsets)}" for what, offsets in kinds if offsets)
        return f"{self} {found or 'got records twice'}"

    def __str__(self) -> str:
        return f"{self.reader}, reading {self.where.topic}-{self.where.partition} from {self.start} ({self.why})"


def _few(offsets: list[int]) -> str:
    return f"{offsets[0]}" + (f" and {len(offsets) - 1} more up to {offsets[-1]}" if len(offsets) > 1 else "")


def content_of(partition: Partition, *, committed_only: bool) -> Content:
    """Return the records that a reader gets of a partition."""
    log, offsets, values = partition.log, [], []
    headers = list(log.headers(log.start_offset))
    aborted, open_ = set(), dict[int, list[int]]()
    for index, header in enumerate(headers):
        if header.is_control:
            begun = open_.pop(header.producer_id, [])
            if not partition.read_marker(header).commit:
                aborted.update(begun)
        elif header.is_transactional:
            open_.setdefault(header.producer_id, []).append(index)
    aborted.update(index for begun in open_.values() for index in begun)
    data = log.read(log.start_offset, log.size)
    batches = decode_batches(read_span(data) if isinstance(data, FileSpan) else data)
    for index, (header, batch) in enumerate(zip(headers, batches, strict=True)):
        if not header.is_control and not (committed_only and index in aborted):
            for record in batch:
                offsets.append(record.offset)
                values.append(record.value)
    return offsets, values
