"""The log directories of each broker, which are names without folders: where its replicas are, and move (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

Replica = tuple[int, "Partition"]  # a broker's number and the partition


class LogDirs:
    """The directories of all replicas: `state.part(LogDirs)`.

    The directories are those of the option `log.dirs`. A replica is in the first one until it moves.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.copy_ms = 0.0  # the duration of a move
        self._places: dict[Replica, str] = {}
        self._moves: dict[Replica, str] = {}

    def paths(self, node: int) -> list[str]:
        """Return the directories of a broker."""
        listed = [path.strip() for path in self._state.config("log.dirs").split(",")]
        return list(dict.fromkeys(filter(None, listed))) or [f"/embedded/node-{node}"]

    def current(self, node: int, partition: Partition) -> str:
        """Return the directory of a replica."""
        return self._places.get((node, partition)) or self.paths(node)[0]

    def future(self, node: int, partition: Partition) -> str | None:
        """Return the directory into which a replica moves; None: it does not move."""
        return self._moves.get((node, partition))

    def prefer(self, node: int, partition: Partition, path: str) -> None:
        """Choose the directory of a replica that the broker does not have yet."""
        self._places[node, partition] = path

    def move(self, node: int, partition: Partition, path: str) -> None:
        """Begin to move a replica, in place of a move that has begun; a move to its own directory ends at once."""
        replica = node, partition
        self._moves.pop(replica, None)
        if path != self.current(node, partition):
            self._moves[replica] = path
            self._state.after(self.copy_ms, lambda: self._finish(replica, path))

    def _finish(self, replica: Replica, path: str) -> None:
        if self._moves.get(replica) == path:
            del self._moves[replica]
            self._places[replica] = path
