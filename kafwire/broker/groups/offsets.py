"""Committed offsets of groups, and offsets that open transactions are about to commit. See KIP-98, KIP-447.

Kafka keeps them in `__consumer_offsets`. `offsets_topic.py` writes that topic for readers; the broker itself reads this
module.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafwire.broker.expiry import Expiry
from kafwire.broker.groups.offsets_topic import OFFSETS_TOPIC, Committed, OffsetsTopic, Place

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

NOTHING: Final = Committed(-1)


@dataclass(slots=True)
class Pending:
    """The offsets that a producer's open transaction is about to commit for a group, each with its number."""

    epoch: int
    offsets: dict[Place, tuple[Committed, int]] = field(default_factory=dict)


class OffsetStore:
    """The offsets of all groups. A commit gets a number on arrival: the last commit that arrived holds."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._topic: OffsetsTopic = state.part(OffsetsTopic)
        self.committed: defaultdict[str, dict[Place, Committed]] = defaultdict(dict)
        self._order: dict[tuple[str, Place], int] = {}
        self._pending: dict[str, dict[int, Pending]] = {}  # by group and producer id
        self._numbers = itertools.count(1)
        # The wall-clock time since which no member of a group needs an offset of a topic that was committed at a time;
        # None: a member may need it. The coordinator of groups registers its own.
        self.unused_since: Callable[[str, str, int], int | None] = lambda group, topic, at_ms: at_ms  # noqa: ARG005
        self.history: defaultdict[Place, list[int]] = defaultdict(list)  # all offsets ever committed
        state.topics.deletion_watchers.append(lambda topic: self.delete_topic(topic.name))
        expiry: Expiry = state.part(Expiry)
        self._watch = expiry.add("offsets.retention.check.interval.ms", self._expire)

    def place_of(self, group: str) -> Place:
        """Return the partition of `__consumer_offsets` that has a group's offsets."""
        return OFFSETS_TOPIC, self._topic.partition_of(group)

    def of(self, group: str) -> Mapping[Place, Committed]:
        """Return a group's committed offsets."""
        return self.committed.get(group, {})

    def commit(self, group: str, place: Place, committed: Committed) -> None:
        """Commit an offset."""
        self._keep(group, place, committed, next(self._numbers))
        self._topic.commit(group, place, committed)

    def _keep(self, group: str, place: Place, committed: Committed, number: int) -> None:
        if number > self._order.get((group, place), 0):
            self.committed[group][place] = committed
            self._order[group, place] = number
            self.history[place].append(committed.offset)
            self._state.journal.write("offset", [group, *place], [*committed, number])
            self._watch()

    # --- transactions

    def add_pending(self, group: str, producer_id: int, epoch: int, place: Place, committed: Committed) -> None:
        """Note an offset to commit when the producer's transaction commits."""
        its = self._pending.setdefault(group, {}).setdefault(producer_id, Pending(epoch))
        its.epoch = epoch
        number = next(self._numbers)
        its.offsets[place] = committed, number
        self._state.journal.write("pending", [group, producer_id, *place], [*committed, number, epoch])
        self._topic.commit_pending(group, producer_id, epoch, place, committed)

    def end_transaction(self, producer_id: int, partition: int, *, commit: bool, epoch: int = 0) -> None:
        """End a producer's transaction, for all groups in one partition of `__consumer_offsets`."""
        self._topic.end_transaction(partition, producer_id, epoch, commit=commit)
        for group in [group for group, pending in self._pending.items() if producer_id in pending]:
            if self.place_of(group)[1] != partition:
                continue
            its = self._pending[group].pop(producer_id)
            if not self._pending[group]:
                del self._pending[group]
            if commit:
                for place, (committed, number) in its.offsets.items():
                    self._keep(group, place, committed, number)
            for place in its.offsets:
                self._state.journal.write("pending", [group, producer_id, *place], None)

    def has_open(self, group: str, producer_id: int, epoch: int) -> bool:
        """True if a producer has an open transaction in the partition of a group."""
        place = self.place_of(group)
        return any(
            producer_id in pending and pending[producer_id].epoch == epoch and self.place_of(other) == place
            for other, pending in self._pending.items()
        )

    def is_unstable(self, group: str, place: Place) -> bool:
        """True if an open transaction is about to change an offset."""
        return any(place in its.offsets for its in self._pending.get(group, {}).values())

    # --- existing offsets, and deletions

    def has_offsets(self, group: str) -> bool:
        """True if a group has committed offsets, or is about to."""
        return bool(self.committed.get(group)) or self.has_pending(group)

    def has_pending(self, group: str) -> bool:
        """True if open transactions are about to commit offsets of a group."""
        return any(its.offsets for its in self._pending.get(group, {}).values())

    def groups(self) -> Iterator[str]:
        """Iterate over the groups that have committed offsets."""
        return iter([group for group, offsets in self.committed.items() if offsets])

    def delete(self, group: str, place: Place) -> None:
        """Delete an offset, and pending ones for the same partition."""
        if self.committed.get(group, {}).pop(place, None) is not None:
            self._topic.forget(group, [place])
            self._state.journal.write("offset", [group, *place], None)
        self._order.pop((group, place), None)
        for producer_id, its in self._pending.get(group, {}).items():
            if its.offsets.pop(place, None) is not None:
                self._state.journal.write("pending", [group, producer_id, *place], None)

    def delete_group(self, group: str) -> None:
        """Delete all offsets of a group."""
        gone = self.committed.pop(group, {})
        self._topic.forget(group, gone)
        for place in gone:
            self._order.pop((group, place), None)
            self._state.journal.write("offset", [group, *place], None)
        for producer_id, its in self._pending.pop(group, {}).items():
            for place in its.offsets:
                self._state.journal.write("pending", [group, producer_id, *place], None)

    def delete_topic(self, name: str) -> None:
        """Delete all offsets of a deleted topic."""
        for group in {*self.committed, *self._pending}:
            places = {*self.committed.get(group, {})}
            places.update(*(its.offsets for its in self._pending.get(group, {}).values()))
            for place in places:
                if place[0] == name:
                    self.delete(group, place)

    # --- persistence, see `stored_parts.py`

    def dump(self) -> Iterator[tuple[str, list[str | int], list[Any]]]:
        """Yield all offsets, in the form of the journal."""
        for group, offsets in self.committed.items():
            for place, committed in offsets.items():
                yield "offset", [group, *place], [*committed, self._order[group, place]]
        for group, pending in self._pending.items():
            for producer_id, its in pending.items():
                for place, (committed, number) in its.offsets.items():
                    yield "pending", [group, producer_id, *place], [*committed, number, its.epoch]

    def restore(self, group: str, place: Place, committed: Committed, number: int) -> None:
        """Restore a committed offset, with its number."""
        self._keep(group, place, committed, number)
        self._numbers = itertools.count(max(number + 1, next(self._numbers)))

    def restore_pending(
        self, group: str, producer_id: int, epoch: int, place: Place, committed: Committed, number: int
    ) -> None:
        """Restore an offset that an open transaction is about to commit."""
        its = self._pending.setdefault(group, {}).setdefault(producer_id, Pending(epoch))
        its.offsets[place] = committed, number
        self._numbers = itertools.count(max(number + 1, next(self._numbers)))

    def _expire(self) -> bool:
        """Delete expired offsets; the group's state decides. Return True if more offsets are left."""
        before_ms = self._state.wall_ms - self._state.config_int("offsets.retention.minutes") * 60_000
        for group in self.groups():
            for place, committed in list(self.committed[group].items()):
                since_ms = self.unused_since(group, place[0], committed.at_ms)
                if since_ms is not None and since_ms <= before_ms and not self.is_unstable(group, place):
                    self.delete(group, place)
            if not self.has_offsets(group):
                self.delete_group(group)
        return any(self.committed.values())
