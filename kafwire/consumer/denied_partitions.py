"""Partitions that failed with an AuthorizationError: the next call after the error retries them.

Nothing else retries them: until then they are not fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.errors import AuthorizationError, KafkaError
from kafwire.types import TopicPartition


class DeniedPartitions:
    """The denied partitions of one consumer."""

    def __init__(self, fetcher: Fetcher, start_again: Callable[[Iterable[FetchCursor]], Iterable[FetchCursor]]) -> None:
        """`start_again` retries cursors without a start offset, and returns the others."""
        self._fetcher = fetcher
        self._start_again = start_again
        self._raised: list[AuthorizationError] = []

    @property
    def are_due(self) -> bool:
        """True if a raised AuthorizationError waits for its retry. Any thread."""
        return bool(self._raised)

    def note(self, error: KafkaError) -> None:
        """Note an error that a read raises to the user. Any thread."""
        if isinstance(error, AuthorizationError):
            self._raised.append(error)

    async def try_due(self) -> None:
        """Retry the partitions whose errors were raised. On the engine."""
        raised, self._raised = self._raised, []
        self._try(cursor for cursor in self._fetcher.cursors.values() if any(cursor.failure is each for each in raised))

    async def try_all(self, only: TopicPartition | None = None) -> None:
        """Retry all denied partitions, or `only` one, for a new reader. On the engine."""
        self._try(
            cursor
            for where, cursor in self._fetcher.cursors.items()
            if isinstance(cursor.failure, AuthorizationError) and only in (None, where)
        )

    def _try(self, cursors: Iterable[FetchCursor]) -> None:
        for cursor in self._start_again(list(cursors)):
            self._fetcher.try_again(cursor)
