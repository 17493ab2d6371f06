"""Offsets that groups have committed, and those that open transactions are about to commit. See KIP-98, KIP-447.

Kafka keeps them in `__consumer_offsets`. `offsets_topic.py` writes that topic for readers, and the
broker goes by this module.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafwire.testing.broker.expiry import Expiry
from kafwire.testing.broker.groups.offsets_topic import OFFSETS_TOPIC, OffsetsTopic

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

Place = tuple[str, int]  # a topic's name and a partition's number


class Committed(NamedTuple):
    """A committed offset; -1: there is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    at_ms: int = 0  # the broker's time


NOTHING: Final = Committed(-1)


@dataclass(slots=True)
class Pending:
    """What a producer's open transaction is about to commit for a group: each offset with its number."""

    epoch: int
    offsets: dict[Place, tuple[Committed, int]] = field(default_factory=dict)


class OffsetStore:
    """The offsets of all groups. A commit is given its number when it arrives: the last one that arrived holds."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._topic: OffsetsTopic = state.part(OffsetsTopic)
        self._committed: dict[str, dict[Place, Committed]] = {}
        self._order: dict[tuple[str, Place], int] = {}
        self._pending: dict[str, dict[int, Pending]] = {}  # by group and producer id
        self._numbers = itertools.count(1)
        self.history: defaultdict[Place, list[int]] = defaultdict(list)  # all that was ever committed
        state.topics.deletion_watchers.append(lambda topic: self.delete_topic(topic.name))
        expiry: Expiry = state.part(Expiry)
        self._watch = expiry.add("offsets.retention.check.interval.ms", self._expire)

    def place_of(self, group: str) -> Place:
        """The partition of `__consumer_offsets` that has a group's offsets."""
        return OFFSETS_TOPIC, self._topic.partition_of(group)

    def of(self, group: str) -> Mapping[Place, Committed]:
        """What a group has committed."""
        return self._committed.get(group, {})

    def commit(self, group: str, place: Place, committed: Committed) -> None:
        """Commit an offset."""
        self._keep(group, place, committed, next(self._numbers))
        self._topic.commit(group, place, committed)

    def _keep(self, group: str, place: Place, committed: Committed, number: int) -> None:
        if number > self._order.get((group, place), 0):
            self._committed.setdefault(group, {})[place] = committed
            self._order[group, place] = number
            self.history[place].append(committed.offset)
            self._state.journal.write("offset", [group, *place], [*committed, number])
            self._watch()

    # --- transactions

    def add_pending(self, group: str, producer_id: int, epoch: int, place: Place, committed: Committed) -> None:
        """Commit an offset when the producer's transaction commits."""
        its = self._pending.setdefault(group, {}).setdefault(producer_id, Pending(epoch))
        its.epoch = epoch
        number = next(self._numbers)
        its.offsets[place] = committed, number
        self._state.journal.write("pending", [group, producer_id, *place], [*committed, number, epoch])
        self._topic.commit_pending(group, producer_id, epoch, place, committed)

    def end_transaction(self, producer_id: int, partition: int, *, commit: bool, epoch: int = 0) -> None:
        """A producer's transaction has ended, for all groups in one partition of `__consumer_offsets`."""
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
        """Whether a producer has a transaction in the partition that a group is in."""
        place = self.place_of(group)
        return any(
            producer_id in pending and pending[producer_id].epoch == epoch and self.place_of(other) == place
            for other, pending in self._pending.items()
        )

    def is_unstable(self, group: str, place: Place) -> bool:
        """Whether an open transaction is about to change an offset."""
        return any(place in its.offsets for its in self._pending.get(group, {}).values())

    # --- what is there, and what is forgotten

    def has_offsets(self, group: str) -> bool:
        """Whether a group has committed anything, or is about to."""
        return bool(self._committed.get(group)) or self.has_pending(group)

    def has_pending(self, group: str) -> bool:
        """Whether open transactions are about to commit offsets of a group."""
        return any(its.offsets for its in self._pending.get(group, {}).values())

    def groups(self) -> Iterator[str]:
        """The groups that have committed something."""
        return iter([group for group, offsets in self._committed.items() if offsets])

    def delete(self, group: str, place: Place) -> None:
        """Forget an offset, what is pending too."""
        if self._committed.get(group, {}).pop(place, None) is not None:
            self._topic.forget(group, [place])
            self._state.journal.write("offset", [group, *place], None)
        self._order.pop((group, place), None)
        for producer_id, its in self._pending.get(group, {}).items():
            if its.offsets.pop(place, None) is not None:
                self._state.journal.write("pending", [group, producer_id, *place], None)

    def delete_group(self, group: str) -> None:
        """Forget all of a group."""
        gone = self._committed.pop(group, {})
        self._topic.forget(group, gone)
        for place in gone:
            self._order.pop((group, place), None)
            self._state.journal.write("offset", [group, *place], None)
        for producer_id, its in self._pending.pop(group, {}).items():
            for place in its.offsets:
                self._state.journal.write("pending", [group, producer_id, *place], None)

    def delete_topic(self, name: str) -> None:
        """Forget all offsets in a topic, which is there no more."""
        for group in {*self._committed, *self._pending}:
            places = {*self._committed.get(group, {})}
            places.update(*(its.offsets for its in self._pending.get(group, {}).values()))
            for place in places:
                if place[0] == name:
                    self.delete(group, place)

    # --- what survives, see `stored_parts.py`

    def dump(self) -> Iterator[tuple[str, list[str | int], list[Any]]]:
        """All that there is, as the journal has it."""
        for group, offsets in self._committed.items():
            for place, committed in offsets.items():
                yield "offset", [group, *place], [*committed, self._order[group, place]]
        for group, pending in self._pending.items():
            for producer_id, its in pending.items():
                for place, (committed, number) in its.offsets.items():
                    yield "pending", [group, producer_id, *place], [*committed, number, its.epoch]

    def restore(self, group: str, place: Place, committed: Committed, number: int) -> None:
        """Bring a committed offset back, with its number."""
        self._keep(group, place, committed, number)
        self._numbers = itertools.count(max(number + 1, next(self._numbers)))

    def restore_pending(
        self, group: str, producer_id: int, epoch: int, place: Place, committed: Committed, number: int
    ) -> None:
        """Bring back what an open transaction is about to commit."""
        its = self._pending.setdefault(group, {}).setdefault(producer_id, Pending(epoch))
        its.offsets[place] = committed, number
        self._numbers = itertools.count(max(number + 1, next(self._numbers)))

    def _expire(self) -> bool:
        """Forget what groups have committed long ago; groups go by their coordinator. Returns whether more is left."""
        from kafwire.testing.broker.groups.group_coordinator import GroupCoordinator

        groups: GroupCoordinator = self._state.part(GroupCoordinator)
        before_ms = self._state.wall_ms - self._state.config_int("offsets.retention.minutes") * 60_000
        for group in self.groups():
            for place, committed in list(self._committed[group].items()):
                since_ms = groups.unused_since(group, place[0], committed.at_ms)
                if since_ms is not None and since_ms <= before_ms and not self.is_unstable(group, place):
                    self.delete(group, place)
            if not self.has_offsets(group):
                self.delete_group(group)
        return any(self._committed.values())
