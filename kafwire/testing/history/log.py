"""The append-only file under a history: entries one after the other, each with its time and its checksums.

An entry is a header (body's length uint32, kind uint8, time in microseconds since the epoch uint64, CRC-32 of these,
CRC-32 of the body) and a body; all little-endian. An append is one write. So after a SIGKILL the file is whole, perhaps
with the beginning of one more entry, which the next writer cuts off. Written entries survive the death of the process,
not that of the machine: nothing is synced.
"""

import fcntl
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kafwire.handles import Closing

MAGIC = b"kafwire history 2\n"

_HEAD = struct.Struct("<IBQ")
_CHECKS = struct.Struct("<II")
_HEAD_SIZE = _HEAD.size + _CHECKS.size


class HistoryError(Exception):
    """An impossible history: a damaged file, or operations that contradict each other. The text names the place."""


class Placed(NamedTuple):
    """An entry of a file. `end` is the position of the next one; `time_us` is since the epoch."""

    position: int
    end: int
    time_us: int
    kind: int
    body: bytes


class LogReader(Closing):
    """The entries of a history file, in order or by position. A torn last entry is left out."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: BinaryIO = self.path.open("rb")
        start = self._file.read(len(MAGIC))
        if not MAGIC.startswith(start):
            self._file.close()
            raise HistoryError(f"{self.path} is not a history of kafwire's tests: it begins with {start!r}")

    def entries(self) -> Iterator[Placed]:
        """Yield all entries, in the order of the file. Raises `HistoryError` where the file is damaged."""
        position = len(MAGIC)
        self._file.seek(position)
        while (placed := self._read(position)) is not None:
            yield placed
            if self._file.tell() != placed.end:
                self._file.seek(placed.end)
            position = placed.end

    def at(self, position: int) -> Placed:
        """Return the entry at a position that `entries` gave."""
        self._file.seek(position)
        placed = self._read(position)
        if placed is None:
            raise HistoryError(f"{self.path}: the entry at byte {position} is gone; was the file cut meanwhile?")
        return placed

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, position: int) -> Placed | None:
        head = self._file.read(_HEAD_SIZE)
        if len(head) < _HEAD_SIZE:
            return None
        length, kind, time_us = _HEAD.unpack_from(head)
        head_check, body_check = _CHECKS.unpack_from(head, _HEAD.size)
        # The length counts only with its checksum: a damaged length would turn the rest of the file into a torn entry.
        if zlib.crc32(head[: _HEAD.size]) != head_check:
            raise HistoryError(f"{self.path}: the header at byte {position} is damaged")
        body = self._file.read(length)
        if len(body) < length:
            return None
        if zlib.crc32(body) != body_check:
            raise HistoryError(f"{self.path}: the entry at byte {position} is damaged")
        return Placed(position, position + _HEAD_SIZE + length, time_us, kind, body)


class LogWriter:
    """Appends entries to a history file, one process at a time.

    If the file exists, `seen` is called with each of its entries, and a torn end is cut off.
    """

    def __init__(self, path: str | os.PathLike[str], seen: Callable[[Placed], None]) -> None:
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HistoryError(f"{self.path} is being written already; a history has one writer") from None
            self._end = self._resume(seen)
        except BaseException:
            os.close(self._fd)
            raise

    def _resume(self, seen: Callable[[Placed], None]) -> int:
        end = len(MAGIC)
        with LogReader(self.path) as reader:
            if os.fstat(self._fd).st_size < end:
                os.pwrite(self._fd, MAGIC, 0)
                return end
            for placed in reader.entries():
                seen(placed)
                end = placed.end
        os.ftruncate(self._fd, end)
        return end

    def append(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Append entries (kind, body) by one write. If it fails, as on a full disk, the file has none of them."""
        now = time.time_ns() // 1000
        data = bytearray()
        for kind, body in entries:
            head = _HEAD.pack(len(body), kind, now)
            data += head + _CHECKS.pack(zlib.crc32(head), zlib.crc32(body)) + body
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._fd, memoryview(data)[written:], self._end + written)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)

    @property
    def is_open(self) -> bool:
        """True until `close`."""
        return self._fd >= 0

    def close(self) -> None:
        """Close the file, and release its lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
