"""The file operations of a broker with `--data`, as an interface, so that a simulation can have a full or faulty disk.

`RealFiles` uses the machine's files; `kafwire.testing.simulation.files` keeps files in memory. Paths are strings.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

MOST_OPEN = 512  # descriptors of a broker's logs


class Files(Protocol):
    """The file operations of logs and the journal. All of them raise `OSError`."""

    has_descriptors: bool  # True: a descriptor is the operating system's, and `os.sendfile` accepts it

    def open(self, path: str) -> int:
        """Open a file for reading and writing; create it if missing."""

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> None:
        """Write all of `data`, or raise, perhaps after a part was written."""

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer at the file's end."""

    def size(self, descriptor: int) -> int:
        """Return the file's size in bytes."""

    def truncate(self, descriptor: int, size: int) -> None:
        """Shorten the file to `size` bytes."""

    def fsync(self, descriptor: int) -> None:
        """Flush the file's bytes, so that they survive a crash of the machine."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder; a file with the new name is replaced."""

    def unlink(self, path: str) -> None:
        """Remove a file."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""

    def mkdir(self, path: str) -> None:
        """Create a folder and its parents; it may exist."""

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""

    def exists(self, path: str) -> bool:
        """True if a file or folder has this path."""

    def sync_folder(self, path: str) -> None:
        """Flush the names in a folder, so that they survive a crash of the machine."""


class RealFiles:
    """The files of this machine. Only the owner may read files created here: a journal has users' keys."""

    has_descriptors = True

    def open(self, path: str) -> int:
        """See `Files`."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self, descriptor: int) -> None:
        """See `Files`."""
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> None:
        """See `Files`."""
        written = os.pwrite(descriptor, data, position)
        while written < len(data):
            written += os.pwrite(descriptor, memoryview(data)[written:], position + written)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """See `Files`."""
        data = os.pread(descriptor, size, position)
        while len(data) < size and (more := os.pread(descriptor, size - len(data), position + len(data))):
            data += more
        return data

    def size(self, descriptor: int) -> int:
        """See `Files`."""
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        """See `Files`."""
        os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:
        """See `Files`."""
        os.fdatasync(descriptor)

    def rename(self, old: str, new: str) -> None:
        """See `Files`."""
        Path(old).rename(new)

    def unlink(self, path: str) -> None:
        """See `Files`."""
        Path(path).unlink()

    def listdir(self, path: str) -> list[str]:
        """See `Files`."""
        return sorted(each.name for each in Path(path).iterdir())

    def mkdir(self, path: str) -> None:
        """See `Files`."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def rmdir(self, path: str) -> None:
        """See `Files`."""
        Path(path).rmdir()

    def exists(self, path: str) -> bool:
        """See `Files`."""
        return Path(path).exists()

    def sync_folder(self, path: str) -> None:
        """See `Files`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class OpenFile:
    """A descriptor that is closed when the last reference to this object goes: spans that are being sent hold one."""

    __slots__ = ("_files", "descriptor")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.descriptor = files.open(path)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self._files.close(self.descriptor)


class FilePool:
    """A bounded number of open files; the least recently used is closed first."""

    def __init__(self, files: Files, most: int = MOST_OPEN) -> None:
        self.files = files
        self._most = most
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> OpenFile:
        """Return an open file; it may be closed once the caller drops its reference."""
        found = self._open.get(path)
        if found is None:
            found = self._open[path] = OpenFile(self.files, path)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(path)
        return found

    def forget(self, path: str) -> None:
        """Drop a file from the pool, because it is renamed or removed, or not needed for now."""
        self._open.pop(path, None)


def read_file(files: Files, path: str) -> bytes:
    """Return a file's bytes."""
    opened = OpenFile(files, path)
    return files.pread(opened.descriptor, files.size(opened.descriptor), 0)


def write_file(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """Write a file atomically: readers and crashes see the old file or the new one."""
    new = path + ".tmp"
    if files.exists(new):  # left by a crash; an existing file would keep its mode
        files.unlink(new)
    opened = OpenFile(files, new)
    files.truncate(opened.descriptor, 0)
    files.pwrite(opened.descriptor, data, 0)
    if sync:
        files.fsync(opened.descriptor)
    files.rename(new, path)
    if sync:
        files.sync_folder(path.rpartition("/")[0])
