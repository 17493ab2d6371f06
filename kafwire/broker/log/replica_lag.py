"""Followers that lag by milliseconds or by records.

A follower that lags for longer than `replica.lag.time.max.ms` leaves the in-sync replicas, and joins them again when it
has all committed records. A follower that lags by time has its leader's records of that time ago. A follower that lags
by records never gets the last ones. Acknowledgements with acks=all wait accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState


@dataclass(slots=True)
class Lag:
    """The lag of a broker's followers, of one topic or of all."""

    ms: float = 0.0
    records: int = 0


@dataclass(slots=True)
class _Follower:
    """One follower that lags."""

    lag: Lag
    caught_up_ms: float  # the last time at which it had all records
    seen_end: int = 0  # the leader's end up to which its fetches are scheduled


@dataclass(slots=True)
class _Watched:
    followers: dict[int, _Follower] = field(default_factory=dict)
    is_busy: bool = False


class ReplicaLag:
    """The followers that lag: `state.part(ReplicaLag).set(2, ms=500)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._lags: dict[tuple[int, str | None], Lag] = {}
        self._watched: dict[Partition, _Watched] = {}
        state.topics.watchers.append(self._watch)

    def set(self, node: int, *, ms: float = 0.0, records: int = 0, topic: str | None = None) -> None:
        """Let a broker's followers lag, of one topic or of all."""
        self._lags[node, topic] = Lag(ms, records)
        self._watch_all()

    def clear(self, node: int, topic: str | None = None) -> None:
        """End the lag of a broker's followers: they have all records at once."""
        self._lags.pop((node, topic), None)
        for partition, watched in list(self._watched.items()):
            if node in watched.followers and self._lag(partition, node) is None:
                del watched.followers[node]
                if self._follows(partition, node):
                    self._reach(partition, node, partition.log.end_offset)
                    partition.replicate(node)
            if not watched.followers:
                partition.watchers.discard(self._on_change)
                del self._watched[partition]

    def _lag(self, partition: Partition, node: int) -> Lag | None:
        return self._lags.get((node, partition.topic.name)) or self._lags.get((node, None))

    def _watch_all(self) -> None:
        for topic in self._state.topics:
            for partition in topic.partitions:
                self._watch(partition)

    def _watch(self, partition: Partition) -> None:
        for node in partition.replicas:
            lag = self._lag(partition, node)
            if lag is None:
                continue
            watched = self._watched.setdefault(partition, _Watched())
            end = partition.end_at(node)
            watched.followers[node] = _Follower(lag, self._state.now_ms, end)
            if self._follows(partition, node):
                partition.replica_ends[node] = end  # an entry, so that new records are not there at once
            partition.watchers.add(self._on_change)

    def _follows(self, partition: Partition, node: int) -> bool:
        """True if a broker follows a leader of a partition, and no other fault holds it."""
        replication = self._state.replication
        return (
            node in partition.replicas
            and partition.leader not in (node, -1)
            and replication.can_lead(node)
            and replication.can_lead(partition.leader)
            and not replication.is_held(node)
        )

    def _on_change(self, partition: Partition, grown: int) -> None:
        del grown
        watched = self._watched.get(partition)
        if watched is None or watched.is_busy:
            return
        if self._state.topics.partition(partition.topic.name, partition.index) is not partition:
            del self._watched[partition]
            partition.watchers.discard(self._on_change)
            return
        watched.is_busy = True  # changes below call this again
        try:
            for node, follower in list(watched.followers.items()):
                if self._follows(partition, node):
                    self._plan(partition, node, follower)
        finally:
            watched.is_busy = False

    def _plan(self, partition: Partition, node: int, follower: _Follower) -> None:
        """Schedule the time at which the follower gets the leader's new records."""
        end = partition.log.end_offset
        own = partition.replica_ends.get(node)
        if own is None:  # a restart or a truncation has brought it up to date
            partition.replica_ends[node] = follower.seen_end = end
            follower.caught_up_ms = self._state.now_ms
        if end <= follower.seen_end:
            follower.seen_end = end
            return
        if own is not None and own >= follower.seen_end:
            follower.caught_up_ms = self._state.now_ms  # until now it had all records
        follower.seen_end = end
        reached = end - follower.lag.records
        if reached > partition.log.start_offset or not follower.lag.records:
            self._state.after(follower.lag.ms, lambda: self._get(partition, node, follower, reached))
        self._state.after(
            self._state.config_int("replica.lag.time.max.ms"), lambda: self._give_up(partition, node, follower)
        )

    def _is_current(self, partition: Partition, node: int, follower: _Follower) -> bool:
        watched = self._watched.get(partition)
        return watched is not None and watched.followers.get(node) is follower and self._follows(partition, node)

    def _get(self, partition: Partition, node: int, follower: _Follower, end: int) -> None:
        """Give the follower its leader's records of the scheduled time."""
        if self._is_current(partition, node, follower):
            self._reach(partition, node, min(end, partition.log.end_offset))

    def _reach(self, partition: Partition, node: int, end: int) -> None:
        mark = partition.high_watermark
        partition.replica_ends[node] = max(end, partition.replica_ends.get(node, end))
        if node not in partition.isr and end >= mark:
            partition.isr.append(node)
            partition.partition_epoch += 1
        partition.notify(-1)

    def _give_up(self, partition: Partition, node: int, follower: _Follower) -> None:
        """Remove the follower from the in-sync replicas if it has not caught up in time."""
        most_ms = self._state.config_int("replica.lag.time.max.ms")
        if not follower.lag.records:  # the follower lags by time only
            follower.caught_up_ms = max(follower.caught_up_ms, self._state.now_ms - follower.lag.ms)
        if (
            self._is_current(partition, node, follower)
            and node in partition.isr
            and len(partition.isr) > 1
            and partition.end_at(node) < partition.log.end_offset
            and self._state.now_ms - follower.caught_up_ms >= most_ms
        ):
            partition.isr.remove(node)
            partition.partition_epoch += 1
            partition.notify(-1)
