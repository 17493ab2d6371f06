"""The journal: all state of a broker with `--data` except records, as a file of lines. The last line of a key counts.

A line is a CRC-32C and JSON: a kind, a key and a value; a null value removes the key. A partial line at the file's end
was never acknowledged as flushed, and is removed. The file is rewritten at each start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from kafwire._codec import crc32c_of
from kafwire.broker.storage.files import Files, OpenFile, read_file, write_file

Key = str | list[Any]
Entries = dict[str, dict[str, tuple[Any, Any]]]  # by kind and by the key's JSON: the key and the value


class DamagedError(RuntimeError):
    """A file is damaged. The file is unchanged."""


class JournalWriter(Protocol):
    """The interface by which parts of a broker save their state."""

    def write(self, kind: str, key: Key, value: Any) -> None:
        """Set the value of a key, of JSON's types; None removes the key."""


class NoJournal:
    """The journal of a broker that keeps everything in memory."""

    def write(self, kind: str, key: Key, value: Any) -> None:
        """Do nothing."""


def encode_line(kind: str, key: Key, value: Any) -> bytes:
    """Return one line."""
    text = json.dumps([kind, key, value], separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (crc32c_of(text), text)


def decode_line(line: bytes) -> tuple[str, Any, Any] | None:
    """Return the kind, key and value of a line without its end; None if the line is damaged."""
    crc, _, text = line.partition(b" ")
    try:
        if len(crc) != 8 or int(crc, 16) != crc32c_of(text):
            return None
        kind, key, value = json.loads(text)
    except ValueError:
        return None
    return kind, key, value


def read_journal(data: bytes, name: str = "the journal") -> Entries:
    """Return the entries after all lines. Raises `DamagedError` if a damaged line is not the last one."""
    entries: Entries = {}
    lines = data.split(b"\n")
    tail = lines.pop()  # empty if the last line is whole
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
    """The journal's file.

    Args:
        files: the file operations.
        path: the file's path.
        syncs: flush each line before a response, so that it survives a crash of the machine.
    """

    def __init__(self, files: Files, path: str, *, syncs: bool = False) -> None:
        self.entries = read_journal(read_file(files, path), path) if files.exists(path) else {}
        self._files, self._path = files, path
        self._file: OpenFile | None = None
        self._size = 0
        self.syncs = syncs

    def of(self, kind: str) -> list[tuple[Any, Any]]:
        """Return the keys and values of a kind at the start, in the order in which they were written."""
        return list(self.entries.get(kind, {}).values())

    def begin(self, entries: Iterable[tuple[str, Key, Any]]) -> None:
        """Rewrite the file with these entries, and accept more."""
        data = b"".join(encode_line(*entry) for entry in entries)
        write_file(self._files, self._path, data)
        self._file, self._size = OpenFile(self._files, self._path), len(data)
        self.entries = {}

    def write(self, kind: str, key: Key, value: Any) -> None:
        """See `JournalWriter`; before `begin` this writes nothing. Raises `OSError`."""
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
        """Flush and close the file."""
        if self._file is not None:
            self._files.fsync(self._file.descriptor)
            self._file = None
