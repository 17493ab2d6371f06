"""`AcquiredRange`: consecutive offsets that a member has acquired, and the acknowledgements of a request.

Pure. A range has one delivery count. Offsets without a record are acknowledged as gaps.

A user's thread acknowledges records while the engine sends acknowledgements, without a lock. That is safe because each
byte has one writer at a time. `said`: the user's thread changes only OPEN, to a final type; the engine changes only
final types, to the same with `_SENT`. `renewals`: the user's thread sets bytes, and the engine clears those that it has
read as set; a renewal requested meanwhile is the one that is sent. `is_noted`: the user's thread sets it when it passes
the range to the engine, and the engine clears it before it reads, so later acknowledgements do not go unnoticed.
`unseen`: the user's thread raises it as records are delivered. The engine sends acknowledgements of offsets before it,
and renews the locks of offsets from it on.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
OPEN = 0xFF  # not acknowledged yet
_SENT = 0x10  # added to types that were sent to the broker

_FINAL = re.compile(rb"[\x00-\x03]+")
_ASKED = re.compile(rb"\x01+")  # requested renewals
_READY = re.compile(rb"[\x00-\x04]+")
_OPEN = re.compile(rb"\xff+")
_HELD = re.compile(rb"[\x00\xff]+")  # gaps, and offsets that are not acknowledged
_NEWS = re.compile(rb"[\x01-\x03]")
_MARK_SENT = bytes(kind + _SENT if kind < RENEW else kind for kind in range(256))
_MARK_OPEN = bytes(kind == OPEN for kind in range(256))
_COLUMN_TO_SAID = bytes(OPEN if kind == 0 else kind for kind in range(256))
_KINDS = bytes(range(RENEW))
_UNCOUNTED = bytes((GAP, RENEW))

# A partition by its topic's id.
Place = tuple[uuid.UUID, int]
# First and last offset, and one acknowledgement type for all, or one for each.
AckBatch = tuple[int, int, bytes]


@dataclass(slots=True, eq=False)
class AcquiredRange:
    """The offsets from `first` to `last`, both included, acquired from the broker `node` until `until_ms`.

    `lock_ms` is the full time of the lock. `unseen` is the index of the first offset that was not delivered.
    """

    place: Place
    node: int
    first: int
    last: int
    delivery_count: int
    until_ms: float
    lock_ms: float = 0.0
    unseen: int = 0
    said: bytearray = field(init=False)  # acknowledgement type of each offset
    renewals: bytearray | None = None  # 1 at offsets whose lock must be renewed
    is_noted: bool = False

    def __post_init__(self) -> None:
        self.said = bytearray((OPEN,)) * (self.last - self.first + 1)

    @property
    def has_news(self) -> bool:
        """True if acknowledgements or renewals are unsent. Gaps alone do not count: they go with their records."""
        return bool(_NEWS.search(self.said)) or (self.renewals is not None and 1 in self.renewals)

    @property
    def waits(self) -> bool:
        """True if part of the range was not delivered."""
        return self.unseen < len(self.said)

    def see_all(self) -> None:
        """Mark the whole range as delivered, or never to be delivered."""
        self.unseen = len(self.said)

    def cut(self) -> AcquiredRange | None:
        """Cut off the undelivered part as a range of its own; None if there is none."""
        if not self.waits:
            return None
        first = self.first + self.unseen
        rest = AcquiredRange(self.place, self.node, first, self.last, self.delivery_count, self.until_ms, self.lock_ms)
        rest.said[:] = self.said[self.unseen :]
        del self.said[self.unseen :]
        self.last = first - 1
        return rest

    def held(self) -> list[AckBatch]:
        """Return renewals of the undelivered offsets."""
        begin = self.first + self.unseen
        runs = (run.span() for run in _HELD.finditer(self.said[self.unseen :]))
        return [(begin + first, begin + end - 1, bytes((RENEW,))) for first, end in runs]

    def mark_gaps(self, offsets: Sequence[int]) -> None:
        """Mark all other offsets as gaps: only these have records."""
        if len(offsets) < len(self.said):
            said = bytearray(len(self.said))  # all gaps
            for offset in offsets:
                said[offset - self.first] = OPEN
            self.said = said

    def say(self, offset: int, kind: int) -> bool:
        """Acknowledge one offset; return False if it is acknowledged already."""
        index = offset - self.first
        if self.said[index] != OPEN:
            return False
        if kind == RENEW:
            self._renewals()[index] = 1
        else:
            self.said[index] = kind
        return True

    def say_rest(self, kind: int) -> int:
        """Acknowledge all offsets that are still open; return their number."""
        count = self.said.count(OPEN)
        if kind == RENEW:
            self._renewals()[:] = self.said.translate(_MARK_OPEN)
        else:
            for run in _OPEN.finditer(bytes(self.said)):
                begin, end = run.span()
                self.said[begin:end] = bytes((kind,)) * (end - begin)
        return count

    def say_all(self, kinds: bytes) -> bool:
        """Acknowledge each offset: accept, release, reject, or 0 for none yet.

        Return False, without an effect, if not all are open, or for other types.
        """
        if len(kinds) != len(self.said) or kinds.translate(None, _KINDS) or self.said.count(OPEN) < len(kinds):
            return False
        self.said[:] = kinds.translate(_COLUMN_TO_SAID)
        return True

    def _renewals(self) -> bytearray:
        if self.renewals is None:
            self.renewals = bytearray(len(self.said))
        return self.renewals

    def take(self) -> tuple[list[AckBatch], bool]:
        """Return the batches to send, which then count as sent, and True if they renew locks."""
        self.is_noted = False
        if not self.has_news:
            return [], False
        found = self.said[: self.unseen]
        renews = self._take_renewals(found)
        batches = []
        for run in _READY.finditer(found):
            begin, end = run.span()
            kinds = bytes(found[begin:end])
            batches.append((self.first + begin, self.first + end - 1, _short(kinds)))
        for run in _FINAL.finditer(found):
            begin, end = run.span()
            self.said[begin:end] = found[begin:end].translate(_MARK_SENT)
        return batches, renews

    def _take_renewals(self, found: bytearray) -> bool:
        """Add renewals to `found`; final types take precedence."""
        if self.renewals is None:
            return False
        renews = False
        for run in _ASKED.finditer(bytes(self.renewals)):
            begin, end = run.span()
            self.renewals[begin:end] = bytes(end - begin)
            found[begin:end] = found[begin:end].replace(bytes((OPEN,)), bytes((RENEW,)))
            renews = renews or RENEW in found[begin:end]
        return renews


class Outgoing:
    """The unsent acknowledgements of all ranges of one broker."""

    def __init__(self) -> None:
        self.renewed: list[AcquiredRange] = []  # ranges that the last `take` renews
        self._ranges: dict[AcquiredRange, None] = {}

    def add(self, acquired: AcquiredRange) -> None:
        """Add a range with new acknowledgements."""
        self._ranges[acquired] = None

    def take(self) -> dict[Place, list[AckBatch]]:
        """Return the batches to send now, which then count as sent. Later acknowledgements add their range again."""
        found: dict[Place, list[AckBatch]] = {}
        self.renewed = []
        ranges, self._ranges = self._ranges, {}
        for acquired in ranges:
            batches, renews = acquired.take()
            if batches:
                found.setdefault(acquired.place, []).extend(batches)
            if renews:
                self.renewed.append(acquired)
        for batches in found.values():
            batches.sort()
        return found

    def drop_renewals(self) -> None:
        """Drop unsent renewals, as the session ends."""
        for acquired in self._ranges:
            acquired.renewals = None

    def forget(self, place: Place | None = None) -> None:
        """Drop the acknowledgements of a partition, or (None) of all."""
        for acquired in [each for each in self._ranges if place in (None, each.place)]:
            acquired.is_noted = False
            del self._ranges[acquired]

    @property
    def is_empty(self) -> bool:
        """True if no acknowledgement waits to be sent."""
        return not any(acquired.has_news for acquired in self._ranges)


def count_final(batch: AckBatch) -> int:
    """Return the number of records that a batch acknowledges, without gaps and renewals."""
    first, last, kinds = batch
    final = len(kinds.translate(None, _UNCOUNTED))
    return final * (last - first + 1) if len(kinds) == 1 else final


def _short(kinds: bytes) -> bytes:
    """Return one type for a list of equal types, as a request may name it."""
    return kinds[:1] if kinds.count(kinds[0]) == len(kinds) else kinds
