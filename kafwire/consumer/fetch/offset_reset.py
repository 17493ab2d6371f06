"""Look-ups of offsets (ListOffsets): by time, of the ends of logs, and by the reset policy.

A partition whose position is out of its log's range is reset by `auto_offset_reset`, or its reader raises an error
(KIP-1106).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from kafwire.cluster.list_offsets import (
    EARLIEST,
    LATEST,
    LogEnd,
    Partition,
    Place,
    Time,
    ask_leaders,
    list_available,
    lookup_group,
    may_pass,
    not_responding,
    refresh_after,
)
from kafwire.cluster.partition_names import listed
from kafwire.config import duration_ms
from kafwire.consumer.fetch.actions import AwaitPosition, Continue, Emit, Halt, Seek
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, KafkaError, broker_error
from kafwire.runtime.log import consumer_log as log
from kafwire.types import Tail

# A place that ListOffsets finds, or (Tail) a number of records before the end.
Target = Place | Tail
Failed = dict[Partition, KafkaError]
# A look-up is logged only after this time without a response, or this many failures: elections take moments.
LATE_MS = 1_000
FAILURES_TO_WARN = 3


class OffsetReset:
    """The look-ups of positions for one fetcher's cursors."""

    def __init__(self, context: FetchContext, emit: Emit) -> None:
        # Called with a cursor that begins at another offset than the log's first one.
        self.on_begun: Callable[[FetchCursor], object] | None = None
        self.count = 0  # positions that were out of range, for metrics
        self._emit = emit
        self._queue = context.queue
        self._cursors = context.cursors
        self._cluster = context.cluster
        self._isolation_level = int(context.committed_only)
        self._plan = context.plan
        self._tasks = context.tasks
        self._errors = context.errors
        self._awaited: dict[FetchCursor, _Lookup] = {}
        self._denied: dict[FetchCursor, Target] = {}  # look-ups that failed, as an ACL is missing
        self._new: dict[FetchCursor, str] = {}  # new partitions, and why they are new
        self._begun: dict[tuple[str, str], dict[int, int]] = {}  # start offsets to log, by (topic, reason)

    def out_of_range(self, cursor: FetchCursor, where: str) -> None:
        """Handle a position that is out of range: reset it by the policy, or fail the partition (KIP-1106)."""
        policy = self._plan.reset
        self.count += 1
        if policy == "error":
            error = broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{cursor.name} has no offset {cursor.position} any more: the records were deleted, or the log "
                f"was cut, says {where}; {self._plan.advice.no_such_offset}",
            )
            self._emit(Halt(cursor, error))
            return
        log.warning(
            "%s has no offset %d, says %s: reading goes on at %s",
            cursor.name,
            cursor.position,
            where,
            policy,
            topic=cursor.topic,
            partition=cursor.partition,
            offset=cursor.position,
        )
        place = self.reset_time(policy)
        self._emit(AwaitPosition(cursor))
        self.look_up(cursor, place)

    def reset_time(self, policy: str) -> Place:
        """Return the place that ListOffsets looks up for a reset policy."""
        if policy == "earliest":
            return EARLIEST
        duration = duration_ms(policy)
        if duration is None:
            return LATEST
        return Time(max(0, self._cluster.engine.clock.time_ns() // 1_000_000 - duration))

    def look_up(self, cursor: FetchCursor, place: Target) -> None:
        """Look up `place`, and continue the cursor there."""
        self._awaited[cursor] = _Lookup(cursor, place)
        self._tasks.soon(self._find_positions)

    def announce(self, cursor: FetchCursor, why: str) -> None:
        """Log the start offset of a new partition once it is known, with the reason `why`."""
        self._new[cursor] = why

    def begin(self, cursor: FetchCursor, offset: int, *, is_earliest: bool = False) -> None:
        """Start a cursor without a position at `offset`."""
        why = self._new.pop(cursor, None)
        self._emit(Seek(cursor, offset))
        if self.on_begun is not None and not is_earliest:
            self.on_begun(cursor)
        if why is not None:
            self._begun.setdefault((cursor.topic, why), {})[cursor.partition] = offset
            self._tasks.soon(self._log_begun)

    def _log_begun(self) -> None:
        begun, self._begun = self._begun, {}
        for (topic, why), offsets in begun.items():
            places = listed([f"{topic}-{number} at offset {offsets[number]}" for number in sorted(offsets)])
            log.info("topic %r, %s: reading begins in %s", topic, why, places, topic=topic, reason=why)

    def forget(self, cursor: FetchCursor) -> None:
        """Drop the look-up of a cursor."""
        for state in (self._awaited, self._denied, self._new):
            state.pop(cursor, None)

    def denied_place(self, cursor: FetchCursor) -> Target | None:
        """Return the place of a halted cursor's look-up that was not authorized, or None."""
        return self._denied.get(cursor)

    def _find_positions(self) -> None:
        """Look up at each leader separately: one that does not respond delays only its own partitions."""
        groups: dict[tuple[Target, tuple[int, str]], list[_Lookup]] = {}
        for lookup in self._awaited.values():
            if not lookup.is_under_way:
                lookup.is_under_way = True
                group_key = lookup_group(self._cluster, lookup.cursor.topic, lookup.cursor.partition)
                groups.setdefault((lookup.place, group_key), []).append(lookup)
        for (place, _), group in groups.items():
            self._tasks.begin(self._find(group, place))

    async def _find(self, group: list[_Lookup], place: Target) -> None:
        """Look up positions. Transient failures are retried without end; others fail their partitions."""
        lookups = {lookup.cursor: lookup for lookup in group}

        def found(cursor: FetchCursor, offset: int) -> None:
            self._placed_at(lookups[cursor], offset)

        asking = asyncio.ensure_future(self._attempt(list(lookups), place, found))
        try:
            done, _ = await asyncio.wait([asking], timeout=LATE_MS / 1000)
            if not done:
                self._warn({c: not_responding(self._cluster, (c.topic, c.partition), LATE_MS) for c in lookups})
            failed = await asking
        finally:
            asking.cancel()
        passing: dict[FetchCursor, KafkaError] = {}
        for cursor, error in failed.items():
            lookup = lookups[cursor]
            if self._awaited.get(cursor) is not lookup:
                continue
            if may_pass(error):
                lookup.failures += 1
                passing[cursor] = error
                continue
            del self._awaited[cursor]
            if isinstance(error, AuthorizationError):
                self._denied[cursor] = place
            self._emit(Halt(cursor, error))
        if passing:
            failures = max(lookups[cursor].failures for cursor in passing)
            if failures >= FAILURES_TO_WARN:
                self._warn(passing)
            await refresh_after(self._cluster, [(c.topic, c.partition) for c in passing], failures)
            for cursor in passing:
                lookups[cursor].is_under_way = False
            self._find_positions()

    def _warn(self, failed: Mapping[FetchCursor, KafkaError]) -> None:
        """Log one warning that names the partitions, each once for each cause."""
        failing = {cursor: error for cursor, error in failed.items() if cursor in self._awaited}
        self._errors.warn_of(failing, "the position of {} could not be found: ")

    def _placed_at(self, lookup: _Lookup, offset: int) -> None:
        cursor = lookup.cursor
        if self._awaited.get(cursor) is not lookup:
            return
        if self._queue.position(cursor.number) < 0:  # no position yet: start there
            self.begin(cursor, offset, is_earliest=lookup.place == EARLIEST)
        else:
            self._emit(Continue(cursor, offset))

    async def placed(self, cursor: FetchCursor) -> None:
        """Wait until the position of `cursor` is known."""
        while cursor in self._awaited and not self._tasks.stopped:
            await self._tasks.progress()

    async def available(
        self, cursors: Iterable[FetchCursor], place: Target
    ) -> tuple[dict[FetchCursor, int], dict[FetchCursor, KafkaError]]:
        """Return (offsets, errors): each cursor's offset at `place` (the end, if no record is as young), or its error.

        The returned errors are transient: `look_up_late` retries them. Any other error is raised.
        """
        found: dict[FetchCursor, int] = {}
        failed = await self._attempt(list(cursors), place, found.__setitem__, self._available)
        for error in failed.values():
            if not may_pass(error):
                raise error
        return found, failed

    def look_up_late(self, failed: Mapping[FetchCursor, KafkaError], place: Target) -> None:
        """Look up `place` for cursors that failed, while the others are read, and name them in a warning."""
        for cursor in failed:
            if self._cursors.get((cursor.topic, cursor.partition)) is cursor:
                self.look_up(cursor, place)
        self._warn(failed)

    async def _attempt(
        self,
        cursors: list[FetchCursor],
        place: Target,
        on_found: Callable[[FetchCursor, int], object],
        ask: Callable[[dict[Partition, Place], Callable[[Partition, int], object]], Awaitable[Failed]] | None = None,
    ) -> dict[FetchCursor, KafkaError]:
        """Look up each cursor's offset at `place` (the end, if no record is as young); return the errors.

        `on_found` gets each offset as soon as it is known.
        """
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        look = ask or self._once

        async def offsets(of: Iterable[Partition], when: Place, take: Callable[[Partition, int], object]) -> Failed:
            return await look(dict.fromkeys(of, when), take)

        if isinstance(place, LogEnd):
            failed = await offsets(by_name, place, lambda where, offset: on_found(by_name[where], offset))
            return {by_name[where]: error for where, error in failed.items()}
        # Look up the end first: the second request, by time, then finds records appended between the two.
        ends: dict[Partition, int] = {}
        failed = await offsets(by_name, LATEST, ends.__setitem__)

        def take(where: Partition, offset: int) -> None:
            if isinstance(place, Tail):
                on_found(by_name[where], max(offset, ends[where] - place.count))
            else:
                on_found(by_name[where], offset if offset >= 0 else ends[where])

        failed |= await offsets(ends, EARLIEST if isinstance(place, Tail) else place, take)
        return {by_name[where]: error for where, error in failed.items()}

    async def _once(self, wanted: dict[Partition, Place], take: Callable[[Partition, int], object]) -> Failed:
        return await ask_leaders(self._cluster, wanted, isolation_level=self._isolation_level, on_found=take)

    async def _available(self, wanted: dict[Partition, Place], take: Callable[[Partition, int], object]) -> Failed:
        found, failed = await list_available(self._cluster, wanted, isolation_level=self._isolation_level)
        for where, offset in found.items():
            take(where, offset)
        return failed


class _Lookup:
    """A look-up of one cursor's position."""

    __slots__ = ("cursor", "failures", "is_under_way", "place")

    def __init__(self, cursor: FetchCursor, place: Target) -> None:
        self.cursor = cursor
        self.place = place
        self.failures = 0
        self.is_under_way = False
