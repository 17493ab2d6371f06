"""Assigned partitions that the metadata lacks: looked up with back-off, at one broker after the other.

An assignment may arrive before a broker has the metadata of its partitions. Such a partition stays assigned, one
warning names it, and the consumer reads it as soon as any metadata response shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.partition_names import listed
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError
from kafwire.runtime.log import consumer_log as log
from kafwire.types import TopicPartition

LONGEST_PAUSE_MS = 2_000  # between two look-ups


class AwaitedPartitions:
    """The partitions of one consumer that wait for their metadata. Lives on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        on_shown: Callable[[Mapping[TopicPartition, PartitionOwnership]], object],
    ) -> None:
        """`on_shown` gets the partitions that the metadata shows and the member still owns."""
        self._cluster = cluster
        self._group_id = group_id
        self._on_shown = on_shown
        self._missing: dict[TopicPartition, PartitionOwnership] = {}
        self._warned: set[PartitionOwnership] = set()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_looking(self) -> bool:
        """True while a partition is missing, or the last look-up runs."""
        return self._looking is not None

    def add(self, partitions: Mapping[TopicPartition, PartitionOwnership]) -> None:
        """Report these partitions once the metadata shows them, possibly at once."""
        self._missing.update(partitions)
        self._report()
        if self._missing and self._looking is None:
            self._looking = asyncio.ensure_future(self._look())

    def discard(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop waiting for these partitions, as the member gives them up."""
        for where in partitions:
            self._missing.pop(where, None)

    def clear(self) -> None:
        """Stop waiting for all partitions."""
        self._missing.clear()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _report(self) -> None:
        """Report partitions that the metadata now shows, and forget those that the member no longer owns."""
        topics = self._cluster.metadata.topics
        self._missing = {where: ownership for where, ownership in self._missing.items() if ownership.is_owned}
        shown = {
            where: ownership
            for where, ownership in self._missing.items()
            if where.topic in topics and where.partition in topics[where.topic].partitions
        }
        self.discard(shown)
        if shown:
            self._on_shown(shown)

    async def _look(self) -> None:
        failures = 0
        end_watch = self._cluster.on_change(lambda _: self._report())
        try:
            while self._missing:
                topics = {where.topic for where in self._missing}
                why = ""
                try:
                    await self._cluster.refresh(topics, at_once=True, elsewhere=failures > 0)
                except KafkaError as error:
                    why = f" ({error})"
                self._report()
                self._warn(why)
                failures += 1
                config, randomness = self._cluster.config, self._cluster.engine.random.random()
                pause_ms = delay_ms(failures, config.retry_backoff_ms, LONGEST_PAUSE_MS, randomness)
                await asyncio.sleep(pause_ms / 1000 if self._missing else 0)
        finally:
            end_watch()
            if self._looking is asyncio.current_task():
                self._looking = None

    def _warn(self, why: str) -> None:
        new = [where for where, ownership in self._missing.items() if ownership not in self._warned]
        self._warned = set(self._missing.values())
        if new:
            names = listed([f"{topic}-{number}{self._reason(topic)}" for topic, number in new])
            text = "group %r assigns %s, which metadata does not show yet%s: looked up again until it does"
            log.warning(text, self._group_id, names, why, group=self._group_id, reason=why)

    def _reason(self, topic: str) -> str:
        code = self._cluster.metadata.errors.get(topic, ErrorCode.NONE)
        return f" ({ERROR_CODES[code].name})" if code in ERROR_CODES and code else ""
