"""Partitions that the cluster does not permit to be read: who was told of it has them asked for again by his next call.

Nothing else mends them, and nothing asks for them meanwhile.
"""

from __future__ import annotations

from kafwire.consumer.fetcher import Fetcher
from kafwire.errors import AuthorizationError, KafkaError
from kafwire.types import TopicPartition


class DeniedPartitions:
    """Those of one consumer."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._told: list[AuthorizationError] = []

    @property
    def were_told(self) -> bool:
        """Whether there are any to be tried again. May be asked in any thread."""
        return bool(self._told)

    def tell(self, error: KafkaError) -> None:
        """A reader raises this error to the user. May be called in any thread."""
        if isinstance(error, AuthorizationError):
            self._told.append(error)

    async def try_those_told(self) -> None:
        """Ask once more for those that were told. On the engine."""
        told, self._told = self._told, []
        for cursor in list(self._fetcher.cursors.values()):
            if any(cursor.failure is each for each in told):
                self._fetcher.try_again(cursor)

    async def try_all(self, only: TopicPartition | None = None) -> None:
        """Ask once more for all, or `only` one, as somebody begins to read them anew. On the engine."""
        for where, cursor in list(self._fetcher.cursors.items()):
            if isinstance(cursor.failure, AuthorizationError) and only in (None, where):
                self._fetcher.try_again(cursor)
