"""Validation of positions (KIP-320): look-ups that find if a log was truncated below the position, and the reset.

`truncation.py` decides. Until the result is known, the cursor is `doubted`, and not fetched.
"""

from __future__ import annotations

import asyncio
import contextlib

from kafwire.cluster.list_offsets import EARLIEST, LATEST, end_of_epoch, list_offsets
from kafwire.consumer.fetch.actions import Continue, Emit, Halt, Leave, Move, ResetPosition
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.truncation import (
    Divergence,
    Place,
    Truncation,
    beyond_end,
    is_behind,
    parts_from,
    place_of,
    why_behind,
)
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.runtime.log import consumer_log as log


class PositionValidation:
    """The validation of positions for one fetcher's cursors."""

    def __init__(self, context: FetchContext, emit: Emit) -> None:
        self.truncations = 0
        self._context = context
        self._emit = emit
        self._cluster = context.cluster
        self._plan = context.plan
        self._tasks = context.tasks
        self._errors = context.errors

    def truncated(self, cursor: FetchCursor, divergence: Divergence, where: str) -> None:
        """Handle a truncation: the log at the broker `where` differs from the fetched records."""
        self.truncations += 1
        found = Truncation(cursor, divergence, where)
        cursor.epochs.cut(found.offset)
        self._emit(Continue(cursor, found.offset, last_epoch=found.epoch))
        if self._plan.reset == "error":
            self._emit(Halt(cursor, found.error))
            return
        log.warning(
            "%s; reading goes on there",
            found.text,
            topic=cursor.topic,
            partition=cursor.partition,
            offset=found.offset,
        )

    def leave_replica(self, cursor: FetchCursor, *, doubt: bool = False, unknown: bool = False) -> None:
        """Return a cursor to the leader, as its read replica cannot serve it; repeated returns wait for a back-off.

        `doubt`: the replica's log differs from the fetched records, so the leader, whose log counts, is asked for the
        end of the epoch. A fetch would not do: a request with a rack is sent to the replica again, whatever its log
        (KIP-392). `unknown`: the metadata lacks the replica.
        """
        cursor.replica = -1
        cursor.returns += 1
        if not doubt and not unknown and cursor.returns == 1:
            self._emit(Move([cursor]))
        elif not cursor.doubted:
            cursor.doubted = True
            self._emit(Leave(cursor))
            self._tasks.begin(self._ask_leader(cursor) if doubt else self._wait_for_replica(cursor, refresh=unknown))

    async def _wait_for_replica(self, cursor: FetchCursor, *, refresh: bool = False) -> None:
        """Wait, then fetch again: a replica that the leader prefers, and that lacks the records, may get them later."""
        generation, position = cursor.generation, cursor.position
        await asyncio.sleep(self._cluster.backoff_ms(cursor.returns) / 1000)
        if refresh:
            with contextlib.suppress(KafkaError):
                await self._cluster.refresh([cursor.topic])
        if cursor.doubted and (cursor.generation, cursor.position) == (generation, position):
            cursor.doubted = False
            self._emit(Move([cursor]))

    async def _ask_leader(self, cursor: FetchCursor) -> None:
        position, generation, epoch = cursor.position, cursor.generation, cursor.last_epoch
        try:
            divergence = Divergence(*await end_of_epoch(self._cluster, cursor.topic, cursor.partition, epoch))
        except KafkaError as error:
            self._errors.warn_once(cursor.name, error, f"the truncation of {cursor.name} could not be checked: ")
            divergence = Divergence(-1, -1)
        if (cursor.position, cursor.generation) != (position, generation) or not cursor.doubted:
            return  # a seek came meanwhile
        if parts_from(divergence, position, epoch):
            cursor.doubted = False
            self.truncated(cursor, divergence, "the leader")
        else:
            await self._wait_for_replica(cursor)

    def look_for_offset(self, cursor: FetchCursor) -> None:
        """Test if the position is in the log, as no broker has the leader epoch of the last fetched record."""
        cursor.doubted = True
        self._tasks.begin(self._look_for_offset(cursor, why_behind(cursor, self._leader_epoch(cursor))))

    async def _look_for_offset(self, cursor: FetchCursor, why: str) -> None:
        position, generation = cursor.position, cursor.generation
        where = (cursor.topic, cursor.partition)
        try:
            start = (await list_offsets(self._cluster, {where: EARLIEST}))[where]
            end = (await list_offsets(self._cluster, {where: LATEST}))[where]
            problem = None
        except KafkaError as error:
            start = end = -1
            problem = error
        if (cursor.position, cursor.generation) != (position, generation) or not cursor.doubted:
            return  # a seek came meanwhile
        cursor.doubted = False
        if isinstance(problem, KafkaConnectionError | KafkaTimeoutError):
            self._errors.warn_once(cursor.name, problem, f"{why}; its log could not be checked for this offset: ")
        elif problem is not None:  # a retry would fail in the same way
            self._emit(Halt(cursor, problem))
            return
        known = self._cluster.metadata.topics.get(cursor.topic)
        if (
            end < 0
            or known is None
            or known.topic_id != cursor.topic_id
            or not is_behind(cursor, self._leader_epoch(cursor))
        ):
            self._emit(Move([cursor]))
        elif (place := place_of(position, start, end)) is Place.WITHIN:
            log.warning(
                "%s; the log has that offset: reading continues there",
                why,
                topic=cursor.topic,
                partition=cursor.partition,
                offset=position,
            )
            cursor.last_epoch = -1
            cursor.failing_since_ms = None
            self._emit(Move([cursor]))
        elif place is Place.BEYOND and self._plan.reset == "error":
            self.truncations += 1
            self._emit(Halt(cursor, beyond_end(cursor, end, why)))
        else:
            self._emit(ResetPosition(cursor, "its leader"))

    def _leader_epoch(self, cursor: FetchCursor) -> int:
        return self._cluster.metadata.leader_epoch(cursor.topic, cursor.partition)
