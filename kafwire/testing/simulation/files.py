"""Files in memory, on a disk that can be full, can fail, and loses unflushed writes when the machine crashes.

    files = SimulatedFiles(seed)
    ...                      # a log works with them
    files.crash()            # the machine stops and starts

A crash keeps the flushed part of a file, and some of the first writes since then, the last of these perhaps torn. Names
that were created, changed or removed since the folder was flushed are lost in the same way. One seed decides
everything.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field

_SECTOR = 512


@dataclass(eq=False)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # The changes since the last flush: a write at a position, or a truncation (None).
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)


class SimulatedFiles:
    """See `kafwire.broker.storage.files.Files`.

    Args:
        seed: decides the losses of a crash, and the failures.
        capacity: bytes of disk space; None: no limit.
        failure_rate: the probability that a write, a flush or the creation of a file fails with EIO.
        lost_flush_rate: the probability that a flush reports success and does nothing.
    """

    has_descriptors = False

    def __init__(
        self,
        seed: int = 0,
        *,
        capacity: int | None = None,
        failure_rate: float = 0.0,
        lost_flush_rate: float = 0.0,
    ) -> None:
        self.capacity = capacity
        self.failure_rate = failure_rate
        self.lost_flush_rate = lost_flush_rate
        self.lost_flushes = 0
        self.operations = 0  # writes, flushes and changes of names so far
        self.crash_at: int | None = None  # the machine crashes in this operation
        self._random = random.Random(seed)
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._pending_names: list[tuple[str, Callable[[dict[str, _Inode]], object]]] = []
        self._folders: set[str] = {"/"}
        self._open: dict[int, _Inode] = {}
        self._last = 2

    # --- faults

    def _step(self, *, can_fail: bool = True) -> None:
        self.operations += 1
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise CrashError
        if can_fail and self.failure_rate and self._random.random() < self.failure_rate:
            raise OSError(errno.EIO, "Input/output error")

    def crash(self) -> None:
        """Stop and start the machine: unflushed data may be lost, and descriptors are lost."""
        kept = self._random.randint(0, len(self._pending_names))
        names = dict(self._durable_names)
        for _, change in self._pending_names[:kept]:
            change(names)
        self._pending_names.clear()
        for inode in {id(each): each for each in names.values()}.values():
            self._lose(inode)
        self._names, self._durable_names = names, dict(names)
        self._open.clear()
        self.crash_at = None

    def _lose(self, inode: _Inode) -> None:
        data = bytearray(inode.durable)
        kept = self._random.randint(0, len(inode.pending))
        for number, (position, written) in enumerate(inode.pending[:kept]):
            if written is None:
                _cut(data, position)
                continue
            is_torn = number == kept - 1 and self._random.random() < 0.5
            _write(data, position, self._tear(written) if is_torn else written)
        inode.data, inode.durable = data, bytes(data)
        inode.pending.clear()

    def _tear(self, written: bytes) -> bytes:
        """Return a write of which only a part reached the disk: its beginning, or any sectors, others being zero."""
        if self._random.random() < 0.5:
            return written[: self._random.randint(0, len(written))]
        torn = bytearray(written)
        for begin in range(0, len(torn), _SECTOR):
            if self._random.random() < 0.5:
                end = min(begin + _SECTOR, len(torn))
                torn[begin:end] = bytes(end - begin)
        return bytes(torn)

    # --- files

    def open(self, path: str) -> int:
        """See `Files`."""
        inode = self._names.get(path)
        if inode is None:
            self._need_folder(path)
            self._step()
            new = _Inode()
            inode = self._change(path, lambda names: names.setdefault(path, new))
        self._last += 1
        self._open[self._last] = inode
        return self._last

    def _need_folder(self, path: str) -> None:
        if path.rpartition("/")[0] not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    def _change(self, path: str, change: Callable[[dict[str, _Inode]], _Inode | None]) -> _Inode:
        self._pending_names.append((path, change))
        found = change(self._names)
        return found if found is not None else _Inode()

    def close(self, descriptor: int) -> None:
        """See `Files`."""
        self._open.pop(descriptor, None)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> None:
        """See `Files`."""
        inode, written = self._open[descriptor], bytes(data)
        crashes = False
        try:
            self._step()
        except CrashError:
            crashes = True  # in the middle of the write
        except OSError:
            self._put(inode, position, written[: self._random.randint(0, len(written))])
            raise
        room = len(written) if self.capacity is None else self.capacity - self.used + len(inode.data) - position
        self._put(inode, position, written[: max(room, 0)])
        if crashes:
            raise CrashError
        if room < len(written):
            raise OSError(errno.ENOSPC, "No space left on device")

    @staticmethod
    def _put(inode: _Inode, position: int, written: bytes) -> None:
        if written:
            _write(inode.data, position, written)
            inode.pending.append((position, written))

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return sum(len(inode.data) for inode in self._names.values())

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """See `Files`."""
        return bytes(self._open[descriptor].data[position : position + size])

    def size(self, descriptor: int) -> int:
        """See `Files`."""
        return len(self._open[descriptor].data)

    def truncate(self, descriptor: int, size: int) -> None:
        """See `Files`."""
        self._step(can_fail=False)
        inode = self._open[descriptor]
        _cut(inode.data, size)
        inode.pending.append((size, None))

    def fsync(self, descriptor: int) -> None:
        """See `Files`."""
        self._step()
        if self.lost_flush_rate and self._random.random() < self.lost_flush_rate:
            self.lost_flushes += 1
            return
        inode = self._open[descriptor]
        inode.durable = bytes(inode.data)
        inode.pending.clear()

    # --- names

    def rename(self, old: str, new: str) -> None:
        """See `Files`."""
        self._step(can_fail=False)
        if old in self._folders:
            moved = [(path, new + path[len(old) :]) for path in self._names if path.startswith(old + "/")]
            self._folders.add(new)
            for before, after in moved:
                self._move(before, after)
            self._folders.discard(old)
            return
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        self._move(old, new)

    def _move(self, old: str, new: str) -> None:
        def change(names: dict[str, _Inode]) -> _Inode | None:
            inode = names.pop(old, None)
            if inode is not None:
                names[new] = inode
            return inode

        self._change(new, change)

    def unlink(self, path: str) -> None:
        """See `Files`."""
        self._step(can_fail=False)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        self._change(path, lambda names: names.pop(path, None))

    def listdir(self, path: str) -> list[str]:
        """See `Files`."""
        begin = path.rstrip("/") + "/"
        inside = [each for each in (*self._names, *self._folders) if each.startswith(begin) and each != begin]
        return sorted({each[len(begin) :].split("/")[0] for each in inside})

    def mkdir(self, path: str) -> None:
        """See `Files`. Folders themselves are not lost."""
        while path not in self._folders:
            self._folders.add(path)
            path = path.rpartition("/")[0]

    def rmdir(self, path: str) -> None:
        """See `Files`."""
        self._folders.discard(path)

    def exists(self, path: str) -> bool:
        """See `Files`."""
        return path in self._names or path in self._folders

    def sync_folder(self, path: str) -> None:
        """See `Files`."""
        self._step()
        left = []
        for its, change in self._pending_names:
            if its.rpartition("/")[0] == path:
                change(self._durable_names)
            else:
                left.append((its, change))
        self._pending_names = left


class CrashError(BaseException):
    """The machine crashed. Its driver calls `crash` and opens its files again."""


def _write(data: bytearray, position: int, written: bytes) -> None:
    if len(data) < position:
        data += bytes(position - len(data))
    data[position : position + len(written)] = written


def _cut(data: bytearray, size: int) -> None:
    del data[size:]
    data += bytes(max(0, size - len(data)))
