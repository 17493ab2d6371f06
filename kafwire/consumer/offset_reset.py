"""Offsets that leaders are asked for (ListOffsets): of times, of the ends of logs, and by the reset policy.

A partition whose position is not in its log is reset by `auto_offset_reset`, or its reader is told (KIP-1106).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from kafwire.config import duration_ms
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, KafkaConnectionError, KafkaError, KafkaTimeoutError, broker_error

if TYPE_CHECKING:
    from kafwire.consumer.fetcher import Fetcher

log = logging.getLogger("kafwire")


class OffsetReset:
    """Finds where the cursors of one fetcher go on."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.count = 0  # positions that had to be looked up again, for metrics
        self._fetcher = fetcher
        self._cluster = fetcher.cluster
        self._config = fetcher.config
        self._plan = fetcher.plan
        self._tasks = fetcher.tasks
        self._errors = fetcher.errors
        self._awaited: dict[FetchCursor, int] = {}  # whose position is to be found by this time
        self._denied: dict[FetchCursor, int] = {}  # whose was not, as an ACL is missing

    def out_of_range(self, cursor: FetchCursor, where: str) -> None:
        """There is no such offset: go where the policy says, or tell the user (KIP-1106)."""
        policy = self._plan.reset
        self.count += 1
        if policy == "error":
            self._fetcher.halt(
                cursor,
                broker_error(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{cursor.name} has no offset {cursor.position} any more: the records were deleted, or the log "
                    f"was cut, says {where}; {self._plan.advice.no_such_offset}",
                ),
            )
            return
        log.warning("%s has no offset %d, says %s: reading goes on at %s", cursor.name, cursor.position, where, policy)
        self._fetcher.seek_by_time(cursor, self.reset_time(policy))

    def reset_time(self, policy: str) -> int:
        """What ListOffsets is asked for by a reset policy."""
        if policy == "earliest":
            return EARLIEST
        duration = duration_ms(policy)
        return LATEST if duration is None else max(0, self._cluster.engine.clock.time_ns() // 1_000_000 - duration)

    def look_up(self, cursor: FetchCursor, timestamp: int) -> None:
        """Find the first offset of that time, `EARLIEST` or `LATEST`; reading goes on there."""
        self._awaited[cursor] = timestamp
        self._tasks.soon(self._find_positions)

    def forget(self, cursor: FetchCursor) -> None:
        """It goes on elsewhere, or not at all."""
        self._awaited.pop(cursor, None)
        self._denied.pop(cursor, None)

    def denied_time(self, cursor: FetchCursor) -> int | None:
        """The time by which the position of a halted cursor was to be found, if that was not permitted."""
        return self._denied.get(cursor)

    def _find_positions(self) -> None:
        for timestamp in set(self._awaited.values()):
            group = [cursor for cursor, wanted in self._awaited.items() if wanted == timestamp]
            self._tasks.begin(self._place(group, timestamp))

    async def _place(self, cursors: list[FetchCursor], timestamp: int) -> None:
        """Ask for the offsets of cursors without position; what fails for now is tried again for ever, one by one."""
        while cursors := [cursor for cursor in cursors if self._awaited.get(cursor) == timestamp]:
            try:
                await self.offsets(cursors, timestamp, partial(self._placed_at, timestamp))
            except KafkaError as error:
                left = [cursor for cursor in cursors if self._awaited.get(cursor) == timestamp]
                if len(left) > 1:
                    await asyncio.gather(*(self._place([cursor], timestamp) for cursor in left))
                elif left and isinstance(error, KafkaConnectionError | KafkaTimeoutError):
                    name = left[0].name
                    self._errors.tell_once(name, error, f"the position of {name} could not be found: ")
                elif left:
                    del self._awaited[left[0]]
                    if isinstance(error, AuthorizationError):
                        self._denied[left[0]] = timestamp
                    self._fetcher.halt(left[0], error)

    def _placed_at(self, timestamp: int, cursor: FetchCursor, offset: int) -> None:
        if self._awaited.get(cursor) != timestamp:
            return
        if self._fetcher.queue.position(cursor.number) < 0:  # nothing was read: it begins there
            self._fetcher.seek(cursor, offset)
        else:
            self._fetcher.go_on_at(cursor, offset)

    async def placed(self, cursor: FetchCursor) -> None:
        """Return once it is known where `cursor` goes on."""
        while cursor in self._awaited and not self._fetcher.stopped:
            await self._tasks.progress()

    async def offsets(
        self,
        cursors: Iterable[FetchCursor],
        timestamp: int,
        on_found: Callable[[FetchCursor, int], object] | None = None,
    ) -> dict[FetchCursor, int]:
        """Where the first record of that time lies, or the end where there is none yet; `on_found` hears at once."""
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        level = int(self._config.isolation_level == "read_committed")

        def tell(where: tuple[str, int], offset: int) -> None:
            if offset >= 0 and on_found is not None:
                on_found(by_name[where], offset)

        options: dict[str, Any] = {"isolation_level": level, "on_found": tell}
        found = await list_offsets(self._cluster, dict.fromkeys(by_name, timestamp), **options)
        late = [where for where, offset in found.items() if offset < 0]
        if late:
            found |= await list_offsets(self._cluster, dict.fromkeys(late, LATEST), **options)
        return {by_name[where]: offset for where, offset in found.items()}
