"""Offsets that groups have committed, and those that open transactions are about to commit. See KIP-98, KIP-447."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

Place = tuple[str, int]  # a topic's name and a partition's number


class Committed(NamedTuple):
    """A committed offset; -1: there is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    at_ms: int = 0  # the broker's time


NOTHING = Committed(-1)


class OffsetStore:
    """The offsets of all groups. A commit is given its number when it arrives: the last one that arrived holds."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._committed: defaultdict[str, dict[Place, Committed]] = defaultdict(dict)
        self._order: dict[tuple[str, Place], int] = {}
        # By group and producer id, what open transactions are about to commit.
        self._pending: defaultdict[str, dict[int, dict[Place, tuple[Committed, int]]]] = defaultdict(dict)
        self._numbers = itertools.count(1)
        self.history: defaultdict[Place, list[int]] = defaultdict(list)  # all that was ever committed

    def of(self, group: str) -> Mapping[Place, Committed]:
        """What a group has committed."""
        return self._committed.get(group, {})

    def commit(self, group: str, place: Place, committed: Committed) -> None:
        """Commit an offset."""
        self._keep(group, place, committed, next(self._numbers))
        self.history[place].append(committed.offset)

    def _keep(self, group: str, place: Place, committed: Committed, number: int) -> None:
        if number > self._order.get((group, place), 0):
            self._committed[group][place] = committed
            self._order[group, place] = number

    def add_pending(self, group: str, producer_id: int, place: Place, committed: Committed) -> None:
        """Commit an offset when the producer's transaction commits."""
        self._pending[group].setdefault(producer_id, {})[place] = committed, next(self._numbers)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A producer's transaction has ended for all groups."""
        for group in list(self._pending):
            offsets = self._pending[group].pop(producer_id, {})
            if not self._pending[group]:
                del self._pending[group]
            if commit:
                for place, (committed, number) in offsets.items():
                    self._keep(group, place, committed, number)

    def is_unstable(self, group: str, place: Place) -> bool:
        """Whether an open transaction is about to change an offset."""
        return any(place in offsets for offsets in self._pending.get(group, {}).values())

    def has_offsets(self, group: str) -> bool:
        """Whether a group has committed anything, or is about to."""
        return bool(self._committed.get(group) or any(self._pending.get(group, {}).values()))

    def groups(self) -> Iterator[str]:
        """The groups that have committed something."""
        return iter([group for group, offsets in self._committed.items() if offsets])

    def delete(self, group: str, place: Place) -> None:
        """Forget an offset, what is pending too."""
        self._committed.get(group, {}).pop(place, None)
        for pending in self._pending.get(group, {}).values():
            pending.pop(place, None)

    def delete_group(self, group: str) -> None:
        """Forget all of a group."""
        self._committed.pop(group, None)
        self._pending.pop(group, None)

    def delete_topic(self, name: str) -> None:
        """Forget all offsets in a topic."""
        for offsets in self._committed.values():
            for place in [place for place in offsets if place[0] == name]:
                del offsets[place]

    def expire(self, group: str, before_ms: int) -> None:
        """Forget what a group without members has committed before."""
        offsets = self._committed.get(group, {})
        for place in [place for place, committed in offsets.items() if committed.at_ms < before_ms]:
            if not self.is_unstable(group, place):
                del offsets[place]
