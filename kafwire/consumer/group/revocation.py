"""A revocation, before its partitions go: the wait for records in hand, `on_revoked`, and the automatic commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.group.rebalance_handlers import RebalanceHandlers
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.runtime.log import consumer_log as log
from kafwire.types import TopicPartition

# Readers report processed records. A stream of Arrow arrays does not, so it is polled at this interval.
LOOK_MS = 20


class Revocation:
    """The revocations of one consumer. Lives on the engine, apart from `is_awaited`."""

    def __init__(
        self,
        fetcher: Fetcher,
        config: ConsumerConfig,
        commits: OffsetCommits,
        handlers: RebalanceHandlers,
        is_claimed: Callable[[FetchCursor], bool],
    ) -> None:
        """`is_claimed` returns True if a stream has claimed the partition, was begun, and is not closed."""
        self.is_awaited = False  # a reader that processes records must call `look`; any thread may read this
        self._fetcher = fetcher
        self._engine = fetcher.cluster.engine
        self._config = config
        self._commits = commits
        self._handlers = handlers
        self._is_claimed = is_claimed
        self._looks = asyncio.Event()

    def look(self) -> None:
        """Check again: records were processed, or left the hand."""
        self._looks.set()

    async def finish(self, cursors: Sequence[FetchCursor], window_ms: float) -> None:
        """Wait for records in hand (`on_revocation="finish"`), run `on_revoked`, and commit, within the window.

        A partition may be lost during each of the three: then it is neither revoked nor committed.
        """
        until = self._engine.now_ms() + window_ms
        if self._config.on_revocation == "finish":
            late = _of_owned(await self._settled(cursors, window_ms))
            if late:
                log.warning(
                    "group %r: records of %s were still being processed after %d ms: the member gives up the "
                    "partitions, and another one processes records after the last commit again",
                    self._config.group_id,
                    ", ".join(cursor.name for cursor in late),
                    window_ms,
                    group=self._config.group_id,
                    partitions=[cursor.name for cursor in late],
                    waited_ms=window_ms,
                )
        cursors = _of_owned(cursors)
        if cursors:
            read = [TopicPartition(cursor.topic, cursor.partition) for cursor in cursors]
            left_ms = max(1.0, until - self._engine.now_ms())
            if not await self._handlers.revoked(read, left_ms):
                log.warning(
                    "group %r: on_revoked takes longer than %d ms: the revocation goes on",
                    self._config.group_id,
                    left_ms,
                    group=self._config.group_id,
                    waited_ms=left_ms,
                )
        if cursors and self._commits.is_automatic:
            left_ms = max(1_000.0, until - self._engine.now_ms())
            await self._commits.auto_commit(cursors, timeout_ms=min(left_ms, self._config.default_api_timeout_ms))

    async def _settled(self, cursors: Iterable[FetchCursor], timeout_ms: float) -> list[FetchCursor]:
        """Wait until no records of these cursors are in hand; return the cursors that have some at the timeout."""
        self.is_awaited = True
        until = self._engine.now_ms() + timeout_ms
        try:
            while left := [cursor for cursor in cursors if self.is_in_hand(cursor)]:
                wait_ms = min(LOOK_MS, until - self._engine.now_ms())
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


def _of_owned(cursors: Iterable[FetchCursor]) -> list[FetchCursor]:
    return [cursor for cursor in cursors if cursor.ownership.is_owned]
