"""Partitions that the cluster does not permit to be read: who was told of it has them asked for again by his next call.

Nothing else mends them, and nothing asks for them meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.errors import AuthorizationError, KafkaError
from kafwire.types import TopicPartition


class DeniedPartitions:
    """Those of one consumer."""

    def __init__(self, fetcher: Fetcher, start_again: Callable[[Iterable[FetchCursor]], Iterable[FetchCursor]]) -> None:
        """`start_again` sees to those whose beginning was not told, and returns the others."""
        self._fetcher = fetcher
        self._start_again = start_again
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
        self._try(cursor for cursor in self._fetcher.cursors.values() if any(cursor.failure is each for each in told))

    async def try_all(self, only: TopicPartition | None = None) -> None:
        """Ask once more for all, or `only` one, as somebody begins to read them anew. On the engine."""
        self._try(
            cursor
            for where, cursor in self._fetcher.cursors.items()
            if isinstance(cursor.failure, AuthorizationError) and only in (None, where)
        )

    def _try(self, cursors: Iterable[FetchCursor]) -> None:
        for cursor in self._start_again(list(cursors)):
            self._fetcher.try_again(cursor)
