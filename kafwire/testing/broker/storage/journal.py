"""What a broker with `--data` knows besides records, as a file of lines: the last line of a key counts.

A line is a CRC-32C and JSON: a kind, a key, and a value, null where there is none any more. A line that is cut off at
the file's end was never acknowledged to be flushed, and is taken away. At each start the file is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from kafwire._codec import crc32c_of
from kafwire.testing.broker.storage.files import Files, OpenFile, read_file, write_file

Key = str | list[Any]
Entries = dict[str, dict[str, tuple[Any, Any]]]  # by kind and the key's JSON: the key and the value


class DamagedError(RuntimeError):
    """A file is not what it should be, and was left as it is."""


class JournalWriter(Protocol):
    """Where parts of a broker say what has to survive."""

    def write(self, kind: str, key: Key, value: Any) -> None:
        """From now on a key of a kind has this value, of JSON's types; None: it is there no more."""


class NoJournal:
    """Of a broker that keeps all in memory."""

    def write(self, kind: str, key: Key, value: Any) -> None:
        """Forget it."""


def encode_line(kind: str, key: Key, value: Any) -> bytes:
    """One line."""
    text = json.dumps([kind, key, value], separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (crc32c_of(text), text)


def decode_line(line: bytes) -> tuple[str, Any, Any] | None:
    """What a line says, without its end; None: it is not a whole one."""
    crc, _, text = line.partition(b" ")
    try:
        if len(crc) != 8 or int(crc, 16) != crc32c_of(text):
            return None
        kind, key, value = json.loads(text)
    except ValueError:
        return None
    return kind, key, value


def read_journal(data: bytes, name: str = "the journal") -> Entries:
    """The entries that are left of all lines. Raises `DamagedError` where a broken line is not the last one."""
    entries: Entries = {}
    lines = data.split(b"\n")
    tail = lines.pop()  # empty where all is whole
    broken: int | None = len(lines) if tail else None
    for number, line in enumerate(lines):
        found = decode_line(line)
        if found is None:
            broken = number if broken is None else min(broken, number)
            continue
        if broken is not None and broken < number:
            raise DamagedError(f"{name}: line {broken + 1} is damaged, and lines behind it are not")
        kind, key, value = found
        its = entries.setdefault(kind, {})
        text = json.dumps(key)
        its.pop(text, None)
        if value is not None:
            its[text] = key, value
    return entries


class Journal:
    """The file.

    Args:
        files: what it is kept with.
        path: where.
        syncs: whether each line has to survive a crash of the machine before anything is answered.
    """

    def __init__(self, files: Files, path: str, *, syncs: bool = False) -> None:
        self.entries = read_journal(read_file(files, path), path) if files.exists(path) else {}
        self._files, self._path = files, path
        self._file: OpenFile | None = None
        self._size = 0
        self.syncs = syncs

    def of(self, kind: str) -> list[tuple[Any, Any]]:
        """The keys and values of a kind that were there at the start, in the order in which they were written."""
        return list(self.entries.get(kind, {}).values())

    def begin(self, entries: Iterable[tuple[str, Key, Any]]) -> None:
        """Write the file anew, with these entries, and be ready for more."""
        data = b"".join(encode_line(*entry) for entry in entries)
        write_file(self._files, self._path, data)
        self._file, self._size = OpenFile(self._files, self._path), len(data)
        self.entries = {}

    def write(self, kind: str, key: Key, value: Any) -> None:
        """See `JournalWriter`; nothing is written before `begin`. Raises `OSError`."""
        if self._file is None:
            return
        line = encode_line(kind, key, value)
        try:
            self._files.pwrite(self._file.descriptor, line, self._size)
        except OSError:
            self._files.truncate(self._file.descriptor, self._size)
            raise
        self._size += len(line)
        if self.syncs:
            self._files.fsync(self._file.descriptor)

    def close(self) -> None:
        """Have all of it on disk, and let go of the file."""
        if self._file is not None:
            self._files.fsync(self._file.descriptor)
            self._file = None
