"""The log of metadata as DescribeQuorum shows it: its leader, its end, and the nodes that read it.

The running broker with the lowest number is the only controller, and so the only voter of a static quorum: no records
change the voters. There is no log. As in an idle cluster of Kafka, a record that says nothing is appended every 500 ms
(`metadata.max.idle.interval.ms`).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

NAME = "__cluster_metadata"
_IDLE_MS = 500


class MetadataLog:
    """The quorum of a cluster: `state.part(MetadataLog)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._leader = state.controller_id
        self._epoch = 1

    def leader(self) -> tuple[int, int]:
        """Return the controller and its epoch, which grows if the controller changed since the last call."""
        leader = self._state.controller_id
        if leader != self._leader:
            self._leader = leader
            self._epoch += 1
        return leader, self._epoch

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return 1 + int(self._state.now_ms // _IDLE_MS)

    def directory_id(self, node: int) -> uuid.UUID:
        """Return the id of a node's directory, which is the same at each call."""
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._state.cluster_id} {node}")
