"""The feed of a consumer's partitions: each new partition is claimed for a stream of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kafwire.consumer.delivery.partition_claim import Claim


class PartitionFeed:
    """The source of `partitions()`. Made in the reader's thread, lives on the engine.

    The call that opens it may be cancelled or interrupted and yet have run. So the call returns nothing: the maker of a
    feed closes it without knowing if it was opened.
    """

    def __init__(self, is_disturbed: Callable[[], bool]) -> None:
        """`is_disturbed` returns True if the iterating thread must first run handlers or raise an error."""
        self.is_open = True
        self._is_disturbed = is_disturbed
        self._claims: deque[Claim] = deque()
        self._news = asyncio.Event()

    def offer(self, claim: Claim) -> None:
        """Add the claim of a new partition."""
        self._claims.append(claim)
        self._news.set()

    def look(self) -> None:
        """Make a waiting `next` check `is_disturbed`."""
        self._news.set()

    async def next(self) -> Claim | None:
        """Wait for the next partition and return its claim; None: disturbed, or closed."""
        while self.is_open and not self._is_disturbed():
            while self._claims:
                claim = self._claims.popleft()
                if not claim.is_over:
                    return claim
            self._news.clear()
            await self._news.wait()
        return None

    def close(self) -> None:
        """End the feed, and release the claims that were not taken."""
        self.is_open = False
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._news.set()
