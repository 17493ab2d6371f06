"""The wait of a revocation until no records of its partitions are in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.offsets.commits import OffsetCommits

# Readers report processed records. A stream of Arrow arrays does not, so it is polled at this interval.
LOOK_MS = 20


class Revocation:
    """The revocations of one consumer. Lives on the engine, apart from `is_awaited`."""

    def __init__(self, fetcher: Fetcher, commits: OffsetCommits, is_claimed: Callable[[FetchCursor], bool]) -> None:
        """`is_claimed` returns True if a stream has claimed the partition, was begun, and is not closed."""
        self.is_awaited = False  # a reader that processes records must call `look`; any thread may read this
        self._fetcher = fetcher
        self._commits = commits
        self._is_claimed = is_claimed
        self._looks = asyncio.Event()

    def look(self) -> None:
        """Check again: records were processed, or left the hand."""
        self._looks.set()

    async def settled(self, cursors: Iterable[FetchCursor], timeout_ms: float) -> list[FetchCursor]:
        """Wait until no records of these cursors are in hand; return the cursors that have some at the timeout."""
        self.is_awaited = True
        until = self._fetcher.cluster.engine.now_ms() + timeout_ms
        try:
            while left := [cursor for cursor in cursors if self.is_in_hand(cursor)]:
                wait_ms = min(LOOK_MS, until - self._fetcher.cluster.engine.now_ms())
                if wait_ms <= 0:
                    return left
                self._looks.clear()
                try:
                    async with asyncio.timeout(wait_ms / 1000):
                        await self._looks.wait()
                except TimeoutError:
                    pass
            return []
        finally:
            self.is_awaited = False

    def is_in_hand(self, cursor: FetchCursor) -> bool:
        """Return True if a user may have records of a cursor that do not count as processed yet."""
        if self._fetcher.numbered(cursor.number) is not cursor:
            return False
        if self._is_claimed(cursor) and not self._commits.is_automatic:
            return True  # with manual commits, the user may commit after the stream's end, until it is closed
        return self._commits.ledger.holds(cursor)
