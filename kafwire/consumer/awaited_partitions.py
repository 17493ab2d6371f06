"""Assigned partitions that the metadata does not show: looked up with back-off, at one broker after the other.

An assignment may arrive before the brokers that are asked for metadata have heard of the partition. It stays assigned,
is named by one warning, and is read as soon as metadata shows it, whichever request brings that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import TopicInfo
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError
from kafwire.types import TopicPartition

log = logging.getLogger("kafwire")

LONGEST_PAUSE_MS = 2_000  # between two look-ups
NAMED = 10  # partitions that one warning names


class AwaitedPartitions:
    """The partitions that one consumer is to read as soon as the metadata shows them. Lives on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        is_owned: Callable[[TopicPartition], bool],
        on_found: Callable[[list[tuple[TopicInfo, int]]], object],
    ) -> None:
        """`on_found` gets partitions that the metadata shows, of those that are still owned."""
        self._cluster = cluster
        self._group_id = group_id
        self._is_owned = is_owned
        self._on_found = on_found
        self._missing: dict[TopicPartition, None] = {}
        self._warned: set[TopicPartition] = set()
        self._looking: asyncio.Task[None] | None = None

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Report these when the metadata shows them, or at once."""
        self._missing.update(dict.fromkeys(partitions))
        self._report()
        if self._missing and self._looking is None:
            self._looking = asyncio.ensure_future(self._look())

    def discard(self, partitions: Iterable[TopicPartition]) -> None:
        """Report these no more: they are the member's no more."""
        for where in partitions:
            self._missing.pop(where, None)
            self._warned.discard(where)

    def clear(self) -> None:
        """Report nothing more."""
        self.discard(list(self._missing))
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _report(self) -> None:
        topics = self._cluster.metadata.topics
        found: list[tuple[TopicInfo, int]] = []
        for where in list(self._missing):
            info = topics.get(where.topic)
            if not self._is_owned(where):
                self.discard([where])
            elif info is not None and where.partition in info.partitions:
                self.discard([where])
                found.append((info, where.partition))
        if found:
            self._on_found(found)

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
        new = [where for where in self._missing if where not in self._warned]
        self._warned.update(new)
        if new:
            names = ", ".join(f"{topic}-{number}{self._reason(topic)}" for topic, number in new[:NAMED])
            more = f" and {len(new) - NAMED} more partitions" if len(new) > NAMED else ""
            text = "group %r assigns %s%s, which metadata does not show yet%s: looked up again until it does"
            log.warning(text, self._group_id, names, more, why)

    def _reason(self, topic: str) -> str:
        code = self._cluster.metadata.errors.get(topic, ErrorCode.NONE)
        return f" ({ERROR_CODES[code].name})" if code in ERROR_CODES and code else ""
