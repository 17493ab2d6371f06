"""The partitions of a consumer as they come: each is claimed for the stream that will read it alone."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from kafwire.consumer.partition_claim import Claim


class PartitionFeed:
    """What `partitions()` iterates over. Lives on the engine."""

    def __init__(self, is_disturbed: Callable[[], bool]) -> None:
        """`is_disturbed`: who waits here has something else to do first."""
        self.is_open = True
        self._is_disturbed = is_disturbed
        self._claims: deque[Claim] = deque()
        self._news = asyncio.Event()

    def offer(self, claim: Claim) -> None:
        """A partition has come."""
        self._claims.append(claim)
        self._news.set()

    def look(self) -> None:
        """There may be something else to do."""
        self._news.set()

    async def next(self) -> Claim | None:
        """The next partition, once there is one; None: there is something else to do, or nothing more comes."""
        while self.is_open and not self._is_disturbed():
            while self._claims:
                claim = self._claims.popleft()
                if not claim.is_over:
                    return claim
            self._news.clear()
            await self._news.wait()
        return None

    def close(self) -> None:
        """Nothing more comes. What nobody took is given back."""
        self.is_open = False
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._news.set()
