"""Positions of a consumer: seeks, the next offsets, lag, and the begins and ends of logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kafwire.cluster.list_offsets import Place, list_offsets
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.cursor_lookup import cursor_of, cursors_of
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.offsets.hand import UnreadRemainder
from kafwire.consumer.offsets.ledger import Ledger
from kafwire.errors import ConfigError, KafkaTimeoutError
from kafwire.integers import natural
from kafwire.types import TopicPartition

PLACED_LOOK_S = 0.005


class Positions:
    """One consumer's positions. Lives on the engine."""

    def __init__(self, fetcher: Fetcher, ledger: Ledger) -> None:
        self._fetcher = fetcher
        self._ledger = ledger

    async def seek(self, where: TopicPartition, offset: int) -> None:
        """Continue at `offset`."""
        cursor = cursor_of(self._fetcher.cursors, where)
        position = natural(offset)
        if position is None:
            raise ConfigError(f"the offset to seek in {cursor.name} is {offset!r}: a number from 0 is needed")
        self._fetcher.seek(cursor, position)
        self._ledger.seek(cursor)

    def put_back(self, rest: UnreadRemainder) -> None:
        """Fetch a batch's undelivered rest again, unless a truncation has moved the position before it."""
        cursor = self._fetcher.cursors.get(rest.where)
        queue = self._fetcher.queue
        if cursor is None or queue.position(cursor.number) < rest.end:
            return
        processed = max(queue.processed(cursor.number), rest.processed)
        if rest.offset < rest.end:
            self._fetcher.seek(cursor, rest.offset)
        queue.process(cursor.number, min(processed, rest.offset))

    def fetch_again(self, number: int, generation: int, offset: int) -> None:
        """Fetch again from `offset` on, as a reader could not deliver these records and reset the place."""
        cursor, queue = self._fetcher.numbered(number), self._fetcher.queue
        if cursor is not None and generation == cursor.generation + 1:  # no seek came since
            processed = queue.processed(number)
            self._fetcher.seek(cursor, offset)
            queue.process(number, processed)

    async def settled(self) -> None:
        """Do nothing: when this call returns, the engine has run all calls that were started before."""

    async def seek_to(self, place: Place, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int]:
        """Continue at the first record of a time, or at an end; return the offsets.

        Partitions that are not available now are left out: they continue there once a leader responds.
        """
        chosen = cursors_of(self._fetcher.cursors, partitions)
        found, late = await self._fetcher.offset_reset.available(chosen, place)
        for cursor in late:
            self._fetcher.seek(cursor, -1)
            self._ledger.seek(cursor)
        self._fetcher.offset_reset.look_up_late(late, place)
        for cursor, offset in found.items():
            self._fetcher.seek(cursor, offset)
            self._ledger.seek(cursor)
        return {TopicPartition(cursor.topic, cursor.partition): offset for cursor, offset in found.items()}

    async def position(self, where: TopicPartition) -> int:
        """Return the offset of the next record that a reader delivers."""
        cursor = cursor_of(self._fetcher.cursors, where)
        limit_s = self._fetcher.config.default_api_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self._placed(cursor)
        except TimeoutError:
            raise KafkaTimeoutError(
                f"the position of {cursor.name} could not be found within {limit_s:g} s: its leader does not respond, "
                "or there is none"
            ) from None
        return self._fetcher.queue.position(cursor.number)

    async def _placed(self, cursor: FetchCursor) -> None:
        await self._fetcher.offset_reset.placed(cursor)
        while True:
            if cursor.position >= 0 or cursor.halted or self._fetcher.numbered(cursor.number) is not cursor:
                return
            await asyncio.sleep(PLACED_LOOK_S)  # the look-up of the committed offset is in progress

    async def offsets_for_times(self, times: Mapping[TopicPartition, Place]) -> dict[TopicPartition, int | None]:
        """Return each partition's first offset at or after a time, or None."""
        level = int(self._fetcher.context.committed_only)
        found = await list_offsets(
            self._fetcher.cluster,
            {(where.topic, where.partition): time for where, time in times.items()},
            isolation_level=level,
        )
        return {where: None if found[where] < 0 else found[where] for where in times}

    async def ends(self, partitions: Iterable[TopicPartition] | None, place: Place) -> dict[TopicPartition, int]:
        """Return first or end offsets as the leaders have them now; with read_committed, last stable offsets."""
        wanted = list(self._fetcher.cursors) if partitions is None else partitions
        level = int(self._fetcher.context.committed_only)
        found = await list_offsets(self._fetcher.cluster, dict.fromkeys(wanted, place), isolation_level=level)
        return {TopicPartition(*where): offset for where, offset in found.items()}

    def lag(self, where: TopicPartition, in_hand: tuple[TopicPartition, int] | None = None) -> int | None:
        """Return the number of records not delivered yet, from the last response; None before the first one.

        `in_hand` is a partition whose batch is delivered record by record, and the offset of the next record.
        """
        cursor = cursor_of(self._fetcher.cursors, where)
        lag = self.lag_of(cursor)
        if lag is None or in_hand is None or in_hand[0] != where:
            return lag
        return lag + max(0, self._fetcher.queue.position(cursor.number) - in_hand[1])

    def high_watermark(self, where: TopicPartition) -> int | None:
        """Return the high watermark of the last response; None before the first one."""
        cursor = cursor_of(self._fetcher.cursors, where)
        end = max(cursor.high_watermark, self._fetcher.queue.log_end(cursor.number, False))
        return end if end >= 0 else None

    def lag_of(self, cursor: FetchCursor) -> int | None:
        """Return the lag of a cursor, without rows in hand."""
        queue, committed_only = self._fetcher.queue, self._fetcher.context.committed_only
        position = queue.position(cursor.number)
        # The I/O thread may have queued, and a reader delivered, records of a response that the engine has not read.
        return cursor.lag(position, committed_only=committed_only, fed_end=queue.log_end(cursor.number, committed_only))
