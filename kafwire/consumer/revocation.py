"""Waits until users have nothing in hand of partitions that are to be given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.partition_cursor import FetchCursor

# Who reads tells when he has processed what he had. A stream of Arrow arrays does not: it is looked at again and again.
LOOK_MS = 20


class Revocation:
    """Of one consumer's partitions. Lives on the engine, apart from `is_awaited`."""

    def __init__(self, fetcher: Fetcher, commits: OffsetCommits, is_claimed: Callable[[FetchCursor], bool]) -> None:
        """`is_claimed`: a stream has the partition for itself, was begun, and was not closed."""
        self.is_awaited = False  # whether who settles is to call `look`; may be read in any thread
        self._fetcher = fetcher
        self._commits = commits
        self._is_claimed = is_claimed
        self._looks = asyncio.Event()

    def look(self) -> None:
        """Something was processed, or is not in a user's hand any more."""
        self._looks.set()

    async def settled(self, cursors: Iterable[FetchCursor], timeout_ms: float) -> list[FetchCursor]:
        """Wait until nothing of these is in hand, or they are not read any more; those that still are at the end."""
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
        """Whether a user may have records of it that do not count as processed yet."""
        if self._fetcher.numbered(cursor.number) is not cursor:
            return False
        if self._is_claimed(cursor) and not self._commits.is_automatic:
            return True  # who commits himself may do so after the stream's end, until he closes it
        return self._commits.ledger.holds(cursor)
