"""A partition's log by windows of offsets: a column of tokens for each observer, and several columns merged.

A column has a slot of 24 bytes, the size of a token, for each offset; zeros mean no record. Columns are compared as
bytes, and slot by slot only where these differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafwire.testing.history.entries import Read
from kafwire.testing.history.index import Spans
from kafwire.testing.history.tokens import EMPTY, SIZE

WINDOW = 1 << 17
BLOCK = 1 << 10
_YES = b"\x01"

# The read_committed state of a slot.
NOT_READ, WITHHELD, SHOWN = range(3)

# (slot, observer, its token, other observers, their token): observers that do not agree.
Disagree = Callable[[int, str, bytes, str, bytes], None]
# Returns the right one of two tokens of a slot.
Prefer = Callable[[int, bytes, bytes], bytes]


class Sweep:
    """Entries in the order of their offsets."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._order = sorted(range(len(spans.low)), key=spans.low.__getitem__)
        self._next = 0
        self._active: list[int] = []
        self.top = max(spans.high, default=-1) + 1

    def upcoming(self, base: int) -> int | None:
        """Return the lowest offset from `base` on that an entry may have; None at the end."""
        if self._active:
            return base
        if self._next == len(self._order):
            return None
        return max(base, self._spans.low[self._order[self._next]])

    def take(self, end: int) -> list[int]:
        """Return the entries with offsets below `end`, in the order of the file; the next call has their rest."""
        low, high = self._spans.low, self._spans.high
        while self._next < len(self._order) and low[self._order[self._next]] < end:
            self._active.append(self._order[self._next])
            self._next += 1
        taken = sorted(self._active)
        self._active = [number for number in taken if high[number] >= end]
        return taken


@dataclass(slots=True)
class Column:
    """The tokens that observer `name` saw in a window: complete between the slots `low` and `high`."""

    name: str
    data: bytearray
    low: int
    high: int


def fill(data: bytearray, read: Read, base: int, end: int, disagree: Callable[[int, bytes, bytes], None]) -> None:
    """Put the tokens of the offsets from `base` to `end` into their slots."""
    tokens = read.tokens
    place = 0
    for first, count in read.runs:
        low, high = max(first, base), min(first + count, end)
        if low < high:
            piece = tokens[(place + low - first) * SIZE : (place + high - first) * SIZE]
            begin = (low - base) * SIZE
            there = data[begin : begin + len(piece)]
            if there != piece and there.count(0) != len(there):
                for at in range(0, len(piece), SIZE):
                    before, now = bytes(there[at : at + SIZE]), piece[at : at + SIZE]
                    if before not in (EMPTY, now):
                        disagree(begin // SIZE + at // SIZE, before, now)
            data[begin : begin + len(piece)] = piece
        place += count


def merge(columns: Sequence[Column], size: int, prefer: Prefer, disagree: Disagree) -> tuple[bytearray, bytearray]:
    """Return the merged columns, and for each slot whether any column covers it."""
    data = bytearray(size * SIZE)
    known = bytearray(size)
    names: list[Column] = []
    for column in columns:
        for low, high in _blocks(column.low, column.high):
            covered = known.count(_YES, low, high)
            begin, end = low * SIZE, high * SIZE
            piece = column.data[begin:end]
            if covered == 0:
                data[begin:end] = piece
            elif data[begin:end] != piece:
                _merge_slots(data, known, column, names, range(low, high), prefer, disagree)
        known[column.low : column.high] = _YES * (column.high - column.low)
        names.append(column)
    return data, known


def _merge_slots(
    data: bytearray,
    known: bytearray,
    column: Column,
    before: Sequence[Column],
    slots: range,
    prefer: Prefer,
    disagree: Disagree,
) -> None:
    for slot in slots:
        place = slice(slot * SIZE, slot * SIZE + SIZE)
        mine, other = bytes(column.data[place]), bytes(data[place])
        if not known[slot]:
            data[place] = mine
        elif mine != other:
            others = [each.name for each in before if each.low <= slot < each.high and each.data[place] == other]
            disagree(slot, column.name, mine, " and ".join(others), other)
            data[place] = prefer(slot, other, mine)


def reconcile(
    log: bytearray,
    known: bytearray,
    shown: bytearray,
    covered: bytearray,
    prefer: Prefer,
    differ: Callable[[int], None],
) -> bytearray:
    """Return the read_committed state of each slot; the log takes over records that only read_committed saw.

    `differ` is called with slots that both saw, where read_committed saw another record than the log has.
    """
    size = len(known)
    states = bytearray(size)
    for low, high in _blocks(0, size):
        begin, end = low * SIZE, high * SIZE
        full = high - low
        if (
            known.count(_YES, low, high) == covered.count(_YES, low, high) == full
            and log[begin:end] == shown[begin:end]
        ):
            states[low:high] = bytes([SHOWN]) * full  # the state of a slot without a record is never used
            continue
        for slot in range(low, high):
            if not covered[slot]:
                continue
            place = slice(slot * SIZE, slot * SIZE + SIZE)
            mine = bytes(shown[place])
            if mine == EMPTY:
                states[slot] = WITHHELD
                continue
            states[slot] = SHOWN
            other = bytes(log[place])
            if mine != other:
                if known[slot]:
                    differ(slot)
                log[place] = prefer(slot, other, mine) if known[slot] else mine
    return states


def differences(
    live: Column, log: bytearray, known: bytearray, states: bytearray | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the slots where a live reader saw a wrong token: (slot, the right token).

    With `states`, from `reconcile`, the reader reads committed records. Slots that no other observer saw are left out.
    """
    for low, high in _blocks(live.low, live.high):
        begin, end = low * SIZE, high * SIZE
        whole = known.count(_YES, low, high) if states is None else states.count(SHOWN, low, high)
        if whole == high - low and live.data[begin:end] == log[begin:end]:
            continue
        for slot in range(low, high):
            place = slice(slot * SIZE, slot * SIZE + SIZE)
            there = bytes(log[place])
            if states is None:
                if not known[slot] and there == EMPTY:
                    continue
            elif states[slot] == NOT_READ:
                continue
            elif states[slot] == WITHHELD:
                there = EMPTY
            if live.data[place] != there:
                yield slot, there


def _blocks(low: int, high: int) -> Iterator[tuple[int, int]]:
    for begin in range(low, high, BLOCK):
        yield begin, min(begin + BLOCK, high)
