"""`AcquiredRange`: consecutive offsets that a member has acquired, and what it says of each; and what goes on the wire.

Pure. A range has one delivery count. Offsets without a record are acknowledged as gaps.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
OPEN = -1  # nothing was said yet

# A partition by its topic's id.
Place = tuple[uuid.UUID, int]
# First and last offset, and one type for all, or one for each.
AckBatch = tuple[int, int, tuple[int, ...]]


@dataclass(slots=True, eq=False)
class AcquiredRange:
    """The offsets from `first` to `last`, both included, acquired from the broker `node` until `until_ms`."""

    place: Place
    node: int
    first: int
    last: int
    delivery_count: int
    until_ms: float
    said: list[int] = field(init=False)  # of each offset
    sent: set[int] = field(default_factory=set)  # the places in it of which the broker was told

    def __post_init__(self) -> None:
        self.said = [OPEN] * (self.last - self.first + 1)

    @property
    def open(self) -> int:
        """How many offsets nothing was said of."""
        return self.said.count(OPEN)

    def mark_gaps(self, offsets: Sequence[int]) -> None:
        """Only these offsets have records."""
        if len(offsets) < len(self.said):
            there = set(offsets)
            for index in range(len(self.said)):
                if self.first + index not in there:
                    self.said[index] = GAP

    def say(self, offset: int, kind: int) -> bool:
        """What is said of one offset; False when something was said before."""
        index = offset - self.first
        if self.said[index] not in (OPEN, RENEW):
            return False
        self.said[index] = kind
        return True

    def say_rest(self, kind: int) -> int:
        """The same of all of which nothing was said yet; how many."""
        count = 0
        for index, said in enumerate(self.said):
            if said == OPEN:
                self.said[index] = kind
                count += 1
        return count


class Outgoing:
    """What was said and not sent yet, of all ranges of one broker."""

    def __init__(self) -> None:
        self.renewed: list[AcquiredRange] = []  # by what was taken last
        self._ranges: dict[AcquiredRange, None] = {}

    def add(self, acquired: AcquiredRange) -> None:
        """Something was said of this range."""
        if len(acquired.sent) < len(acquired.said):
            self._ranges[acquired] = None

    def take(self) -> dict[Place, list[AckBatch]]:
        """What is to be sent now, and is taken for sent."""
        found: dict[Place, list[AckBatch]] = {}
        self.renewed = []
        for acquired in list(self._ranges):
            sent = acquired.sent
            ready = [i for i, kind in enumerate(acquired.said) if kind != OPEN and i not in sent]
            # A gap alone says nothing: it goes with the records around it.
            if not any(acquired.said[index] != GAP for index in ready):
                continue
            batches = found.setdefault(acquired.place, [])
            for run in _runs(ready):
                kinds = [acquired.said[index] for index in run]
                batches.append((acquired.first + run[0], acquired.first + run[-1], _short(kinds)))
            for index in ready:
                if acquired.said[index] == RENEW:
                    acquired.said[index] = OPEN
                    self.renewed.append(acquired)
                else:
                    sent.add(index)
            if len(sent) == len(acquired.said):
                del self._ranges[acquired]
        for batches in found.values():
            batches.sort()
        return found

    def forget(self, place: Place | None = None) -> None:
        """Nothing more can be said of a partition, or of any."""
        for acquired in [each for each in self._ranges if place in (None, each.place)]:
            del self._ranges[acquired]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be sent."""
        return not any(
            kind > GAP and index not in acquired.sent
            for acquired in self._ranges
            for index, kind in enumerate(acquired.said)
        )


def _runs(indices: Iterable[int]) -> list[list[int]]:
    """Consecutive numbers together."""
    return [[index for _, index in run] for _, run in groupby(enumerate(indices), lambda pair: pair[1] - pair[0])]


def _short(kinds: Sequence[int]) -> tuple[int, ...]:
    """One type for all, where they are alike."""
    return (kinds[0],) if len(set(kinds)) == 1 else tuple(kinds)
