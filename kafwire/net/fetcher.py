"""The fetch engine of a consumer: cursors with their positions, and a source for each broker that asks for them.

A source has one request in flight, for all of its cursors that have demand: in a session, so that it says only what
changes. An answer is cut into slices, queued for the readers, and the next request leaves, all in the turn in which the
answer arrived.

A request may be parked at the broker for `fetch_max_wait_ms`. A cursor that comes to have demand meanwhile (its buffer
was read, it was resumed, it was sought in) does not wait for that: it goes aside, over a second connection, in requests
that are not parked, until the first one is answered. So neither a slow reader nor a quiet partition delays another.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafwire import protocol
from kafwire._arrow import Layout
from kafwire._buffer import Buffer
from kafwire._fetch import FetchAnswer, PartitionAnswer, encode_fetch, parse_answer, scan_headers
from kafwire._slices import SliceQueue
from kafwire.config import ConsumerConfig, duration_ms
from kafwire.errors import (
    BrokerError,
    CorruptBatchError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    ProtocolError,
    broker_error,
)
from kafwire.logic.backoff import delay_ms
from kafwire.logic.cursor import Budget, FetchCursor, Verdict
from kafwire.logic.fetch_session import FetchSession, Plan
from kafwire.logic.metadata import NO_TOPIC_ID, TopicInfo
from kafwire.net.cluster import Cluster
from kafwire.net.lane import Lane
from kafwire.net.offsets import EARLIEST, LATEST, list_offsets

log = logging.getLogger("kafwire")

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
UNKNOWN_TOPIC_ID = 100
FIRST_VERSION_WITH_TOPIC_IDS = 13
END_OF_TIME = 2**63 - 1
# A request that is not answered in that time is parked: who has new demand goes aside.
ASIDE_AFTER_MS = 10.0
# With one socket per broker nothing can go aside, so nothing is parked for long.
SINGLE_SOCKET_MAX_WAIT_MS = 100
# So many answers in a row that cannot be read are no accident of one connection.
UNREADABLE = 3


class Fetcher:
    """Keeps the `queue` filled for whoever asks. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.cluster = cluster
        self.config = config
        self._cookie = cluster.engine.transport.listen(self._on_credit)
        self.queue = SliceQueue(cluster.engine.native, self._cookie)
        self.budget = Budget(
            config.fetch_memory, config.fetch_max_bytes, config.max_partition_fetch_bytes, config.max_prefetch_batches
        )
        self.cursors: dict[tuple[str, int], FetchCursor] = {}
        self.stopped = False
        self.resets = 0  # positions that had to be looked up again, for metrics
        self.truncations = 0
        self._numbered: dict[int, FetchCursor] = {}
        self._sources: dict[tuple[int, str], Source] = {}
        self._homes: dict[FetchCursor, Source] = {}
        self._homeless: dict[FetchCursor, None] = {}
        self._look_again = False  # before homes are given: the metadata does not tell where they are
        self._attempts = 0
        self._moving: asyncio.Task[None] | None = None
        self._unplaced: dict[FetchCursor, int] = {}  # whose position is to be found by this time
        self._placing: asyncio.Task[None] | None = None
        self._unreadable: dict[int, int] = {}
        self._listeners: dict[object, Callable[[], object]] = {}
        cluster.engine.join(self)

    # --- what the consumer asks for ---------------------------------------------------------------------------------

    def add(self, info: TopicInfo, partition: int, layout: Layout) -> FetchCursor:
        """A cursor for a partition; it is read once it has a position, and somebody asks."""
        number = self.queue.add(info.name, partition, layout)
        cursor = FetchCursor(number, info.name, info.topic_id, partition)
        self.cursors[info.name, partition] = cursor
        self._numbered[number] = cursor
        return cursor

    def remove(self, cursor: FetchCursor) -> None:
        """Drop a cursor, and what is buffered of it."""
        cursor.asked_for = False
        cursor.generation = self.queue.reset(cursor.number, 0)
        self.cursors.pop((cursor.topic, cursor.partition), None)
        self._numbered.pop(cursor.number, None)
        self._homeless.pop(cursor, None)
        self._unplaced.pop(cursor, None)
        self._leave(cursor)

    def seek(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Read on at `position`; what is buffered is dropped."""
        self._unplaced.pop(cursor, None)
        cursor.seek(position, self.queue.reset(cursor.number, position), last_epoch=last_epoch)
        self._update(cursor)

    def seek_by_time(self, cursor: FetchCursor, timestamp: int) -> None:
        """Read on at the first record of that time (ms), `EARLIEST` or `LATEST`, once it is found."""
        cursor.seek(-1, self.queue.reset(cursor.number, -1))
        self._update(cursor)
        self._unplaced[cursor] = timestamp
        if self._placing is None and not self.stopped:
            self._placing = asyncio.ensure_future(self._find_positions())
            self._placing.add_done_callback(self._on_placed)

    def ask(self, cursors: Iterable[FetchCursor]) -> None:
        """Somebody reads these: demand begins."""
        for cursor in cursors:
            if not cursor.asked_for:
                cursor.asked_for = True
                self._update(cursor)

    def pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        """Fetch no more of it, or again; what is buffered stays."""
        cursor.paused = paused
        self.queue.pause(cursor.number, paused)
        self._update(cursor)

    def stop(self) -> None:
        """Fetch no more; answers still to come are dropped."""
        self.stopped = True
        self.cluster.engine.transport.unlisten(self._cookie)
        for task in (self._moving, self._placing):
            if task is not None:
                task.cancel()
        for source in self._sources.values():
            source.stop()
        self._tell()

    def sessions(self) -> list[tuple[int, tuple[int, int]]]:
        """(broker, what closes it there) for each session that brokers keep for us; they are no longer ours."""
        found = [(source.lane.node, source.session.closing()) for source in self._sources.values()]
        return [(node, closing) for node, closing in found if closing is not None]

    async def end(self) -> None:
        """The interpreter ends: whoever waits for records in a thread is let go."""
        if not self.stopped:
            self.queue.fail(KafkaError("the interpreter is ending: nothing more is read"))
            self.stop()

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
    def active(self) -> int:
        """Partitions that share the budget."""
        return len(self.cursors)

    @property
    def source_count(self) -> int:
        """Requests that may be on their way at once."""
        return len(self._sources)

    def has_room(self, need: int) -> bool:
        """Whether a request for `need` bytes fits; if not, the readers' next release of bytes posts to the engine."""
        if self.budget.has_room(self.queue.queued_bytes(), need):
            return True
        self.queue.compact()
        return self.budget.has_room(self.queue.queued_bytes(starved=True), need)

    def is_full(self, cursor: FetchCursor) -> bool:
        """Whether a cursor's buffer has enough; if so, its next release is told."""
        slices, size = self.queue.queued(cursor.number)
        if not self.budget.is_full(slices, size, self.active):
            return False
        slices, size = self.queue.queued(cursor.number, watch=True)
        return self.budget.is_full(slices, size, self.active)

    def _on_credit(self) -> None:
        """Readers gave bytes back."""
        for number in self.queue.noticed():
            cursor = self._numbered.get(number)
            if cursor is not None:
                self._update(cursor)
        self.pump()

    def pump(self) -> None:
        """Whatever room there is: let all sources that can use it send."""
        for source in list(self._sources.values()):
            source.pump()

    def next_turn(self, source: Source) -> None:
        """The request of `source` is over: others that wait for room come first."""
        key = (source.lane.node, source.role)
        if self._sources.get(key) is source:
            self._sources[key] = self._sources.pop(key)
        self.pump()

    def _update(self, cursor: FetchCursor) -> None:
        source = self._homes.get(cursor)
        if source is not None:
            source.update(cursor)
            source.pump()
        elif cursor.is_wanted:
            self.move([cursor])

    # --- what answers say -------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Records came: the next failure is a first one again."""
        self._attempts = 0
        self._tell()

    def halt(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Nothing more of this partition until a seek: once what is buffered is read, its reader raises `error`."""
        cursor.halted = True
        self.queue.fail_place(cursor.number, cursor.generation, error)
        self._update(cursor)
        self._tell()

    def out_of_range(self, cursor: FetchCursor, where: str) -> None:
        """There is no such offset: go where the policy says, or tell the user (KIP-1106)."""
        policy = self.config.auto_offset_reset
        self.resets += 1
        if policy == "error":
            self.halt(
                cursor,
                broker_error(
                    OFFSET_OUT_OF_RANGE,
                    f"{cursor.name} has no offset {cursor.position}, says {where}: the records were deleted, or the "
                    "log was cut; seek to another, or choose an auto_offset_reset",
                ),
            )
            return
        log.warning("%s has no offset %d, says %s: reading goes on at %s", cursor.name, cursor.position, where, policy)
        self.seek_by_time(cursor, self.reset_time(policy))

    @staticmethod
    def reset_time(policy: str) -> int:
        """What ListOffsets is asked for by a reset policy."""
        if policy == "earliest":
            return EARLIEST
        duration = duration_ms(policy)
        return LATEST if duration is None else max(0, int(time.time() * 1000) - duration)

    def truncated(self, cursor: FetchCursor, epoch: int, end_offset: int, where: str) -> None:
        """The log and what was fetched part at `end_offset` (KIP-320)."""
        self.truncations += 1
        offset = max(0, min(end_offset, cursor.position))
        text = (
            f"{cursor.name} was read up to offset {cursor.position}, but the log that {where} has agrees with that "
            f"only up to {offset}: a leader without the rest was elected"
        )
        if self.config.auto_offset_reset == "error":
            self.halt(
                cursor,
                LogTruncatedError(
                    f"{text}; seek to {offset} to read what is there now",
                    topic=cursor.topic,
                    partition=cursor.partition,
                    position=cursor.position,
                    offset=offset,
                ),
            )
            return
        log.warning("%s; reading goes on there", text)
        self.seek(cursor, offset, last_epoch=epoch)

    # --- where cursors are at home ----------------------------------------------------------------------------------

    def _leave(self, cursor: FetchCursor) -> None:
        source = self._homes.pop(cursor, None)
        if source is not None:
            source.release(cursor)
            if self.config.fetch_strategy == "per_partition":
                self._sources.pop((source.lane.node, source.role), None)
                source.stop()
                self.cluster.release(source.lane.node, source.role)

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Give these to the broker that is to be asked for them now, as far as the metadata knows."""
        for cursor in cursors:
            self._leave(cursor)
            if self.cursors.get((cursor.topic, cursor.partition)) is cursor:
                self._homeless[cursor] = None
        if self._homeless and self._moving is None and not self.stopped:
            self._moving = asyncio.ensure_future(self._find_homes())
            self._moving.add_done_callback(self._on_moved)

    def lose(self, cursors: Iterable[FetchCursor], error: KafkaError) -> None:
        """These cannot be read where they were asked for: look for their leaders again, with backoff."""
        now = self.cluster.engine.now_ms()
        lost = list(cursors)
        for cursor in lost:
            cursor.replica = -1
            if cursor.failing_since_ms is None:
                cursor.failing_since_ms = now
        if lost:
            log.debug("%s and %d more: %s", lost[0].name, len(lost) - 1, error)
            self._look_again = True
            self.move(lost)

    def _on_moved(self, task: asyncio.Task[None]) -> None:
        self._moving = None
        if task.cancelled() or self.stopped:
            return
        error = task.exception()
        if error is not None:
            self.queue.fail(error)
            self._tell()
        elif self._homeless:
            self.move([])

    async def _find_homes(self) -> None:
        """Give every homeless cursor to the source of its broker; who has none is tried again with backoff."""
        while self._homeless and not self.stopped:
            if self._look_again:
                self._look_again = False
                if self._attempts:
                    await asyncio.sleep(self._backoff() / 1000)
                self._attempts += 1
                try:
                    await self.cluster.refresh({cursor.topic for cursor in self._homeless})
                except (KafkaConnectionError, KafkaTimeoutError, BrokerError) as error:
                    log.warning("where to fetch from could not be found: %s; this is tried again", error)
                    self._look_again = True
                    continue
            groups: dict[int, list[FetchCursor]] = {}
            for cursor in list(self._homeless):
                node = self._home_of(cursor)
                if node is None:
                    self._homeless.pop(cursor, None)
                elif node >= 0:
                    groups.setdefault(node, []).append(cursor)
                else:
                    self._look_again = True
            await asyncio.gather(*(self._settle(node, group) for node, group in groups.items()))

    def _backoff(self) -> float:
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return delay_ms(self._attempts, base, limit, random.random())

    def _home_of(self, cursor: FetchCursor) -> int | None:
        """The broker to ask; -1 when there is none now, None when there never will be (then the cursor is halted)."""
        metadata = self.cluster.metadata
        known = metadata.topics.get(cursor.topic)
        code = metadata.errors.get(cursor.topic, 0)
        if known is not None and known.topic_id != cursor.topic_id and not code:
            error = broker_error(
                UNKNOWN_TOPIC_ID,
                f"topic {cursor.topic!r} was deleted and made anew while {cursor.name} was read, up to offset "
                f"{cursor.position}: its offsets are those of other records now; assign it again to read them",
            )
        elif code and not broker_error(code).retriable:
            error = broker_error(code, f"fetching {cursor.name} at offset {cursor.position}")
        elif code == UNKNOWN_TOPIC and self._is_failing_for_long(cursor):
            error = broker_error(
                code,
                f"topic {cursor.topic!r} has been gone for {self.config.default_api_timeout_ms / 1000:g} s; "
                f"{cursor.name} was read up to offset {cursor.position}",
            )
        else:
            leader = -1 if code else metadata.leader(cursor.topic, cursor.partition)
            if leader >= 0 and known is not None:
                cursor.leader_epoch = known.partitions[cursor.partition].leader_epoch
            node = cursor.read_from(leader, self.cluster.engine.now_ms())
            return node if node in metadata.brokers else leader
        self.halt(cursor, error)
        return None

    def _is_failing_for_long(self, cursor: FetchCursor) -> bool:
        now = self.cluster.engine.now_ms()
        if cursor.failing_since_ms is None:
            cursor.failing_since_ms = now
        return now - cursor.failing_since_ms > self.config.default_api_timeout_ms

    async def _settle(self, node: int, cursors: list[FetchCursor]) -> None:
        """Open what leads to a broker and hand it these cursors, unless they were moved or dropped meanwhile."""
        strategy = self.config.fetch_strategy
        if strategy == "per_partition":
            groups = [(f"fetch:{cursor.name}", [cursor]) for cursor in cursors]
        else:
            groups = [("control" if self.config.single_socket else "fetch", cursors)]
        await asyncio.gather(*(self._settle_at(node, role, group) for role, group in groups))

    async def _settle_at(self, node: int, role: str, cursors: list[FetchCursor]) -> None:
        try:
            lane = self.cluster.lane(node, role)
            await lane.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            log.warning("%s; this is tried again", error)
            for cursor in cursors:
                cursor.replica = -1
            self._look_again = True
            return
        source = self._sources.get((node, role))
        if source is None or source.lane is not lane:
            if source is not None:  # the broker has another address now
                source.stop()
                cursors = [*source.cursors, *cursors]
            source = self._sources[node, role] = Source(self, lane, role)
        for cursor in cursors:
            if self._homeless.pop(cursor, self) is None or self._homes.get(cursor) is not None:
                self._homes[cursor] = source
                source.take(cursor)
        source.pump()

    async def aside(self, node: int) -> Source | None:
        """The source for what must not wait behind a parked request; None when the broker cannot be reached."""
        role = "fetch-aside"
        try:
            lane = self.cluster.lane(node, role)
            await lane.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError):
            return None  # whatever waits there is fetched when the parked request is answered
        source = self._sources.get((node, role))
        if source is None or source.lane is not lane:
            source = self._sources[node, role] = Source(self, lane, role, sessions=False, max_wait_ms=0)
        return source

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

    def on_metadata(self, changed: set[str]) -> None:
        """Leaders moved: do not wait until the old ones say so. And a topic made anew is not the one that was read."""
        now = self.cluster.engine.now_ms()
        moved = []
        for cursor in self.cursors.values():
            if cursor.topic not in changed or cursor.halted:
                continue
            source = self._homes.get(cursor)
            known = self.cluster.metadata.topics.get(cursor.topic)
            if source is None or known is None or cursor.topic in self.cluster.metadata.errors:
                continue
            leader = self.cluster.metadata.leader(cursor.topic, cursor.partition)
            epoch = known.partitions[cursor.partition].leader_epoch if cursor.partition in known.partitions else -1
            away = leader >= 0 and cursor.read_from(leader, now) != source.lane.node
            if known.topic_id != cursor.topic_id or away or epoch != cursor.leader_epoch:
                moved.append(cursor)
        self.move(moved)

    # --- positions --------------------------------------------------------------------------------------------------

    def _on_placed(self, task: asyncio.Task[None]) -> None:
        self._placing = None
        if not task.cancelled() and task.exception() is not None:
            self.queue.fail(task.exception() or KafkaError("positions could not be found"))
            self._tell()

    async def _find_positions(self) -> None:
        """Ask for the offsets of all that have no position; what fails for now is tried again for ever."""
        while self._unplaced and not self.stopped:
            wanted = dict(self._unplaced)
            generations = {cursor: cursor.generation for cursor in wanted}
            for timestamp in set(wanted.values()):
                group = [cursor for cursor in wanted if wanted[cursor] == timestamp]
                try:
                    found = await self.offsets(group, timestamp)
                except (KafkaConnectionError, KafkaTimeoutError) as error:
                    log.warning("the position of %s could not be found: %s; this is tried again", group[0].name, error)
                    continue
                except KafkaError as error:
                    for cursor in group:
                        if self._unplaced.pop(cursor, None) is not None:
                            self.halt(cursor, error)
                    continue
                for cursor in group:
                    if self._unplaced.get(cursor) == timestamp and cursor.generation == generations[cursor]:
                        self.seek(cursor, found[cursor])

    async def placed(self, cursor: FetchCursor) -> None:
        """Return once it is known where `cursor` goes on."""
        while cursor in self._unplaced and self._placing is not None:
            await asyncio.wait([self._placing])

    async def offsets(self, cursors: Iterable[FetchCursor], timestamp: int) -> dict[FetchCursor, int]:
        """Where the first record of that time lies, or the end where there is none yet."""
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        level = int(self.config.isolation_level == "read_committed")
        found = await list_offsets(self.cluster, dict.fromkeys(by_name, timestamp), isolation_level=level)
        late = [where for where, offset in found.items() if offset < 0]
        if late:
            found |= await list_offsets(self.cluster, dict.fromkeys(late, LATEST), isolation_level=level)
        return {by_name[where]: offset for where, offset in found.items()}

    # --- metrics ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """A snapshot: sources by broker and role, and what is buffered."""
        return {
            "buffered_bytes": self.queue.queued_bytes(),
            "reserved_bytes": self.budget.reserved,
            "fetch_memory": self.budget.limit,
            "homeless": len(self._homeless),
            "position_resets": self.resets,
            "truncations": self.truncations,
            "sources": [source.stats() for source in self._sources.values()],
        }


class Source:
    """One connection to one broker, with one request in flight for all cursors that it has and that have demand."""

    def __init__(
        self, fetcher: Fetcher, lane: Lane, role: str, *, sessions: bool = True, max_wait_ms: int | None = None
    ) -> None:
        config = fetcher.config
        self.lane = lane
        self.role = role
        self.session: FetchSession[FetchCursor] = FetchSession(sessions=sessions)
        self.cursors: dict[FetchCursor, None] = {}
        longest = min(config.fetch_max_wait_ms, SINGLE_SOCKET_MAX_WAIT_MS) if config.single_socket else None
        waits = config.fetch_max_wait_ms if longest is None else longest
        self._max_wait_ms = waits if max_wait_ms is None else max_wait_ms
        self._fetcher = fetcher
        self._goes_aside = sessions and config.fetch_strategy == "hybrid" and not config.single_socket
        self._all_or_none = config.fetch_strategy == "per_node"
        self._full: dict[FetchCursor, None] = {}
        self._by_wire: dict[tuple[object, int], FetchCursor] = {}
        self._lent: dict[FetchCursor, None] = {}  # to the source aside
        self._owner: Source | None = None  # who lent them, of a source aside
        self._reserved = 0
        self._sent_ms = 0.0
        self._version = 0
        self._by_id = True
        self._nameless = 0  # cursors whose topics have no id
        self._errors = 0
        self._timer: asyncio.TimerHandle | None = None
        self._aside_timer: asyncio.TimerHandle | None = None
        self._opening_aside: asyncio.Task[Source | None] | None = None
        self._stopped = False
        self.requests = 0
        self.bytes = 0
        self.session_errors = 0

    # --- cursors ----------------------------------------------------------------------------------------------------

    def take(self, cursor: FetchCursor) -> None:
        """Read this one too."""
        if cursor not in self.cursors:
            self.cursors[cursor] = None
            self._nameless += cursor.topic_id == NO_TOPIC_ID
        self._by_wire[cursor.topic, cursor.partition] = cursor
        self._by_wire[cursor.topic_id.bytes, cursor.partition] = cursor
        self.update(cursor)

    def release(self, cursor: FetchCursor) -> None:
        """Read it no more."""
        self.session.drop(cursor)
        if self.cursors.pop(cursor, self) is None:
            self._nameless -= cursor.topic_id == NO_TOPIC_ID
        self._full.pop(cursor, None)
        if self._lent.pop(cursor, self) is None:
            aside = self._fetcher._sources.get((self.lane.node, "fetch-aside"))
            if aside is not None:
                aside.release(cursor)
        for topic in (cursor.topic, cursor.topic_id.bytes):
            if self._by_wire.get((topic, cursor.partition)) is cursor:
                del self._by_wire[topic, cursor.partition]

    def update(self, cursor: FetchCursor) -> None:
        """Its position, demand or room changed."""
        if cursor in self._lent:
            aside = self._fetcher._sources.get((self.lane.node, "fetch-aside"))
            if aside is not None:
                aside.update(cursor)
            return
        self._full.pop(cursor, None)
        if not cursor.is_wanted:
            self.session.drop(cursor)
            return
        if self._fetcher.is_full(cursor):
            self._full[cursor] = None
            if not self._all_or_none:
                self.session.drop(cursor)
                return
        self.session.want(cursor, cursor.asked(self._fetcher.budget.partition_bytes()))
        if self._goes_aside and self.session.in_flight and not self.session.covers(cursor):
            self._go_aside_later()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        for timer in (self._timer, self._aside_timer):
            if timer is not None:
                timer.cancel()
        if self._opening_aside is not None:
            self._opening_aside.cancel()

    # --- aside ------------------------------------------------------------------------------------------------------

    def _go_aside_later(self) -> None:
        if self._aside_timer is None and self._opening_aside is None:
            wait = max(0.0, self._sent_ms + ASIDE_AFTER_MS - self._fetcher.cluster.engine.now_ms())
            self._aside_timer = asyncio.get_running_loop().call_later(wait / 1000, self._go_aside)

    def _go_aside(self) -> None:
        self._aside_timer = None
        if self._stopped or not self.session.in_flight:
            return
        aside = self._fetcher._sources.get((self.lane.node, "fetch-aside"))
        if aside is None or not aside.lane.is_ready:
            self._opening_aside = asyncio.ensure_future(self._fetcher.aside(self.lane.node))
            self._opening_aside.add_done_callback(self._on_aside)
            return
        waiting = [cursor for cursor in self.session if cursor in self.cursors and not self.session.covers(cursor)]
        aside._owner = self
        for cursor in waiting:
            self.session.drop(cursor)
            self._lent[cursor] = None
            aside.take(cursor)
        aside.pump()

    def _on_aside(self, task: asyncio.Task[Source | None]) -> None:
        self._opening_aside = None
        if not task.cancelled() and task.exception() is None and task.result() is not None:
            self._go_aside()

    def _give_back(self) -> None:
        """Aside, after each request: the owner decides where they are read next."""
        owner, cursors = self._owner, list(self.cursors)
        if owner is None:
            return
        for cursor in cursors:
            self.release(cursor)
            if owner._lent.pop(cursor, owner) is None:
                owner.update(cursor)
        # Still parked: whoever has demand goes aside again, at once.
        if owner._aside_timer is not None:
            owner._aside_timer.cancel()
            owner._go_aside()
        owner.pump()

    # --- requests ---------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send the next request, unless one is in flight, nothing is wanted, or the budget is used up."""
        fetcher = self._fetcher
        if self._stopped or self.session.in_flight or fetcher.stopped or not len(self.session):
            return
        if self._all_or_none and self._full:
            return
        if not self.lane.is_ready:
            self._lose_all(KafkaConnectionError(f"the connection to {self.lane.where} was lost"))
            return
        wait = self.lane.muted_until_ms - fetcher.cluster.engine.now_ms()
        if wait > 0:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(wait / 1000, self._on_timer)
            return
        need = fetcher.budget.request_bytes(fetcher.source_count)
        if not fetcher.has_room(need):
            return
        self._send(need)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _send(self, need: int) -> None:
        fetcher, config = self._fetcher, self._fetcher.config
        self._version = self.lane.version_of(
            protocol.FetchRequest, at_most=FIRST_VERSION_WITH_TOPIC_IDS - 1 if self._nameless else None
        )
        by_id = self._version >= FIRST_VERSION_WITH_TOPIC_IDS
        if by_id != self._by_id:
            self._by_id = by_id
            self.session.renew()
        plan = self.session.plan()
        correlation_id = self.lane.next_correlation_id()
        request = self._encode(plan, correlation_id, need)
        self._reserved = need
        fetcher.budget.reserved += need
        self._sent_ms = fetcher.cluster.engine.now_ms()
        self.requests += 1
        timeout_ms = config.request_timeout_ms + config.fetch_max_wait_ms
        self.lane.send(correlation_id, [request], self._answered, timeout_ms=timeout_ms)

    def _encode(self, plan: Plan[FetchCursor], correlation_id: int, max_bytes: int) -> bytes:
        config = self._fetcher.config
        return encode_fetch(
            self._version,
            correlation_id,
            config.client_id,
            max_wait_ms=self._max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            add=[
                (
                    cursor.topic,
                    cursor.topic_id.bytes,
                    cursor.partition,
                    asked.offset,
                    asked.max_bytes,
                    asked.leader_epoch,
                    asked.last_fetched_epoch,
                )
                for cursor, asked in plan.add
            ],
            forget=[(cursor.topic, cursor.topic_id.bytes, cursor.partition) for cursor in plan.forget],
            rack_id=config.client_rack,
        )

    # --- answers ----------------------------------------------------------------------------------------------------

    def _answered(self, frame: Buffer | None, error: KafkaError | None) -> None:
        fetcher = self._fetcher
        fetcher.budget.reserved -= self._reserved
        self._reserved = 0
        if fetcher.stopped or self._stopped:
            return
        if frame is None:
            self.session.on_lost()
            self._lose_all(error or KafkaConnectionError("the request was lost"))
            fetcher.next_turn(self)
            return
        try:
            answer = parse_answer(frame, self._version)
        except ProtocolError as problem:
            self._cannot_read(problem)
            return
        self.lane.note_throttle(answer.throttle_time_ms)
        self.bytes += len(frame)
        fetcher.readable(self.lane.node)
        served = [
            cursor
            for part in answer.partitions
            if part.size and (cursor := self._by_wire.get((part.topic, part.partition))) is not None
        ]
        if self.session.on_answer(answer.error_code, answer.session_id, served):
            self._errors = 0
            self._take_in(answer)
        else:
            self._on_session_error(answer)
        if self._owner is not None:
            self._give_back()
        fetcher.next_turn(self)

    def _on_session_error(self, answer: FetchAnswer) -> None:
        self.session_errors += 1
        self._errors += 1
        problem = broker_error(answer.error_code, f"fetching from {self.lane.where}")
        log.debug("%s; the next request is a full one", problem)
        if self._errors > 1:  # a full request was refused too: do not hammer
            config = self._fetcher.config
            wait = delay_ms(self._errors - 1, config.retry_backoff_ms, config.retry_backoff_max_ms, random.random())
            self.lane.muted_until_ms = max(self.lane.muted_until_ms, self._fetcher.cluster.engine.now_ms() + wait)

    def _cannot_read(self, problem: ProtocolError) -> None:
        """Bytes that are no answer: this connection is not to be believed. When it goes on, the user hears of it."""
        self.session.on_lost()
        told = ProtocolError(
            f"{self.lane.where} answered a fetch with what cannot be read: {problem.message}",
            api=problem.api,
            version=problem.version,
            offset=problem.offset,
        )
        log.warning("%s", told)
        self.lane.fail("an answer could not be read")
        cursors = list(self.cursors)
        if self._fetcher.unreadable(self.lane.node):
            for cursor in cursors:
                self._fetcher.halt(cursor, told)
        self._lose_all(told)
        self._fetcher.next_turn(self)

    def _take_in(self, answer: FetchAnswer) -> None:
        fetcher = self._fetcher
        moving: list[FetchCursor] = []
        lost: list[FetchCursor] = []
        problem: KafkaError | None = None
        arrived = False
        partial: list[FetchCursor] = []
        for part in answer.partitions:
            cursor = self._by_wire.get((part.topic, part.partition))
            if cursor is None or cursor not in self.cursors or cursor in self._lent or cursor.halted:
                continue
            sent = self.session.sent(cursor)
            if sent is None or sent.offset != cursor.position:
                continue  # it was sought in meanwhile
            from_replica = cursor.replica == self.lane.node
            verdict = cursor.judge(part, from_replica=from_replica)
            if verdict is Verdict.TAKE:
                if not part.size:
                    continue
                if self._queue(answer.frame, part, cursor):
                    arrived = True
                else:
                    partial.append(cursor)
                self.update(cursor)
            elif verdict is Verdict.FOLLOW:
                cursor.replica = part.preferred_read_replica
                cursor.replica_until_ms = fetcher.cluster.engine.now_ms() + fetcher.config.metadata_max_age_ms
                (moving if cursor.replica in fetcher.cluster.metadata.brokers else lost).append(cursor)
            elif verdict is Verdict.RETURN:
                cursor.replica = -1
                moving.append(cursor)
            elif verdict is Verdict.MOVED:
                problem = broker_error(part.error_code, f"fetching {cursor.name} from {self.lane.where}")
                (moving if fetcher.new_leader(part, cursor, answer) else lost).append(cursor)
            elif verdict is Verdict.TRUNCATED:
                fetcher.truncated(cursor, part.diverging_epoch, part.diverging_end_offset, self.lane.where)
            elif verdict is Verdict.OUT_OF_RANGE:
                fetcher.out_of_range(cursor, self.lane.where)
            else:
                what = f"fetching {cursor.name} at offset {cursor.position} from {self.lane.where}"
                fetcher.halt(cursor, broker_error(part.error_code, what))
        fetcher.queue.seal()
        if arrived:
            fetcher.arrived()
        elif partial:
            for cursor in partial:
                what = f"{self.lane.where} answered for {cursor.name} with no whole batch, not even the first"
                fetcher.halt(cursor, ProtocolError(what, api="FetchResponse", version=self._version))
        if fetcher.config.client_rack:  # else no leader names a replica
            now = fetcher.cluster.engine.now_ms()
            moving += [c for c in self.cursors if c.replica == self.lane.node and now >= c.replica_until_ms]
        if problem is not None:
            fetcher.lose(lost, problem)
        elif lost:
            fetcher.lose(lost, KafkaError("a preferred replica is not in the metadata"))
        fetcher.move(moving)

    def _queue(self, frame: Buffer, part: PartitionAnswer, cursor: FetchCursor) -> bool:
        """Queue the whole batches of an answer; False when there is none."""
        fetcher = self._fetcher
        where = f"{cursor.name}, after offset {cursor.position}, from {self.lane.where}"
        try:
            next_offset, size, _, epoch = scan_headers(frame, part.position, part.size)
            if size and next_offset > part.high_watermark >= 0:
                # No checksum covers a base offset: one that jumps ahead would end up as a hole that nobody notices.
                raise ProtocolError(
                    f"batches up to {next_offset}, above the high watermark {part.high_watermark}: bytes were changed "
                    "in the log or on their way"
                )
            if size and next_offset <= cursor.position:
                raise ProtocolError("batches that end before it")
        except ProtocolError as error:
            fetcher.halt(
                cursor,
                CorruptBatchError(
                    f"{where}: {error.message}", topic=cursor.topic, partition=cursor.partition, base_offset=-1
                ),
            )
            return True
        if not size:
            return False
        start, generation = cursor.position, cursor.generation
        cursor.advance(next_offset, epoch)
        cursor.fetches += 1
        cursor.bytes += size
        fetcher.queue.push(
            frame, part.position, size, cursor.number, start, END_OF_TIME, part.aborted, generation, self.lane.where
        )
        return True

    def _lose_all(self, error: KafkaError) -> None:
        if self._owner is not None:
            self._give_back()
            return
        self._fetcher.lose(list(self.cursors), error)

    def stats(self) -> dict[str, Any]:
        """A snapshot for metrics."""
        return {
            "node": self.lane.node,
            "role": self.role,
            "partitions": len(self.cursors),
            "wanted": len(self.session),
            "full": len(self._full),
            "requests": self.requests,
            "bytes": self.bytes,
            "in_flight": self.session.in_flight,
            "session_id": self.session.session_id,
            "session_epoch": self.session.epoch,
            "session_errors": self.session_errors,
        }
