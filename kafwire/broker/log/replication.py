"""Leaders and followers as brokers start and stop: elections, in-sync replicas, and followers that lag.

One log serves all replicas (see `partition.py`), so a follower is a number: the end of its replica. A follower that
runs, is not held back and has a leader has all records at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kafwire.broker.log.partition import NO_LEADER

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition, PartitionTopic
    from kafwire.broker.topics.topics import Topics


class ReplicaHolder(Protocol):
    """A broker that has replicas."""

    is_up: bool


class ReplicatedCluster(Protocol):
    """The cluster whose partitions are replicated: its topics, its brokers, its options and its timers."""

    topics: Topics

    @property
    def nodes(self) -> Mapping[int, ReplicaHolder]:
        """The brokers, by their numbers."""
        ...

    def config_int(self, name: str) -> int:
        """Return an integer broker option."""
        ...

    def topic_config(self, topic: PartitionTopic, name: str) -> str:
        """Return a topic option: its own, or the broker's."""
        ...

    def after(self, delay_ms: float, call: Callable[[], object]) -> object:
        """Call `call` after this many milliseconds."""
        ...


class Replication:
    """The replicas of all partitions."""

    def __init__(self, state: ReplicatedCluster) -> None:
        self._state = state
        self._held: set[int] = set()  # brokers whose followers get no new records
        self._offline: set[int] = set()  # brokers that can store nothing
        self._is_controlled = True  # True if there is a controller, which alone elects leaders

    def can_lead(self, node: int) -> bool:
        """True if a broker may lead partitions."""
        known = self._state.nodes.get(node)
        return known is not None and known.is_up and node not in self._offline

    def _partitions(self, node: int) -> Iterator[Partition]:
        for topic in self._state.topics:
            for partition in topic.partitions:
                if node in partition.replicas:
                    yield partition

    # --- start and stop of brokers

    def leave(self, node: int) -> None:
        """Note a broker that stopped or can store nothing: its replicas stay, and others lead its partitions."""
        for partition in self._partitions(node):
            if partition.leader != node:
                partition.replica_ends.setdefault(node, partition.log.end_offset)
            if self._is_controlled:
                self._elect(partition, gone=node)

    def come(self, node: int) -> None:
        """Note a broker that started: it follows leaders, and leads partitions without a leader if it may."""
        for partition in self._partitions(node):
            if self._is_controlled and partition.leader == NO_LEADER:
                self._elect(partition)
            self._catch_up(partition, node)

    def _elect(self, partition: Partition, *, gone: int | None = None) -> None:
        """Remove a stopped broker from the in-sync replicas, unless it is the last, and elect another leader."""
        if gone in partition.isr and len(partition.isr) > 1:
            if partition.leader == gone:
                # Records that only this broker has were not acknowledged with acks=all.
                partition.replica_ends.setdefault(gone, partition.log.end_offset)
            partition.isr.remove(gone)
            partition.partition_epoch += 1
        if partition.leader != NO_LEADER and self.can_lead(partition.leader):
            partition.notify(-1)
            return
        leader = self.successor(partition)
        if leader != partition.leader:
            if NO_LEADER not in (leader, partition.leader):
                partition.replica_ends.setdefault(partition.leader, partition.log.end_offset)
            partition.lead(leader)
            for node in partition.replicas:
                self._catch_up(partition, node)

    def successor(self, partition: Partition) -> int:
        """Return a running replica in sync; with unclean elections any running one. NO_LEADER: there is none."""
        able = [node for node in partition.replicas if self.can_lead(node)]
        in_sync = [node for node in able if node in partition.isr]
        unclean = self._state.topic_config(partition.topic, "unclean.leader.election.enable") == "true"
        return next(iter(in_sync or (able if unclean else [])), NO_LEADER)

    def _catch_up(self, partition: Partition, node: int) -> None:
        """Give a follower all records of its leader, and add it to the in-sync replicas, if no fault holds it."""
        if (
            partition.leader in (NO_LEADER, node)
            or not self.can_lead(partition.leader)
            or not self.can_lead(node)
            or node in self._held
            or node not in partition.replicas
        ):
            return
        if node not in partition.isr:
            partition.isr.append(node)
            partition.partition_epoch += 1
        partition.replicate(node)

    # --- faults

    def hold(self, node: int) -> None:
        """Give the followers on a broker no records until `release`; after a while they leave the in-sync replicas."""
        self._held.add(node)
        for partition in self._partitions(node):
            if partition.leader != node:
                partition.replica_ends.setdefault(node, partition.log.end_offset)
        self._state.after(self._state.config_int("replica.lag.time.max.ms"), lambda: self._give_up(node))

    def _give_up(self, node: int) -> None:
        if node in self._held:
            for partition in self._partitions(node):
                if partition.leader != node and node in partition.isr and len(partition.isr) > 1:
                    partition.isr.remove(node)
                    partition.partition_epoch += 1
                    partition.notify(-1)

    def release(self, node: int) -> None:
        """Give the followers on a broker all records again."""
        self._held.discard(node)
        for partition in self._partitions(node):
            self._catch_up(partition, node)

    def is_held(self, node: int) -> bool:
        """True if the followers on a broker get no new records."""
        return node in self._held

    def take_offline(self, node: int) -> None:
        """Take a broker's full or broken disk offline: it gives up all its replicas, and goes on as a broker."""
        self._offline.add(node)
        self.leave(node)

    def bring_online(self, node: int) -> None:
        """Let a broker store records again."""
        self._offline.discard(node)
        if self._state.nodes[node].is_up:
            self.come(node)

    def lose_controller(self) -> None:
        """Remove the controller: no leader is elected until `find_controller`."""
        self._is_controlled = False

    def find_controller(self) -> None:
        """Start a controller again, which catches up on elections."""
        self._is_controlled = True
        for topic in self._state.topics:
            for partition in topic.partitions:
                for node in [n for n in partition.isr if not self.can_lead(n)]:
                    self._elect(partition, gone=node)
                if partition.leader == NO_LEADER or not self.can_lead(partition.leader):
                    self._elect(partition)
                for node in partition.replicas:
                    self._catch_up(partition, node)
