"""Persistent state of share partitions, for any leader: Kafka's share coordinator and its `__share_group_state`.

A leader that loads a share partition finds its group's progress here. Locks are not stored: acquired records are
available again. See KIP-932.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from kafwire.broker.share.in_flight import RecordState

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

JOURNAL = "share"  # the kind of its journal entries
UNKNOWN = -1  # a start offset, or a count, that was never written


class Run(NamedTuple):
    """Consecutive records with the same state."""

    first: int
    last: int
    state: RecordState
    deliveries: int

    @property
    def rank(self) -> tuple[int, int]:
        """The rank by which two states of a record are compared; the state with the higher rank stays."""
        return self.deliveries, self.state


@dataclass(slots=True)
class ShareState:
    """One share partition's state. `complete`: final records from `start` on. `save` writes the journal."""

    start: int = UNKNOWN
    complete: int = UNKNOWN
    leader_epoch: int = 0
    runs: list[Run] = field(default_factory=list)
    save: Callable[[], object] = field(default=lambda: None, compare=False)

    def write(self, start: int, complete: int, runs: Iterable[Run]) -> None:
        """Store new states of records. Records before `start` are forgotten."""
        self.start = start
        self.complete = complete
        self.runs = _combined([*self.runs, *_combined(runs, start)], start)
        self.save()

    def lead(self, leader_epoch: int) -> None:
        """Note the leader that has loaded it."""
        if leader_epoch != self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.save()

    def dump(self) -> list[Any]:
        """Return the state as a value of the journal."""
        return [
            self.start,
            self.complete,
            self.leader_epoch,
            [[first, last, int(state), deliveries] for first, last, state, deliveries in self.runs],
        ]


def _combined(runs: Iterable[Run], start: int) -> list[Run]:
    """Return runs in order, without overlaps, from `start` on. Where two overlap, the run of higher rank stays.

    As in Kafka, a run joins a neighbor of equal rank, except where that neighbor comes out of an overlap after it.
    """
    left = [run._replace(first=max(run.first, start)) for run in runs if run.last >= start]
    heapify(left)
    found: list[Run] = []
    while left:
        run = heappop(left)
        if left and left[0].first <= run.last:
            for each in _without_overlap(run, heappop(left)):
                heappush(left, each)
        elif left and left[0].first == run.last + 1 and left[0].rank == run.rank:
            heappush(left, run._replace(last=heappop(left).last))
        else:
            found.append(run)
    return found


def _without_overlap(one: Run, other: Run) -> Iterator[Run]:
    """Return two overlapping runs, of which `other` does not begin first, as runs without an overlap."""
    if one.rank == other.rank:
        yield one._replace(last=max(one.last, other.last))
        return
    stays, yields = (one, other) if one.rank > other.rank else (other, one)
    yield stays
    if yields.first < stays.first:
        yield yields._replace(last=stays.first - 1)
    if yields.last > stays.last:
        yield yields._replace(first=stays.last + 1)


class ShareStates:
    """The states of all groups: `state.part(ShareStates)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._by_group: dict[str, dict[uuid.UUID, dict[int, ShareState]]] = {}
        state.topics.deletion_watchers.append(lambda topic: self._forget_topic(topic.topic_id))

    def is_known(self, group_id: str) -> bool:
        """True if a group has ever had a state."""
        return group_id in self._by_group

    def ready(self, group_id: str) -> Mapping[uuid.UUID, Mapping[int, ShareState]]:
        """Return the readable share partitions of a group."""
        return self._by_group.get(group_id, {})

    def of(self, group_id: str, topic_id: uuid.UUID, index: int) -> ShareState | None:
        """Return the state of a share partition; None: it is not readable."""
        return self.ready(group_id).get(topic_id, {}).get(index)

    def initialize(self, group_id: str, topic_id: uuid.UUID, partitions: int) -> None:
        """Make all partitions of a topic readable for a group; those that are stay as they are."""
        known = self._by_group.get(group_id, {}).get(topic_id, {})
        for index in range(partitions):
            if index not in known:
                self.reset(group_id, topic_id, index, UNKNOWN)

    def reset(self, group_id: str, topic_id: uuid.UUID, index: int, start: int) -> None:
        """Let a group start again at an offset, from which on no record is final."""
        complete = UNKNOWN if start == UNKNOWN else 0
        self._keep(group_id, topic_id, index, ShareState(start, complete)).save()

    def _keep(self, group_id: str, topic_id: uuid.UUID, index: int, stored: ShareState) -> ShareState:
        key = [group_id, str(topic_id), index]
        stored.save = lambda: self._state.journal.write(JOURNAL, key, stored.dump())
        self._by_group.setdefault(group_id, {}).setdefault(topic_id, {})[index] = stored
        return stored

    def restore(self, group_id: str, topic_id: uuid.UUID, index: int, value: list[Any]) -> None:
        """Restore a state from the journal."""
        start, complete, leader_epoch, runs = value
        known = [Run(first, last, RecordState(state), deliveries) for first, last, state, deliveries in runs]
        self._keep(group_id, topic_id, index, ShareState(start, complete, leader_epoch, known))

    def entries(self) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """Yield all states, in the form of the journal."""
        for group_id, topics in self._by_group.items():
            for topic_id, its in topics.items():
                for index, stored in its.items():
                    yield JOURNAL, [group_id, str(topic_id), index], stored.dump()

    def forget(self, group_id: str, topic_id: uuid.UUID) -> bool:
        """Delete a topic's state of a group. Return True if there was any."""
        found = self._by_group.get(group_id, {}).pop(topic_id, None)
        for index in found or ():
            self._state.journal.write(JOURNAL, [group_id, str(topic_id), index], None)
        return found is not None

    def forget_group(self, group_id: str) -> None:
        """Delete the state of a group."""
        for topic_id in [*self.ready(group_id)]:
            self.forget(group_id, topic_id)
        self._by_group.pop(group_id, None)

    def _forget_topic(self, topic_id: uuid.UUID) -> None:
        for group_id in self._by_group:
            self.forget(group_id, topic_id)
