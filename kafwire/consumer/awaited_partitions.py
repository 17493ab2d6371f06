"""Assigned partitions that the metadata does not show: looked up with back-off, at one broker after the other.

An assignment may arrive before the brokers that are asked for metadata have heard of the partition. It stays assigned,
is named by one warning, and is read as soon as metadata shows it, whichever request brings that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.consumer.group.ownership import PartitionOwnership
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError
from kafwire.runtime.log import log
from kafwire.types import TopicPartition

LONGEST_PAUSE_MS = 2_000  # between two look-ups
NAMED = 10  # partitions that one warning names


class AwaitedPartitions:
    """The partitions that one consumer is to read as soon as the metadata shows them. Lives on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        on_shown: Callable[[Mapping[TopicPartition, PartitionOwnership]], object],
    ) -> None:
        """`on_shown` gets partitions that the metadata shows, of those that are still owned."""
        self._cluster = cluster
        self._group_id = group_id
        self._on_shown = on_shown
        self._missing: dict[TopicPartition, PartitionOwnership] = {}
        self._warned: set[PartitionOwnership] = set()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_looking(self) -> bool:
        """Whether a partition is missing, or the last look-up of one is not over."""
        return self._looking is not None

    def add(self, partitions: Mapping[TopicPartition, PartitionOwnership]) -> None:
        """Report these when the metadata shows them, or at once."""
        self._missing.update(partitions)
        self._report()
        if self._missing and self._looking is None:
            self._looking = asyncio.ensure_future(self._look())

    def discard(self, partitions: Iterable[TopicPartition]) -> None:
        """Report these no more: they are given up."""
        for where in partitions:
            self._missing.pop(where, None)

    def clear(self) -> None:
        """Report nothing more."""
        self._missing.clear()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _report(self) -> None:
        """Report what the metadata shows by now, and forget what is owned no more."""
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
            names = ", ".join(f"{topic}-{number}{self._reason(topic)}" for topic, number in new[:NAMED])
            more = f" and {len(new) - NAMED} more partitions" if len(new) > NAMED else ""
            text = "group %r assigns %s%s, which metadata does not show yet%s: looked up again until it does"
            log.warning(text, self._group_id, names, more, why)

    def _reason(self, topic: str) -> str:
        code = self._cluster.metadata.errors.get(topic, ErrorCode.NONE)
        return f" ({ERROR_CODES[code].name})" if code in ERROR_CODES and code else ""
