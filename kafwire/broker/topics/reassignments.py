"""Reassignments of replicas to other brokers (KIP-455): each ends when all added replicas are in sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafwire.broker.log.partition import NO_LEADER

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState


@dataclass(slots=True)
class Reassignment:
    """An ongoing reassignment of a partition."""

    target: list[int]
    before: list[int]  # replicas to which a cancellation returns
    adding: list[int]
    removing: list[int]


class Reassignments:
    """All ongoing reassignments of a cluster: `state.part(Reassignments)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.ongoing: dict[Partition, Reassignment] = {}

    def begin(self, partition: Partition, target: Sequence[int]) -> None:
        """Start to move a partition's replicas to the brokers `target`. The caller has checked the request."""
        self._forget(partition)
        before = list(partition.replicas)
        if list(target) == before:
            return
        move = Reassignment(
            list(target),
            before,
            [node for node in target if node not in before],
            [node for node in before if node not in target],
        )
        partition.replicas = [*target, *move.removing]
        partition.partition_epoch += 1
        for node in move.adding:
            partition.replica_ends.setdefault(node, partition.log.start_offset)
        self.ongoing[partition] = move
        partition.watchers.add(self._on_change)
        # The new replica starts to follow after the response.
        self._state.after(0, lambda: self._follow(partition, move))

    def cancel(self, partition: Partition) -> bool:
        """Undo an ongoing reassignment. Returns False if there was none."""
        move = self._forget(partition)
        if move is None:
            return False
        self._keep(partition, move.before)
        return True

    def _forget(self, partition: Partition) -> Reassignment | None:
        move = self.ongoing.pop(partition, None)
        partition.watchers.discard(self._on_change)
        if move is not None:
            partition.replicas = list(move.before)
            partition.isr = [node for node in partition.isr if node in move.before] or partition.isr[:1]
        return move

    def _follow(self, partition: Partition, move: Reassignment) -> None:
        for node in move.adding:
            if self.ongoing.get(partition) is move and self._state.replication.can_lead(node):
                self._state.replication.come(node)
        self._on_change(partition, -1)

    def _on_change(self, partition: Partition, grown: int) -> None:
        del grown
        move = self.ongoing.get(partition)
        if move is None:
            return
        if self._state.topics.partition(partition.topic.name, partition.index) is not partition:
            del self.ongoing[partition]
            partition.watchers.discard(self._on_change)
        elif set(move.adding) <= set(partition.isr) and set(partition.isr) & set(move.target):
            del self.ongoing[partition]
            partition.watchers.discard(self._on_change)
            self._keep(partition, move.target)

    def _keep(self, partition: Partition, replicas: Sequence[int]) -> None:
        """Make these the partition's only replicas; one of them leads."""
        partition.replicas = list(replicas)
        in_sync = [node for node in partition.isr if node in replicas]
        partition.isr = in_sync or partition.isr
        partition.partition_epoch += 1
        for node in [node for node in partition.replica_ends if node not in replicas]:
            del partition.replica_ends[node]
        if partition.leader in replicas or not in_sync:
            partition.notify(-1)
            return
        if partition.leader != NO_LEADER:
            for node in in_sync:
                partition.replica_ends.pop(node, None)
        partition.lead(next((node for node in replicas if node in in_sync), NO_LEADER))
