"""The fetch engine of consumers and scans: cursors and their positions, the broker fetchers that ask for them, and what
goes wrong. What differs is their plan (`read_plan.py`).

`broker_fetcher.py` has the requests and answers; here is whatever concerns more than one broker: where each cursor is
assigned, how much may be fetched, and where reading goes on after a seek, a truncation, or a deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, LATEST, end_of_epoch, list_offsets
from kafwire.cluster.metadata import TopicInfo
from kafwire.config import FetchConfig, duration_ms
from kafwire.consumer._fetch import FetchAnswer, PartitionAnswer
from kafwire.consumer._fetch_buffer import FetchBuffer
from kafwire.consumer._fetch_reader import stream_threads
from kafwire.consumer.broker_fetcher import BrokerFetcher
from kafwire.consumer.fetch_errors import FetchErrors
from kafwire.consumer.fetch_strategies import IMMEDIATE
from kafwire.consumer.partition_cursor import NO_END, Budget, FetchCursor
from kafwire.consumer.read_plan import ReadPlan
from kafwire.consumer.truncation import (
    Divergence,
    Place,
    Truncation,
    beyond_end,
    is_behind,
    parts_from,
    place_of,
    why_behind,
)
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.records._arrow import Layout
from kafwire.runtime.engine import stream_thread_sources

log = logging.getLogger("kafwire")

stream_thread_sources.append(stream_threads)

WARN_MS = 10_000

# So many answers in a row that cannot be read are no accident of one connection.
UNREADABLE = 3


class Fetcher:
    """Keeps the `queue` filled for whoever asks. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: FetchConfig, plan: ReadPlan, budget: Budget) -> None:
        self.cluster = cluster
        self.config = config
        self.plan = plan
        self.strategy = plan.strategy
        self.budget = budget
        self._notifier = cluster.engine.transport.listen(self._on_credit)
        self.queue = FetchBuffer(self._notifier)
        self.cursors: dict[tuple[str, int], FetchCursor] = {}
        self.stopped = False
        self.resets = 0  # positions that had to be looked up again, for metrics
        self.truncations = 0
        self.errors = FetchErrors()
        self._numbered: dict[int, FetchCursor] = {}
        self._unfinished: dict[FetchCursor, None] = {}  # of those that have an end
        self._vacant: dict[tuple[str, uuid.UUID, int], int] = {}  # places of partitions that were dropped
        self._broker_fetchers: dict[tuple[int, str], BrokerFetcher] = {}
        self._assigned: dict[FetchCursor, BrokerFetcher] = {}
        self._to_pump: dict[BrokerFetcher, None] = {}  # what would send, had it room; or may have something to say
        self._unassigned: dict[FetchCursor, None] = {}
        self._lost: dict[FetchCursor, None] = {}  # of them: the metadata does not tell where they are
        self._connecting: dict[FetchCursor, int] = {}  # of them: on their way to that broker
        self._parting: dict[FetchCursor, None] = {}  # whose readers are gone; the next request asks for them
        self._awaiting_offset: dict[FetchCursor, int] = {}  # whose position is to be found by this time
        self._newly_lost = asyncio.Event()
        self._soon: set[Callable[[], None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreadable: dict[int, int] = {}
        self._listeners: dict[object, Callable[[], object]] = {}
        self._watches: list[Callable[[], None]] = []  # what ends them
        cluster.engine.join(self)

    # --- what is asked for ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read what was added to its end, wherever brokers say that it is by now. Not after `stop`."""
        if self.stopped:
            return
        self._watches = [self.cluster.on_change(self.on_metadata), self.cluster.on_overdue(self._leave_hung)]
        self.ask(list(self._unfinished))
        self._check_end()

    def add(
        self, info: TopicInfo, partition: int, layout: Layout, *, start: int = -1, end: int = NO_END
    ) -> FetchCursor:
        """A cursor for a partition, up to an `end`; it is read once it has a position, and somebody asks."""
        number = self._vacant.pop((info.name, info.topic_id, partition), None)
        if number is None:
            number = self.queue.add(info.name, partition, layout)
        # A vacant place is of a later generation than a new one.
        generation = self.queue.reset(number, start)
        cursor = FetchCursor(number, info.name, info.topic_id, partition, generation, start, end)
        if end != NO_END and not cursor.done:
            self._unfinished[cursor] = None
        self.cursors[info.name, partition] = cursor
        self._numbered[number] = cursor
        return cursor

    def remove(self, cursor: FetchCursor, *, claimed: bool) -> None:
        """Drop a cursor, and what is buffered of it. If it was `claimed`, its reader still has its place."""
        cursor.asked_for = False
        cursor.generation = self.queue.reset(cursor.number, -1)
        self.queue.pause(cursor.number, False)  # a reader of its own is to hear of it
        if not claimed:
            self._vacant[cursor.topic, cursor.topic_id, cursor.partition] = cursor.number
        self.cursors.pop((cursor.topic, cursor.partition), None)
        self._numbered.pop(cursor.number, None)
        for state in (self._unassigned, self._lost, self._connecting, self._awaiting_offset, self._parting):
            state.pop(cursor, None)
        self._leave(cursor)
        self._do_soon(self.pump)  # what it had in its buffer is free for others

    def seek(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Read on at `position`; what is buffered is dropped."""
        self._awaiting_offset.pop(cursor, None)
        cursor.seek(position, self.queue.reset(cursor.number, position), last_epoch=last_epoch)
        self._update(cursor)
        self._do_soon(self.pump)  # what was dropped is room for others

    def seek_by_time(self, cursor: FetchCursor, timestamp: int) -> None:
        """Read on at the first record of that time (ms), `EARLIEST` or `LATEST`, once it is found.

        What is buffered stays, up to where reading then goes on.
        """
        broker_fetcher = self._assigned.get(cursor)
        if broker_fetcher is not None:
            broker_fetcher.withdraw(cursor)
        cursor.seek(-1, cursor.generation)
        self._update(cursor)
        self._awaiting_offset[cursor] = timestamp
        self._do_soon(self._find_positions)

    def _jump(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Fetch on at `position`. What is buffered from below it is still to be read: nobody is to miss it."""
        self._awaiting_offset.pop(cursor, None)
        self.queue.cut(cursor.number, position)
        cursor.seek(position, cursor.generation, last_epoch=last_epoch)
        self._update(cursor)
        self._do_soon(self.pump)  # what was dropped is room for others

    def ask(self, cursors: Iterable[FetchCursor]) -> None:
        """Somebody reads these: demand begins."""
        for cursor in cursors:
            self._parting.pop(cursor, None)
            if not cursor.asked_for:
                cursor.asked_for = True
                self._update(cursor)

    def leave(self, cursor: FetchCursor) -> None:
        """Its reader is gone: demand ends. But where another request was parked all the time, the next one asks for it.

        So whoever comes again and again, and never for as long as requests are parked, finds records when he comes.
        """
        broker_fetcher = self._assigned.get(cursor)
        if (
            broker_fetcher is not None
            and broker_fetcher.keeps_waiting(cursor)
            and not self.queue.queued(cursor.number)[0]
        ):
            self._parting[cursor] = None
        else:
            cursor.asked_for = False

    def part(self, broker_fetcher: BrokerFetcher) -> None:
        """A request of `broker_fetcher` is made up: whom nobody reads any more, it asks for the last time."""
        for cursor in [cursor for cursor in self._parting if cursor in broker_fetcher.session]:
            del self._parting[cursor]
            cursor.asked_for = False
            broker_fetcher.update(cursor)

    def pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        """Fetch no more of it, or again; what is buffered stays."""
        cursor.paused = paused
        self.queue.pause(cursor.number, paused)
        self._update(cursor)
        if not paused:
            self._tell()  # something may have lain in its buffer

    def stop(self) -> None:
        """Fetch no more; answers still to come are dropped."""
        self.stopped = True
        for end_watch in self._watches:
            end_watch()
        self.cluster.engine.transport.unlisten(self._notifier)
        for task in self._tasks:
            task.cancel()
        for broker_fetcher in self._broker_fetchers.values():
            broker_fetcher.stop()
        self._tell()

    def sessions(self) -> list[tuple[int, tuple[int, int]]]:
        """(broker, what closes it there) for each session that brokers keep for us; they are no longer ours."""
        found = [
            (broker_fetcher.connection.node, broker_fetcher.session.closing())
            for broker_fetcher in self._broker_fetchers.values()
        ]
        return [(node, closing) for node, closing in found if closing is not None]

    async def end(self) -> None:
        """The interpreter ends: whoever waits for records in a thread is let go."""
        self.fail(KafkaError("the interpreter is ending: nothing more is read"))

    def abandon(self) -> None:
        """In a forked child: the reader notices by itself; the queue may be locked by a thread that is not here."""

    def listen(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on the engine whenever there may be something to read; returns what ends that."""
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def _tell(self) -> None:
        for callback in list(self._listeners.values()):
            callback()

    # --- demand and room --------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """Bytes of the budget that nobody has; see `Budget.free`."""
        return self.budget.free(self.queue.queued_bytes(), len(self.cursors))

    @property
    def broker_fetcher_count(self) -> int:
        """Those whose requests may be parked. Beside each there may be one for immediate fetches."""
        if self.strategy.connection_per_partition:
            return len(self._broker_fetchers)
        return sum(
            role != IMMEDIATE and bool(broker_fetcher.cursors)
            for (_, role), broker_fetcher in self._broker_fetchers.items()
        )

    def has_room(self, broker_fetcher: BrokerFetcher, need: int) -> bool:
        """Whether a request for `need` bytes fits; if not, `broker_fetcher` is pumped when there may be room."""
        if self.budget.has_room(self.queue.queued_bytes(), need):
            return True
        if self.plan.compacts:
            self.queue.compact()
        if self.budget.has_room(self.queue.queued_bytes(starved=True), need):
            return True
        self._to_pump[broker_fetcher] = None
        return False

    def is_full(self, cursor: FetchCursor, free: int) -> bool:
        """Whether a cursor's buffer has enough, if so much is free; if so, its next release is told."""
        slices, size = self.queue.queued(cursor.number)
        if not self.budget.is_full(slices, size, free):
            return False
        slices, size = self.queue.queued(cursor.number, watch=True)
        return self.budget.is_full(slices, size, self.free)

    def _on_credit(self) -> None:
        """Readers gave bytes back."""
        for number in self.queue.noticed():
            cursor = self._numbered.get(number)
            if cursor is not None:
                self._update(cursor)
        self._tell()  # of what was lent to a reader when another one asked
        self.pump()

    def pump(self) -> None:
        """Let those send that wait for room, or for more to say in one request."""
        broker_fetchers, self._to_pump = self._to_pump, {}
        for broker_fetcher in broker_fetchers:
            broker_fetcher.pump()

    def next_turn(self, broker_fetcher: BrokerFetcher) -> None:
        """The request of `broker_fetcher` is over: others that wait for room come first."""
        self.pump()
        broker_fetcher.pump()

    def _do_soon(self, work: Callable[[], None]) -> None:
        """In the loop's next turn, however often that is said in this one."""
        if work not in self._soon and not self.stopped:
            self._soon.add(work)
            asyncio.get_running_loop().call_soon(self._do, work)

    def _do(self, work: Callable[[], None]) -> None:
        self._soon.discard(work)
        if not self.stopped:
            work()

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose failure the user hears of."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _update(self, cursor: FetchCursor) -> None:
        broker_fetcher = self._assigned.get(cursor)
        if broker_fetcher is not None:
            broker_fetcher.update(cursor)
            self._to_pump[broker_fetcher] = None
            self._do_soon(self.pump)
        elif cursor.is_wanted:
            self.move([cursor])

    # --- what answers say -------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Records came."""
        self._tell()

    def finish(self, cursor: FetchCursor) -> None:
        """All of it is queued, or is known not to exist."""
        self._leave(cursor)
        self._unfinished.pop(cursor, None)
        self._check_end()

    def _check_end(self) -> None:
        if not self._unfinished and not self.stopped:
            self.queue.end()
            self.stop()

    def fail(self, error: BaseException) -> None:
        """End the read: once what is buffered is read, readers raise `error`."""
        if not self.stopped:
            self.queue.fail(error)
            self.stop()

    def halt(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Nothing more of this partition until a seek: once what is buffered is read, its reader raises `error`.

        A read that ends does so now.
        """
        cursor.halted = True
        if self.plan.ends:
            self.fail(error)
            return
        self.queue.fail_place(cursor.number, cursor.generation, error)
        self._update(cursor)
        self._tell()

    def out_of_range(self, cursor: FetchCursor, where: str) -> None:
        """There is no such offset: go where the policy says, or tell the user (KIP-1106)."""
        policy = self.plan.reset
        self.resets += 1
        if policy == "error":
            self.halt(
                cursor,
                broker_error(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{cursor.name} has no offset {cursor.position} any more: the records were deleted, or the log "
                    f"was cut, says {where}; {self.plan.advice.no_such_offset}",
                ),
            )
            return
        log.warning("%s has no offset %d, says %s: reading goes on at %s", cursor.name, cursor.position, where, policy)
        self.seek_by_time(cursor, self.reset_time(policy))

    def reset_time(self, policy: str) -> int:
        """What ListOffsets is asked for by a reset policy."""
        if policy == "earliest":
            return EARLIEST
        duration = duration_ms(policy)
        return LATEST if duration is None else max(0, self.cluster.engine.clock.time_ns() // 1_000_000 - duration)

    def truncated(self, cursor: FetchCursor, divergence: Divergence, where: str) -> None:
        """The log that `where` has parts from what was fetched."""
        self.truncations += 1
        found = Truncation(cursor, divergence, where)
        cursor.epochs.cut(found.offset)
        self._jump(cursor, found.offset, last_epoch=found.epoch)
        if self.plan.reset == "error":
            self.halt(cursor, found.error)
            return
        log.warning("%s; reading goes on there", found.text)

    def leave_replica(self, cursor: FetchCursor, *, doubt: bool = False, unknown: bool = False) -> None:
        """A replica cannot serve what is asked of it: back to the leader, again and again with backoff.

        With `doubt` its log is not what was read: the leader, who has the right one, is asked before anything is
        believed. Not by fetching: whoever names a rack is sent to the replica again, whatever the log (KIP-392). An
        `unknown` one is not in the metadata yet.
        """
        cursor.replica = -1
        cursor.returns += 1
        if not doubt and not unknown and cursor.returns == 1:
            self.move([cursor])
        elif not cursor.doubted:
            cursor.doubted = True
            self._leave(cursor)
            self._begin(self._ask_leader(cursor) if doubt else self._wait_for_replica(cursor, refresh=unknown))

    async def _wait_for_replica(self, cursor: FetchCursor, *, refresh: bool = False) -> None:
        """The leader sends us to a replica that then has not got what we ask for: it may have it in a while."""
        generation, position = cursor.generation, cursor.position
        await asyncio.sleep(self._backoff(cursor.returns) / 1000)
        if refresh:
            with contextlib.suppress(KafkaError):
                await self.cluster.refresh([cursor.topic])
        if cursor.doubted and (cursor.generation, cursor.position) == (generation, position):
            cursor.doubted = False
            self.move([cursor])

    async def _ask_leader(self, cursor: FetchCursor) -> None:
        position, generation, epoch = cursor.position, cursor.generation, cursor.last_epoch
        try:
            told = Divergence(*await end_of_epoch(self.cluster, cursor.topic, cursor.partition, epoch))
        except KafkaError as error:
            self.tell_once(cursor.name, error, f"where {cursor.name} was cut could not be found: ")
            told = Divergence(-1, -1)
        if (cursor.position, cursor.generation) != (position, generation) or not cursor.doubted:
            return  # it was sought in meanwhile
        if parts_from(told, position, epoch):
            cursor.doubted = False
            self.truncated(cursor, told, "the leader")
        else:
            await self._wait_for_replica(cursor)

    # --- the broker of each cursor ----------------------------------------------------------------------------------

    def _leave(self, cursor: FetchCursor) -> None:
        broker_fetcher = self._assigned.pop(cursor, None)
        if broker_fetcher is not None:
            broker_fetcher.release(cursor)
            if self.strategy.connection_per_partition:
                self._broker_fetchers.pop((broker_fetcher.connection.node, broker_fetcher.role), None)
                broker_fetcher.stop()
                self.cluster.release(broker_fetcher.connection.node, broker_fetcher.role)
            elif self.strategy.all_or_none:
                self._to_pump[broker_fetcher] = None  # it may have waited for this one's reader
                self._do_soon(self.pump)

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Give these to the broker that is to be asked for them now, as far as the metadata knows."""
        for cursor in cursors:
            self._leave(cursor)
            if self.cursors.get((cursor.topic, cursor.partition)) is cursor:
                self._unassigned[cursor] = None
        self._do_soon(self._settle_all)

    def lose(self, cursors: Iterable[FetchCursor], error: KafkaError) -> None:
        """These cannot be read where they were asked for: look for their leaders again, with backoff."""
        lost = list(cursors)
        if lost:
            log.debug("%s and %d more: %s", lost[0].name, len(lost) - 1, error)
        self.move(lost)
        for cursor in lost:
            self._lose(cursor, error)
        self._warn(lost, error)

    def note_error(self, where: str, error: BrokerError, cursors: Iterable[FetchCursor]) -> None:
        """Count an error that is tried again, and tell of it once."""
        for cursor in cursors:
            cursor.warned = True
        self.tell_once(where, error)

    def tell_once(self, where: str, error: KafkaError, before: str = "") -> None:
        """Count an error that is tried again, and tell of it once, after the text `before`."""
        what = error.name if isinstance(error, BrokerError) else type(error).__name__
        if self.errors.note(where, what, self.cluster.engine.now_ms()):
            log.warning("%s%s; this is tried again", before, error)

    def _warn(self, lost: list[FetchCursor], error: object) -> None:
        """Tell once of what could not be read for long: whoever waits for it would not know why."""
        before = self.cluster.engine.now_ms() - WARN_MS
        late = [c for c in lost if not c.warned and c.failing_since_ms is not None and c.failing_since_ms < before]
        for cursor in late:
            cursor.warned = True
        if late:
            more = f" and {len(late) - 1} more partitions" if len(late) > 1 else ""
            log.warning(
                "%s%s could not be read for %d s: %s; this is tried again", late[0].name, more, WARN_MS // 1000, error
            )

    def _lose(self, cursor: FetchCursor, why: object) -> None:
        """Note that a cursor has no broker: the metadata has to be refreshed before it can be settled. A read that ends
        fails when that has been so for long.
        """
        self._connecting.pop(cursor, None)
        if cursor not in self._unassigned:
            return
        self._lost[cursor] = None
        cursor.replica = -1
        cursor.failures += 1
        if cursor.failures == 1:
            self._newly_lost.set()
            self.cluster.hasten()
        if self._is_failing_for_long(cursor) and self.plan.ends:
            self.fail(
                KafkaTimeoutError(
                    f"{cursor.name} could not be read further than offset {cursor.position} for {self._patience_s:g} "
                    f"s: {why}"
                )
            )

    def check_stalled(self, cursors: Iterable[FetchCursor]) -> None:
        """Their leaders answer, without records."""
        committed_only = self.config.isolation_level == "read_committed"
        for cursor in cursors:
            if self._is_failing_for_long(cursor):
                self.fail(KafkaTimeoutError(cursor.why_stalled(self._patience_s, committed_only=committed_only)))

    def _settle_all(self) -> None:
        """Assign every cursor that has no broker to one; a slow broker holds up nobody else. Look for the others."""
        groups: dict[int, list[FetchCursor]] = {}
        for cursor in [cursor for cursor in self._unassigned if cursor not in self._lost]:
            node = self._broker_of(cursor)
            if node is None:
                self._unassigned.pop(cursor, None)
                self._connecting.pop(cursor, None)
            elif node < 0:
                why = self._why_nowhere(cursor)
                self._lose(cursor, why)
                self._warn([cursor], why)
            elif self._connecting.get(cursor) != node:
                self._connecting[cursor] = node
                groups.setdefault(node, []).append(cursor)
        if self.stopped:
            return
        for node, group in groups.items():
            self._begin(self._settle(node, group))
        if self._lost and self._looking is None:
            self._looking = self._begin(self._look())

    async def _look(self) -> None:
        """Refresh the metadata until nobody is lost, with backoff for those who are lost again and again."""
        try:
            while self._lost:
                self._newly_lost.clear()
                failures = min(cursor.failures for cursor in self._lost)
                if failures > 1:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._backoff(failures - 1) / 1000):
                            await self._newly_lost.wait()
                lost = list(self._lost)
                try:
                    await self.cluster.refresh({cursor.topic for cursor in lost})
                except (KafkaConnectionError, KafkaTimeoutError, BrokerError, ProtocolError) as error:
                    self.tell_once("metadata", error, "where to fetch from could not be found: ")
                    for cursor in lost:
                        cursor.failures += 1
                        if self._is_failing_for_long(cursor) and self.plan.ends:
                            self.fail(error)
                    continue
                for cursor in lost:
                    self._lost.pop(cursor, None)
                self._settle_all()
        finally:
            self._looking = None

    def _backoff(self, failures: int) -> float:
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return delay_ms(failures, base, limit, self.cluster.engine.random.random())

    def _broker_of(self, cursor: FetchCursor) -> int | None:
        """The broker to ask; -1 when there is none now, None when there never will be (then the cursor is halted)."""
        metadata = self.cluster.metadata
        known = metadata.topics.get(cursor.topic)
        code = metadata.errors.get(cursor.topic, 0)
        if known is not None and known.topic_id != cursor.topic_id and not code:
            error = broker_error(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {cursor.topic!r} was deleted and made anew while {cursor.name} was read, up to offset "
                f"{cursor.position}: {self.plan.advice.topic_made_anew}",
            )
        elif code and not broker_error(code).retriable:
            error = broker_error(code, f"fetching {cursor.name} at offset {cursor.position}")
        elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._is_failing_for_long(cursor):
            error = broker_error(
                code,
                f"topic {cursor.topic!r} has been gone for {self._patience_s:g} s; "
                f"{cursor.name} was read up to offset {cursor.position}",
            )
        elif not code and self._is_behind(cursor):
            if not self._is_failing_for_long(cursor):
                return -1
            cursor.doubted = True
            self._begin(self._look_for_offset(cursor))
            return None
        else:
            leader = -1 if code else metadata.leader(cursor.topic, cursor.partition)
            if leader >= 0 and known is not None:
                cursor.leader_epoch = known.partitions[cursor.partition].leader_epoch
            node = cursor.read_from(leader, self.cluster.engine.now_ms())
            return node if node in metadata.brokers else leader
        self.halt(cursor, error)
        return None

    def _is_behind(self, cursor: FetchCursor) -> bool:
        return is_behind(cursor, self.cluster.metadata.leader_epoch(cursor.topic, cursor.partition))

    def _why_nowhere(self, cursor: FetchCursor) -> str:
        epoch = self.cluster.metadata.leader_epoch(cursor.topic, cursor.partition)
        return why_behind(cursor, epoch) if is_behind(cursor, epoch) else f"{cursor.name} has no leader"

    async def _look_for_offset(self, cursor: FetchCursor) -> None:
        """No broker has come to know the leader epoch of what was read last. The offset may be there all the same."""
        position, generation = cursor.position, cursor.generation
        where = (cursor.topic, cursor.partition)
        why = self._why_nowhere(cursor)
        try:
            start = (await list_offsets(self.cluster, {where: EARLIEST}))[where]
            end = (await list_offsets(self.cluster, {where: LATEST}))[where]
            problem = None
        except KafkaError as error:
            start = end = -1
            problem = error
        if (cursor.position, cursor.generation) != (position, generation) or not cursor.doubted:
            return  # it was sought in meanwhile
        cursor.doubted = False
        if isinstance(problem, KafkaConnectionError | KafkaTimeoutError):
            self.tell_once(cursor.name, problem, f"{why}; whether there is such an offset could not be found: ")
        elif problem is not None:  # at once, and so it would be again
            self.halt(cursor, problem)
            return
        known = self.cluster.metadata.topics.get(cursor.topic)
        if end < 0 or known is None or known.topic_id != cursor.topic_id or not self._is_behind(cursor):
            self.move([cursor])
        elif (place := place_of(position, start, end)) is Place.WITHIN:
            log.warning("%s; there is such an offset: reading goes on there", why)
            cursor.last_epoch = -1
            cursor.failing_since_ms = None
            self.move([cursor])
        elif place is Place.BEYOND and self.plan.reset == "error":
            self.truncations += 1
            self.halt(cursor, beyond_end(cursor, end, why))
        else:
            self.out_of_range(cursor, "its leader")

    def _is_failing_for_long(self, cursor: FetchCursor) -> bool:
        return cursor.failing_ms(self.cluster.engine.now_ms()) > self.config.default_api_timeout_ms

    @property
    def _patience_s(self) -> float:
        return self.config.default_api_timeout_ms / 1000

    async def _settle(self, node: int, cursors: list[FetchCursor]) -> None:
        """Open what leads to a broker and hand it these cursors, unless they were moved or dropped meanwhile."""
        groups = self.strategy.by_role(cursors)
        await asyncio.gather(*(self._settle_at(node, role, group) for role, group in groups.items()))

    async def _settle_at(self, node: int, role: str, cursors: list[FetchCursor]) -> None:
        try:
            connection = self.cluster.connection(node, role)
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            self.tell_once(f"broker {node}", error)
            for cursor in cursors:
                if self._connecting.get(cursor) == node:
                    self._lose(cursor, error)
            self._do_soon(self._settle_all)
            return
        broker_fetcher = self._broker_fetchers.get((node, role))
        if broker_fetcher is None or broker_fetcher.connection is not connection:
            old, broker_fetcher = broker_fetcher, BrokerFetcher(self, connection, role)
            self._broker_fetchers[node, role] = broker_fetcher
            if old is not None:  # the broker has another address now
                old.stop()
                for cursor in [cursor for cursor in old.cursors if self._assigned.get(cursor) is old]:
                    self._assigned[cursor] = broker_fetcher
                    broker_fetcher.take(cursor)
        for cursor in cursors:
            if self._connecting.get(cursor) == node:  # not moved or dropped meanwhile
                del self._connecting[cursor], self._unassigned[cursor]
                self._assigned[cursor] = broker_fetcher
                broker_fetcher.take(cursor)
        broker_fetcher.pump()

    def numbered(self, number: int) -> FetchCursor | None:
        """The cursor of a place in the queue."""
        return self._numbered.get(number)

    def immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """The broker fetcher for what must not wait behind a parked request, if there is one yet."""
        return self._broker_fetchers.get((node, IMMEDIATE))

    async def open_immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """The broker fetcher for what must not wait behind a parked request; None when the broker cannot be reached."""
        try:
            connection = self.cluster.connection(node, IMMEDIATE)
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError):
            return None  # whatever waits there is fetched when the parked request is answered
        broker_fetcher = self._broker_fetchers.get((node, IMMEDIATE))
        if broker_fetcher is None or broker_fetcher.connection is not connection:
            broker_fetcher = self._broker_fetchers[node, IMMEDIATE] = BrokerFetcher(
                self, connection, IMMEDIATE, immediate=True
            )
        return broker_fetcher

    def new_leader(self, part: PartitionAnswer, cursor: FetchCursor, answer: FetchAnswer) -> bool:
        """Take in a hint who leads now (KIP-951); whether it is news."""
        return part.leader_id >= 0 and self.cluster.metadata.update_leader(
            cursor.topic, cursor.partition, part.leader_id, part.leader_epoch, answer.endpoints
        )

    def unreadable(self, node: int) -> bool:
        """A broker's answer could not be read: whether that has become its habit."""
        self._unreadable[node] = self._unreadable.get(node, 0) + 1
        return self._unreadable[node] >= UNREADABLE

    def readable(self, node: int) -> None:
        """A broker's answer was read."""
        self._unreadable.pop(node, None)

    def _leave_hung(self, connection: BrokerConnection) -> None:
        """What a broker that hangs was asked for is read elsewhere by now: do not keep room for its answer."""
        for broker_fetcher in list(self._broker_fetchers.values()):
            if broker_fetcher.connection is connection and broker_fetcher.is_left:
                connection.fail("the broker hangs, and others lead partitions of its now")

    def on_metadata(self, changed: set[str]) -> None:
        """Leaders moved: do not wait until the old ones say so. And a topic made anew is not the one that was read."""
        now = self.cluster.engine.now_ms()
        moved = []
        for cursor in self.cursors.values():
            if cursor.topic not in changed or cursor.halted:
                continue
            broker_fetcher = self._assigned.get(cursor)
            known = self.cluster.metadata.topics.get(cursor.topic)
            if broker_fetcher is None or known is None or cursor.topic in self.cluster.metadata.errors:
                continue
            leader = self.cluster.metadata.leader(cursor.topic, cursor.partition)
            epoch = known.partitions[cursor.partition].leader_epoch if cursor.partition in known.partitions else -1
            away = leader >= 0 and cursor.read_from(leader, now) != broker_fetcher.connection.node
            if known.topic_id != cursor.topic_id or away or epoch != cursor.leader_epoch:
                moved.append(cursor)
        self.move(moved)  # and those on their way to where they were before

    # --- positions --------------------------------------------------------------------------------------------------

    def _find_positions(self) -> None:
        for timestamp in set(self._awaiting_offset.values()):
            group = [cursor for cursor, wanted in self._awaiting_offset.items() if wanted == timestamp]
            self._begin(self._place(group, timestamp))

    async def _place(self, cursors: list[FetchCursor], timestamp: int) -> None:
        """Ask for the offsets of cursors without position; what fails for now is tried again for ever, one by one."""
        while cursors := [cursor for cursor in cursors if self._awaiting_offset.get(cursor) == timestamp]:
            try:
                await self.offsets(cursors, timestamp, partial(self._placed_at, timestamp))
            except KafkaError as error:
                left = [cursor for cursor in cursors if self._awaiting_offset.get(cursor) == timestamp]
                if len(left) > 1:
                    await asyncio.gather(*(self._place([cursor], timestamp) for cursor in left))
                elif left and isinstance(error, KafkaConnectionError | KafkaTimeoutError):
                    name = left[0].name
                    self.tell_once(name, error, f"the position of {name} could not be found: ")
                elif left:
                    del self._awaiting_offset[left[0]]
                    self.halt(left[0], error)

    def _placed_at(self, timestamp: int, cursor: FetchCursor, offset: int) -> None:
        if self._awaiting_offset.get(cursor) == timestamp:
            self._jump(cursor, offset)

    async def placed(self, cursor: FetchCursor) -> None:
        """Return once it is known where `cursor` goes on."""
        while cursor in self._awaiting_offset and not self.stopped:
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)

    async def offsets(
        self,
        cursors: Iterable[FetchCursor],
        timestamp: int,
        on_found: Callable[[FetchCursor, int], object] | None = None,
    ) -> dict[FetchCursor, int]:
        """Where the first record of that time lies, or the end where there is none yet; `on_found` hears at once."""
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        level = int(self.config.isolation_level == "read_committed")

        def tell(where: tuple[str, int], offset: int) -> None:
            if offset >= 0 and on_found is not None:
                on_found(by_name[where], offset)

        options: dict[str, Any] = {"isolation_level": level, "on_found": tell}
        found = await list_offsets(self.cluster, dict.fromkeys(by_name, timestamp), **options)
        late = [where for where, offset in found.items() if offset < 0]
        if late:
            found |= await list_offsets(self.cluster, dict.fromkeys(late, LATEST), **options)
        return {by_name[where]: offset for where, offset in found.items()}

    # --- metrics ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """A snapshot: broker fetchers by broker and role, and what is buffered."""
        return {
            "buffered_bytes": self.queue.queued_bytes(),
            "reserved_bytes": self.budget.reserved,
            "fetch_memory": self.budget.limit,
            "unassigned": len(self._unassigned),
            "position_resets": self.resets,
            "truncations": self.truncations,
            "errors": self.errors.counts,
            "broker_fetchers": [broker_fetcher.stats() for broker_fetcher in self._broker_fetchers.values()],
        }
