"""The interface of a partition's log, and a log in memory.

A log stores batches unchanged. It knows nothing of leaders, producers or transactions: `partition.py` does.
`file_log.py` has the same interface over Kafka's own files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafwire.broker.log.batch_header import BatchHeader
from kafwire.records import decode_batches

INDEX_INTERVAL = 4096  # index.interval.bytes


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Consecutive batches in a file, for `os.sendfile`: its holder may read it whatever happens to the log."""

    descriptor: int
    position: int
    size: int
    lease: object = field(default=None, compare=False, repr=False)  # keeps the descriptor open


# Consecutive batches; the last may be cut off.
Records = bytes | FileSpan


class Extent(NamedTuple):
    """One segment for the cleaner; a log in memory is divided as on disk."""

    base_offset: int
    size: int
    first_timestamp: int  # of the first batch; -1: it has none
    largest_timestamp: int


def divided(headers: Iterable[BatchHeader], segment_bytes: int, segment_ms: int) -> list[Extent]:
    """Return the segments to which these batches would be written. The last one is the active segment."""
    found: list[Extent] = []
    for header in headers:
        stamp, active = header.max_timestamp, found[-1] if found else None
        is_full = active is None or (
            active.size > segment_bytes - header.size
            or (active.first_timestamp >= 0 and stamp - active.first_timestamp > segment_ms)
        )
        if active is None or is_full:
            found.append(Extent(header.base_offset, header.size, stamp, stamp))
        else:
            first = active.first_timestamp if active.first_timestamp >= 0 else stamp
            largest = max(active.largest_timestamp, stamp)
            found[-1] = Extent(active.base_offset, active.size + header.size, first, largest)
    return found


class PartitionLog(Protocol):
    """The batches of one partition, in order of their offsets, which may have gaps."""

    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """Bytes of all stored batches."""

    def append(self, data: bytes, headers: Sequence[BatchHeader], *, next_offset: int | None = None) -> None:
        """Store batches with their offsets; `next_offset` leaves a gap after them."""

    def headers(self, offset: int, end: int | None = None) -> Iterator[BatchHeader]:
        """Yield the batches with a record at `offset` or after it that begin before `end`."""

    def available(self, offset: int, end: int) -> tuple[int, int]:
        """Return the bytes of `headers(offset, end)`: of the first batch, and of all."""

    def read(self, offset: int, size: int) -> Records:
        """Return `size` bytes, from the batch with `offset` on, or from the next one."""

    def truncate(self, offset: int) -> None:
        """Remove batches with records at `offset` or after it; the log then ends at `offset` at the latest."""

    def delete_before(self, offset: int) -> None:
        """Start at `offset`, and remove batches that lie wholly before it, as far as possible."""

    def replace(self, data: bytes, headers: Sequence[BatchHeader], end: int) -> None:
        """Replace all batches below `end` by these (compaction). Offsets stay."""

    def extents(self, offset: int, segment_bytes: int, segment_ms: int) -> list[Extent]:
        """Return the segments from that of `offset` on, the active one last; a log in memory starts one there."""

    def index_offset(self, end: int) -> int:
        """Return the offset of the first entry of the offset index at `end` or after it, else the log's end.

        The response for records up to `end` lists the aborted transactions up to this offset.
        """

    def flush(self) -> None:
        """Flush everything, so that it survives a crash of the machine."""

    def close(self) -> None:
        """Close the files."""

    def delete(self) -> None:
        """Close, and remove the stored data."""


class MemoryLog:
    """See `PartitionLog`; lists, searched by bisection."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = self.end_offset = start_offset
        self._headers: list[BatchHeader] = []
        self._data: list[bytes] = []
        self._nexts: list[int] = []  # next offsets
        self._ends: list[int] = []  # bytes up to the end of each batch, counted from the first batch ever

    @property
    def size(self) -> int:
        """See `PartitionLog`."""
        return self._ends[-1] - self._ends[0] + len(self._data[0]) if self._ends else 0

    def append(self, data: bytes, headers: Sequence[BatchHeader], *, next_offset: int | None = None) -> None:
        """See `PartitionLog`."""
        position = 0
        for header in headers:
            whole = position == 0 and header.size == len(data)
            self._add(header, data if whole else data[position : position + header.size])
            position += header.size
        self.end_offset = self._nexts[-1] if next_offset is None else next_offset

    def _add(self, header: BatchHeader, data: bytes) -> None:
        self._headers.append(header)
        self._data.append(data)
        self._nexts.append(header.next_offset)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))

    def headers(self, offset: int, end: int | None = None) -> Iterator[BatchHeader]:
        """See `PartitionLog`."""
        for index in range(bisect_right(self._nexts, offset), len(self._headers)):
            header = self._headers[index]
            if end is not None and header.base_offset >= end:
                return
            yield header

    def available(self, offset: int, end: int) -> tuple[int, int]:
        """See `PartitionLog`."""
        first = bisect_right(self._nexts, offset)
        last = bisect_left(self._headers, end, key=lambda header: header.base_offset)
        if last <= first:
            return 0, 0
        size = len(self._data[first])
        return size, self._ends[last - 1] - self._ends[first] + size

    def read(self, offset: int, size: int) -> bytes:
        """See `PartitionLog`."""
        index = bisect_right(self._nexts, offset)
        found, left = [], size
        while left > 0 and index < len(self._data):
            data = self._data[index]
            found.append(data if len(data) <= left else data[:left])
            left -= len(data)
            index += 1
        return found[0] if len(found) == 1 else b"".join(found)

    def truncate(self, offset: int) -> None:
        """See `PartitionLog`."""
        self._keep(0, bisect_right(self._nexts, offset))
        self.end_offset = min(self.end_offset, offset)

    def delete_before(self, offset: int) -> None:
        """See `PartitionLog`."""
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, self.start_offset)
        self._keep(bisect_right(self._nexts, self.start_offset), len(self._nexts))

    def _keep(self, first: int, end: int) -> None:
        for kept in (self._headers, self._data, self._nexts, self._ends):
            del kept[end:]
            del kept[:first]

    def replace(self, data: bytes, headers: Sequence[BatchHeader], end: int) -> None:
        """See `PartitionLog`."""
        behind = bisect_left(self._headers, end, key=lambda header: header.base_offset)
        rest = list(zip(self._headers[behind:], self._data[behind:], strict=True))
        self._keep(0, 0)
        position = 0
        for header in headers:
            self._add(header, data[position : position + header.size])
            position += header.size
        for header, its in rest:
            self._add(header, its)

    def extents(self, offset: int, segment_bytes: int, segment_ms: int) -> list[Extent]:
        """See `PartitionLog`."""
        return divided(self.headers(offset), segment_bytes, segment_ms)

    def index_offset(self, end: int) -> int:
        """See `PartitionLog`."""
        since = 0
        for header in self._headers:
            if since > INDEX_INTERVAL:
                if header.base_offset >= end:
                    return header.next_offset - 1
                since = 0
            since += header.size
        return self.end_offset

    def flush(self) -> None:
        """See `PartitionLog`."""

    def close(self) -> None:
        """See `PartitionLog`."""

    def delete(self) -> None:
        """See `PartitionLog`."""
        self._keep(0, 0)


def find_timestamp(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int] | None:
    """Return the (timestamp, offset) of the first record before `end` that is not older than this; else None."""
    for header in log.headers(log.start_offset, end):
        if header.magic >= 2 and (header.max_timestamp < timestamp or header.is_control):
            continue
        data = log.read(header.base_offset, header.size)
        if isinstance(data, FileSpan):
            data = read_span(data)
        for batch in decode_batches(data):
            for record in batch:
                its = -1 if record.timestamp_ms is None else record.timestamp_ms
                if its >= timestamp and log.start_offset <= record.offset < end:
                    return its, record.offset
    return None


def read_span(span: FileSpan) -> bytes:
    """Return the bytes of a span."""
    import os

    return os.pread(span.descriptor, span.size, span.position)
