"""The entries of a history file: a class for each kind, and its bytes.

Numbers are little-endian; text is UTF-8 and comes last. A file numbers its partitions; a `Partition` entry comes before
the first use of a number.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from kafwire.testing.history.tokens import EMPTY, SIZE

NO_OFFSET = -1
UNCOMMITTED, COMMITTED = range(2)
COMMIT, ABORT, UNKNOWN = 1, 2, 3

_OK = struct.Struct("<HHIB")
_OUTCOME = struct.Struct("<HBI")
_READ = struct.Struct("<HHI")
_RUN = struct.Struct("<qI")
_VIEWED = struct.Struct("<H")
_RANGE = struct.Struct("<Hqq")
_FAST = 1  # zlib's level: four times as fast as the default, for a fifth more bytes


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Plain:
    """Fields of fixed size, optionally followed by a text."""

    HEAD: ClassVar[struct.Struct]
    TEXT: ClassVar[bool] = False

    def pack(self) -> bytes:
        """Return the entry's body."""
        values = [getattr(self, field.name) for field in fields(self)]
        text = _encoded(values.pop()) if self.TEXT else b""
        return self.HEAD.pack(*values) + text

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Return the entry of a body."""
        values: list[Any] = list(cls.HEAD.unpack_from(body))
        if cls.TEXT:
            values.append(_decoded(body[cls.HEAD.size :]))
        make: Callable[..., Self] = cls
        return make(*values)


@dataclass(frozen=True, slots=True)
class Partition(_Plain):
    """The number of a partition in the rest of the file."""

    KIND: ClassVar = 1
    HEAD: ClassVar = struct.Struct("<Hi")
    TEXT: ClassVar = True
    number: int
    partition: int
    topic: str


@dataclass(frozen=True, slots=True)
class Producer(_Plain):
    """A producer and its promises: a bit for each of `PROMISES`."""

    KIND: ClassVar = 2
    HEAD: ClassVar = struct.Struct("<HB")
    TEXT: ClassVar = True
    number: int
    promises: int
    name: str


@dataclass(frozen=True, slots=True)
class Invoke(_Plain):
    """A producer is about to send its next `count` records; `first` is the sequence of the first."""

    KIND: ClassVar = 3
    HEAD: ClassVar = struct.Struct("<HIII")
    producer: int
    first: int
    count: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Ok:
    """Records of a producer were acknowledged in one partition, each with its offset, or all without (`NO_OFFSET`)."""

    KIND: ClassVar = 4
    producer: int
    partition: int
    sequences: array[int]
    offsets: Sequence[int]

    def pack(self) -> bytes:
        """Return the entry's body."""
        first = self.offsets[0]
        count = len(self.sequences)
        # The records of a batch are consecutive: one offset is enough.
        known = first != NO_OFFSET
        together = list(self.offsets) == (list(range(first, first + count)) if known else [NO_OFFSET] * count)
        head = _OK.pack(self.producer, self.partition, count, together)
        offsets = struct.pack("<q", first) if together else struct.pack(f"<{count}q", *self.offsets)
        return head + struct.pack(f"<{count}I", *self.sequences) + offsets

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Return the entry of a body."""
        producer, partition, count, together = _OK.unpack_from(body)
        sequences = array("I", struct.unpack_from(f"<{count}I", body, _OK.size))
        place = _OK.size + 4 * count
        offsets: Sequence[int]
        if together:
            (first,) = struct.unpack_from("<q", body, place)
            offsets = range(first, first + count) if first != NO_OFFSET else [NO_OFFSET] * count
        else:
            offsets = struct.unpack_from(f"<{count}q", body, place)
        return cls(producer, partition, sequences, offsets)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Records failed for certain, or their outcome is unknown (`certain` is False), and why."""

    KIND: ClassVar = 5
    producer: int
    certain: bool
    sequences: array[int]
    why: str

    def pack(self) -> bytes:
        """Return the entry's body."""
        count = len(self.sequences)
        head = _OUTCOME.pack(self.producer, self.certain, count)
        return head + struct.pack(f"<{count}I", *self.sequences) + _encoded(self.why)

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Return the entry of a body."""
        producer, certain, count = _OUTCOME.unpack_from(body)
        sequences = array("I", struct.unpack_from(f"<{count}I", body, _OUTCOME.size))
        why = _decoded(body[_OUTCOME.size + 4 * count :])
        return cls(producer, bool(certain), sequences, why)


@dataclass(frozen=True, slots=True)
class Begin(_Plain):
    """A transaction of a producer began."""

    KIND: ClassVar = 6
    HEAD: ClassVar = struct.Struct("<HI")
    producer: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Offset(_Plain):
    """A transaction commits a group's offset of a partition: `offset` is the next record to read."""

    KIND: ClassVar = 7
    HEAD: ClassVar = struct.Struct("<HIHq")
    TEXT: ClassVar = True
    producer: int
    transaction: int
    partition: int
    offset: int
    group: str


@dataclass(frozen=True, slots=True)
class End(_Plain):
    """The end of a transaction: `COMMIT`, `ABORT` or `UNKNOWN`."""

    KIND: ClassVar = 8
    HEAD: ClassVar = struct.Struct("<HIB")
    TEXT: ClassVar = True
    producer: int
    transaction: int
    outcome: int
    why: str


@dataclass(frozen=True, slots=True)
class Viewing(_Plain):
    """An observer starts to read; `live`: while producers and faults go on, from the offsets of its `Moved` entries."""

    KIND: ClassVar = 9
    HEAD: ClassVar = struct.Struct("<HB?")
    TEXT: ClassVar = True
    number: int
    isolation: int
    live: bool
    name: str


def label(view: Viewing) -> str:
    """Return the name of an observer's view in reports."""
    isolation = "read_committed" if view.isolation == COMMITTED else "read_uncommitted"
    return f"{view.name} ({'live view' if view.live else 'view'} {view.number}, {isolation})"


@dataclass(frozen=True, slots=True)
class Read:
    """Records that an observer got of one partition: runs of offsets (first, count), and a token for each offset."""

    KIND: ClassVar = 10
    view: int
    partition: int
    runs: Sequence[tuple[int, int]]
    packed: bytes

    @classmethod
    def of(cls, view: int, partition: int, runs: Sequence[tuple[int, int]], tokens: bytes) -> Self:
        """Return an entry with compressed tokens."""
        return cls(view, partition, runs, zlib.compress(tokens, _FAST))

    @property
    def tokens(self) -> bytes:
        """A token for each offset of the runs."""
        return zlib.decompress(self.packed, bufsize=SIZE * sum(count for _, count in self.runs) or 1)

    def token_at(self, offset: int) -> bytes:
        """Return the token read at this offset; the last of several."""
        tokens = self.tokens
        found = EMPTY
        place = 0
        for first, count in self.runs:
            if first <= offset < first + count:
                begin = (place + offset - first) * SIZE
                found = tokens[begin : begin + SIZE]
            place += count
        return found

    def pack(self) -> bytes:
        """Return the entry's body."""
        head = _READ.pack(self.view, self.partition, len(self.runs))
        return b"".join((head, *(_RUN.pack(*run) for run in self.runs), self.packed))

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Return the entry of a body."""
        view, partition, count = _READ.unpack_from(body)
        place = _READ.size + count * _RUN.size
        runs = list(_RUN.iter_unpack(memoryview(body)[_READ.size : place]))
        return cls(view, partition, runs, body[place:])


@dataclass(frozen=True, slots=True)
class Viewed:
    """An observer reached its end, and saw all records in these ranges (partition, start, end)."""

    KIND: ClassVar = 11
    view: int
    ranges: Sequence[tuple[int, int, int]]

    def pack(self) -> bytes:
        """Return the entry's body."""
        return b"".join((_VIEWED.pack(self.view), *(_RANGE.pack(*each) for each in self.ranges)))

    @classmethod
    def unpack(cls, body: bytes) -> Self:
        """Return the entry of a body."""
        (view,) = _VIEWED.unpack_from(body)
        return cls(view, list(_RANGE.iter_unpack(memoryview(body)[_VIEWED.size :])))


@dataclass(frozen=True, slots=True)
class Moved(_Plain):
    """A live observer goes on at `offset`: by choice, or because its client `reported` that records are gone."""

    KIND: ClassVar = 13
    HEAD: ClassVar = struct.Struct("<HHq?")
    TEXT: ClassVar = True
    view: int
    partition: int
    offset: int
    reported: bool
    why: str


@dataclass(frozen=True, slots=True)
class Remark(_Plain):
    """An observer's description of a record."""

    KIND: ClassVar = 14
    HEAD: ClassVar = struct.Struct("<HHq")
    TEXT: ClassVar = True
    view: int
    partition: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class GroupOffset(_Plain):
    """A group's offset as an observer saw it; `NO_OFFSET` for none."""

    KIND: ClassVar = 12
    HEAD: ClassVar = struct.Struct("<Hq")
    TEXT: ClassVar = True
    partition: int
    offset: int
    group: str


Entry = (
    Partition | Producer | Invoke | Ok | Outcome | Begin | Offset | End
    | Viewing | Read | Viewed | GroupOffset | Moved | Remark
)  # fmt: skip
