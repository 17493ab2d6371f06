"""Kafka's sparse indexes of a segment: files of fixed-size entries, bisected in the file.

An offset index has an entry for about every `index.interval.bytes`: the last offset of a batch, relative to the
segment's base offset, and the batch's position. A time index has the largest timestamp so far and the last offset of
its batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Generic, TypeVar

from kafwire.broker.storage.files import FilePool

_OFFSET = struct.Struct(">ii")
_TIME = struct.Struct(">qi")
_E = TypeVar("_E", bound=tuple[int, int])


class Index(Generic[_E]):
    """Entries in a file, in ascending order. Only their number is kept in memory."""

    entry: struct.Struct

    def __init__(self, pool: FilePool, path: str, base_offset: int) -> None:
        self.path = path
        self._pool = pool
        self._base = base_offset
        opened = pool.get(path)
        self.count = pool.files.size(opened.descriptor) // self.entry.size

    def __len__(self) -> int:
        return self.count

    def raw(self, number: int) -> tuple[int, int]:
        """Return an entry as stored in the file."""
        data = self._pool.files.pread(self._pool.get(self.path).descriptor, self.entry.size, number * self.entry.size)
        first, second = self.entry.unpack(data)
        return first, second

    def bisect(self, holds: Callable[[tuple[int, int]], bool]) -> int:
        """Return the number of leading entries for which `holds` is true."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if holds(self.raw(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def add(self, first: int, second: int) -> None:
        """Write an entry after the last one."""
        opened = self._pool.get(self.path)
        self._pool.files.pwrite(opened.descriptor, self.entry.pack(first, second), self.count * self.entry.size)
        self.count += 1

    def cut(self, count: int) -> None:
        """Keep the first `count` entries."""
        self.count = count
        self._pool.files.truncate(self._pool.get(self.path).descriptor, count * self.entry.size)

    def flush(self) -> None:
        """Flush the file, so that it survives a crash of the machine."""
        self._pool.files.fsync(self._pool.get(self.path).descriptor)

    @property
    def is_whole(self) -> bool:
        """True if the file does not end in a partial entry."""
        return self._pool.files.size(self._pool.get(self.path).descriptor) == self.count * self.entry.size


class OffsetIndex(Index[tuple[int, int]]):
    """An `.index` file: offsets and positions."""

    entry = _OFFSET

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch at `position` ends with `offset`."""
        self.add(offset - self._base, position)

    def position(self, offset: int) -> int:
        """Return a position at or before the batch of `offset`, where a search starts."""
        number = self.bisect(lambda entry: entry[0] + self._base <= offset)
        return self.raw(number - 1)[1] if number else 0

    def offset_from(self, offset: int) -> int | None:
        """Return the offset of the first entry at `offset` or after it."""
        number = self.bisect(lambda entry: entry[0] + self._base < offset)
        return self.raw(number)[0] + self._base if number < self.count else None

    @property
    def last_position(self) -> int:
        """The position of the last entry's batch."""
        return self.raw(self.count - 1)[1] if self.count else 0

    def truncate(self, size: int) -> None:
        """Remove the entries of batches at position `size` and after."""
        self.cut(self.bisect(lambda entry: entry[1] < size))

    @property
    def is_sane(self) -> bool:
        """True if the file has whole entries and the last offset is plausible."""
        return self.is_whole and (not self.count or self.raw(self.count - 1)[0] >= 0)


class TimeIndex(Index[tuple[int, int]]):
    """A `.timeindex` file: timestamps and offsets."""

    entry = _TIME

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, if the timestamp is larger than the last one's."""
        if timestamp > self.last[0]:
            self.add(timestamp, offset - self._base)

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last offset; -1 and the base offset: there is no entry."""
        if not self.count:
            return -1, self._base
        timestamp, offset = self.raw(self.count - 1)
        return timestamp, offset + self._base

    def truncate(self, offset: int) -> None:
        """Remove the entries with `offset` or a later offset."""
        self.cut(self.bisect(lambda entry: entry[1] + self._base < offset))

    @property
    def is_sane(self) -> bool:
        """True if the file has whole entries and its last entry is plausible."""
        return self.is_whole and (
            not self.count or (self.raw(self.count - 1)[1] >= 0 and self.last[0] >= self.raw(0)[0])
        )
