"""The search for the leaders of lost partitions, by metadata requests.

A partition is lost when its broker cannot serve it, or when the metadata names no leader. The cursors of consumers and
scans and the partitions of share consumers are lost in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kafwire.cluster.cluster import Cluster
from kafwire.consumer.fetch.error_log import FetchErrorLog
from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError


class Led(Protocol):
    """A partition, as far as the search needs it."""

    topic: str
    failures: int  # losses and failed requests, in a row; its owner resets the count after a success


P = TypeVar("P", bound=Led)


class LeaderSearch(Generic[P]):
    """The lost partitions of one read. Lives on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        tasks: FetchTasks,
        errors: FetchErrorLog,
        on_metadata: Callable[[], object],
        on_failure: Callable[[P, KafkaError], object] = lambda *_: None,
    ) -> None:
        """`on_metadata` runs after each request that ends the losses; `on_failure` for each lost partition."""
        self._cluster = cluster
        self._tasks = tasks
        self._errors = errors
        self._on_metadata = on_metadata
        self._on_failure = on_failure
        self._lost: dict[P, None] = {}
        self._newly_lost = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def __contains__(self, partition: object) -> bool:
        return partition in self._lost

    def lose(self, partition: P) -> None:
        """Add a partition; `begin` must follow. A first loss waits for no back-off of earlier ones."""
        self._lost[partition] = None
        partition.failures += 1
        if partition.failures == 1:
            self._newly_lost.set()
            self._cluster.hasten()

    def forget(self, partition: P) -> None:
        """Drop a partition."""
        self._lost.pop(partition, None)

    def begin(self) -> None:
        """Request metadata until no partition is lost, unless the search runs already."""
        if self._lost and self._looking is None:
            self._looking = self._tasks.begin(self._look())

    async def _look(self) -> None:
        """Refresh the metadata until no partition is lost, with back-off for repeated losses."""
        try:
            while self._lost:
                self._newly_lost.clear()
                failures = min(partition.failures for partition in self._lost)
                if failures > 1:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._cluster.backoff_ms(failures - 1) / 1000):
                            await self._newly_lost.wait()
                lost = list(self._lost)
                if not lost:  # all were forgotten during the back-off
                    break
                try:
                    await self._cluster.refresh({partition.topic for partition in lost})
                except (KafkaConnectionError, KafkaTimeoutError, BrokerError, ProtocolError) as error:
                    self._errors.warn_once("metadata", error, "leaders could not be looked up: ")
                    for partition in lost:
                        partition.failures += 1
                        self._on_failure(partition, error)
                    continue
                for partition in lost:
                    self._lost.pop(partition, None)
                self._on_metadata()
        finally:
            self._looking = None
