"""Deletion of records by age or log size (`retention.ms`, `retention.bytes`), on demand and by a timer.

Kafka deletes whole segments. In a log without segments, in memory, each batch counts as one. A log on files deletes the
segments that lie wholly before the offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.broker.topics.config_def import elements

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

INITIAL_DELAY_MS = 30_000


class Retention:
    """The retention of a cluster: `state.part(Retention)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._is_watching = False

    def watch(self) -> None:
        """Run every `log.retention.check.interval.ms` from now on; the driver of a state may start this."""
        if not self._is_watching:
            self._is_watching = True
            self._state.after(INITIAL_DELAY_MS, self._on_time)

    def _on_time(self) -> None:
        self.run()
        self._state.after(self._state.config_int("log.retention.check.interval.ms"), self._on_time)

    def run(self, topic: str | None = None) -> int:
        """Delete expired batches of the partitions of a topic, or of all. Return the freed bytes."""
        deleted = 0
        for each in list(self._state.topics):
            if topic is None or each.name == topic:
                for partition in each.partitions:
                    deleted += self.run_partition(partition)
        return deleted

    def run_partition(self, partition: Partition) -> int:
        """Delete expired batches of one partition. Return the freed bytes."""
        state, topic = self._state, partition.topic
        if "delete" not in elements(state.topic_config(topic, "cleanup.policy")):
            return 0
        size = partition.log.size
        offset = max(
            self._too_old(partition, int(state.topic_config(topic, "retention.ms"))),
            self._too_much(partition, int(state.topic_config(topic, "retention.bytes"))),
        )
        if offset > partition.log.start_offset:
            partition.delete_before(offset)
        return size - partition.log.size

    def _too_old(self, partition: Partition, retention_ms: int) -> int:
        """Return the offset before which all records are too old."""
        offset = partition.log.start_offset
        if retention_ms < 0:
            return offset
        limit = self._state.wall_ms - retention_ms
        for header in partition.log.headers(offset):
            if header.max_timestamp >= limit or header.next_offset > partition.high_watermark:
                break
            offset = header.next_offset
        return offset

    @staticmethod
    def _too_much(partition: Partition, retention_bytes: int) -> int:
        """Return the offset from which on there are at least `retention_bytes`, and not one batch more."""
        offset = partition.log.start_offset
        if retention_bytes < 0:
            return offset
        excess = partition.log.size - retention_bytes
        for header in partition.log.headers(offset):
            excess -= header.size
            if excess < 0 or header.next_offset > partition.high_watermark:
                break
            offset = header.next_offset
        return offset
