"""Offsets that leaders are asked for (ListOffsets): of times, of the ends of logs, and by the reset policy.

A partition whose position is not in its log is reset by `auto_offset_reset`, or its reader is told (KIP-1106).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from kafwire.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from kafwire.config import duration_ms
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, KafkaConnectionError, KafkaError, KafkaTimeoutError, broker_error
from kafwire.runtime.log import log
from kafwire.types import Tail

if TYPE_CHECKING:
    from kafwire.consumer.fetcher import Fetcher

# A time in ms, `EARLIEST`, `LATEST`, or so many records before the end.
Place = int | Tail
NAMED = 10  # partitions that one line of the log names


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
        self._awaited: dict[FetchCursor, Place] = {}  # whose position is to be found by this
        self._denied: dict[FetchCursor, Place] = {}  # whose was not, as an ACL is missing
        self._new: dict[FetchCursor, str] = {}  # of partitions that are new: why
        self._begun: dict[tuple[str, str], dict[int, int]] = {}  # of these by topic and reason: offsets to be logged

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

    def look_up(self, cursor: FetchCursor, place: Place) -> None:
        """Find that place; reading goes on there."""
        self._awaited[cursor] = place
        self._tasks.soon(self._find_positions)

    def announce(self, cursor: FetchCursor, why: str) -> None:
        """Log where reading begins in a new partition, once that is known, and why there."""
        self._new[cursor] = why

    def begin(self, cursor: FetchCursor, offset: int) -> None:
        """Nothing was read of it: reading begins at `offset`."""
        why = self._new.pop(cursor, None)
        self._fetcher.seek(cursor, offset)
        if why is not None:
            self._begun.setdefault((cursor.topic, why), {})[cursor.partition] = offset
            self._tasks.soon(self._log_begun)

    def _log_begun(self) -> None:
        begun, self._begun = self._begun, {}
        for (topic, why), offsets in begun.items():
            places = ", ".join(f"{topic}-{number} at offset {offsets[number]}" for number in sorted(offsets)[:NAMED])
            more = f" and {len(offsets) - NAMED} more partitions" if len(offsets) > NAMED else ""
            log.info("topic %r, %s: reading begins in %s%s", topic, why, places, more)

    def forget(self, cursor: FetchCursor) -> None:
        """It goes on elsewhere, or not at all."""
        for state in (self._awaited, self._denied, self._new):
            state.pop(cursor, None)

    def denied_place(self, cursor: FetchCursor) -> Place | None:
        """The place by which the position of a halted cursor was to be found, if that was not permitted."""
        return self._denied.get(cursor)

    def _find_positions(self) -> None:
        """Ask each leader by itself: one that is gone holds up only its own partitions."""
        groups: dict[tuple[Place, int], list[FetchCursor]] = {}
        for cursor, place in self._awaited.items():
            leader = self._cluster.metadata.leader(cursor.topic, cursor.partition)
            groups.setdefault((place, leader), []).append(cursor)
        for (place, _), group in groups.items():
            self._tasks.begin(self._place(group, place))

    async def _place(self, cursors: list[FetchCursor], place: Place) -> None:
        """Ask for the offsets of cursors without position; what fails for now is tried again for ever, one by one."""
        while cursors := [cursor for cursor in cursors if self._awaited.get(cursor) == place]:
            try:
                await self.offsets(cursors, place, partial(self._placed_at, place))
            except KafkaError as error:
                left = [cursor for cursor in cursors if self._awaited.get(cursor) == place]
                if len(left) > 1:
                    await asyncio.gather(*(self._place([cursor], place) for cursor in left))
                elif left and isinstance(error, KafkaConnectionError | KafkaTimeoutError):
                    name = left[0].name
                    self._errors.tell_once(name, error, f"the position of {name} could not be found: ")
                elif left:
                    del self._awaited[left[0]]
                    if isinstance(error, AuthorizationError):
                        self._denied[left[0]] = place
                    self._fetcher.halt(left[0], error)

    def _placed_at(self, place: Place, cursor: FetchCursor, offset: int) -> None:
        if self._awaited.get(cursor) != place:
            return
        if self._fetcher.queue.position(cursor.number) < 0:  # nothing was read: it begins there
            self.begin(cursor, offset)
        else:
            self._fetcher.go_on_at(cursor, offset)

    async def placed(self, cursor: FetchCursor) -> None:
        """Return once it is known where `cursor` goes on."""
        while cursor in self._awaited and not self._fetcher.stopped:
            await self._tasks.progress()

    async def offsets(
        self,
        cursors: Iterable[FetchCursor],
        place: Place,
        on_found: Callable[[FetchCursor, int], object] | None = None,
    ) -> dict[FetchCursor, int]:
        """The offset of each at that place, or the end where no record is as young; `on_found` hears at once."""
        chosen = list(cursors)
        if not isinstance(place, Tail) and place < 0:  # `EARLIEST` or `LATEST`
            return await self._list(chosen, place, on_found)
        # The end first: a record that is added between the two requests is found by its time.
        ends = await self._list(chosen, LATEST)

        def offset_of(cursor: FetchCursor, found: int) -> int:
            if isinstance(place, Tail):
                return max(found, ends[cursor] - place.count)
            return found if found >= 0 else ends[cursor]

        def tell(cursor: FetchCursor, found: int) -> None:
            if on_found is not None:
                on_found(cursor, offset_of(cursor, found))

        found = await self._list(chosen, EARLIEST if isinstance(place, Tail) else place, tell)
        return {cursor: offset_of(cursor, offset) for cursor, offset in found.items()}

    async def _list(
        self, cursors: list[FetchCursor], when: int, on_found: Callable[[FetchCursor, int], object] | None = None
    ) -> dict[FetchCursor, int]:
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}

        def tell(where: tuple[str, int], offset: int) -> None:
            if on_found is not None:
                on_found(by_name[where], offset)

        level = int(self._config.isolation_level == "read_committed")
        wanted = dict.fromkeys(by_name, when)
        found = await list_offsets(self._cluster, wanted, isolation_level=level, on_found=tell)
        return {by_name[where]: offset for where, offset in found.items()}
